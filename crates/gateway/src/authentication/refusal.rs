//! Why a request has no identity, and why a file of the authentication cannot be used.

use std::path::PathBuf;
use std::sync::Arc;

use stateway_identity::api_key::KeyError;
use stateway_identity::jwt::JwtError;
use stateway_identity::{Identity, ProofError, Unfit};
use thiserror::Error;
use tonic::{Code, Status};

use super::SessionError;
use crate::status::Refusal;

/// Settings of the authentication that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AuthenticationError {
    /// Certificates need authorities.
    #[error(
        "`authentication.certificates` and `authentication.proxy` need `server.tls.client_ca`, which \
         is not configured"
    )]
    NoClientCa,
    /// A file that cannot be used.
    #[error("`authentication.{key}` ({}) cannot be used: {why}", file.display())]
    File {
        /// The key in the configuration.
        key: &'static str,
        /// Which file.
        file: PathBuf,
        /// Why.
        why: String,
    },
    /// An address that cannot be used.
    #[error("`authentication.jwt.jwks_url` cannot be used: {0}")]
    Url(String),
    /// An issuer that cannot be asked.
    #[error("`authentication.jwt.issuer` cannot be used: {0}")]
    Issuer(String),
    /// People sign in at the issuer of tokens.
    #[error("`authentication.sign_in` needs [authentication.jwt], which is not configured")]
    NoIssuer,
    /// The secret of the client cannot be read.
    #[error("the client secret of `authentication.sign_in.oidc` cannot be used: {0}")]
    ClientSecret(String),
}

/// Why a request has no identity. Never quotes a proof.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum Unauthenticated {
    #[error(transparent)]
    Proof(#[from] ProofError),
    #[error(transparent)]
    Jwt(#[from] JwtError),
    #[error(transparent)]
    ApiKey(#[from] KeyError),
    /// A key that has expired or was revoked, of this caller.
    #[error("{error}")]
    FormerKey {
        error: KeyError,
        owner: Arc<Identity>,
    },
    #[error(transparent)]
    Unfit(#[from] Unfit),
    #[error(transparent)]
    Session(#[from] SessionError),
    #[error("the client certificate is not accepted any more")]
    Certificate,
    #[error("the keys of the token issuer are not available")]
    NoKeys,
}

impl Unauthenticated {
    /// Why a key is refused, with its owner as far as the file names one.
    pub(super) fn of_key(error: KeyError, owner: Option<Identity>) -> Self {
        match owner {
            Some(owner) => Self::FormerKey {
                error,
                owner: Arc::new(owner),
            },
            None => Self::ApiKey(error),
        }
    }

    /// The reason in errors and metrics.
    pub(crate) const fn reason(&self) -> &'static str {
        match self {
            Self::Proof(error) => error.reason(),
            Self::Jwt(error) => error.reason(),
            Self::ApiKey(error) | Self::FormerKey { error, .. } => error.reason(),
            Self::Unfit(_) => "IDENTITY_INVALID",
            Self::Session(error) => error.reason(),
            Self::Certificate => "CERTIFICATE_NOT_ACCEPTED",
            Self::NoKeys => "TOKEN_KEYS_UNAVAILABLE",
        }
    }

    /// Whether another session, or none, would help.
    pub(crate) const fn is_about_session(&self) -> bool {
        matches!(
            self,
            Self::Session(_)
                | Self::ApiKey(_)
                | Self::FormerKey { .. }
                | Self::Proof(ProofError::Conflicting)
        )
    }

    /// The caller, if the key that is refused names one.
    pub(crate) fn owner(&self) -> Option<Arc<Identity>> {
        match self {
            Self::FormerKey { owner, .. } => Some(owner.clone()),
            _ => None,
        }
    }

    /// What the caller can do about it.
    pub(crate) const fn hint(&self) -> &'static str {
        match self {
            Self::Proof(ProofError::Missing) => {
                "Send a token or an API key (command line: --token-file FILE or STATEWAY_TOKEN), or \
                 connect with a client certificate (--tls-cert, --tls-key)."
            }
            Self::Proof(ProofError::Conflicting) => {
                "Send one credential: a certificate, a token, an API key, or the headers of a proxy."
            }
            Self::Proof(ProofError::NotAProxy) => {
                "Do not send these headers (command line: --as and --role). The name and the roles \
                 come from the certificate, the token or the API key."
            }
            Self::Proof(ProofError::Unnamed) => {
                "The proxy must set x-stateway-actor, or pass on the token of the caller."
            }
            Self::Proof(ProofError::NotConfigured) => {
                "Use a kind of credential that the section [authentication] of the gateway configures."
            }
            Self::Jwt(JwtError::Expired)
            | Self::ApiKey(KeyError::Expired)
            | Self::FormerKey {
                error: KeyError::Expired,
                ..
            } => "Get a new one from its issuer.",
            Self::Jwt(_) => "Use a token of the configured issuer for the configured audience.",
            Self::ApiKey(_) | Self::FormerKey { .. } => "Create a key with `stateway keys create`.",
            Self::Unfit(_) => "Change the name in the system that issues the credential.",
            Self::Session(_) => "Sign in again.",
            Self::Certificate => "Connect again with a certificate that is valid.",
            Self::NoKeys => "Try again later. The log of the gateway has the cause.",
        }
    }

    pub(crate) fn status(&self) -> Status {
        let code = match self {
            Self::NoKeys => Code::Unavailable,
            _ => Code::Unauthenticated,
        };
        let refusal = Refusal::new(code, self.reason(), self.to_string());
        refusal.hint(self.hint()).into()
    }
}
