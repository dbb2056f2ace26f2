//! Who sends a request: exactly one identity, by certificate, token, API key or proxy.
//!
//! `stateway-identity` decides; this is the shell around it: files that are read again when they
//! change, keys that are fetched, and the response to a request without an identity.

mod fetch;
mod jwks_store;
mod key_store;
mod provider;
mod refusal;
mod sign_in;
mod stream_proof;
mod verified_tokens;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::http::header::{AUTHORIZATION, COOKIE};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use metrics::{Counter, counter};
use stateway_identity::certificate::Grant;
use stateway_identity::{
    Glob, Identity, Method, Methods, Proof, ProofError, ProxyHeaders, Request, jwt,
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::settings::{Settings, TokenKey};
pub use fetch::use_ring;
use jwks_store::JwksStore;
use key_store::KeyStore;
use provider::OpenIdProvider;
pub use refusal::AuthenticationError;
pub(crate) use refusal::Unauthenticated;
pub use sign_in::{CliClientSettings, CliToken, OidcSettings, SecretSource, SignInSettings};
pub(crate) use sign_in::{CookieJar, Session, SessionError, SignIn, SignInAnswer, is_sign_in};
pub(crate) use stream_proof::{PeerCertificate, ProofEnd, StreamProof};

pub(crate) const ACTOR: HeaderName = HeaderName::from_static("x-stateway-actor");
pub(crate) const ROLES: HeaderName = HeaderName::from_static("x-stateway-roles");
pub(crate) const TENANT: HeaderName = HeaderName::from_static("x-stateway-tenant");

/// The scheme of tokens and API keys, and the one that browsers ask their users for.
const BEARER: &str = "bearer ";
const BASIC: &str = "basic ";

/// How callers authenticate. Without any method the gateway trusts the headers of the request,
/// and listens on loopback only.
#[derive(Debug, Clone, PartialEq)]
pub struct AuthenticationSettings {
    /// Client certificates, with the roles and tenants of their subjects.
    pub certificates: Option<Vec<Grant>>,
    /// JSON Web Tokens.
    pub jwt: Option<JwtSettings>,
    /// The file of API keys.
    pub api_keys: Option<PathBuf>,
    /// The subjects of certificates whose owners are proxies.
    pub proxies: Vec<Glob>,
    /// Sign-in of people in a browser and on the command line.
    pub sign_in: SignInSettings,
    /// How often files are checked for a change.
    pub reload_interval: Duration,
}

/// Tokens of one issuer.
#[derive(Debug, Clone, PartialEq)]
pub struct JwtSettings {
    /// Which tokens are accepted.
    pub rules: jwt::Rules,
    /// Where the public keys of the issuer are.
    pub keys: JwksSource,
    /// How often keys are fetched again.
    pub refresh: Duration,
    /// A header in which a proxy passes on a token, beside `authorization`.
    pub header: Option<HeaderName>,
}

/// Where the public keys of an issuer are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JwksSource {
    /// In a file that is read again when it changes.
    File(PathBuf),
    /// At an address.
    Url {
        /// `https`, or `http` on this machine.
        url: String,
        /// The authorities to trust instead of those of the system.
        ca: Option<PathBuf>,
    },
    /// At the address that the issuer publishes (OpenID Connect Discovery).
    Discovered {
        /// The authorities to trust instead of those of the system.
        ca: Option<PathBuf>,
    },
}

impl JwksSource {
    fn ca(&self) -> Option<&Path> {
        match self {
            Self::File(_) => None,
            Self::Url { ca, .. } | Self::Discovered { ca } => ca.as_deref(),
        }
    }
}

impl Default for AuthenticationSettings {
    fn default() -> Self {
        Self {
            certificates: None,
            jwt: None,
            api_keys: None,
            proxies: Vec::new(),
            sign_in: SignInSettings::default(),
            reload_interval: Duration::from_secs(2),
        }
    }
}

impl AuthenticationSettings {
    pub(crate) fn methods(&self) -> Methods {
        Methods {
            certificates: self.certificates.is_some(),
            jwt: self.jwt.is_some(),
            api_keys: self.api_keys.is_some(),
            proxies: self.proxies.clone(),
        }
    }

    /// How the command line can sign in.
    fn sign_in_methods(&self) -> serde_json::Value {
        let cli = self.sign_in.cli.as_ref().zip(self.jwt.as_ref());
        let oidc = cli.map(|(cli, jwt)| {
            serde_json::json!({
                "issuer": jwt.rules.issuer,
                "client_id": cli.client_id,
                "scopes": cli.scopes,
                "token": cli.token.as_str(),
                "resource": cli.resource,
            })
        });
        serde_json::json!({
            "authentication": true,
            "oidc": oidc,
            "api_keys": self.api_keys.is_some(),
            "tokens": self.jwt.is_some(),
        })
    }

    /// Whether callers must authenticate.
    #[must_use]
    pub fn is_required(&self) -> bool {
        self.methods().is_any()
    }
}

/// Finds out who sends a request.
#[derive(Debug)]
pub(crate) struct Authentication {
    methods: Methods,
    grants: Vec<Grant>,
    jwks: Option<JwksStore>,
    keys: Option<KeyStore>,
    token_header: Option<HeaderName>,
    sign_in: Option<SignIn>,
    /// How the command line signs in.
    sign_in_methods: Arc<str>,
    reload_interval: Duration,
    /// Counts the changes of keys, which can end open streams.
    changed: watch::Sender<u64>,
    /// Requests that were accepted. Looked up once, because every request is counted.
    accepted: [(Method, Counter); Method::ALL.len()],
}

/// Who sends a request.
pub(crate) struct Identified {
    pub(crate) identity: Arc<Identity>,
    /// The session that proves it.
    pub(crate) session: Option<Session>,
    /// When the proof is not accepted any more, as far as that is known.
    pub(crate) until: Option<Timestamp>,
}

impl Authentication {
    /// Reads the files for the first time. None if no method is configured.
    pub(crate) fn load(all: &Settings) -> Result<Option<Self>, AuthenticationError> {
        let settings = &all.authentication;
        let methods = settings.methods();
        if !methods.is_any() {
            return if settings.sign_in.oidc.is_some() || settings.sign_in.cli.is_some() {
                Err(AuthenticationError::NoIssuer)
            } else {
                Ok(None)
            };
        }
        let has_client_ca = all.tls.as_ref().is_some_and(|tls| tls.client_ca.is_some());
        if !has_client_ca && (methods.certificates || !methods.proxies.is_empty()) {
            return Err(AuthenticationError::NoClientCa);
        }
        let keys = settings.api_keys.as_deref().map(KeyStore::load);
        let is_asked = |jwt: &JwtSettings| {
            settings.sign_in.oidc.is_some() || matches!(jwt.keys, JwksSource::Discovered { .. })
        };
        let provider = match settings.jwt.as_ref().filter(|jwt| is_asked(jwt)) {
            Some(jwt) => Some(OpenIdProvider::new(&jwt.rules.issuer, jwt.keys.ca())?),
            None => None,
        };
        let provider = provider.map(Arc::new);
        let jwks = settings.jwt.as_ref();
        let jwks = jwks.map(|jwt| JwksStore::load(jwt, provider.as_ref()));
        let sign_in = SignIn::load(
            settings,
            provider.as_ref(),
            all.token_key.as_ref().map(TokenKey::bytes),
        )?;
        let token_header = settings.jwt.as_ref().and_then(|jwt| jwt.header.clone());
        Ok(Some(Self {
            methods,
            grants: settings.certificates.clone().unwrap_or_default(),
            keys: keys.transpose()?,
            jwks: jwks.transpose()?,
            token_header,
            // People sign in on pages.
            sign_in: sign_in.filter(|_| all.dashboard),
            sign_in_methods: settings.sign_in_methods().to_string().into(),
            reload_interval: settings.reload_interval,
            changed: watch::Sender::new(0),
            accepted: Method::ALL.map(|method| (method, counted(method.as_str(), "accepted"))),
        }))
    }

    /// Every reason why the settings cannot be used.
    pub(crate) fn check(all: &Settings) -> Vec<AuthenticationError> {
        let Err(first) = Self::load(all) else {
            return Vec::new();
        };
        let mut found = vec![first];
        // Each method alone, so that the error of one does not hide those of the others.
        let alone = |keep: fn(&AuthenticationSettings) -> AuthenticationSettings| {
            let authentication = keep(&all.authentication);
            let settings = Settings {
                authentication,
                ..all.clone()
            };
            Self::load(&settings).err()
        };
        let others = [
            alone(|all| AuthenticationSettings {
                certificates: all.certificates.clone(),
                proxies: all.proxies.clone(),
                ..AuthenticationSettings::default()
            }),
            alone(|all| AuthenticationSettings {
                jwt: all.jwt.clone(),
                ..AuthenticationSettings::default()
            }),
            alone(|all| AuthenticationSettings {
                api_keys: all.api_keys.clone(),
                ..AuthenticationSettings::default()
            }),
            alone(|all| AuthenticationSettings {
                jwt: all.jwt.clone(),
                sign_in: all.sign_in.clone(),
                ..AuthenticationSettings::default()
            }),
        ];
        for error in others.into_iter().flatten() {
            if !found.contains(&error) {
                found.push(error);
            }
        }
        found
    }

    /// Reads files again and again, fetches keys, and writes when API keys were used.
    pub(crate) async fn keep_current(self: Arc<Self>, stop: CancellationToken) {
        let mut known = self.generation();
        loop {
            let is_last = tokio::select! {
                () = stop.cancelled() => true,
                () = tokio::time::sleep(self.reload_interval) => false,
            };
            let this = self.clone();
            let files = tokio::task::spawn_blocking(move || {
                if let Some(keys) = &this.keys {
                    keys.reload();
                    keys.write_used(is_last);
                }
                if let Some(jwks) = &this.jwks {
                    jwks.reload_file();
                }
            });
            // Only a process that ends gives up such a task.
            let _ = files.await;
            if is_last {
                return;
            }
            if let Some(jwks) = &self.jwks {
                jwks.fetch_if_due().await;
            }
            let generation = self.generation();
            if generation != known {
                known = generation;
                self.changed.send_modify(|count| *count += 1);
            }
        }
    }

    /// How often API keys and the keys of tokens have changed.
    fn generation(&self) -> (u64, u64) {
        let keys = self.keys.as_ref().map(KeyStore::generation);
        let jwks = self.jwks.as_ref().map(JwksStore::generation);
        (keys.unwrap_or_default(), jwks.unwrap_or_default())
    }

    /// Reports every change of keys from now on.
    fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// What proves the identity of a request, to be checked again while its stream is open.
    pub(crate) fn stream_proof(
        self: &Arc<Self>,
        headers: &HeaderMap,
        jar: Option<CookieJar>,
        certificate: Arc<dyn PeerCertificate>,
        identity: Arc<Identity>,
    ) -> StreamProof {
        let mut proofs = HeaderMap::new();
        let names = [AUTHORIZATION, ACTOR, ROLES, TENANT, COOKIE];
        for name in names.iter().chain(&self.token_header) {
            for value in headers.get_all(name) {
                let mut value = value.clone();
                // Never in debug output.
                value.set_sensitive(true);
                proofs.append(name.clone(), value);
            }
        }
        StreamProof {
            authentication: self.clone(),
            headers: proofs,
            jar,
            certificate,
            identity,
        }
    }

    /// Who sends a request with these headers, over a connection with this client certificate, in the
    /// session of these cookies.
    pub(crate) async fn identify(
        &self,
        headers: &HeaderMap,
        certificate: Option<&str>,
        cookies: Option<CookieJar>,
    ) -> Result<Identified, Unauthenticated> {
        let identified = self.proved(headers, certificate, cookies).await;
        match &identified {
            Ok(identified) => {
                let method = identified.identity.method;
                let mut accepted = self.accepted.iter();
                if let Some((_, accepted)) = accepted.find(|(known, _)| *known == method) {
                    accepted.increment(1);
                }
            }
            Err(refused) => counted("none", refused.reason()).increment(1),
        }
        identified
    }

    async fn proved(
        &self,
        headers: &HeaderMap,
        certificate: Option<&str>,
        cookies: Option<CookieJar>,
    ) -> Result<Identified, Unauthenticated> {
        let bearer = bearer(headers, self.token_header.as_ref())?;
        let session = match cookies {
            Some(cookies) => cookies.session(headers)?,
            None => None,
        };
        let request = Request {
            certificate,
            bearer: bearer.as_deref(),
            session,
            headers: proxy_headers(headers)?,
        };
        let now = Timestamp::now();
        let (identity, until) = match self.methods.choose(request)? {
            Proof::Certificate(subject) => {
                let identity = stateway_identity::certificate::identity(subject, &self.grants)?;
                (Arc::new(identity), None)
            }
            Proof::Proxy(named) => (Arc::new(named.identity()?), None),
            Proof::ApiKey(key) => {
                let keys = self.keys.as_ref().ok_or(ProofError::NotConfigured)?;
                let used = keys.verify(key, now);
                let used = used.map_err(|error| Unauthenticated::of_key(error, keys.owner(key)))?;
                (Arc::new(used.identity), used.expires)
            }
            Proof::Jwt(token) => {
                let jwks = self.jwks.as_ref().ok_or(ProofError::NotConfigured)?;
                let (identity, until) = jwks.verify(token, now).await?;
                (identity, Some(until))
            }
            Proof::Session(sealed) => {
                let sign_in = self.sign_in.as_ref().ok_or(ProofError::NotConfigured)?;
                let session = sign_in.open(sealed, now)?;
                return Ok(Identified {
                    identity: Arc::new(self.signed_in(&session, now)?),
                    until: now.checked_add(sign_in.rest(&session, now)).ok(),
                    session: Some(session),
                });
            }
        };
        Ok(Identified {
            identity,
            session: None,
            until,
        })
    }

    /// Whose session this is. A key that was revoked ends the sessions that began with it.
    fn signed_in(&self, session: &Session, now: Timestamp) -> Result<Identity, Unauthenticated> {
        match session.key() {
            Some(id) => {
                let keys = self.keys.as_ref().ok_or(ProofError::NotConfigured)?;
                let current = keys.current(id, now);
                current.map_err(|error| Unauthenticated::of_key(error, keys.owner_of(id)))
            }
            None => Ok(session.person()?),
        }
    }

    /// Signs people in, if that is configured.
    pub(crate) fn people(&self) -> Option<&SignIn> {
        self.sign_in.as_ref()
    }

    /// How the command line can sign in, as JSON.
    pub(crate) fn sign_in_methods(&self) -> &str {
        &self.sign_in_methods
    }

    /// Removes every proof from a request, so that no service and no page sees one.
    pub(crate) fn remove_proofs(&self, headers: &mut HeaderMap) {
        remove_proofs(headers);
        if let Some(name) = &self.token_header {
            headers.remove(name);
        }
    }

    /// What a client is asked for, and the person at it.
    pub(crate) fn challenge(&self, is_person_asked: bool) -> HeaderValue {
        if self.methods.api_keys && is_person_asked {
            // Browsers ask for a name and a password; the password is the key.
            HeaderValue::from_static("Basic realm=\"Stateway: API key as password\", Bearer")
        } else {
            HeaderValue::from_static("Bearer")
        }
    }
}

fn counted(method: &'static str, outcome: &'static str) -> Counter {
    counter!("stateway_authentications_total", "method" => method, "outcome" => outcome)
}

/// The token or API key of a request, in `authorization` or in the header of a proxy.
fn bearer(
    headers: &HeaderMap,
    passed_on: Option<&HeaderName>,
) -> Result<Option<String>, Unauthenticated> {
    let mut passed_on = passed_on.into_iter().flat_map(|name| headers.get_all(name));
    let mut sent = headers.get_all(AUTHORIZATION).iter();
    let (value, token) = (sent.next(), passed_on.next());
    let is_more = sent.next().is_some() || passed_on.next().is_some();
    let value = match (value, token) {
        (None, None) => return Ok(None),
        (Some(value), None) if !is_more => value,
        (None, Some(token)) if !is_more => {
            let token = token.to_str().map_err(|_| ProofError::NotConfigured)?;
            // An API key is not what a proxy has signed.
            let token =
                Some(token).filter(|it| !it.starts_with(stateway_identity::api_key::PREFIX));
            return Ok(Some(token.ok_or(ProofError::NotConfigured)?.to_owned()));
        }
        _ => return Err(ProofError::Conflicting.into()),
    };
    let refused = || Unauthenticated::from(ProofError::NotConfigured);
    let value = value.to_str().map_err(|_| refused())?;
    if let Some(token) = after(value, BEARER) {
        return Ok(Some(token.trim().to_owned()));
    }
    // The name beside the key does not count.
    let pair = after(value, BASIC).and_then(|pair| STANDARD.decode(pair.trim()).ok());
    let pair = pair.and_then(|pair| String::from_utf8(pair).ok());
    let key = pair.as_deref().and_then(|pair| pair.split_once(':'));
    let (_, key) = key.ok_or_else(refused)?;
    if !key.starts_with(stateway_identity::api_key::PREFIX) {
        return Err(refused());
    }
    Ok(Some(key.to_owned()))
}

/// What follows a prefix, whatever the case of the prefix.
fn after<'v>(value: &'v str, prefix: &str) -> Option<&'v str> {
    let (start, rest) = value.split_at_checked(prefix.len())?;
    start.eq_ignore_ascii_case(prefix).then_some(rest)
}

/// The headers that name a caller, if there is any.
fn proxy_headers(headers: &HeaderMap) -> Result<Option<ProxyHeaders<'_>>, Unauthenticated> {
    let one = |name: HeaderName| {
        let mut sent = headers.get_all(name).iter();
        let value = sent.next();
        if sent.next().is_some() {
            return Err(Unauthenticated::from(ProofError::Conflicting));
        }
        let text = value.map(HeaderValue::to_str).transpose();
        text.map_err(|_| stateway_identity::Unfit::Subject.into())
    };
    let named = ProxyHeaders {
        actor: one(ACTOR)?,
        roles: one(ROLES)?,
        tenant: one(TENANT)?,
    };
    Ok((named != ProxyHeaders::default()).then_some(named))
}

/// Removes what names or proves a caller.
pub(crate) fn remove_proofs(headers: &mut HeaderMap) {
    for name in [AUTHORIZATION, ACTOR, ROLES, TENANT] {
        headers.remove(name);
    }
    sign_in::remove_cookies(headers);
}

/// Names the caller in the headers, for pages that call the API in the name of their visitor.
pub(crate) fn name_caller(headers: &mut HeaderMap, identity: &Identity) {
    let roles = identity.roles.join(",");
    let named = [
        (ACTOR, &*identity.subject),
        (ROLES, roles.as_str()),
        (TENANT, identity.tenant.as_deref().unwrap_or_default()),
    ];
    for (name, value) in named {
        // The names of an identity are plain.
        if let (Ok(value), false) = (HeaderValue::from_str(value), value.is_empty()) {
            headers.insert(name, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(HeaderName, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(name.clone(), HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn a_token_or_key_comes_once_as_bearer_or_as_the_password_of_a_browser() {
        let sent = |lines: &[&'static str]| {
            let lines: Vec<_> = lines.iter().map(|line| (AUTHORIZATION, *line)).collect();
            bearer(&headers(&lines), None)
        };
        assert_eq!(sent(&[]).unwrap(), None);
        assert_eq!(sent(&["Bearer a.b.c"]).unwrap().as_deref(), Some("a.b.c"));
        assert_eq!(sent(&["bEARER a.b.c"]).unwrap().as_deref(), Some("a.b.c"));
        // `ada:stw_1_2`
        let basic = sent(&["Basic YWRhOnN0d18xXzI="]).unwrap();
        assert_eq!(basic.as_deref(), Some("stw_1_2"));
        // `ada:secret`
        for wrong in [
            "Basic YWRhOnNlY3JldA==",
            "Basic ???",
            "Digest x",
            "Bearer",
            "a.b.c",
        ] {
            let reason = sent(&[wrong]).unwrap_err().reason();
            assert_eq!(reason, "CREDENTIALS_NOT_ACCEPTED", "{wrong}");
        }
        let twice = sent(&["Bearer a.b.c", "Bearer a.b.c"]).unwrap_err();
        assert_eq!(twice.reason(), "CREDENTIALS_CONFLICT");
    }

    #[test]
    fn headers_that_came_twice_are_a_conflict() {
        for name in [ACTOR, ROLES, TENANT] {
            let twice = headers(&[(name.clone(), "ada"), (name, "eve")]);
            let reason = proxy_headers(&twice).unwrap_err().reason();
            assert_eq!(reason, "CREDENTIALS_CONFLICT");
        }
    }

    #[test]
    fn no_proof_is_left_behind() {
        let mut sent = headers(&[
            (AUTHORIZATION, "Bearer a"),
            (ACTOR, "eve"),
            (ROLES, "admin"),
            (ROLES, "root"),
            (TENANT, "acme"),
        ]);
        remove_proofs(&mut sent);
        assert!(sent.is_empty(), "{sent:?}");
        let ada = Identity::new(Method::Jwt, "ada", ["ops", "dev"], None).unwrap();
        name_caller(&mut sent, &ada);
        assert_eq!(sent, headers(&[(ACTOR, "ada"), (ROLES, "ops,dev")]));
    }
}
