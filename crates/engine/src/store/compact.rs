//! Rows of the log and summaries in fewer bytes: LZ4 with a dictionary of the words that every log repeats.
//!
//! Only stores know of it. Hashes are of the text, and a row of an older build is text as it is: it begins with
//! a brace, and a compacted one with its format.

use std::borrow::Cow;
use std::sync::Arc;

use lz4_flex::block::{compress_into_with_dict, decompress_with_dict, get_maximum_output_size};

use super::Hash;

/// The first byte of a compacted text. Another dictionary is another format.
const FORMAT: u8 = 1;
/// The bytes before the compressed text: the format, and the length of the text.
const HEAD: usize = 1 + size_of::<u32>();
/// A shorter text stays as it is.
const LEAST: usize = 64;
/// The longest text that is believed: more than a row may have.
const MOST: usize = 256 * 1024 * 1024;

/// What texts have in common, the most frequent last. It is part of the format and never changes.
const DICTIONARY: &[u8] = include_bytes!("compact/dictionary-1.txt");

/// A text as a store has it.
pub(super) fn pack(text: &[u8]) -> Cow<'_, [u8]> {
    let Some(length) = u32::try_from(text.len())
        .ok()
        .filter(|_| (LEAST..MOST).contains(&text.len()))
    else {
        return Cow::Borrowed(text);
    };
    let mut packed = vec![0; HEAD + get_maximum_output_size(text.len())];
    packed[0] = FORMAT;
    packed[1..HEAD].copy_from_slice(&length.to_le_bytes());
    match compress_into_with_dict(text, &mut packed[HEAD..], DICTIONARY) {
        Ok(bytes) if HEAD + bytes < text.len() => {
            packed.truncate(HEAD + bytes);
            Cow::Owned(packed)
        }
        _ => Cow::Borrowed(text),
    }
}

/// The text of a row of the log as its store has it, in the column `lines`. Damaged bytes stay as they are: they are no text of the log, and do not have its
/// hash.
#[must_use]
pub fn unpack(stored: &[u8]) -> Cow<'_, [u8]> {
    text_of(stored).map_or(Cow::Borrowed(stored), Cow::Owned)
}

/// A summary as a store has it.
pub(super) fn pack_summary(summary: &[u8]) -> Arc<[u8]> {
    with_body(summary, pack)
}

/// A summary that a store has.
pub(super) fn unpack_summary(stored: &[u8]) -> Arc<[u8]> {
    with_body(stored, unpack)
}

/// The same summary with another form of its text. The hash stays, for queries.
fn with_body(summary: &[u8], change: impl Fn(&[u8]) -> Cow<'_, [u8]>) -> Arc<[u8]> {
    let (hash, body) = summary.split_at(size_of::<Hash>().min(summary.len()));
    [hash, &change(body)].concat().into()
}

fn text_of(stored: &[u8]) -> Option<Vec<u8>> {
    let (&FORMAT, rest) = stored.split_first()? else {
        return None;
    };
    let (length, packed) = rest.split_first_chunk()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    // LZ4 makes a text at most 255 times shorter.
    if length > MOST || length / 256 > packed.len() {
        return None;
    }
    let text = decompress_with_dict(packed, length, DICTIONARY).ok()?;
    (text.len() == length).then_some(text)
}

#[cfg(test)]
mod tests {
    use sha2::{Digest as _, Sha256};

    use super::*;

    const ROW: &[u8] = br#"{"v":2,"n":6,"at":1794969334399,"by":"worker","of":5,"who":"01a1ec82-4c4d-737c-9d52-25194649db94","for":"01m7p84wksbs0gjckxsd","fact":{"StepCompleted":{"step":"s1","attempt":1,"output":{"ok":true}}}}
{"v":3,"fact":{"StepStarted":{"step":"s2","attempt":1}}}
{"v":3,"by":"hand-out","fact":{"TaskAssigned":{"task":{"step":"s2","attempt":1},"worker":"01a1ec82-4c4d-737c-9d52-25194649db94","due":1794969394399}}}
"#;

    #[test]
    fn a_row_takes_less_than_half() {
        let packed = pack(ROW);
        assert!(packed.len() * 2 < ROW.len(), "{} bytes", packed.len());
        assert_eq!(unpack(&packed), ROW);
    }

    #[test]
    fn every_text_comes_back() {
        let long = ROW.repeat(2_000);
        let noise: Vec<u8> = (0..3_000_u32).map(|at| (at * at / 7) as u8).collect();
        for text in [
            &b""[..],
            b"{}",
            &ROW[..LEAST - 1],
            ROW,
            &long,
            &noise,
            &[FORMAT],
            &[0; 100],
        ] {
            let packed = pack(text);
            assert!(packed.len() <= text.len());
            if text.first() != Some(&FORMAT) {
                assert_eq!(unpack(&packed), text);
            }
        }
    }

    #[test]
    fn damaged_bytes_are_read_without_a_panic_and_within_memory() {
        let packed = pack(ROW).into_owned();
        for at in 0..packed.len() {
            assert_ne!(unpack(&packed[..at]), ROW, "{at} bytes");
            for change in [1, 0x80, 0xff] {
                let mut damaged = packed.clone();
                damaged[at] ^= change;
                let longest = 256 * (damaged.len() + 1);
                assert!(unpack(&damaged).len() <= longest, "byte {at}");
            }
        }
        // A length that the bytes cannot have takes no memory.
        let mut bomb = packed;
        bomb[1..HEAD].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(unpack(&bomb), bomb);
    }

    #[test]
    fn the_dictionary_never_changes() {
        let hash = Sha256::digest(DICTIONARY);
        let hash: String = hash
            .iter()
            .take(8)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        assert_eq!(hash, "3e19e45bc8ade57c");
    }
}
