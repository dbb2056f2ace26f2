//! The anchor of a log: its last line and its first kept one, in a file beside it.
//!
//! The log is synced first and the anchor is written after it, so that an honest anchor is never ahead of
//! the log. A log that ends before its anchor has lost records.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::chain::Chain;
use crate::key::{ChainKey, Hash, from_hex, to_hex};

/// The last line that is known to exist, and the first that was kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The number of the first line that rotation has kept.
    pub first: u64,
    /// The number of the last line.
    pub seq: u64,
    pub(crate) hash: Hash,
}

/// An anchor that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the anchor is damaged or was changed")]
pub struct HeadError;

#[derive(Serialize, Deserialize)]
struct Stored {
    first: u64,
    seq: u64,
    hash: String,
    /// Over the fields before it, with the key of the chain.
    mac: String,
}

impl Head {
    /// The anchor of a chain.
    #[must_use]
    pub const fn of(chain: &Chain, first: u64) -> Self {
        Self {
            first,
            seq: chain.seq,
            hash: chain.hash,
        }
    }

    /// The hash of the last line, as text.
    #[must_use]
    pub fn hash(&self) -> String {
        to_hex(&self.hash)
    }

    /// The anchor as one line of fixed length, so that it can be replaced in place.
    #[must_use]
    pub fn to_line(&self, key: &ChainKey) -> String {
        let stored = Stored {
            first: self.first,
            seq: self.seq,
            hash: to_hex(&self.hash),
            mac: to_hex(&self.mac(key)),
        };
        let line = serde_json::to_string(&stored).expect("texts and numbers are JSON");
        format!("{line:<255}\n")
    }

    /// Reads an anchor.
    ///
    /// # Errors
    /// It is damaged, was changed, or has another key.
    pub fn parse(key: &ChainKey, text: &str) -> Result<Self, HeadError> {
        let stored: Stored = serde_json::from_str(text.trim()).map_err(|_| HeadError)?;
        let head = Self {
            first: stored.first,
            seq: stored.seq,
            hash: from_hex(&stored.hash).ok_or(HeadError)?,
        };
        if from_hex(&stored.mac) == Some(head.mac(key)) {
            Ok(head)
        } else {
            Err(HeadError)
        }
    }

    fn mac(&self, key: &ChainKey) -> Hash {
        key.hash(format!("head {} {} {}", self.first, self.seq, to_hex(&self.hash)).as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_anchor_is_read_back_and_not_with_another_key() {
        let chain = Chain {
            seq: u64::MAX,
            hash: [255; 32],
        };
        let (head, key) = (Head::of(&chain, u64::MAX), ChainKey::default());
        let line = head.to_line(&key);
        assert_eq!(line.len(), 256);
        assert_eq!(Head::parse(&key, &line), Ok(head));
        let other = ChainKey::new("another key of the chain").unwrap();
        assert_eq!(Head::parse(&other, &line), Err(HeadError));
        let changed = line.replace("\"seq\":1", "\"seq\":2");
        assert_eq!(Head::parse(&key, &changed), Err(HeadError));
    }
}
