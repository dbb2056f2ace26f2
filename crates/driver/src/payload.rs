//! JSON as it comes in: read once, and refused where it would not be read back as it was sent.
//!
//! Beside what is no JSON at all, a key that occurs twice and a whole number that no 64-bit integer holds are
//! refused. Other readers would keep the last key, and the nearest double, without a message.

use serde::de::{Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, de::DeserializeSeed};
use serde_json::{Map, Number, Value};
use stateway_machine::MAX_PAYLOAD_DEPTH;

/// From here on, not every whole number is a double.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// Reads a payload.
///
/// # Errors
/// What is wrong with it, and where.
pub fn parse_payload(bytes: &[u8]) -> Result<Value, String> {
    let mut suspect = false;
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let strict = Strict {
        levels: MAX_PAYLOAD_DEPTH,
        suspect: &mut suspect,
    };
    let value = strict.deserialize(&mut reader);
    let value = value.and_then(|value| reader.end().map(|()| value));
    let value = value.map_err(|error| error.to_string())?;
    // Only a text with such a number is read a second time.
    match suspect.then(|| inexact(bytes)).flatten() {
        Some(number) => Err(format!(
            "the number {number} cannot be kept exactly; send it as text"
        )),
        None => Ok(value),
    }
}

/// Reads a value with a maximum number of levels.
struct Strict<'s> {
    levels: usize,
    /// Whether there was a number that may have been written as a whole one and lost digits.
    suspect: &'s mut bool,
}

impl Strict<'_> {
    fn deeper<E: serde::de::Error>(&mut self) -> Result<Strict<'_>, E> {
        let levels = self.levels.checked_sub(1).ok_or_else(|| {
            E::custom(format_args!(
                "more than {MAX_PAYLOAD_DEPTH} levels of lists and objects"
            ))
        })?;
        Ok(Strict {
            levels,
            suspect: self.suspect,
        })
    }

    const fn again(&mut self) -> Strict<'_> {
        Strict {
            levels: self.levels,
            suspect: self.suspect,
        }
    }
}

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        *self.suspect |= value.abs() >= EXACT;
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut from: A) -> Result<Value, A::Error> {
        let mut inner = self.deeper()?;
        let mut items = Vec::new();
        while let Some(item) = from.next_element_seed(inner.again())? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut from: A) -> Result<Value, A::Error> {
        let mut inner = self.deeper()?;
        let mut fields = Map::new();
        while let Some(Key(name)) = from.next_key()? {
            let value = from.next_value_seed(inner.again())?;
            if fields.contains_key(&name) {
                return Err(A::Error::custom(format_args!(
                    "the key {name:?} occurs twice in one object"
                )));
            }
            fields.insert(name, value);
        }
        Ok(Value::Object(fields))
    }
}

#[derive(Deserialize)]
struct Key(String);

/// The first whole number of a JSON text that no 64-bit integer holds.
fn inexact(bytes: &[u8]) -> Option<String> {
    let (mut at, mut in_text) = (0, false);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'\\' if in_text => at += 1,
            b'"' => in_text = !in_text,
            b'-' | b'0'..=b'9' if !in_text => {
                let rest = &bytes[at..];
                let part =
                    |byte: &u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
                let length = rest.iter().take_while(|byte| part(byte)).count();
                let number = std::str::from_utf8(&rest[..length]).unwrap_or_default();
                let whole = !number.contains(['.', 'e', 'E']);
                let fits = number.parse::<u64>().is_ok() || number.parse::<i64>().is_ok();
                if whole && !fits {
                    return Some(number.chars().take(64).collect());
                }
                at += length.max(1) - 1;
            }
            _ => {}
        }
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refused(text: &str) -> String {
        parse_payload(text.as_bytes()).expect_err(text)
    }

    #[test]
    fn a_payload_is_read_as_it_was_sent() {
        let text = r#"{"a":[1,-2,1.5,1e300,18446744073709551615,-9223372036854775808],"b":{"a":null},"c":"é\n"}"#;
        let expected: Value = serde_json::from_str(text).unwrap();
        assert_eq!(parse_payload(text.as_bytes()), Ok(expected));
        assert_eq!(parse_payload(b"1e20"), Ok(json!(1e20)));
        assert_eq!(parse_payload(b" true "), Ok(json!(true)));
    }

    #[test]
    fn a_key_that_occurs_twice_is_refused_by_name() {
        assert!(refused(r#"{"a":{"b":1,"c":2,"b":3}}"#).contains(r#"the key "b" occurs twice"#));
        assert!(parse_payload(br#"{"a":{"b":1},"b":{"a":2}}"#).is_ok());
    }

    #[test]
    fn a_whole_number_that_loses_digits_is_refused() {
        for number in ["18446744073709551617", "-9223372036854775809"] {
            let text = format!(r#"{{"text":"\"1e20","n":[1e20,{number}]}}"#);
            assert!(refused(&text).contains(number));
        }
        assert!(parse_payload(br#"["18446744073709551617", 1e20, 0.1]"#).is_ok());
    }

    #[test]
    fn a_payload_is_bounded_in_depth() {
        let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        assert!(parse_payload(nested(MAX_PAYLOAD_DEPTH).as_bytes()).is_ok());
        let why = refused(&nested(MAX_PAYLOAD_DEPTH + 1));
        assert!(why.contains("more than 64 levels"), "{why}");
        assert!(refused("[1] 2").contains("trailing"));
        assert!(refused("{").contains("EOF"));
    }
}
