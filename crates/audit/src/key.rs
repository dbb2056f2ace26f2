//! What the hashes of a chain are made with.

use hmac::{Hmac, Mac as _};
use sha2::{Digest as _, Sha256};
use stateway_identity::Secret;
use thiserror::Error;

/// The shortest key in bytes.
const SHORTEST: usize = 16;

/// A hash of a chain, as 64 hexadecimal digits in text.
pub(crate) type Hash = [u8; 32];

/// The hash function of a chain: SHA-256, or HMAC-SHA-256 with a key.
///
/// Without a key, everyone who can write the files can change a record and compute every later hash again. With
/// a key that is stored elsewhere, this is not possible.
#[derive(Debug, Clone, Default)]
pub struct ChainKey(Option<Secret>);

/// A key that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum KeyError {
    /// Too short.
    #[error("the key must have at least {SHORTEST} bytes")]
    TooShort,
}

impl ChainKey {
    /// The key of this text. Blanks around it do not count.
    ///
    /// # Errors
    /// A key that is too short.
    pub fn new(text: &str) -> Result<Self, KeyError> {
        let text = text.trim();
        if text.len() < SHORTEST {
            return Err(KeyError::TooShort);
        }
        Ok(Self(Some(Secret::new(text.to_owned()))))
    }

    pub(crate) fn hash(&self, content: &[u8]) -> Hash {
        match &self.0 {
            None => Sha256::digest(content).into(),
            Some(key) => {
                let mut mac = Hmac::<Sha256>::new_from_slice(key.expose().as_bytes())
                    .expect("HMAC takes a key of any length");
                mac.update(content);
                mac.finalize().into_bytes().into()
            }
        }
    }
}

pub(crate) fn to_hex(hash: &Hash) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |value: u8| char::from(DIGITS[usize::from(value & 15)]);
    hash.iter()
        .flat_map(|byte| [digit(byte >> 4), digit(*byte)])
        .collect()
}

pub(crate) fn from_hex(text: &str) -> Option<Hash> {
    // Capital letters would be a second way to write the same hash.
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if text.len() != 64 || !text.bytes().all(is_digit) {
        return None;
    }
    let mut hash = [0; 32];
    for (index, byte) in hash.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16).ok()?;
    }
    Some(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_written_in_one_way() {
        let hash = ChainKey::default().hash(b"abc");
        let text = to_hex(&hash);
        assert_eq!(
            text,
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert_eq!(from_hex(&text), Some(hash));
        assert_eq!(from_hex(&text.to_uppercase()), None);
        assert_eq!(from_hex(&text[1..]), None);
    }

    #[test]
    fn a_key_changes_every_hash_and_is_not_printed() {
        let key = ChainKey::new(" sentinel-audit-key\n").unwrap();
        assert_ne!(key.hash(b"abc"), ChainKey::default().hash(b"abc"));
        assert!(!format!("{key:?}").contains("sentinel"));
        assert_eq!(ChainKey::new("short").unwrap_err(), KeyError::TooShort);
    }
}
