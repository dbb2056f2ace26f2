//! How a client connects to other machines: the authorities that it trusts, and its credentials.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use tonic::metadata::AsciiMetadataValue;

use crate::Error;

/// How often a token file is checked for a change.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// The longest token that gateways accept.
const LONGEST_TOKEN: usize = 8 * 1024;

/// The certificate authorities that a client trusts, and its credentials.
///
/// Certificates are read for every new connection and a token file when it changes, so that renewed
/// files are used without a restart.
#[derive(Debug, Clone, Default)]
pub struct Security {
    pub(crate) ca: Option<PathBuf>,
    pub(crate) certificate: Option<(PathBuf, PathBuf)>,
    pub(crate) token: Option<Token>,
}

impl Security {
    /// Trusts the authorities in this PEM file instead of those of the system.
    #[must_use]
    pub fn ca(mut self, file: impl Into<PathBuf>) -> Self {
        self.ca = Some(file.into());
        self
    }

    /// Presents the certificate chain of one PEM file with the private key of another.
    #[must_use]
    pub fn certificate(mut self, chain: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        self.certificate = Some((chain.into(), key.into()));
        self
    }

    /// Sends this token or API key with every call.
    ///
    /// # Errors
    /// A token that no header can carry.
    pub fn token(mut self, token: &str) -> Result<Self, Error> {
        let header = header(token).map_err(|why| Error::credentials(format!("the token {why}")))?;
        self.token = Some(Token::Fixed(header));
        Ok(self)
    }

    /// Sends the token or API key in this file with every call.
    ///
    /// # Errors
    /// A file that cannot be read, or without a token that a header can carry.
    pub fn token_file(self, file: impl Into<PathBuf>) -> Result<Self, Error> {
        self.file(file.into(), None)
    }

    /// Sends the token or API key in the first line of this file with every call, as long as its second line is
    /// this gateway. So a file that gets the credential of another gateway is never read for this one.
    ///
    /// # Errors
    /// A file that cannot be read or is for another gateway, or without a token that a header can carry.
    pub fn token_file_for(self, gateway: &str, file: impl Into<PathBuf>) -> Result<Self, Error> {
        self.file(file.into(), Some(gateway.to_owned()))
    }

    fn file(mut self, path: PathBuf, gateway: Option<String>) -> Result<Self, Error> {
        let known = read(&path, gateway.as_deref()).map_err(|why| {
            Error::credentials(format!("the token file `{}` {why}", path.display()))
        })?;
        let file = TokenFile {
            path,
            gateway,
            known: Mutex::new(known),
        };
        self.token = Some(Token::File(Arc::new(file)));
        Ok(self)
    }
}

/// A token, which is a secret.
#[derive(Clone)]
pub(crate) enum Token {
    Fixed(AsciiMetadataValue),
    File(Arc<TokenFile>),
}

/// A token file and what it contained last.
pub(crate) struct TokenFile {
    path: PathBuf,
    /// The gateway that the file must name.
    gateway: Option<String>,
    known: Mutex<LoadedToken>,
}

struct LoadedToken {
    header: AsciiMetadataValue,
    modified: Option<SystemTime>,
    checked: Instant,
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(_) => f.write_str("Token"),
            Self::File(file) => write!(f, "TokenFile({})", file.path.display()),
        }
    }
}

impl Token {
    /// The value of `authorization`. A file that cannot be read any more keeps its last token, because
    /// it may just be replaced.
    pub(crate) fn header(&self) -> AsciiMetadataValue {
        match self {
            Self::Fixed(header) => header.clone(),
            Self::File(file) => file.header(),
        }
    }
}

impl TokenFile {
    fn header(&self) -> AsciiMetadataValue {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.checked.elapsed() >= CHECK_EVERY {
            known.checked = Instant::now();
            if modified(&self.path) != known.modified
                && let Ok(fresh) = read(&self.path, self.gateway.as_deref())
            {
                *known = fresh;
            }
        }
        known.header.clone()
    }
}

fn modified(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(path).ok()?.modified().ok()
}

fn read(path: &Path, gateway: Option<&str>) -> Result<LoadedToken, String> {
    let modified = modified(path);
    let text = std::fs::read_to_string(path).map_err(|error| format!("cannot be read: {error}"))?;
    let token = match gateway {
        None => &text,
        Some(gateway) => {
            token_for(&text, gateway).ok_or_else(|| "is for another gateway".to_owned())?
        }
    };
    Ok(LoadedToken {
        header: header(token)?,
        modified,
        checked: Instant::now(),
    })
}

/// The token of a file that names its gateway in the second line; none if that is another one.
#[must_use]
pub fn token_for<'t>(text: &'t str, gateway: &str) -> Option<&'t str> {
    let (token, named) = text.split_once('\n')?;
    (named.trim_end_matches('\n') == gateway).then_some(token)
}

/// The error never quotes the token.
fn header(token: &str) -> Result<AsciiMetadataValue, String> {
    let token = token.trim();
    if token.is_empty() {
        return Err("is empty".to_owned());
    }
    if token.len() > LONGEST_TOKEN {
        return Err(format!("is longer than {LONGEST_TOKEN} bytes"));
    }
    if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("has blanks or characters that a header cannot have".to_owned());
    }
    let header = AsciiMetadataValue::try_from(format!("Bearer {token}"));
    let mut header = header.map_err(|_| "cannot be sent in a header".to_owned())?;
    header.set_sensitive(true);
    Ok(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_for_another_gateway_is_not_read() {
        let text = "t0ken\nhttps://a\n";
        assert_eq!(token_for(text, "https://a"), Some("t0ken"));
        for (text, gateway) in [
            (text, "https://b"),
            (text, "https://a/"),
            (text, ""),
            ("t0ken\n", "https://a"),
            ("t0ken", "https://a"),
            ("t0ken\nhttps://b\nhttps://a\n", "https://a"),
        ] {
            assert_eq!(token_for(text, gateway), None, "{text} {gateway}");
        }
    }

    #[test]
    fn a_token_is_never_shown() {
        let security = Security::default().token(" s3cret\n").unwrap();
        assert_eq!(security.token.as_ref().unwrap().header(), "Bearer s3cret");
        assert!(!format!("{security:?}").contains("s3cret"));
        for wrong in ["", " ", "s3cret s3cret", "s3cr\u{e9}t"] {
            let error = Security::default().token(wrong).unwrap_err();
            assert_eq!(error.reason(), "INVALID_CREDENTIALS");
            assert!(!format!("{error:?} {error}").contains("s3cr"), "{error}");
        }
    }
}
