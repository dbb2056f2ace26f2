//! Sign-in of people in a browser: at the OpenID provider, or with an API key. The session is an
//! encrypted cookie.
//!
//! The cookie is the whole session, so that it survives a restart and works on every replica that has
//! the same `server.token_key_file`. What must be known beyond it is kept in memory, bounded: sessions
//! that were signed out, and sign-ins that were used.

mod cookie;
mod flow;
mod session;
mod used;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderValue, StatusCode};
use sha2::{Digest, Sha256};
use stateway_identity::sign_in::{SignInPage, SignInProblem};
use stateway_identity::{Identity, Secret};

use super::provider::OpenIdProvider;
use super::{AuthenticationError, AuthenticationSettings};
use crate::front::Origin;
use crate::token::Sealer;
pub(crate) use cookie::{CookieJar, remove_cookies};
pub(crate) use flow::is_sign_in;
use session::{EndedSessions, SessionLimits};
pub(crate) use session::{Session, SessionError};
use used::UsedStates;

/// How long a person may take at the provider.
const TRANSACTION_LIFETIME: Duration = Duration::from_secs(10 * 60);

/// Sign-in of people.
#[derive(Debug, Clone, PartialEq)]
pub struct SignInSettings {
    /// A session without requests ends after this time.
    pub idle_timeout: Duration,
    /// A session ends after this time, whatever happens.
    pub lifetime: Duration,
    /// Sign-in at the issuer of `jwt`.
    pub oidc: Option<OidcSettings>,
    /// How the command line signs in.
    pub cli: Option<CliClientSettings>,
}

/// The gateway as a client of the OpenID provider.
#[derive(Debug, Clone, PartialEq)]
pub struct OidcSettings {
    /// The origin of the dashboard as browsers see it.
    pub public_url: Origin,
    /// The name of the provider on the page.
    pub name: String,
    /// The name of this client.
    pub client_id: String,
    /// The secret of this client. A public client has none.
    pub client_secret: Option<SecretSource>,
    /// What is asked for.
    pub scopes: Vec<String>,
}

/// The command line as a client of the OpenID provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CliClientSettings {
    /// The name of the client: a public one.
    pub client_id: String,
    /// What is asked for.
    pub scopes: Vec<String>,
    /// Which token the command line sends with its calls.
    pub token: CliToken,
    /// For whom the access token is meant.
    pub resource: Option<String>,
}

/// The token that the command line sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CliToken {
    /// The ID token. Its audience is the client.
    Id,
    /// The access token.
    Access,
}

impl CliToken {
    /// The name in the configuration and in the response of a token endpoint.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Id => "id_token",
            Self::Access => "access_token",
        }
    }
}

/// Where a secret is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretSource {
    /// In a file.
    File(PathBuf),
    /// In a variable of the environment.
    Variable(String),
}

impl Default for SignInSettings {
    fn default() -> Self {
        Self {
            idle_timeout: Duration::from_secs(30 * 60),
            lifetime: Duration::from_secs(8 * 3600),
            oidc: None,
            cli: None,
        }
    }
}

impl SecretSource {
    /// The secret. Read for every use, so that a new one counts without a restart.
    fn read(&self) -> Result<Secret, String> {
        let text = match self {
            Self::File(path) => std::fs::read_to_string(path)
                .map_err(|error| format!("the file {} cannot be read: {error}", path.display()))?,
            Self::Variable(name) => std::env::var(name)
                .map_err(|_| format!("the variable {name} of the environment is not set"))?,
        };
        let text = text.trim();
        if text.is_empty() {
            return Err("it is empty".to_owned());
        }
        Ok(Secret::new(text.to_owned()))
    }
}

/// Signs people in and out.
pub(crate) struct SignIn {
    oidc: Option<OidcSettings>,
    provider: Option<Arc<OpenIdProvider>>,
    has_api_keys: bool,
    limits: SessionLimits,
    sessions: Sealer,
    transactions: Sealer,
    /// A cookie counts for one provider and client only.
    purpose: String,
    ended: EndedSessions,
    used: UsedStates,
}

impl std::fmt::Debug for SignIn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SignIn").finish_non_exhaustive()
    }
}

impl SignIn {
    /// None if sign-in is not configured.
    pub(super) fn load(
        settings: &AuthenticationSettings,
        provider: Option<&Arc<OpenIdProvider>>,
        token_key: Option<[u8; 32]>,
    ) -> Result<Option<Self>, AuthenticationError> {
        let sign_in = &settings.sign_in;
        if (sign_in.oidc.is_some() || sign_in.cli.is_some()) && settings.jwt.is_none() {
            return Err(AuthenticationError::NoIssuer);
        }
        let has_api_keys = settings.api_keys.is_some();
        if sign_in.oidc.is_none() && !has_api_keys {
            return Ok(None);
        }
        let secret = sign_in
            .oidc
            .as_ref()
            .and_then(|it| it.client_secret.as_ref());
        if let Some(Err(why)) = secret.map(SecretSource::read) {
            return Err(AuthenticationError::ClientSecret(why));
        }
        let key = token_key.map(|key| {
            let mut hash = Sha256::new();
            hash.update(b"stateway sign-in\0");
            hash.update(key);
            <[u8; 32]>::from(hash.finalize())
        });
        let key = Some(key.unwrap_or_else(random));
        let issuer = settings.jwt.as_ref().map(|jwt| jwt.rules.issuer.as_str());
        let client = sign_in.oidc.as_ref().map(|oidc| oidc.client_id.as_str());
        Ok(Some(Self {
            purpose: format!(
                "session 1\n{}\n{}",
                issuer.unwrap_or_default(),
                client.unwrap_or_default()
            ),
            provider: sign_in.oidc.as_ref().and(provider.cloned()),
            oidc: sign_in.oidc.clone(),
            has_api_keys,
            limits: SessionLimits {
                idle_timeout: sign_in.idle_timeout,
                lifetime: sign_in.lifetime,
            },
            sessions: Sealer::new(key, sign_in.lifetime),
            transactions: Sealer::new(key, TRANSACTION_LIFETIME),
            ended: EndedSessions::default(),
            used: UsedStates::default(),
        }))
    }

    /// Whether browsers use the gateway over TLS, by this connection or by a proxy in front.
    pub(crate) fn is_secure(&self, is_encrypted: bool) -> bool {
        let public = self.oidc.as_ref().map(|oidc| oidc.public_url.as_str());
        is_encrypted || public.is_some_and(|url| url.starts_with("https://"))
    }

    /// The origin of the dashboard as browsers see it, if it is configured.
    pub(crate) fn public_url(&self) -> Option<&Origin> {
        self.oidc.as_ref().map(|oidc| &oidc.public_url)
    }

    /// The page that offers what is configured.
    fn page(&self, back: &str) -> SignInPage {
        SignInPage {
            provider: self.oidc.as_ref().map(|oidc| oidc.name.clone()),
            api_keys: self.has_api_keys,
            back: back.to_owned(),
            ..SignInPage::default()
        }
    }
}

/// The answer to a request that signs in or out.
pub(crate) enum SignInAnswer {
    /// Sends the browser on.
    Redirect {
        to: String,
        cookies: Vec<HeaderValue>,
    },
    /// Shows the page for people who are not signed in.
    Page {
        status: StatusCode,
        page: Box<SignInPage>,
        cookies: Vec<HeaderValue>,
        /// Whose key was refused.
        owner: Option<Arc<Identity>>,
    },
    /// Says which method this address takes.
    Method(&'static str),
}

impl SignInAnswer {
    /// The reason of a refused sign-in, and the identity if it is known. None if the provider cannot be reached:
    /// that is a failure, not a refusal.
    pub(crate) fn refusal(&self) -> Option<(&'static str, Option<Arc<Identity>>)> {
        match self {
            Self::Page {
                status,
                page,
                owner,
                ..
            } if *status != StatusCode::SERVICE_UNAVAILABLE => {
                let problem = page.problem.as_ref();
                problem.map(|problem| (problem.reason, owner.clone()))
            }
            _ => None,
        }
    }

    fn problem(mut page: SignInPage, status: StatusCode, problem: SignInProblem) -> Self {
        page.problem = Some(problem);
        Self::Page {
            status,
            page: Box::new(page),
            cookies: Vec::new(),
            owner: None,
        }
    }

    /// The same refusal with the owner of the key, for its record.
    fn of_owner(mut self, of: Option<Arc<Identity>>) -> Self {
        if let Self::Page { owner, .. } = &mut self {
            *owner = of;
        }
        self
    }

    fn with_cookie(mut self, cookie: HeaderValue) -> Self {
        match &mut self {
            Self::Redirect { cookies, .. } | Self::Page { cookies, .. } => cookies.push(cookie),
            Self::Method(_) => {}
        }
        self
    }
}

fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the operating system has random numbers");
    bytes
}
