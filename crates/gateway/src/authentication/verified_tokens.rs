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
pub(super) struct VerifiedTokens(Mutex<TokenCache>);

#[derive(Debug, Default)]
struct TokenCache {
    tokens: HashMap<[u8; 32], Verified>,
    /// Counts the changes of the keys.
    generation: u64,
}

#[derive(Debug, Clone)]
struct Verified {
    identity: Arc<Identity>,
    until: Timestamp,
}

impl VerifiedTokens {
    /// Who sent a token and until when it is accepted, if that is known and still holds.
    pub(super) fn find(&self, token: &str, now: Timestamp) -> Option<(Arc<Identity>, Timestamp)> {
        let hash = hash(token);
        let known = self.lock();
        let verified = known.tokens.get(&hash)?;
        (verified.until > now).then(|| (verified.identity.clone(), verified.until))
    }

    /// How often the keys have changed. Read it before a token is verified.
    pub(super) fn generation(&self) -> u64 {
        self.lock().generation
    }

    /// Remembers a token that was verified, unless the keys have changed since this generation: the key of the
    /// token may be gone.
    pub(super) fn insert(
        &self,
        token: &str,
        (identity, until): (Arc<Identity>, Timestamp),
        generation: u64,
        now: Timestamp,
    ) {
        let hash = hash(token);
        let mut known = self.lock();
        if known.generation != generation {
            return;
        }
        let tokens = &mut known.tokens;
        if tokens.len() >= MOST {
            tokens.retain(|_, verified| verified.until > now);
        }
        if tokens.len() >= MOST {
            tokens.clear();
        }
        tokens.insert(hash, Verified { identity, until });
    }

    /// Forgets all tokens, because the keys have changed.
    pub(super) fn clear(&self) {
        let mut known = self.lock();
        known.tokens.clear();
        known.generation += 1;
    }

    fn lock(&self) -> MutexGuard<'_, TokenCache> {
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
        tokens.insert("a", (ada.clone(), until), 0, now);
        assert_eq!(tokens.find("a", now), Some((ada.clone(), until)));
        assert_eq!(tokens.find("b", now), None);
        assert_eq!(tokens.find("a", until), None);
        for number in 0..3 * MOST {
            tokens.insert(&number.to_string(), (ada.clone(), until), 0, now);
        }
        assert!(tokens.lock().tokens.len() <= MOST);
        tokens.insert("last", (ada.clone(), until), 0, now);
        assert!(tokens.find("last", now).is_some());
        tokens.clear();
        assert_eq!(tokens.find("last", now), None);
        // It was verified with keys that were replaced meanwhile.
        tokens.insert("late", (ada, until), 0, now);
        assert_eq!(tokens.find("late", now), None);
    }
}
