//! The API key: from an environment variable, or from a file that is read again when it changes.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use stateway_provider_api::adapter::lock;
use tonic::metadata::{Ascii, MetadataValue};

use super::stamp::Stamp;
use crate::{Config, ConfigError};

/// How often a key file is checked for a change.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// The `authorization` of every request.
#[derive(Debug)]
pub(crate) enum ApiKey {
    None,
    Fixed(MetadataValue<Ascii>),
    File(Box<KeyFile>),
}

/// A key file and what it contained last.
#[derive(Debug)]
pub(crate) struct KeyFile {
    path: PathBuf,
    known: Mutex<LoadedKey>,
}

#[derive(Debug)]
struct LoadedKey {
    header: MetadataValue<Ascii>,
    stamp: Stamp,
    checked: Instant,
}

impl ApiKey {
    pub(crate) fn new(config: &Config) -> Result<Self, ConfigError> {
        match (&config.api_key_env, &config.api_key_file) {
            (None, None) => Ok(Self::None),
            (Some(_), Some(_)) => Err(ConfigError::TwoKeys),
            (Some(name), None) => {
                let wrong = |why: String| ConfigError::ApiKey {
                    from: format!("environment variable `{name}`"),
                    why,
                };
                let key = stateway_provider_api::adapter::secret_variable(name)
                    .map_err(|error| wrong(error.to_owned()))?;
                header(&key).map(Self::Fixed).map_err(wrong)
            }
            (None, Some(path)) => {
                let wrong = |why: String| ConfigError::ApiKey {
                    from: format!("file `{}`", path.display()),
                    why,
                };
                let known = read(path).map_err(wrong)?;
                Ok(Self::File(Box::new(KeyFile {
                    path: path.clone(),
                    known: Mutex::new(known),
                })))
            }
        }
    }

    /// The header of the next request. A file that cannot be read any more keeps its last key, because
    /// a rotation may be under way.
    pub(crate) fn header(&self) -> Option<MetadataValue<Ascii>> {
        match self {
            Self::None => None,
            Self::Fixed(header) => Some(header.clone()),
            Self::File(file) => Some(file.header()),
        }
    }

    /// After the server refused a key: whether the file has another one by now.
    pub(crate) fn changed(&self, refused: Option<&MetadataValue<Ascii>>) -> bool {
        let Self::File(file) = self else {
            return false;
        };
        let mut known = lock(&file.known);
        known.update(&file.path);
        Some(&known.header) != refused
    }

    /// Whether the key may change.
    pub(crate) const fn is_file(&self) -> bool {
        matches!(self, Self::File(_))
    }
}

impl KeyFile {
    fn header(&self) -> MetadataValue<Ascii> {
        let mut known = lock(&self.known);
        if known.checked.elapsed() >= CHECK_EVERY {
            known.update(&self.path);
        }
        known.header.clone()
    }
}

impl LoadedKey {
    fn update(&mut self, path: &Path) {
        self.checked = Instant::now();
        if stamp(path) == self.stamp {
            return;
        }
        match read(path) {
            Ok(fresh) => *self = fresh,
            Err(why) => tracing::warn!(why, file = %path.display(), "API key not read again"),
        }
    }
}

fn stamp(path: &Path) -> Stamp {
    Stamp::of([path])
}

fn read(path: &Path) -> Result<LoadedKey, String> {
    let stamp = stamp(path);
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    Ok(LoadedKey {
        header: header(&text)?,
        stamp,
        checked: Instant::now(),
    })
}

fn header(key: &str) -> Result<MetadataValue<Ascii>, String> {
    let key = key.trim();
    if key.is_empty() {
        return Err("it is empty".to_owned());
    }
    let header = format!("Bearer {key}").parse::<MetadataValue<Ascii>>();
    let mut header =
        header.map_err(|_| "it has characters that a header cannot have".to_owned())?;
    header.set_sensitive(true);
    Ok(header)
}
