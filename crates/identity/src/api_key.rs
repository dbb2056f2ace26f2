//! API keys: shown once, stored as hashes.
//!
//! A key is 256 random bits, so that a plain hash of it tells nothing and needs no salt.

use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{Identity, Method, Secret, Unfit};

/// What every key begins with, so that scanners for leaked secrets can find it.
pub const PREFIX: &str = "stw_";

/// The most bytes of a key file.
pub const MOST_BYTES: usize = 4 * 1024 * 1024;

/// The most keys of a file.
pub const MOST_KEYS: usize = 10_000;

/// The random bytes of a new key: id and secret.
pub const RANDOM_BYTES: usize = ID_BYTES + 32;

const ID_BYTES: usize = 8;

/// The version of the file.
const VERSION: u32 = 1;

/// Why a key is refused. An unknown key and a wrong one are the same to a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum KeyError {
    /// No key of this file.
    #[error("the API key is unknown")]
    Unknown,
    /// It has expired.
    #[error("the API key has expired")]
    Expired,
    /// It was revoked.
    #[error("the API key was revoked")]
    Revoked,
}

impl KeyError {
    /// The reason in errors and metrics.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Unknown => "API_KEY_UNKNOWN",
            Self::Expired => "API_KEY_EXPIRED",
            Self::Revoked => "API_KEY_REVOKED",
        }
    }
}

/// A file of keys that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum KeyFileError {
    /// Not a file of keys.
    #[error("the file has no valid list of API keys: {0}")]
    Malformed(String),
    /// Too large.
    #[error("the file has more than {MOST_KEYS} keys or {MOST_BYTES} bytes")]
    TooLarge,
    /// Two keys have one id.
    #[error("the key id {0} occurs twice")]
    Twice(String),
    /// A name does not fit.
    #[error("key {id}: {why}")]
    Unfit {
        /// Which key.
        id: String,
        /// Why.
        why: Unfit,
    },
}

/// The keys of one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyFile {
    version: u32,
    keys: Vec<StoredKey>,
}

/// One key as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredKey {
    /// Names the key. Not a secret.
    pub id: String,
    /// SHA-256 of the whole key, in hexadecimal digits.
    sha256: String,
    /// Whose key it is.
    pub subject: String,
    /// The roles of the key.
    #[serde(default)]
    pub roles: Vec<String>,
    /// The tenant of the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// When it was created.
    pub created: Timestamp,
    /// When it expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
    /// When it was revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked: Option<Timestamp>,
}

/// Whose key, with what, until when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewKey {
    /// Whose key it is.
    pub subject: String,
    /// Its roles.
    pub roles: Vec<String>,
    /// Its tenant.
    pub tenant: Option<String>,
    /// When it expires.
    pub expires: Option<Timestamp>,
}

impl Default for KeyFile {
    fn default() -> Self {
        Self {
            version: VERSION,
            keys: Vec::new(),
        }
    }
}

impl KeyFile {
    /// Reads a file.
    ///
    /// # Errors
    /// Not a file of keys, or with names that no identity can have.
    pub fn parse(text: &[u8]) -> Result<Self, KeyFileError> {
        if text.len() > MOST_BYTES {
            return Err(KeyFileError::TooLarge);
        }
        let file: Self = serde_json::from_slice(text)
            .map_err(|error| KeyFileError::Malformed(error.to_string()))?;
        if file.version != VERSION {
            let why = format!("version {} is not supported", file.version);
            return Err(KeyFileError::Malformed(why));
        }
        if file.keys.len() > MOST_KEYS {
            return Err(KeyFileError::TooLarge);
        }
        let mut ids = std::collections::BTreeSet::new();
        for key in &file.keys {
            if !ids.insert(&key.id) {
                return Err(KeyFileError::Twice(key.id.clone()));
            }
            key.identity().map_err(|why| KeyFileError::Unfit {
                id: key.id.clone(),
                why,
            })?;
        }
        Ok(file)
    }

    /// The file as text.
    #[must_use]
    pub fn to_json(&self) -> String {
        // The type has no map and no float, the only things that JSON refuses.
        let text = serde_json::to_string_pretty(self).unwrap_or_default();
        format!("{text}\n")
    }

    /// The keys, the oldest first.
    #[must_use]
    pub fn keys(&self) -> &[StoredKey] {
        &self.keys
    }

    /// Adds a key made of random bytes. This is the only time that it can be read.
    ///
    /// # Errors
    /// Names that no identity can have, or too many keys.
    pub fn create(
        &mut self,
        new: NewKey,
        random: &[u8; RANDOM_BYTES],
        now: Timestamp,
    ) -> Result<(String, Secret), KeyFileError> {
        if self.keys.len() >= MOST_KEYS {
            return Err(KeyFileError::TooLarge);
        }
        let (id, secret) = random.split_at(ID_BYTES);
        let id = hex(id);
        let key = Secret::new(format!("{PREFIX}{id}_{}", URL_SAFE_NO_PAD.encode(secret)));
        let stored = StoredKey {
            id: id.clone(),
            sha256: hash(key.expose()),
            subject: new.subject,
            roles: new.roles,
            tenant: new.tenant,
            created: now,
            expires: new.expires,
            revoked: None,
        };
        let unfit = |why| KeyFileError::Unfit {
            id: id.clone(),
            why,
        };
        stored.identity().map_err(unfit)?;
        self.keys.push(stored);
        Ok((id, key))
    }

    /// Revokes a key. None if no key has this id.
    pub fn revoke(&mut self, id: &str, now: Timestamp) -> Option<&StoredKey> {
        let key = self.keys.iter_mut().find(|key| key.id == id)?;
        key.revoked.get_or_insert(now);
        Some(key)
    }

    /// Whose key this is.
    ///
    /// # Errors
    /// Why it is refused.
    pub fn verify(&self, key: &str, now: Timestamp) -> Result<(&StoredKey, Identity), KeyError> {
        // Only the owner of the key learns more.
        let stored = self.stored(key).ok_or(KeyError::Unknown)?;
        self.current(&stored.id, now)
    }

    /// Whose key this is, also if it has expired or was revoked. None for a key that is not of this file.
    #[must_use]
    pub fn owner(&self, key: &str) -> Option<Identity> {
        self.stored(key)?.identity().ok()
    }

    /// Whose key has this id, also if it has expired or was revoked.
    #[must_use]
    pub fn owner_of(&self, id: &str) -> Option<Identity> {
        let stored = self.keys.iter().find(|stored| stored.id == id);
        stored?.identity().ok()
    }

    fn stored(&self, key: &str) -> Option<&StoredKey> {
        let sent = hash(key);
        let (id, _) = key.strip_prefix(PREFIX)?.split_once('_')?;
        let stored = self.keys.iter().find(|stored| stored.id == id);
        stored.filter(|stored| is_same(&stored.sha256, &sent))
    }

    /// The key of an id, if it can still be used. The caller has proved before that it has the key.
    ///
    /// # Errors
    /// Why it cannot be used any more.
    pub fn current(&self, id: &str, now: Timestamp) -> Result<(&StoredKey, Identity), KeyError> {
        let stored = self.keys.iter().find(|stored| stored.id == id);
        let stored = stored.ok_or(KeyError::Unknown)?;
        if stored.revoked.is_some() {
            return Err(KeyError::Revoked);
        }
        if stored.expires.is_some_and(|expires| expires <= now) {
            return Err(KeyError::Expired);
        }
        let identity = stored.identity().map_err(|_| KeyError::Unknown)?;
        Ok((stored, identity))
    }
}

impl StoredKey {
    fn identity(&self) -> Result<Identity, Unfit> {
        Identity::new(
            Method::ApiKey,
            &self.subject,
            &self.roles,
            self.tenant.as_deref(),
        )
    }

    /// `active`, `expired` or `revoked`.
    #[must_use]
    pub fn state(&self, now: Timestamp) -> &'static str {
        if self.revoked.is_some() {
            "revoked"
        } else if self.expires.is_some_and(|expires| expires <= now) {
            "expired"
        } else {
            "active"
        }
    }
}

fn hash(key: &str) -> String {
    hex(digest(&SHA256, key.as_bytes()).as_ref())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Takes the same time wherever the texts differ.
fn is_same(one: &str, other: &str) -> bool {
    let pairs = one.bytes().zip(other.bytes());
    one.len() == other.len() && pairs.fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn new() -> NewKey {
        NewKey {
            subject: "ci".into(),
            roles: vec!["operator".into()],
            tenant: Some("acme".into()),
            expires: Some(NOW + Duration::from_secs(60)),
        }
    }

    fn file() -> (KeyFile, String, Secret) {
        let mut file = KeyFile::default();
        let (id, key) = file.create(new(), &[7; RANDOM_BYTES], NOW).unwrap();
        (file, id, key)
    }

    #[test]
    fn a_key_proves_its_subject_until_it_expires_or_is_revoked() {
        let (mut file, id, key) = file();
        let (_, identity) = file.verify(key.expose(), NOW).unwrap();
        assert_eq!(
            (&*identity.subject, identity.method),
            ("ci", Method::ApiKey)
        );
        assert_eq!(identity.tenant.as_deref(), Some("acme"));
        let late = NOW + Duration::from_secs(60);
        assert_eq!(
            file.verify(key.expose(), late).unwrap_err(),
            KeyError::Expired
        );
        assert!(file.revoke("other", NOW).is_none());
        file.revoke(&id, NOW).unwrap();
        assert_eq!(
            file.verify(key.expose(), NOW).unwrap_err(),
            KeyError::Revoked
        );
    }

    #[test]
    fn a_key_that_differs_in_one_character_is_unknown() {
        let (file, id, key) = file();
        let key = key.expose();
        for at in 0..key.len() {
            let mut other = key.to_owned().into_bytes();
            other[at] = if other[at] == b'x' { b'y' } else { b'x' };
            let other = String::from_utf8(other).unwrap();
            assert_eq!(file.verify(&other, NOW).unwrap_err(), KeyError::Unknown);
        }
        for wrong in [
            "",
            PREFIX,
            &format!("{PREFIX}{id}"),
            &format!("{PREFIX}{id}_"),
        ] {
            assert_eq!(file.verify(wrong, NOW).unwrap_err(), KeyError::Unknown);
        }
    }

    #[test]
    fn the_file_does_not_contain_the_key() {
        let (file, _, key) = file();
        let text = file.to_json();
        let (_, secret) = key.expose().rsplit_once('_').unwrap();
        assert!(!text.contains(secret), "{text}");
        assert_eq!(KeyFile::parse(text.as_bytes()).unwrap(), file);
    }

    #[test]
    fn a_file_that_is_none_is_refused() {
        for wrong in [
            "",
            "{}",
            r#"{"version":2,"keys":[]}"#,
            r#"{"version":1,"keys":[],"x":1}"#,
        ] {
            assert!(matches!(
                KeyFile::parse(wrong.as_bytes()),
                Err(KeyFileError::Malformed(_))
            ));
        }
        let (mut file, id, _) = file();
        file.keys.push(file.keys[0].clone());
        let twice = KeyFile::parse(file.to_json().as_bytes());
        assert_eq!(twice, Err(KeyFileError::Twice(id)));
        let mut unfit = new();
        unfit.subject = "a b".into();
        let made = KeyFile::default().create(unfit, &[7; RANDOM_BYTES], NOW);
        assert!(matches!(made, Err(KeyFileError::Unfit { .. })));
    }
}
