//! The saved gateways of the user, by name, and the credentials for each.
//!
//! `contexts.json` has the addresses, `credentials/NAME.token` the token or API key that is sent, and
//! `credentials/NAME.json` what is needed to get a new token. Nobody else may read these files. Both name the gateway
//! that they are for: a name that is used for another gateway does not bring its credential there.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::exit::Exit;
use crate::failure::Failure;

const VERSION: u32 = 1;

/// How the name of a file ends that is being written.
const UNFINISHED: &str = ".new";

/// The longest name of a context.
const LONGEST_NAME: usize = 64;

/// `contexts.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contexts {
    version: u32,
    /// The context that commands use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<String>,
    /// The contexts by name.
    #[serde(default)]
    pub contexts: BTreeMap<String, SavedContext>,
}

/// One gateway.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedContext {
    /// Its address.
    pub server: String,
    /// The authorities to trust.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_ca: Option<PathBuf>,
    /// The client certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_cert: Option<PathBuf>,
    /// The key of the client certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_key: Option<PathBuf>,
}

/// How to get a new token. A secret.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grant {
    /// The gateway that the token is for.
    #[serde(default)]
    pub server: String,
    /// Who issues tokens.
    pub issuer: String,
    /// The client that the token was given to.
    pub client_id: String,
    /// Which token of a response is sent: `id_token` or `access_token`.
    pub token: String,
    /// Where the refresh token is given back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refresh_token: Option<String>,
    /// When the current token expires, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
}

impl std::fmt::Debug for Grant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Grant")
            .field("issuer", &self.issuer)
            .finish_non_exhaustive()
    }
}

impl Default for Contexts {
    fn default() -> Self {
        Self {
            version: VERSION,
            current: None,
            contexts: BTreeMap::new(),
        }
    }
}

/// The folder of the contexts.
#[derive(Debug, Clone)]
pub struct Store(PathBuf);

impl Store {
    /// `STATEWAY_HOME`, else `stateway` in the folder for configuration of this user. None if the user
    /// has no home.
    #[must_use]
    pub fn here() -> Option<Self> {
        let folder = |name: &str| {
            let value = std::env::var_os(name).filter(|value| !value.is_empty());
            value.map(PathBuf::from)
        };
        let configuration =
            || folder("XDG_CONFIG_HOME").or_else(|| Some(folder("HOME")?.join(".config")));
        let own = folder("STATEWAY_HOME");
        own.or_else(|| Some(configuration()?.join("stateway")))
            .map(Self)
    }

    /// The same, for commands that cannot do without.
    ///
    /// # Errors
    /// The user has no home.
    pub fn required() -> Result<Self, Failure> {
        Self::here().ok_or_else(|| {
            Failure::usage("there is no folder for contexts")
                .hint("Set STATEWAY_HOME or HOME to a folder.")
        })
    }

    /// The contexts. None exist in the beginning.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn read(&self) -> Result<Contexts, Failure> {
        let path = self.0.join("contexts.json");
        let contexts: Option<Contexts> = read_json(&path)?;
        let contexts = contexts.unwrap_or_default();
        if contexts.version != VERSION {
            let message = format!(
                "{} was written by another version of stateway",
                path.display()
            );
            return Err(Failure::usage(message));
        }
        Ok(contexts)
    }

    /// Changes the contexts. Only one process does so at a time.
    ///
    /// # Errors
    /// Files that cannot be read or written.
    pub fn change<T>(
        &self,
        change: impl FnOnce(&mut Contexts) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let _lock = self.lock("contexts")?;
        let mut contexts = self.read()?;
        let result = change(&mut contexts)?;
        write_json(&self.0.join("contexts.json"), &contexts)?;
        Ok(result)
    }

    /// Keeps other processes from changing something until it is dropped.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn lock(&self, name: &str) -> Result<File, Failure> {
        let path = self.0.join(format!("{name}.lock"));
        let locked = folder(&self.0).and_then(|()| {
            let file = private().open(&path)?;
            file.lock().map(|()| file)
        });
        locked.map_err(|error| cannot_write(&path, &error))
    }

    /// The file with the token of a context for this gateway, if it has one.
    #[must_use]
    pub fn token_file(&self, name: &str, server: &str) -> Option<PathBuf> {
        let path = self.token_path(name);
        let text = std::fs::read_to_string(&path).ok()?;
        stateway_client::token_for(&text, server).map(|_| path)
    }

    /// The file with the token of a context, which only its owner may read.
    ///
    /// # Errors
    /// Others may read it.
    pub fn private_token_file(&self, name: &str, server: &str) -> Result<Option<PathBuf>, Failure> {
        let file = self.token_file(name, server);
        if let Some(path) = &file {
            check_private(path)?;
        }
        Ok(file)
    }

    /// How to get a new token for this gateway.
    ///
    /// # Errors
    /// A file that cannot be read, or that others may read.
    pub fn grant(&self, name: &str, server: &str) -> Result<Option<Grant>, Failure> {
        let path = self.grant_path(name);
        if path.exists() {
            check_private(&path)?;
        }
        let grant: Option<Grant> = read_json(&path)?;
        Ok(grant.filter(|grant| grant.server == server))
    }

    /// Keeps the token of a context for this gateway, and how to get a new one.
    ///
    /// # Errors
    /// Files that cannot be written.
    pub fn keep(
        &self,
        name: &str,
        server: &str,
        (token, grant): (&str, Option<&Grant>),
    ) -> Result<(), Failure> {
        let path = self.grant_path(name);
        match grant {
            Some(grant) => write_json(&path, grant)?,
            None => remove(&path)?,
        }
        write(&self.token_path(name), &format!("{token}\n{server}\n"))
    }

    /// Forgets the credentials of a context. Answers whether it had any.
    ///
    /// # Errors
    /// Files that cannot be removed.
    pub fn forget(&self, name: &str) -> Result<bool, Failure> {
        let had = self.token_path(name).exists();
        for path in [self.token_path(name), self.grant_path(name)] {
            remove(&path)?;
            remove_unfinished(&path)?;
        }
        Ok(had)
    }

    fn token_path(&self, name: &str) -> PathBuf {
        self.0.join("credentials").join(format!("{name}.token"))
    }

    fn grant_path(&self, name: &str) -> PathBuf {
        self.0.join("credentials").join(format!("{name}.json"))
    }
}

/// The name of a context: part of the name of a file.
///
/// # Errors
/// A name that is not plain.
pub fn name(text: &str) -> Result<String, String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let is_name = (1..=LONGEST_NAME).contains(&text.len())
        && !text.starts_with('.')
        && text.bytes().all(is_plain);
    if is_name {
        Ok(text.to_owned())
    } else {
        Err(format!(
            "a context has a name of 1 to {LONGEST_NAME} letters, digits, `-`, `_` and `.`, and it \
             does not begin with `.`"
        ))
    }
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options
}

fn folder(path: &Path) -> std::io::Result<()> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
}

fn check_private(path: &Path) -> Result<(), Failure> {
    let metadata = std::fs::metadata(path).map_err(|error| cannot_read(path, &error))?;
    if metadata.permissions().mode() & 0o077 == 0 {
        return Ok(());
    }
    let message = format!("{} can be read by other users", path.display());
    Err(Failure::new(Exit::Refused, message).hint(
        "Sign in again with `stateway login`; revoke the old credential if others had access.",
    ))
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, Failure> {
    let text = match std::fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(cannot_read(path, &error)),
    };
    let parsed = serde_json::from_slice(&text);
    // The error of the parser could quote a secret.
    let place = |error: serde_json::Error| format!("line {}", error.line());
    parsed.map(Some).map_err(|error| {
        let message = format!("{} cannot be used ({})", path.display(), place(error));
        Failure::usage(message).hint("Remove the file, and sign in again with `stateway login`.")
    })
}

fn write_json(path: &Path, value: &impl Serialize) -> Result<(), Failure> {
    let text = crate::context::to_json(value)?;
    write(path, &format!("{text}\n"))
}

/// Writes a file in one step, readable by its owner only.
fn write(path: &Path, text: &str) -> Result<(), Failure> {
    static WRITES: AtomicU64 = AtomicU64::new(0);
    // Another process, or another task of this one, may write the same file.
    let number = WRITES.fetch_add(1, Ordering::Relaxed);
    let mut new = path.file_name().unwrap_or_default().to_owned();
    new.push(format!(".{}-{number}{UNFINISHED}", std::process::id()));
    let new = path.with_file_name(new);
    let written = path.parent().map_or(Ok(()), folder).and_then(|()| {
        // A process with the same id may have left a file, with any permissions.
        if let Err(error) = std::fs::remove_file(&new)
            && error.kind() != ErrorKind::NotFound
        {
            return Err(error);
        }
        let mut out = private().create_new(true).open(&new)?;
        out.write_all(text.as_bytes())?;
        out.sync_all()?;
        std::fs::rename(&new, path)
    });
    if written.is_err() {
        // It may not have been created.
        let _ = std::fs::remove_file(&new);
    }
    written.map_err(|error| cannot_write(path, &error))
}

/// Removes what processes have left that ended while they wrote a file.
fn remove_unfinished(path: &Path) -> Result<(), Failure> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Ok(());
    };
    let begin = format!("{}.", name.to_string_lossy());
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with(&begin) && name.ends_with(UNFINISHED) {
            remove(&entry.path())?;
        }
    }
    Ok(())
}

fn remove(path: &Path) -> Result<(), Failure> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(cannot_write(path, &error)),
        _ => Ok(()),
    }
}

fn cannot_read(path: &Path, error: &std::io::Error) -> Failure {
    let message = format!("{} cannot be read: {error}", path.display());
    Failure::new(Exit::Refused, message)
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Failure {
    let message = format!("{} cannot be written: {error}", path.display());
    Failure::new(Exit::Refused, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store() -> (tempfile::TempDir, Store) {
        let folder = tempfile::tempdir().unwrap();
        let store = Store(folder.path().join("new/stateway"));
        (folder, store)
    }

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn nobody_else_can_read_what_is_kept() {
        let (_folder, store) = store();
        assert_eq!(store.read().unwrap(), Contexts::default());
        let server = "https://gateway.example";
        let grant = Grant {
            server: server.into(),
            issuer: "https://id.example".into(),
            client_id: "cli".into(),
            token: "id_token".into(),
            refresh_token: Some("s3cret".into()),
            expires: None,
        };
        store.keep("prod", server, ("t0ken", Some(&grant))).unwrap();
        assert!(!format!("{grant:?}").contains("s3cret"));
        assert_eq!(store.grant("prod", server).unwrap(), Some(grant));
        // The name of the context alone opens nothing.
        let other = "https://other.example";
        assert_eq!(store.grant("prod", other).unwrap(), None);
        assert_eq!(store.private_token_file("prod", other).unwrap(), None);
        let file = store.private_token_file("prod", server).unwrap().unwrap();
        assert_eq!(
            (mode(&file), mode(&store.grant_path("prod"))),
            (0o600, 0o600)
        );
        assert_eq!(mode(file.parent().unwrap()), 0o700);
        let text = std::fs::read_to_string(&file).unwrap();
        assert_eq!(text, format!("t0ken\n{server}\n"));
        // A file that others can read is not used.
        for path in [&file, &store.grant_path("prod")] {
            let open = std::fs::Permissions::from_mode(0o640);
            std::fs::set_permissions(path, open).unwrap();
        }
        assert!(store.private_token_file("prod", server).is_err());
        assert!(store.grant("prod", server).is_err());
        assert!(store.forget("prod").unwrap());
        assert!(!store.forget("prod").unwrap());
        assert_eq!(store.grant("prod", server).unwrap(), None);
    }

    #[test]
    fn two_writers_of_a_file_do_not_disturb_each_other() {
        let (_folder, store) = store();
        let path = store.token_path("prod");
        let texts = ["a".repeat(10_000), "b".repeat(20_000)];
        std::thread::scope(|scope| {
            for text in &texts {
                scope.spawn(|| {
                    for _ in 0..50 {
                        write(&path, text).unwrap();
                    }
                });
            }
        });
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(texts.contains(&text), "{}", text.len());
        let left = std::fs::read_dir(path.parent().unwrap()).unwrap().count();
        assert_eq!(left, 1);
        // A file that a process left behind is a secret too.
        let left = path.with_file_name("prod.token.1-1.new");
        std::fs::write(&left, "t0ken").unwrap();
        store.forget("prod").unwrap();
        assert!(!left.exists());
    }

    #[test]
    fn a_broken_file_is_reported_without_what_it_contains() {
        let (_folder, store) = store();
        store.keep("prod", "https://a", ("t", None)).unwrap();
        write(&store.grant_path("prod"), "{\"issuer\": s3cret").unwrap();
        let failure = store.grant("prod", "https://a").unwrap_err();
        assert!(!failure.lines().contains("s3cret"), "{failure:?}");
    }

    #[test]
    fn the_name_of_a_context_is_the_name_of_a_file() {
        for good in ["prod", "a", "gw.example.org-7380", "A_1"] {
            assert_eq!(name(good).as_deref(), Ok(good));
        }
        for wrong in ["", ".", "..", ".x", "a/b", "a b", "ä", &"a".repeat(65)] {
            assert!(name(wrong).is_err(), "{wrong}");
        }
    }
}
