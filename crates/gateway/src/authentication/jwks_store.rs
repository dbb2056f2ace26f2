//! The public keys of the issuer of tokens: from a file that is read again when it changes, or from an
//! address that is asked again from time to time and when a token names an unknown key.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use stateway_identity::Identity;
use stateway_identity::jwks::{Jwks, MOST_BYTES};
use stateway_identity::jwt::{Accepted, JwtError, Rules};
use stateway_identity::oidc::is_protected;

use super::fetch::{ClientError, Fetcher};
use super::provider::OpenIdProvider;
use super::verified_tokens::VerifiedTokens;
use super::{AuthenticationError, JwksSource, JwtSettings, Unauthenticated};

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
        place: Place,
        /// When keys were last fetched. Locked during a fetch, so that one fetch serves all callers.
        asked: tokio::sync::Mutex<Option<Instant>>,
    },
}

/// Where keys are fetched from.
#[derive(Debug)]
enum Place {
    Fixed {
        url: String,
        fetcher: Fetcher,
    },
    /// The provider says where.
    Discovered(Arc<OpenIdProvider>),
}

#[derive(Debug, Default)]
struct Current {
    contents: Vec<u8>,
    /// None until keys were fetched for the first time.
    keys: Option<Arc<Jwks>>,
}

impl JwksStore {
    pub(super) fn load(
        settings: &JwtSettings,
        provider: Option<&Arc<OpenIdProvider>>,
    ) -> Result<Self, AuthenticationError> {
        let (source, current) = match &settings.keys {
            JwksSource::File(path) => {
                let contents = read(path).map_err(|why| wrong(path, why))?;
                let keys =
                    Jwks::parse(&contents).map_err(|error| wrong(path, error.to_string()))?;
                let keys = Some(Arc::new(keys));
                (Source::File(path.clone()), Current { contents, keys })
            }
            JwksSource::Url { url, ca } => {
                let source = Source::of(fixed(url, ca.as_deref())?);
                (source, Current::default())
            }
            JwksSource::Discovered { .. } => {
                let provider = provider.ok_or(AuthenticationError::NoIssuer)?.clone();
                let source = Source::of(Place::Discovered(provider));
                (source, Current::default())
            }
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

    /// How often the keys have changed.
    pub(super) fn generation(&self) -> u64 {
        self.verified.generation()
    }

    /// Who sent a token, and until when the token is accepted.
    pub(super) async fn verify(
        &self,
        token: &str,
        now: Timestamp,
    ) -> Result<(Arc<Identity>, Timestamp), Unauthenticated> {
        if let Some(known) = self.verified.find(token, now) {
            return Ok(known);
        }
        let generation = self.verified.generation();
        let accepted = self
            .checked(|keys| self.rules.verify(token, keys, now))
            .await?;
        let verified = (Arc::new(accepted.identity), accepted.until);
        self.verified
            .insert(token, verified.clone(), generation, now);
        Ok(verified)
    }

    /// Who signed in, by the ID token for this client and this sign-in.
    pub(super) async fn verify_id_token(
        &self,
        token: &str,
        now: Timestamp,
        client_id: &str,
        nonce: &str,
    ) -> Result<Identity, Unauthenticated> {
        let verify = |keys: &Jwks| {
            self.rules
                .verify_id_token(token, keys, now, client_id, nonce)
        };
        Ok(self.checked(verify).await?.identity)
    }

    /// Verifies with the current keys, and with new ones if the key of the token is unknown.
    async fn checked(
        &self,
        verify: impl Fn(&Jwks) -> Result<Accepted, JwtError>,
    ) -> Result<Accepted, Unauthenticated> {
        match self.check(&verify) {
            // The issuer may have new keys.
            Err(Unauthenticated::NoKeys | Unauthenticated::Jwt(JwtError::UnknownKey)) => {
                self.fetch(SHORTEST_PAUSE).await;
                self.check(&verify)
            }
            checked => checked,
        }
    }

    fn check(
        &self,
        verify: impl Fn(&Jwks) -> Result<Accepted, JwtError>,
    ) -> Result<Accepted, Unauthenticated> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        let keys = current.keys.clone();
        drop(current);
        let keys = keys.ok_or(Unauthenticated::NoKeys)?;
        Ok(verify(&keys)?)
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
        let Source::Url { place, asked } = &self.source else {
            return;
        };
        let mut asked = asked.lock().await;
        if asked.is_some_and(|at| at.elapsed() < pause) {
            return;
        }
        // Noted before the fetch: a client that gives up during it must not cause another fetch.
        *asked = Some(Instant::now());
        match place {
            Place::Fixed { url, fetcher } => self.replace(fetcher.get(url).await, url),
            Place::Discovered(provider) => match provider.discovery().await {
                Ok(found) => {
                    let fetched = provider.fetcher.get(&found.jwks_uri).await;
                    self.replace(fetched, &found.jwks_uri);
                }
                Err(why) => self.replace(Err(why), &self.rules.issuer),
            },
        }
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
                tracing::info!("keys of the token issuer loaded from {place}");
            }
            Err(why) => {
                if reported.as_ref() != Some(&why) {
                    tracing::error!(
                        "keys of the token issuer not loaded from {place}, the old ones stay in \
                         use: {why}"
                    );
                    *reported = Some(why);
                }
            }
        }
    }
}

impl Source {
    fn of(place: Place) -> Self {
        Self::Url {
            place,
            asked: tokio::sync::Mutex::default(),
        }
    }
}

fn fixed(url: &str, ca: Option<&Path>) -> Result<Place, AuthenticationError> {
    let unusable = |why: &str| AuthenticationError::Url(format!("`{url}` {why}"));
    if !is_protected(url) {
        return Err(unusable(
            "must begin with https:// (http:// on this machine only)",
        ));
    }
    let fetcher = Fetcher::new(url, ca).map_err(|error| match error {
        ClientError::Ca(file, why) => AuthenticationError::File {
            key: "jwt.jwks_ca",
            file,
            why,
        },
        ClientError::Other(why) => unusable(&why),
    })?;
    let url = url.to_owned();
    Ok(Place::Fixed { url, fetcher })
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
