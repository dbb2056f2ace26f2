//! Invocation ids and the awakeable ids made from them.
//!
//! `inv_`, a version, then partition key and uuid in base 62. An awakeable's id holds the same
//! bytes and the number of the signal it listens to, so it can be told from a row alone.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use stateway_model::ExecutionId;

/// The digits, in their order.
const DIGITS: &[u8; 62] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
const PREFIX: &str = "inv_1";
const AWAKEABLE_PREFIX: &str = "sign_1";
/// Digits of a partition key and of a uuid.
const KEY_DIGITS: usize = 11;
const UUID_DIGITS: usize = 22;

/// A text that has the form of an invocation id, and so may stand in a query.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct InvocationId {
    text: String,
    bytes: [u8; 24],
}

impl InvocationId {
    /// The id, unless no invocation can have it.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix(PREFIX)?;
        if !digits.is_ascii() || digits.len() != KEY_DIGITS + UUID_DIGITS {
            return None;
        }
        let (key, uuid) = digits.split_at(KEY_DIGITS);
        let key = u64::try_from(number(key)?).ok()?;
        let mut bytes = [0; 24];
        bytes[..8].copy_from_slice(&key.to_le_bytes());
        bytes[8..].copy_from_slice(&number(uuid)?.to_le_bytes());
        let text = text.to_owned();
        Some(Self { text, bytes })
    }

    pub(crate) fn of(id: &ExecutionId) -> Option<Self> {
        Self::parse(id.as_str())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// The id of the awakeable that this signal of the invocation resolves.
    pub(crate) fn awakeable(&self, signal: u32) -> String {
        let mut bytes = self.bytes.to_vec();
        bytes.extend(signal.to_be_bytes());
        format!("{AWAKEABLE_PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes))
    }

    /// Whether the awakeable is one of this invocation's.
    pub(crate) fn owns(&self, awakeable: &str) -> bool {
        let bytes = awakeable
            .strip_prefix(AWAKEABLE_PREFIX)
            .and_then(|text| URL_SAFE_NO_PAD.decode(text).ok());
        bytes.is_some_and(|bytes| bytes.len() == 28 && bytes.starts_with(&self.bytes))
    }
}

/// Whether the text means an awakeable rather than a name.
pub(crate) fn is_awakeable(text: &str) -> bool {
    text.starts_with(AWAKEABLE_PREFIX)
}

fn number(digits: &str) -> Option<u128> {
    digits.bytes().try_fold(0_u128, |number, byte| {
        let digit = DIGITS.iter().position(|digit| *digit == byte)?;
        number.checked_mul(62)?.checked_add(digit as u128)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As seen on 1.7.12.
    const SEEN: &str = "inv_18ikDxF8r8Lh4BMQNeB4xdSxLZb0styRpH";
    const ITS_AWAKEABLE: &str = "sign_12weFGzMDoGDN-pFjVqF6BO2KPHbg_nOXAAAAEQ";

    #[test]
    fn an_awakeable_is_told_from_the_invocation_and_the_signal() {
        let id = InvocationId::parse(SEEN).unwrap();
        assert_eq!(id.awakeable(17), ITS_AWAKEABLE);
        assert!(id.owns(ITS_AWAKEABLE));
        let other = InvocationId::parse("inv_1eg1CPJWIoxU3V9pfsYGw4iiJyoaWHA3hN").unwrap();
        assert!(!other.owns(ITS_AWAKEABLE));
        assert!(!id.owns("sign_1") && !id.owns("sign_1AAAA") && !id.owns("x"));
    }

    #[test]
    fn what_no_invocation_can_be_called_never_gets_into_a_query() {
        for wrong in [
            "",
            "inv_1",
            "kit-nobody",
            "inv_18ikDxF8r8Lh4BMQNeB4xdSxLZb0styRp",
            "inv_18ikDxF8r8Lh4BMQNeB4xdSxLZb0styRpHH",
            "inv_18ikDxF8r8Lh4BMQNeB4xdSxLZb0styR'H",
            "inv_28ikDxF8r8Lh4BMQNeB4xdSxLZb0styRpH",
            "inv_1' OR '1'='1' OR id = 'inv_1aaaaaa",
            "inv_1ZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZ",
            "inv_1äääääääääääääääääää",
        ] {
            assert_eq!(InvocationId::parse(wrong), None, "{wrong}");
        }
    }
}
