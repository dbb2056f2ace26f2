//! Percent-encoding with exactly one form per id.
//!
//! Letters, digits and `-._~:` stay as they are; every other byte becomes `%XX` in upper case.
//! Decoding accepts only what encoding gives, so two different names never mean one execution.

use std::borrow::Cow;

use super::{NameError, quote};

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b':')
}

/// `.` and `..` have a meaning of their own in paths, so their first dot is encoded.
fn is_dots(text: &str) -> bool {
    matches!(text, "." | "..")
}

/// Whether an id and its encoded form are the same text, as for nearly every id.
fn is_same_encoded(text: &str) -> bool {
    text.bytes().all(is_plain) && !is_dots(text)
}

/// Appends `id` to `name` in its encoded form.
pub(super) fn encode_into(name: &mut impl std::fmt::Write, id: &str) -> std::fmt::Result {
    if is_same_encoded(id) {
        return name.write_str(id);
    }
    let dots = is_dots(id);
    for (at, byte) in id.bytes().enumerate() {
        if is_plain(byte) && !(dots && at == 0) {
            name.write_char(char::from(byte))?;
        } else {
            write!(name, "%{byte:02X}")?;
        }
    }
    Ok(())
}

/// An id as one segment of a resource name.
#[must_use]
pub fn encoded(id: &str) -> String {
    let mut segment = String::with_capacity(id.len());
    // Writing to a String cannot fail.
    let _ = encode_into(&mut segment, id);
    segment
}

/// The id behind an encoded segment.
pub(super) fn decode(segment: &str) -> Result<Cow<'_, str>, NameError> {
    if is_same_encoded(segment) {
        return Ok(Cow::Borrowed(segment));
    }
    let refuse = |at, rule| NameError::Encoding {
        segment: quote(segment),
        at,
        rule,
    };
    let bytes = segment.as_bytes();
    let mut id = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] != b'%' {
            if !is_plain(bytes[at]) {
                return Err(refuse(
                    at,
                    "only letters, digits, `-._~:` and `%XX` are allowed",
                ));
            }
            id.push(bytes[at]);
            at += 1;
            continue;
        }
        let digits = bytes
            .get(at + 1..at + 3)
            .ok_or_else(|| refuse(at, "`%` needs two digits"))?;
        let nibble = |digit: u8| match digit {
            b'0'..=b'9' => Some(digit - b'0'),
            b'A'..=b'F' => Some(digit - b'A' + 10),
            _ => None,
        };
        let (Some(high), Some(low)) = (nibble(digits[0]), nibble(digits[1])) else {
            return Err(refuse(at, "`%` needs two digits, letters in upper case"));
        };
        id.push(high << 4 | low);
        at += 3;
    }
    let id = String::from_utf8(id).map_err(|_| refuse(0, "the decoded id is not UTF-8"))?;
    let mut canonical = String::with_capacity(segment.len());
    encode_into(&mut canonical, &id).expect("writing to a String cannot fail");
    if canonical != segment {
        return Err(refuse(
            0,
            "the encoding is not canonical: letters, digits and `-._~:` are not encoded, except in `.` and `..`",
        ));
    }
    Ok(Cow::Owned(id))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encode(id: &str) -> String {
        let mut name = String::new();
        encode_into(&mut name, id).unwrap();
        name
    }

    #[test]
    fn ids_of_real_engines_become_one_path_segment() {
        let arn = "arn:aws:states:us-east-1:000000000000:execution:order:run-1";
        assert_eq!(encode(arn), arn);
        assert_eq!(encode("Order/key 1/run"), "Order%2Fkey%201%2Frun");
        assert_eq!(encode("ü"), "%C3%BC");
        assert_eq!(encode(".."), "%2E.");
    }

    #[test]
    fn only_the_one_canonical_form_is_accepted() {
        for wrong in [
            "%2f", "%61", "a b", "a/b", "%", "%2", "%FF", "..", "ü", "%zz",
        ] {
            assert!(decode(wrong).is_err(), "{wrong} was accepted");
        }
    }

    proptest! {
        #[test]
        fn every_id_survives_the_round_trip(id in ".{1,80}") {
            let encoded = encode(&id);
            prop_assert!(encoded.bytes().all(|byte| is_plain(byte) || byte == b'%'));
            prop_assert_eq!(decode(&encoded).unwrap(), id);
        }

        #[test]
        fn decoding_anything_never_panics(segment in ".{0,80}") {
            if let Ok(id) = decode(&segment) {
                prop_assert_eq!(encode(&id), segment);
            }
        }
    }
}
