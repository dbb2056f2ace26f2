//! The public keys of the issuer of tokens: from a file that is read again when it changes, or from an
//! address that is asked again from time to time and when a token names an unknown key.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use reqwest::{Certificate, Client, Url};
use stateway_identity::Identity;
use stateway_identity::jwks::{Jwks, MOST_BYTES};
use stateway_identity::jwt::{JwtError, Rules};

use super::verified_tokens::VerifiedTokens;
use super::{AuthenticationError, JwksSource, JwtSettings, Unauthenticated};

/// How long a fetch may take.
const FETCH_TIMEOUT: Duration = Duration::from_secs(5);

/// The shortest time between two fetches, however many tokens name unknown keys.
const SHORTEST_PAUSE: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct JwksStore {
    rules: Rules,
    source: Source,
    refresh: Duration,
    current: RwLock<Current>,
    verified: VerifiedTokens,
    reported: Mutex<Option<String>>,
}

#[derive(Debug)]
enum Source {
    File(std::path::PathBuf),
    Url {
        url: Url,
        client: Client,
        /// When keys were last asked for. Held while they are, so that one fetch serves everyone.
        asked: tokio::sync::Mutex<Option<Instant>>,
    },
}

#[derive(Debug, Default)]
struct Current {
    contents: Vec<u8>,
    /// None until keys were fetched for the first time.
    keys: Option<Arc<Jwks>>,
}

impl JwksStore {
    pub(super) fn load(settings: &JwtSettings) -> Result<Self, AuthenticationError> {
        let (source, current) = match &settings.keys {
            JwksSource::File(path) => {
                let contents = read(path).map_err(|why| wrong(path, why))?;
                let keys =
                    Jwks::parse(&contents).map_err(|error| wrong(path, error.to_string()))?;
                let keys = Some(Arc::new(keys));
                (Source::File(path.clone()), Current { contents, keys })
            }
            JwksSource::Url { url, ca } => (address(url, ca.as_deref())?, Current::default()),
        };
        Ok(Self {
            rules: settings.rules.clone(),
            source,
            refresh: settings.refresh,
            current: RwLock::new(current),
            verified: VerifiedTokens::default(),
            reported: Mutex::default(),
        })
    }

    /// Who sent a token.
    pub(super) async fn verify(
        &self,
        token: &str,
        now: Timestamp,
    ) -> Result<Arc<Identity>, Unauthenticated> {
        if let Some(identity) = self.verified.find(token, now) {
            return Ok(identity);
        }
        let accepted = match self.check(token, now) {
            // The issuer may have new keys.
            Err(Unauthenticated::NoKeys | Unauthenticated::Jwt(JwtError::UnknownKey)) => {
                self.fetch(SHORTEST_PAUSE).await;
                self.check(token, now)?
            }
            checked => checked?,
        };
        let identity = Arc::new(accepted.identity);
        self.verified
            .insert(token, identity.clone(), accepted.until, now);
        Ok(identity)
    }

    fn check(
        &self,
        token: &str,
        now: Timestamp,
    ) -> Result<stateway_identity::jwt::Accepted, Unauthenticated> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        let keys = current.keys.clone();
        drop(current);
        let keys = keys.ok_or(Unauthenticated::NoKeys)?;
        Ok(self.rules.verify(token, &keys, now)?)
    }

    /// Reads the file again, if the keys are in a file.
    pub(super) fn reload_file(&self) {
        if let Source::File(path) = &self.source {
            self.replace(read(path), &path.display().to_string());
        }
    }

    /// Asks for the keys again, if it is time.
    pub(super) async fn fetch_if_due(&self) {
        let has_keys = {
            let current = self.current.read();
            let current = current.unwrap_or_else(PoisonError::into_inner);
            current.keys.is_some()
        };
        let pause = if has_keys {
            self.refresh
        } else {
            SHORTEST_PAUSE
        };
        self.fetch(pause).await;
    }

    /// Asks for the keys, unless they were asked for within this time.
    async fn fetch(&self, pause: Duration) {
        let Source::Url { url, client, asked } = &self.source else {
            return;
        };
        let mut asked = asked.lock().await;
        if asked.is_some_and(|at| at.elapsed() < pause) {
            return;
        }
        // Noted before: a client that gives up in the middle must not cause a fetch of its own.
        *asked = Some(Instant::now());
        let fetched = fetched(client, url.clone()).await;
        self.replace(fetched, url.as_str());
    }

    /// Takes new keys. Keys that cannot be used keep the old ones, and are reported once.
    fn replace(&self, contents: Result<Vec<u8>, String>, place: &str) {
        let is_known = |contents: &Vec<u8>| {
            let current = self.current.read();
            let current = current.unwrap_or_else(PoisonError::into_inner);
            current.keys.is_some() && current.contents == *contents
        };
        let fresh = contents.and_then(|contents| {
            if is_known(&contents) {
                return Ok(None);
            }
            let keys = Jwks::parse(&contents).map_err(|error| error.to_string())?;
            let keys = Some(Arc::new(keys));
            Ok(Some(Current { contents, keys }))
        });
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        match fresh {
            Ok(None) => *reported = None,
            Ok(Some(fresh)) => {
                *reported = None;
                *self.current.write().unwrap_or_else(PoisonError::into_inner) = fresh;
                // A key that is gone must not live on in tokens that it signed.
                self.verified.clear();
                tracing::info!("keys of the issuer of tokens loaded from {place}");
            }
            Err(why) => {
                if reported.as_ref() != Some(&why) {
                    tracing::error!(
                        "keys of the issuer of tokens not loaded from {place}, the old ones stay in \
                         use: {why}"
                    );
                    *reported = Some(why);
                }
            }
        }
    }
}

fn address(text: &str, ca: Option<&Path>) -> Result<Source, AuthenticationError> {
    let unusable = |why: &str| AuthenticationError::Url(format!("`{text}` {why}"));
    let url: Url = text.parse().map_err(|_| unusable("is not an address"))?;
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let is_local = host == "localhost"
        || host
            .parse::<std::net::IpAddr>()
            .is_ok_and(|ip| ip.is_loopback());
    if url.scheme() != "https" && !(url.scheme() == "http" && is_local) {
        return Err(unusable(
            "must begin with https:// (http:// on this machine only)",
        ));
    }
    // Whoever was first in this process has chosen; both choices are good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = Client::builder()
        .timeout(FETCH_TIMEOUT)
        // The keys come from the configured place and from no other.
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("stateway/", env!("CARGO_PKG_VERSION")));
    if let Some(ca) = ca {
        let wrong = |why: String| AuthenticationError::File {
            key: "jwt.jwks_ca",
            file: ca.to_owned(),
            why,
        };
        let pem = std::fs::read(ca).map_err(|error| wrong(error.to_string()))?;
        let trusted = Certificate::from_pem_bundle(&pem);
        let trusted = trusted.map_err(|error| wrong(error.to_string()))?;
        builder = builder.tls_certs_only(trusted);
    } else if url.scheme() == "http" {
        // The system's authorities need not be there when nobody asks them.
        builder = builder.tls_certs_only([]);
    }
    let client = builder
        .build()
        .map_err(|error| unusable(&error.to_string()))?;
    Ok(Source::Url {
        url,
        client,
        asked: tokio::sync::Mutex::default(),
    })
}

async fn fetched(client: &Client, url: Url) -> Result<Vec<u8>, String> {
    let told = |error: reqwest::Error| error.without_url().to_string();
    let response = client.get(url).send().await.map_err(told)?;
    let mut response = response.error_for_status().map_err(told)?;
    let mut contents = Vec::new();
    while let Some(part) = response.chunk().await.map_err(told)? {
        if contents.len() + part.len() > MOST_BYTES {
            return Err(format!("the response is larger than {MOST_BYTES} bytes"));
        }
        contents.extend_from_slice(&part);
    }
    Ok(contents)
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    let most = u64::try_from(MOST_BYTES).unwrap_or(u64::MAX);
    let metadata = std::fs::metadata(path).map_err(|error| error.to_string())?;
    if metadata.len() > most {
        return Err(format!("it is larger than {MOST_BYTES} bytes"));
    }
    std::fs::read(path).map_err(|error| error.to_string())
}

fn wrong(path: &Path, why: String) -> AuthenticationError {
    AuthenticationError::File {
        key: "jwt.jwks_file",
        file: path.to_owned(),
        why,
    }
}
