//! The file of API keys, read again when it changes, and when each key was used.
//!
//! `stateway keys` writes the file. The gateway writes only a second file beside it with the times of
//! use, so that neither overwrites what the other has written.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use stateway_identity::Identity;
use stateway_identity::api_key::{KeyError, KeyFile, MOST_BYTES, StoredKey};

use super::AuthenticationError;

/// The shortest time between two writes of the times of use.
const WRITE_EVERY: Duration = Duration::from_secs(10);

/// The file with the times of use has the name of the key file and this.
const USED: &str = ".used";

#[derive(Debug)]
pub(super) struct KeyStore {
    path: PathBuf,
    current: RwLock<Current>,
    used: Mutex<Used>,
    reported: Mutex<Option<AuthenticationError>>,
    /// Counts the changes of the file.
    generation: AtomicU64,
}

/// A key that a request was sent with.
#[derive(Debug)]
pub(super) struct UsedKey {
    pub(super) id: String,
    pub(super) identity: Identity,
    pub(super) expires: Option<Timestamp>,
}

#[derive(Debug)]
struct Current {
    contents: Vec<u8>,
    file: KeyFile,
}

#[derive(Debug, Default)]
struct Used {
    times: BTreeMap<String, Timestamp>,
    is_written: bool,
    written: Option<Instant>,
    /// The last attempt to write has failed, and was reported.
    is_failing: bool,
}

impl Used {
    /// Notes how an attempt to write ended. Returns whether a failure has to be reported: only the first one, because
    /// the file of keys may be on a read-only file system.
    fn is_news(&mut self, has_failed: bool) -> bool {
        let was_failing = std::mem::replace(&mut self.is_failing, has_failed);
        has_failed && !was_failing
    }
}

impl KeyStore {
    pub(super) fn load(path: &Path) -> Result<Self, AuthenticationError> {
        let contents = read(path)?;
        let file = parse(path, &contents)?;
        Ok(Self {
            path: path.to_owned(),
            current: RwLock::new(Current { contents, file }),
            used: Mutex::new(Used {
                times: times(&used_path(path)),
                is_written: true,
                written: None,
                is_failing: false,
            }),
            reported: Mutex::default(),
            generation: AtomicU64::new(0),
        })
    }

    /// Whose key this is.
    pub(super) fn verify(&self, key: &str, now: Timestamp) -> Result<UsedKey, KeyError> {
        self.used(now, |file| file.verify(key, now))
    }

    /// Whose key this is, also if it has expired or was revoked.
    pub(super) fn owner(&self, key: &str) -> Option<Identity> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        current.file.owner(key)
    }

    /// Whose key has this id, also if it has expired or was revoked.
    pub(super) fn owner_of(&self, id: &str) -> Option<Identity> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        current.file.owner_of(id)
    }

    /// Whose key has this id, for somebody who has proved before to have the key.
    pub(super) fn current(&self, id: &str, now: Timestamp) -> Result<Identity, KeyError> {
        self.used(now, |file| file.current(id, now))
            .map(|used| used.identity)
    }

    /// How often the keys have changed.
    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Finds a key and notes that it was used.
    fn used(
        &self,
        now: Timestamp,
        find: impl FnOnce(&KeyFile) -> Result<(&StoredKey, Identity), KeyError>,
    ) -> Result<UsedKey, KeyError> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        let (stored, identity) = find(&current.file)?;
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        match used.times.get_mut(&stored.id) {
            Some(time) => *time = now.max(*time),
            None => drop(used.times.insert(stored.id.clone(), now)),
        }
        used.is_written = false;
        Ok(UsedKey {
            id: stored.id.clone(),
            expires: stored.expires,
            identity,
        })
    }

    /// Reads the file again. One that cannot be used keeps the old keys, and is reported once.
    pub(super) fn reload(&self) {
        let fresh = read(&self.path).and_then(|contents| {
            let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
            if current.contents == contents {
                return Ok(None);
            }
            let file = parse(&self.path, &contents)?;
            Ok(Some(Current { contents, file }))
        });
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        match fresh {
            Ok(fresh) => {
                *reported = None;
                if let Some(fresh) = fresh {
                    let keys = fresh.file.keys().len();
                    *self.current.write().unwrap_or_else(PoisonError::into_inner) = fresh;
                    self.generation.fetch_add(1, Ordering::Release);
                    tracing::info!(keys, "API keys reloaded");
                }
            }
            Err(error) => {
                if reported.as_ref() != Some(&error) {
                    tracing::error!("API keys not reloaded, the old ones stay in use: {error}");
                    *reported = Some(error);
                }
            }
        }
    }

    /// Writes when keys were used, if that has changed and was not written a moment ago.
    pub(super) fn write_used(&self, is_last: bool) {
        let lock = || self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = |used: &Used| {
            let is_recent = used.written.is_some_and(|at| at.elapsed() < WRITE_EVERY);
            !used.is_written && (!is_recent || is_last)
        };
        if !is_due(&lock()) {
            return;
        }
        let path = used_path(&self.path);
        // Read before the lock, which every request with a key takes.
        let written = times(&path);
        let known: HashSet<String> = {
            let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
            current
                .file
                .keys()
                .iter()
                .map(|key| key.id.clone())
                .collect()
        };
        let mut used = lock();
        // Another gateway with the same file may have seen a key later.
        for (id, time) in written {
            let latest = used.times.entry(id).or_insert(time);
            *latest = time.max(*latest);
        }
        used.times.retain(|id, _| known.contains(id));
        let text = serde_json::to_vec(&used.times).unwrap_or_default();
        used.written = Some(Instant::now());
        used.is_written = true;
        drop(used);
        let new = beside(&path, ".new");
        let written = std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, &path));
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let is_news = used.is_news(written.is_err());
        drop(used);
        if let (Err(error), true) = (written, is_news) {
            let file = path.display();
            tracing::warn!(
                "the times of use of API keys are kept in memory only, because {file} cannot be written: {error}"
            );
        }
    }
}

/// The file with the times of use, beside the file of keys.
fn used_path(path: &Path) -> PathBuf {
    beside(path, USED)
}

/// A file whose name is that of another file and this.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(ending);
    path.with_file_name(name)
}

/// Times that cannot be read are ignored.
fn times(path: &Path) -> BTreeMap<String, Timestamp> {
    let text = std::fs::read(path).ok();
    let times = text.and_then(|text| serde_json::from_slice(&text).ok());
    times.unwrap_or_default()
}

fn read(path: &Path) -> Result<Vec<u8>, AuthenticationError> {
    let most = u64::try_from(MOST_BYTES).unwrap_or(u64::MAX);
    let wrong = |why: String| wrong(path, why);
    let metadata = std::fs::metadata(path).map_err(|error| wrong(error.to_string()))?;
    if metadata.len() > most {
        return Err(wrong(format!("it is larger than {MOST_BYTES} bytes")));
    }
    std::fs::read(path).map_err(|error| wrong(error.to_string()))
}

fn parse(path: &Path, contents: &[u8]) -> Result<KeyFile, AuthenticationError> {
    KeyFile::parse(contents).map_err(|error| wrong(path, error.to_string()))
}

fn wrong(path: &Path, why: String) -> AuthenticationError {
    AuthenticationError::File {
        key: "api_keys.file",
        file: path.to_owned(),
        why,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_to_write_is_reported_once_until_it_has_worked_again() {
        let mut used = Used::default();
        let outcomes = [false, true, true, true, false, true];
        let news = outcomes.map(|has_failed| used.is_news(has_failed));
        assert_eq!(news, [false, true, false, false, false, true]);
    }
}
