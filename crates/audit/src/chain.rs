//! The lines of the log. Each is one JSON object whose last field is the hash of everything before it, and
//! the field before that is the hash of the line before:
//!
//! `{"seq":7,"time":"…",…,"prev":"…","hash":"…"}`
//!
//! The hash is made over the bytes of the line, so that no rule about the order of fields, blanks or
//! numbers is needed to check it.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::key::{ChainKey, Hash, from_hex, to_hex};
use crate::record::Record;

/// The longest line in bytes, its end included.
pub const MAX_LINE: usize = 8 * 1024;

/// Before the hash of a line.
const HASH: &str = ",\"hash\":\"";
/// What follows the hash.
const END: &str = "\"}";

/// The end of a chain, which the next line continues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    /// The number of the last line; 0 before the first.
    pub seq: u64,
    pub(crate) hash: Hash,
}

impl Default for Chain {
    /// The beginning of a log.
    fn default() -> Self {
        Self {
            seq: 0,
            hash: [0; 32],
        }
    }
}

/// A line that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Its number.
    pub seq: u64,
    /// What it says.
    pub record: Record,
    pub(crate) prev: Hash,
    pub(crate) hash: Hash,
}

/// Why a line is none.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LineError {
    /// It is no JSON of this form.
    #[error("the line is not a record: {0}")]
    Malformed(String),
    /// The content and the hash do not fit.
    #[error("the record was changed: its content does not match its hash")]
    Changed,
}

#[derive(Serialize)]
struct Written<'r> {
    seq: u64,
    #[serde(flatten)]
    record: &'r Record,
    prev: &'r str,
}

#[derive(Deserialize)]
struct Read {
    seq: u64,
    #[serde(flatten)]
    record: Record,
    prev: String,
}

impl Chain {
    /// The next line, with its end. The chain continues after it.
    pub fn append(&mut self, key: &ChainKey, record: &Record) -> Vec<u8> {
        let seq = self.seq + 1;
        let prev = to_hex(&self.hash);
        let content = serde_json::to_string(&Written {
            seq,
            record,
            prev: &prev,
        });
        let mut line = content.expect("texts and numbers are JSON");
        // The closing brace comes after the hash.
        line.pop();
        let hash = key.hash(line.as_bytes());
        line.push_str(HASH);
        line.push_str(&to_hex(&hash));
        line.push_str(END);
        line.push('\n');
        *self = Self { seq, hash };
        line.into_bytes()
    }

    /// The hash of the last line, as text.
    #[must_use]
    pub fn hash(&self) -> String {
        to_hex(&self.hash)
    }

    /// Continues after a line with this number, whatever is missing before it.
    #[must_use]
    pub const fn skipped_to(&self, seq: u64) -> Self {
        Self {
            seq,
            hash: self.hash,
        }
    }
}

impl Line {
    /// The chain after this line.
    #[must_use]
    pub const fn chain(&self) -> Chain {
        Chain {
            seq: self.seq,
            hash: self.hash,
        }
    }

    /// Whether the line continues a chain.
    #[must_use]
    pub fn follows(&self, chain: &Chain) -> bool {
        self.seq == chain.seq + 1 && self.prev == chain.hash
    }
}

/// Reads a line without its end.
///
/// # Errors
/// The line is no record, or was changed.
pub fn parse(key: &ChainKey, line: &[u8]) -> Result<Line, LineError> {
    let malformed = |why: &str| LineError::Malformed(why.to_owned());
    let text = str::from_utf8(line).map_err(|_| malformed("it is not UTF-8"))?;
    let split = text.rsplit_once(HASH);
    let (content, hash) = split.ok_or_else(|| malformed("it has no hash"))?;
    let hash = hash.strip_suffix(END).and_then(from_hex);
    let hash = hash.ok_or_else(|| malformed("its hash is not 64 hexadecimal digits"))?;
    if key.hash(content.as_bytes()) != hash {
        return Err(LineError::Changed);
    }
    let read: Read = serde_json::from_str(&format!("{content}}}"))
        .map_err(|error| malformed(&error.to_string()))?;
    let prev = from_hex(&read.prev).ok_or_else(|| malformed("`prev` is not a hash"))?;
    Ok(Line {
        seq: read.seq,
        record: read.record,
        prev,
        hash,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn without_end(line: &[u8]) -> &[u8] {
        line.strip_suffix(b"\n").unwrap()
    }

    #[test]
    fn lines_continue_each_other() {
        let (key, mut chain) = (ChainKey::default(), Chain::default());
        let record = Record {
            verb: "StartExecution".into(),
            ..Record::default()
        };
        let first = parse(&key, without_end(&chain.append(&key, &record))).unwrap();
        let second = parse(&key, without_end(&chain.append(&key, &record))).unwrap();
        assert_eq!((first.seq, second.seq), (1, 2));
        assert!(first.follows(&Chain::default()));
        assert!(second.follows(&first.chain()) && !second.follows(&Chain::default()));
        assert_eq!(first.record, record);
    }

    /// The stored form outlives the process: this line must be readable for ever.
    #[test]
    fn the_form_of_a_line_is_fixed() {
        let record = Record {
            time: "2026-03-01T09:00:00.25Z".parse().unwrap(),
            verb: "CancelExecution".into(),
            object: "providers/b/executions/1".into(),
            outcome: "OK".into(),
            actor: "ada".into(),
            proof: "jwt".into(),
            roles: vec!["ops".into()],
            request_id: "r-1".into(),
            address: "127.0.0.1:5000".into(),
            ..Record::default()
        };
        let line = Chain::default().append(&ChainKey::default(), &record);
        let expected = concat!(
            r#"{"seq":1,"time":"2026-03-01T09:00:00.25Z","verb":"CancelExecution","#,
            r#""object":"providers/b/executions/1","outcome":"OK","actor":"ada","proof":"jwt","#,
            r#""roles":["ops"],"request_id":"r-1","address":"127.0.0.1:5000","#,
            r#""prev":"0000000000000000000000000000000000000000000000000000000000000000","#,
            r#""hash":"HASH"}"#
        );
        let hash = ChainKey::default().hash(expected.split(HASH).next().unwrap().as_bytes());
        let expected = expected.replace("HASH", &to_hex(&hash));
        assert_eq!(String::from_utf8(line).unwrap(), format!("{expected}\n"));
    }

    #[test]
    fn a_field_of_a_later_version_is_ignored() {
        let key = ChainKey::default();
        let content = format!(
            r#"{{"seq":1,"verb":"x","later":{{"a":1}},"prev":"{}""#,
            "0".repeat(64)
        );
        let hash = to_hex(&key.hash(content.as_bytes()));
        let line = parse(&key, format!("{content}{HASH}{hash}{END}").as_bytes()).unwrap();
        assert_eq!(line.record.verb, "x");
    }

    proptest! {
        #[test]
        fn a_line_is_bounded_and_one_line_whatever_is_in_it(
            texts in proptest::collection::vec(".{0,2000}", 6),
            roles in proptest::collection::vec("[!-~]{1,64}", 0..64),
        ) {
            let record = Record {
                object: texts[0].clone(),
                result: texts[1].clone(),
                actor: texts[2].clone(),
                rule: texts[3].clone(),
                note: texts[4].clone(),
                request_id: texts[5].clone(),
                roles,
                ..Record::default()
            };
            let record = record.bounded();
            let line = Chain::default().append(&ChainKey::default(), &record);
            prop_assert!(line.len() <= MAX_LINE, "{}", line.len());
            prop_assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
            let read = parse(&ChainKey::default(), without_end(&line)).unwrap();
            prop_assert_eq!(read.record, record);
        }
    }
}
