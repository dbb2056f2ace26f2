//! `stateway keys`: creates, lists and revokes API keys in the file of a gateway. Needs no gateway.

use std::collections::BTreeMap;
use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};
use jiff::Timestamp;
use serde::Serialize;
use stateway_identity::api_key::{KeyFile, NewKey, RANDOM_BYTES, StoredKey};

use crate::arguments::{Globals, Output};
use crate::config::{Overrides, load};
use crate::context::{print, print_message, to_json};
use crate::duration::Span;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::screen::{Paint, Table};

/// Creates, lists and revokes API keys.
#[derive(Debug, Subcommand)]
pub enum Keys {
    /// Create a key and print it. It is shown only once; the file contains its hash
    Create(Create),
    /// List the keys of the file, with the time of their last use
    List(List),
    /// Revoke a key
    Revoke(Revoke),
}

/// The file of keys.
#[derive(Debug, Args)]
pub(super) struct Place {
    /// File with the keys (default: `authentication.api_keys.file` of the configuration)
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Configuration file (default: `stateway.toml` in this folder, if it exists)
    #[arg(long, env = "STATEWAY_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
}

/// Creates a key.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stateway keys create --file keys.json --subject ci --key-role operator --expires 90d
  stateway keys create --subject worker-7 --key-role worker --tenant acme > worker.key

The key is printed to stdout. The file is created if it does not exist. A running gateway uses the key \
within two seconds.")]
pub struct Create {
    #[command(flatten)]
    place: Place,
    /// Name of the person or service that uses the key
    #[arg(long, value_name = "NAME")]
    subject: String,
    /// Role of the key; may be given several times
    #[arg(long = "key-role", value_name = "ROLE")]
    roles: Vec<String>,
    /// Tenant of the key
    #[arg(long, value_name = "TENANT")]
    tenant: Option<String>,
    /// Lifetime of the key, for example 90d; `never` for a key that does not expire
    #[arg(long, value_name = "DURATION", default_value = "90d")]
    expires: Lifetime,
}

/// Lists keys.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stateway keys list
  stateway keys list --file keys.json -o json")]
pub struct List {
    #[command(flatten)]
    place: Place,
}

/// Revokes a key.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stateway keys revoke 0a1b2c3d4e5f6071

A running gateway refuses the key within two seconds. The file keeps the record of a revoked key.")]
pub struct Revoke {
    #[command(flatten)]
    place: Place,
    /// Id of the key, as `stateway keys list` shows it
    id: String,
}

/// How long a key lives.
#[derive(Debug, Clone, Copy)]
enum Lifetime {
    Never,
    For(Span),
}

impl std::str::FromStr for Lifetime {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "never" {
            return Ok(Self::Never);
        }
        let span = text.parse::<Span>().map_err(|error| error.to_string())?;
        if Duration::from(span).is_zero() {
            return Err("the lifetime must be greater than zero".to_owned());
        }
        Ok(Self::For(span))
    }
}

/// What `-o json` prints for each key.
#[derive(Debug, Serialize)]
struct KeyReport<'k> {
    id: &'k str,
    subject: &'k str,
    roles: &'k [String],
    tenant: Option<&'k str>,
    state: &'static str,
    created: Timestamp,
    expires: Option<Timestamp>,
    revoked: Option<Timestamp>,
    last_used: Option<Timestamp>,
}

/// What `create -o json` prints.
#[derive(Debug, Serialize)]
struct Created<'k> {
    id: &'k str,
    key: &'k str,
    subject: &'k str,
    expires: Option<Timestamp>,
}

impl Keys {
    pub(super) fn run(self, globals: &Globals) -> Outcome {
        match self {
            Self::Create(command) => command.run(globals.output),
            Self::List(command) => command.run(globals.output),
            Self::Revoke(command) => command.run(),
        }
    }
}

impl Place {
    fn path(&self) -> Result<PathBuf, Failure> {
        if let Some(file) = &self.file {
            return Ok(file.clone());
        }
        let overrides = Overrides {
            config: self.config.clone(),
            ..Overrides::default()
        };
        let config = load(&overrides).map_err(|error| super::config::refused(&error))?;
        let file = config.settings.authentication.api_keys;
        file.ok_or_else(|| {
            Failure::usage("no file of API keys is configured")
                .hint("Give --file FILE, or configure `file` in [authentication.api_keys].")
        })
    }
}

impl Create {
    fn run(self, output: Output) -> Outcome {
        let path = self.place.path()?;
        let now = Timestamp::now();
        let expires = match self.expires {
            Lifetime::Never => None,
            Lifetime::For(span) => Some(end_of(now, span)?),
        };
        let new = NewKey {
            subject: self.subject.clone(),
            roles: self.roles,
            tenant: self.tenant,
            expires,
        };
        let mut random = [0; RANDOM_BYTES];
        getrandom::fill(&mut random)
            .map_err(|error| Failure::new(Exit::Internal, format!("no random bytes: {error}")))?;
        let (id, key) = change(&path, true, |file| {
            let made = file.create(new, &random, now);
            made.map_err(|error| Failure::usage(error.to_string()))
        })?;
        match output {
            Output::Table => print(key.expose())?,
            Output::Json => print(&to_json(&Created {
                id: &id,
                key: key.expose(),
                subject: &self.subject,
                expires,
            })?)?,
        }
        print_message(&format!(
            "created key {id} in {}; the key cannot be shown again",
            path.display()
        ));
        Ok(Exit::Ok)
    }
}

fn end_of(now: Timestamp, span: Span) -> Result<Timestamp, Failure> {
    let end = now.checked_add(Duration::from(span));
    end.map_err(|_| Failure::usage("--expires is too far in the future").hint("Give `never`."))
}

impl List {
    fn run(self, output: Output) -> Outcome {
        let path = self.place.path()?;
        let file = read(&path)?.ok_or_else(|| missing(&path))?;
        let used = used(&path);
        let now = Timestamp::now();
        let shown: Vec<_> = file
            .keys()
            .iter()
            .map(|key| show(key, &used, now))
            .collect();
        match output {
            Output::Json => print(&to_json(&serde_json::json!({ "keys": shown }))?)?,
            Output::Table => print(&table(&shown, Paint::new(false)))?,
        }
        Ok(Exit::Ok)
    }
}

impl Revoke {
    fn run(self) -> Outcome {
        let path = self.place.path()?;
        let subject = change(&path, false, |file| {
            let revoked = file.revoke(&self.id, Timestamp::now());
            let subject = revoked.map(|key| key.subject.clone());
            subject.ok_or_else(|| {
                Failure::new(Exit::NotFound, format!("no key has the id `{}`", self.id))
                    .hint("`stateway keys list` shows the ids.")
            })
        })?;
        print_message(&format!("revoked key {} of {subject}", self.id));
        Ok(Exit::Ok)
    }
}

fn show<'k>(
    key: &'k StoredKey,
    used: &BTreeMap<String, Timestamp>,
    now: Timestamp,
) -> KeyReport<'k> {
    KeyReport {
        id: &key.id,
        subject: &key.subject,
        roles: &key.roles,
        tenant: key.tenant.as_deref(),
        state: key.state(now),
        created: key.created,
        expires: key.expires,
        revoked: key.revoked,
        last_used: used.get(&key.id).copied(),
    }
}

fn table(keys: &[KeyReport<'_>], paint: Paint) -> String {
    let time = |time: Option<Timestamp>| match time {
        Some(time) => format!("{time:.0}"),
        None => "never".to_owned(),
    };
    let headings = [
        "ID",
        "SUBJECT",
        "ROLES",
        "TENANT",
        "STATE",
        "EXPIRES",
        "LAST USED",
    ];
    let mut table = Table::new(&headings, paint);
    for key in keys {
        table.row(vec![
            key.id.to_owned(),
            key.subject.to_owned(),
            key.roles.join(", "),
            key.tenant.unwrap_or_default().to_owned(),
            key.state.to_owned(),
            time(key.expires),
            time(key.last_used),
        ]);
    }
    table.text()
}

/// Changes the file in one step: another process reads the old file or the new one. Only one
/// `stateway keys` changes it at a time.
fn change<T>(
    path: &Path,
    may_create: bool,
    change: impl FnOnce(&mut KeyFile) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let cannot = |error: &std::io::Error| cannot_write(path, error);
    let beside = |extension: &str| {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(extension);
        path.with_file_name(name)
    };
    let lock = File::create(beside(".lock")).map_err(|error| cannot(&error))?;
    lock.lock().map_err(|error| cannot(&error))?;
    let mut file = match read(path)? {
        Some(file) => file,
        None if may_create => KeyFile::default(),
        None => return Err(missing(path)),
    };
    let result = change(&mut file)?;
    let new = beside(".new");
    let written = (|| {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let mut out = options.open(&new)?;
        let before = std::fs::metadata(path).ok();
        protect(&out, before.as_ref())?;
        out.write_all(file.to_json().as_bytes())?;
        out.sync_all()?;
        std::fs::rename(&new, path)
    })();
    written.map_err(|error| cannot(&error))?;
    Ok(result)
}

/// Gives a new file the owner and the mode of the file that it replaces: the processes that could read the keys
/// before, such as the gateway, can still read them.
fn protect(new: &File, before: Option<&Metadata>) -> std::io::Result<()> {
    let Some(before) = before else {
        return new.set_permissions(Permissions::from_mode(0o600));
    };
    let owner = |of: &Metadata| (of.uid(), of.gid());
    if owner(before) != owner(&new.metadata()?) {
        fchown(new, Some(before.uid()), Some(before.gid()))?;
    }
    new.set_permissions(Permissions::from_mode(before.mode() & 0o777))
}

/// None if the file does not exist.
fn read(path: &Path) -> Result<Option<KeyFile>, Failure> {
    let text = match std::fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            let message = format!("{} cannot be read: {error}", path.display());
            return Err(Failure::new(Exit::Refused, message));
        }
    };
    let file = KeyFile::parse(&text)
        .map_err(|error| Failure::usage(format!("{}: {error}", path.display())))?;
    Ok(Some(file))
}

/// When the gateway saw each key. A file that does not exist yet has no times.
fn used(path: &Path) -> BTreeMap<String, Timestamp> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".used");
    let text = std::fs::read(path.with_file_name(name)).ok();
    let times = text.and_then(|text| serde_json::from_slice(&text).ok());
    times.unwrap_or_default()
}

fn missing(path: &Path) -> Failure {
    let message = format!("{} does not exist", path.display());
    Failure::new(Exit::NotFound, message).hint("`stateway keys create` creates it.")
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Failure {
    let message = format!("{} cannot be written: {error}", path.display());
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let hint = match folder {
        Some(folder) if error.kind() == ErrorKind::NotFound => {
            format!("The folder `{}` does not exist.", folder.display())
        }
        _ => "Run the command as the owner of the file.".to_owned(),
    };
    Failure::new(Exit::Refused, message).hint(hint)
}
