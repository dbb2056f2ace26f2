//! Page tokens and cursors: opaque to clients, bound to what they were made for.
//!
//! Sealed rather than encoded, because a client that can read a token will build one, and a
//! provider's cursor inside it is opaque to clients.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chacha20poly1305::aead::{Aead, Payload};
use chacha20poly1305::{KeyInit, XChaCha20Poly1305, XNonce};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The longest token; a longer one is refused without decoding.
const MAX_LENGTH: usize = 64 * 1024;
const NONCE_LENGTH: usize = 24;

/// Makes and opens tokens.
pub(crate) struct Sealer {
    cipher: XChaCha20Poly1305,
    lifetime: Duration,
}

/// Why a token cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(crate) enum TokenError {
    /// Not one of ours, altered, of another key, or made for other arguments.
    #[error("the token is not valid for this request")]
    Foreign,
    /// Too old.
    #[error("the token has expired")]
    Expired,
}

#[derive(Serialize, Deserialize)]
struct Envelope<T> {
    /// Seconds since 1970.
    expires: u64,
    body: T,
}

impl Sealer {
    /// With the operator's key, or a random one that ends with the process.
    pub(crate) fn new(key: Option<[u8; 32]>, lifetime: Duration) -> Self {
        let key = key.unwrap_or_else(|| {
            let mut random = [0; 32];
            getrandom::fill(&mut random).expect("the operating system has random numbers");
            random
        });
        Self {
            cipher: XChaCha20Poly1305::new(&key.into()),
            lifetime,
        }
    }

    /// Seals `body` for `purpose`: everything that must be the same when a client sends the token again.
    pub(crate) fn seal<T: Serialize>(&self, purpose: &str, body: T) -> String {
        let expires = since_1970() + self.lifetime.as_secs();
        let plain = serde_json::to_vec(&Envelope { expires, body })
            .expect("token bodies are plain structs of strings and numbers");
        let mut nonce = [0; NONCE_LENGTH];
        getrandom::fill(&mut nonce).expect("the operating system has random numbers");
        let payload = Payload {
            msg: &plain,
            aad: purpose.as_bytes(),
        };
        let sealed = self
            .cipher
            .encrypt(&XNonce::from(nonce), payload)
            .expect("a message of this size can be encrypted");
        URL_SAFE_NO_PAD.encode([&nonce[..], &sealed].concat())
    }

    /// Opens a token that was sealed for the same purpose.
    pub(crate) fn open<T: DeserializeOwned>(
        &self,
        purpose: &str,
        token: &str,
    ) -> Result<T, TokenError> {
        if token.len() > MAX_LENGTH {
            return Err(TokenError::Foreign);
        }
        let bytes = URL_SAFE_NO_PAD
            .decode(token)
            .map_err(|_| TokenError::Foreign)?;
        let (nonce, sealed) = bytes
            .split_first_chunk::<NONCE_LENGTH>()
            .ok_or(TokenError::Foreign)?;
        let payload = Payload {
            msg: sealed,
            aad: purpose.as_bytes(),
        };
        let plain = self
            .cipher
            .decrypt(&XNonce::from(*nonce), payload)
            .map_err(|_| TokenError::Foreign)?;
        let envelope: Envelope<T> =
            serde_json::from_slice(&plain).map_err(|_| TokenError::Foreign)?;
        if envelope.expires < since_1970() {
            return Err(TokenError::Expired);
        }
        Ok(envelope.body)
    }
}

fn since_1970() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealer() -> Sealer {
        Sealer::new(Some([7; 32]), Duration::from_secs(60))
    }

    #[test]
    fn a_token_comes_back_as_it_was_on_every_replica_with_the_key() {
        let token = sealer().seal("list|a", vec!["x".to_owned()]);
        assert_eq!(sealer().open("list|a", &token), Ok(vec!["x".to_owned()]));
    }

    #[test]
    fn a_token_is_bound_to_its_purpose_and_key() {
        let token = sealer().seal("list|a", 1);
        assert_eq!(
            sealer().open::<i32>("list|b", &token),
            Err(TokenError::Foreign)
        );
        let other = Sealer::new(None, Duration::from_secs(60));
        assert_eq!(
            other.open::<i32>("list|a", &token),
            Err(TokenError::Foreign)
        );
    }

    #[test]
    fn an_altered_cut_or_invented_token_is_refused() {
        let token = sealer().seal("p", 1);
        let mut altered = token.clone().into_bytes();
        altered[40] = if altered[40] == b'A' { b'B' } else { b'A' };
        let altered = String::from_utf8(altered).unwrap();
        for wrong in [
            "",
            "abc",
            "%%%",
            &token[..20],
            &altered,
            &"A".repeat(MAX_LENGTH + 1),
        ] {
            assert_eq!(
                sealer().open::<i32>("p", wrong),
                Err(TokenError::Foreign),
                "{wrong:.20}"
            );
        }
    }

    #[test]
    fn the_content_cannot_be_read() {
        let token = sealer().seal("p", "secret-cursor");
        let bytes = URL_SAFE_NO_PAD.decode(&token).unwrap();
        assert!(!String::from_utf8_lossy(&bytes).contains("secret"));
    }
}
