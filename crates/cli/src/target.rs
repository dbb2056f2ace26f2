//! Which gateway a command calls, and with which credential: from options, variables and contexts.
//! This is the one place that decides.

use std::path::PathBuf;

use stateway_client::Security;

use crate::arguments::{DEFAULT_SERVER, Globals};
use crate::contexts::{SavedContext, Store};
use crate::exit::Exit;
use crate::failure::Failure;

/// A gateway, and how to call it.
#[derive(Debug)]
pub struct Target {
    /// The address.
    pub server: String,
    /// The context that was used.
    pub context: Option<String>,
    /// The authorities to trust.
    pub tls_ca: Option<PathBuf>,
    /// The client certificate and its key.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// The token or API key.
    pub token: Option<TokenSource>,
}

/// Where the token is.
#[derive(Clone)]
pub enum TokenSource {
    /// In a file.
    File(PathBuf),
    /// In the file of a context, which names its gateway.
    Kept(PathBuf),
    /// Given directly.
    Given(String),
}

impl std::fmt::Debug for TokenSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TokenSource")
    }
}

impl Target {
    /// An option counts before a variable, both before the context. The credentials of a context go
    /// to its own gateway only: `--server` leaves the context out.
    ///
    /// # Errors
    /// An unknown context, or one whose files cannot be used.
    pub fn of(globals: &Globals) -> Result<Self, Failure> {
        let (mut target, kept) = Self::found(globals)?;
        let own = match (&globals.tls_cert, &globals.tls_key) {
            (Some(cert), Some(key)) => Some((cert.clone(), key.clone())),
            _ => None,
        };
        // Not an argument: other users of the machine can read the arguments of a process.
        let given = std::env::var("STATEWAY_TOKEN").unwrap_or_default();
        target.token = match (&globals.token_file, given.is_empty()) {
            (Some(file), _) => Some(TokenSource::File(file.clone())),
            (None, false) => Some(TokenSource::Given(given)),
            // A certificate that was given is a proof of its own.
            (None, true) if own.is_some() => None,
            (None, true) => match (&target.context, Store::here()) {
                (Some(name), Some(store)) => {
                    let file = store.private_token_file(name, &target.server)?;
                    file.map(TokenSource::Kept)
                }
                _ => None,
            },
        };
        target.certificate = own.or(kept.filter(|_| target.token.is_none()));
        Ok(target)
    }

    /// The gateway alone, without a credential.
    ///
    /// # Errors
    /// An unknown context.
    pub fn without_credentials(globals: &Globals) -> Result<Self, Failure> {
        Ok(Self::found(globals)?.0)
    }

    /// The gateway, and the certificate of its context.
    fn found(globals: &Globals) -> Result<(Self, Option<(PathBuf, PathBuf)>), Failure> {
        let (name, saved) = match context(globals)? {
            Some((name, saved)) => (Some(name), Some(saved)),
            None => (None, None),
        };
        let saved = saved.as_ref();
        let kept = saved.and_then(|it| it.tls_cert.clone().zip(it.tls_key.clone()));
        let server = globals.server.clone();
        let server = server.or_else(|| saved.map(|it| it.server.clone()));
        let tls_ca = globals.tls_ca.clone();
        let target = Self {
            server: server.unwrap_or_else(|| DEFAULT_SERVER.to_owned()),
            tls_ca: tls_ca.or_else(|| saved.and_then(|it| it.tls_ca.clone())),
            certificate: None,
            token: None,
            context: name,
        };
        Ok((target, kept))
    }

    /// Whether calls have a credential.
    #[must_use]
    pub fn has_credentials(&self) -> bool {
        self.token.is_some() || self.certificate.is_some()
    }

    /// The certificate authorities to trust, and the credential.
    ///
    /// # Errors
    /// A file that cannot be used.
    pub fn security(&self) -> Result<Security, Failure> {
        let mut security = Security::default();
        if let Some(file) = &self.tls_ca {
            security = security.ca(file);
        }
        if let Some((cert, key)) = &self.certificate {
            security = security.certificate(cert, key);
        }
        match &self.token {
            Some(TokenSource::File(file)) => Ok(security.token_file(file)?),
            Some(TokenSource::Kept(file)) => Ok(security.token_file_for(&self.server, file)?),
            Some(TokenSource::Given(token)) => Ok(security.token(token)?),
            None => Ok(security),
        }
    }
}

/// The context of a command, with its name.
///
/// # Errors
/// An unknown context, or a file that cannot be used.
pub fn context(globals: &Globals) -> Result<Option<(String, SavedContext)>, Failure> {
    if globals.server.is_some() {
        return if globals.context.is_some() {
            Err(
                Failure::usage("--server and --context name different gateways")
                    .hint("Give one of them (variables: STATEWAY_SERVER, STATEWAY_CONTEXT)."),
            )
        } else {
            Ok(None)
        };
    }
    let Some(store) = Store::here() else {
        return Ok(None);
    };
    let contexts = store.read()?;
    let Some(name) = globals.context.clone().or(contexts.current.clone()) else {
        return Ok(None);
    };
    match contexts.contexts.get(&name) {
        Some(saved) => Ok(Some((name, saved.clone()))),
        None => Err(unknown(&name)),
    }
}

/// No context has this name.
#[must_use]
pub fn unknown(name: &str) -> Failure {
    Failure::new(Exit::NotFound, format!("no context has the name `{name}`"))
        .hint("`stateway contexts list` shows the contexts; `stateway login` creates one.")
}
