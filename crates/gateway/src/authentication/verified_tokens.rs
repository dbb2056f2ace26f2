//! Tokens that were verified a moment ago: a client sends the same token with every call.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use sha2::{Digest, Sha256};
use stateway_identity::Identity;

/// The most tokens that are remembered.
const MOST: usize = 4096;

/// The identity of each token by the hash of the token. The token itself is not kept.
#[derive(Debug, Default)]
pub(super) struct VerifiedTokens(Mutex<HashMap<[u8; 32], Verified>>);

#[derive(Debug, Clone)]
struct Verified {
    identity: Arc<Identity>,
    until: Timestamp,
}

impl VerifiedTokens {
    /// Who sent a token, if that is known and still holds.
    pub(super) fn find(&self, token: &str, now: Timestamp) -> Option<Arc<Identity>> {
        let known = self.lock();
        let verified = known.get(&hash(token))?;
        (verified.until > now).then(|| verified.identity.clone())
    }

    pub(super) fn insert(
        &self,
        token: &str,
        identity: Arc<Identity>,
        until: Timestamp,
        now: Timestamp,
    ) {
        let mut known = self.lock();
        if known.len() >= MOST {
            known.retain(|_, verified| verified.until > now);
        }
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(hash(token), Verified { identity, until });
    }

    /// Forgets all tokens, because the keys have changed.
    pub(super) fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<[u8; 32], Verified>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn hash(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use stateway_identity::Method;

    use super::*;

    #[test]
    fn a_token_is_known_until_it_expires_and_their_number_is_bounded() {
        let (tokens, now) = (VerifiedTokens::default(), Timestamp::UNIX_EPOCH);
        let ada = Arc::new(Identity::new(Method::Jwt, "ada", [""; 0], None).unwrap());
        let until = now + Duration::from_secs(10);
        tokens.insert("a", ada.clone(), until, now);
        assert_eq!(tokens.find("a", now), Some(ada.clone()));
        assert_eq!(tokens.find("b", now), None);
        assert_eq!(tokens.find("a", until), None);
        for number in 0..3 * MOST {
            tokens.insert(&number.to_string(), ada.clone(), until, now);
        }
        assert!(tokens.lock().len() <= MOST);
        tokens.clear();
        assert_eq!(tokens.find("a", now), None);
    }
}
