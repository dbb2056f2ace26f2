//! The OpenID provider: its configuration, fetched when it is needed and again from time to time.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use stateway_identity::oidc::Discovery;

use super::AuthenticationError;
use super::fetch::{ClientError, Fetcher};

/// How long the configuration of a provider is used before it is fetched again.
const REFRESH: Duration = Duration::from_secs(10 * 60);

/// The shortest time between two fetches of a configuration after a failure.
const PAUSE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct OpenIdProvider {
    issuer: String,
    pub(super) fetcher: Fetcher,
    current: tokio::sync::Mutex<Current>,
}

#[derive(Debug, Default)]
struct Current {
    discovery: Option<Arc<Discovery>>,
    asked: Option<Instant>,
    failed: String,
}

impl OpenIdProvider {
    pub(super) fn new(issuer: &str, ca: Option<&Path>) -> Result<Self, AuthenticationError> {
        let address = Discovery::address(issuer);
        let fetcher = Fetcher::new(&address, ca).map_err(|error| match error {
            ClientError::Ca(file, why) => AuthenticationError::File {
                key: "jwt.jwks_ca",
                file,
                why,
            },
            ClientError::Other(why) => AuthenticationError::Issuer(format!("`{issuer}`: {why}")),
        })?;
        if !stateway_identity::oidc::is_protected(&address) {
            let why = format!("`{issuer}` must begin with https:// (http:// on this machine only)");
            return Err(AuthenticationError::Issuer(why));
        }
        Ok(Self {
            issuer: issuer.to_owned(),
            fetcher,
            current: tokio::sync::Mutex::default(),
        })
    }

    /// The configuration. One fetch serves everyone who waits for it. If a later fetch fails, the old
    /// configuration stays in use.
    pub(super) async fn discovery(&self) -> Result<Arc<Discovery>, String> {
        let mut current = self.current.lock().await;
        let pause = if current.discovery.is_some() {
            REFRESH
        } else {
            PAUSE
        };
        if current.asked.is_none_or(|at| at.elapsed() >= pause) {
            current.asked = Some(Instant::now());
            let fetched = self.fetcher.get(&Discovery::address(&self.issuer)).await;
            let parsed = fetched.and_then(|text| {
                Discovery::parse(&text, &self.issuer).map_err(|error| error.to_string())
            });
            match parsed {
                Ok(discovery) => {
                    current.discovery = Some(Arc::new(discovery));
                    current.failed.clear();
                }
                Err(why) => {
                    if current.failed != why {
                        let issuer = &self.issuer;
                        tracing::error!("configuration of the issuer {issuer} not loaded: {why}");
                    }
                    current.failed = why;
                }
            }
        }
        let known = current.discovery.clone();
        known.ok_or_else(|| current.failed.clone())
    }
}
