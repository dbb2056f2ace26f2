//! The steps of a sign-in and the sign-out, each an answer to one request.
//!
//! 1. `GET /sign-in/start` remembers state, nonce and proof key in a cookie and sends the person to the
//!    provider.
//! 2. `GET /sign-in/callback` takes the code that the provider sends back, only together with that
//!    cookie, changes it into an ID token, verifies the token and begins a session.
//! 3. `POST /sign-in/key` begins a session for the owner of an API key.
//! 4. `POST /sign-out` ends the session here and leads to the sign-out of the provider.

use std::time::Duration;

use axum::body::to_bytes;
use axum::http::header::ORIGIN;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Uri};
use jiff::Timestamp;
use metrics::counter;
use serde::{Deserialize, Serialize};
use stateway_identity::oidc::{
    AuthorizationRequest, CodeVerifier, Discovery, form, with_query, word,
};
use stateway_identity::sign_in::{SignInProblem, own_path};
use stateway_identity::{Identity, api_key};
use thiserror::Error;
use tonic::body::Body;

use super::session::Who;
use super::{
    CookieJar, OidcSettings, Session, SessionError, SignIn, SignInAnswer, TRANSACTION_LIFETIME,
    cookie, random,
};
use crate::authentication::provider::OpenIdProvider;
use crate::authentication::{Authentication, Unauthenticated};

const PAGE: &str = "/sign-in";
const START: &str = "/sign-in/start";
const CALLBACK: &str = "/sign-in/callback";
const KEY: &str = "/sign-in/key";
const OUT: &str = "/sign-out";

/// Where a person goes who did not ask for a page.
const HOME: &str = "/executions";

/// The largest form: an API key and a path.
const LARGEST_FORM: usize = 16 * 1024;
/// How long a form may take.
const FORM_TIMEOUT: Duration = Duration::from_secs(10);

const TRANSACTION: &str = "sign-in transaction 1";

/// Whether an address belongs to the sign-in. Such a request needs no identity.
pub(crate) fn is_sign_in(path: &str) -> bool {
    [PAGE, START, CALLBACK, KEY, OUT].contains(&path)
}

/// A sign-in under way, as it is sealed into its cookie.
#[derive(Serialize, Deserialize)]
struct Transaction {
    state: String,
    nonce: String,
    verifier: String,
    back: String,
}

#[derive(Deserialize)]
struct TokenResponse {
    id_token: Option<String>,
}

#[derive(Deserialize)]
struct TokenRefusal {
    error: String,
}

/// Why a sign-in failed. Never quotes a code, a token or a key.
#[derive(Debug, Error)]
enum SignInError {
    #[error("The sign-in has expired, was used before, or began in another browser.")]
    Expired,
    #[error("The answer of the provider does not belong to the sign-in of this browser.")]
    State,
    #[error("The answer does not come from the configured provider.")]
    Issuer,
    #[error("The provider refused the sign-in: {0}.")]
    Refused(String),
    #[error("The provider did not accept the code of the sign-in: {0}.")]
    Code(String),
    #[error("The provider cannot be reached.")]
    Unavailable,
    #[error("The sign-in was not accepted: {0}.")]
    Identity(#[from] Unauthenticated),
    #[error("The roles of this person do not fit into a cookie.")]
    TooLarge,
    #[error("The form was not sent from a page of this gateway.")]
    OtherSite,
}

impl SignInError {
    const fn reason(&self) -> &'static str {
        match self {
            Self::Expired => "SIGN_IN_EXPIRED",
            Self::State => "SIGN_IN_STATE_MISMATCH",
            Self::Issuer => "SIGN_IN_ISSUER_MISMATCH",
            Self::Refused(_) => "SIGN_IN_REFUSED",
            Self::Code(_) => "SIGN_IN_CODE_REFUSED",
            Self::Unavailable => "SIGN_IN_PROVIDER_UNAVAILABLE",
            Self::Identity(error) => error.reason(),
            Self::TooLarge => "SESSION_TOO_LARGE",
            Self::OtherSite => "SIGN_IN_OTHER_SITE",
        }
    }

    const fn hint(&self) -> &'static str {
        match self {
            Self::Expired | Self::State | Self::Issuer | Self::OtherSite => "Sign in again here.",
            Self::Refused(_) => "Sign in again, or ask the administrator of the provider.",
            Self::Code(_) => {
                "Sign in again. If it happens again, check the client id and the client secret of \
                 this gateway."
            }
            Self::Unavailable => "Try again later. The log of the gateway has the cause.",
            Self::Identity(error) => error.hint(),
            Self::TooLarge => "Let the provider send fewer roles in the ID token for this client.",
        }
    }

    const fn status(&self) -> StatusCode {
        match self {
            Self::Unavailable | Self::Identity(Unauthenticated::NoKeys) => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Self::Identity(_) | Self::Refused(_) => StatusCode::UNAUTHORIZED,
            Self::Code(_) => StatusCode::BAD_GATEWAY,
            Self::OtherSite => StatusCode::FORBIDDEN,
            Self::Expired | Self::State | Self::Issuer | Self::TooLarge => StatusCode::BAD_REQUEST,
        }
    }
}

impl SignIn {
    /// The session in a cookie, if it counts.
    pub(in crate::authentication) fn open(
        &self,
        sealed: &str,
        now: Timestamp,
    ) -> Result<Session, SessionError> {
        let opened = self.sessions.open(&self.purpose, sealed);
        let session: Session = opened.map_err(|error| match error {
            crate::token::TokenError::Foreign => SessionError::Foreign,
            crate::token::TokenError::Expired => SessionError::Expired,
        })?;
        self.check(&session, now)?;
        Ok(session)
    }

    /// Why a session does not count any more.
    pub(in crate::authentication) fn check(
        &self,
        session: &Session,
        now: Timestamp,
    ) -> Result<(), SessionError> {
        session.check(self.limits, &self.ended, now)
    }

    /// How long a session lives without another request.
    pub(in crate::authentication) fn rest(&self, session: &Session, now: Timestamp) -> Duration {
        session.rest(self.limits, now)
    }

    /// The cookie of a session that was used now, if it must be written again.
    pub(crate) fn renewal(&self, session: &Session, jar: CookieJar) -> Option<HeaderValue> {
        let now = Timestamp::now();
        let renewed = session.renewed(self.limits, now)?;
        Some(self.cookie(&renewed, jar, now))
    }

    /// Where a browser is sent whose person is not signed in.
    pub(crate) fn address(&self, method: &Method, uri: &Uri) -> String {
        let wanted = uri.path_and_query().map_or(HOME, |path| path.as_str());
        let is_page = matches!(*method, Method::GET | Method::HEAD) && wanted != "/";
        let back = own_path(wanted).filter(|_| is_page).unwrap_or(HOME);
        with_query(PAGE, &[("back", back)])
    }

    fn cookie(&self, session: &Session, jar: CookieJar, now: Timestamp) -> HeaderValue {
        let sealed = self.sessions.seal(&self.purpose, session);
        jar.set_session(&sealed, session.rest(self.limits, now))
    }

    /// A session that begins now. The one that the browser had before ends.
    fn begin(
        &self,
        who: Who,
        old: Option<&str>,
        back: &str,
        jar: CookieJar,
    ) -> Result<SignInAnswer, SignInError> {
        let now = Timestamp::now();
        let session = Session::begin(who, now);
        if self.sessions.seal(&self.purpose, &session).len() > cookie::LONGEST {
            return Err(SignInError::TooLarge);
        }
        self.end(old, now);
        Ok(SignInAnswer::Redirect {
            to: own_path(back).unwrap_or(HOME).to_owned(),
            cookies: vec![self.cookie(&session, jar, now)],
        })
    }

    /// Ends the session in a cookie, if it counts. Answers who it was of.
    fn end(&self, sealed: Option<&str>, now: Timestamp) -> Option<Who> {
        let session = self.open(sealed?, now).ok()?;
        self.ended.insert(&session, self.limits, now);
        Some(session.who)
    }

    fn oidc(&self) -> Option<(&OidcSettings, &OpenIdProvider)> {
        Some((self.oidc.as_ref()?, self.provider.as_deref()?))
    }
}

impl Authentication {
    /// Answers a request to an address of the sign-in.
    pub(crate) async fn answer_sign_in(
        &self,
        sign_in: &SignIn,
        request: Request<Body>,
        jar: CookieJar,
    ) -> SignInAnswer {
        let (parts, body) = request.into_parts();
        let query = Fields::parse(parts.uri.query().unwrap_or_default().as_bytes());
        let back = |fields: &Fields| {
            let back = fields.one("back").unwrap_or_default();
            own_path(back).unwrap_or(HOME).to_owned()
        };
        let reads = matches!(parts.method, Method::GET | Method::HEAD);
        match parts.uri.path() {
            PAGE if !reads => SignInAnswer::Method("GET"),
            START | CALLBACK if parts.method != Method::GET => SignInAnswer::Method("GET"),
            KEY | OUT if parts.method != Method::POST => SignInAnswer::Method("POST"),
            START => match start(sign_in, &back(&query), jar).await {
                Ok(answer) => answer,
                Err(error) => refused(sign_in, &back(&query), &error),
            },
            CALLBACK => {
                let answer = self.callback(sign_in, &query, &parts.headers, jar).await;
                count("oidc", &answer);
                let answer = answer.unwrap_or_else(|error| refused(sign_in, HOME, &error));
                answer.with_cookie(jar.remove_transaction())
            }
            KEY => {
                let form = to_bytes(axum::body::Body::new(body), LARGEST_FORM);
                // A form that is too large or too slow has no key.
                let form = tokio::time::timeout(FORM_TIMEOUT, form).await;
                let form = form.ok().and_then(Result::ok).unwrap_or_default();
                let form = Fields::parse(&form);
                let back = back(&form);
                let answer = self.key(sign_in, &form, &back, &parts.headers, jar);
                count("api-key", &answer);
                answer.unwrap_or_else(|error| refused(sign_in, &back, &error))
            }
            OUT => sign_out(sign_in, &parts.headers, jar).await,
            _ => SignInAnswer::Page {
                status: StatusCode::OK,
                page: Box::new(sign_in.page(&back(&query))),
                cookies: Vec::new(),
                owner: None,
            },
        }
    }

    /// Takes the code that the provider sent back with the person.
    async fn callback(
        &self,
        sign_in: &SignIn,
        query: &Fields,
        headers: &HeaderMap,
        jar: CookieJar,
    ) -> Result<SignInAnswer, SignInError> {
        let (oidc, provider) = sign_in.oidc().ok_or(SignInError::Expired)?;
        let sealed = jar.transaction(headers).ok_or(SignInError::Expired)?;
        let opened = sign_in.transactions.open(TRANSACTION, sealed);
        let transaction: Transaction = opened.map_err(|_| SignInError::Expired)?;
        let state = query.one("state").unwrap_or_default();
        if !is_same(state, &transaction.state) {
            return Err(SignInError::State);
        }
        if !sign_in.used.is_first(&transaction.state) {
            return Err(SignInError::Expired);
        }
        let discovery = provider.discovery().await;
        let discovery = discovery.map_err(|_| SignInError::Unavailable)?;
        if !discovery.is_issuer_of(query.one("iss")) || query.has_twice("iss") {
            return Err(SignInError::Issuer);
        }
        if let Some(error) = query.one("error") {
            return Err(SignInError::Refused(code_word(error)));
        }
        let code = query.one("code").ok_or(SignInError::State)?;
        let token = exchange(oidc, provider, &discovery, code, &transaction).await?;
        let jwks = self.jwks.as_ref().ok_or(SignInError::Expired)?;
        let identity: Identity = jwks
            .verify_id_token(
                &token,
                Timestamp::now(),
                &oidc.client_id,
                &transaction.nonce,
            )
            .await?;
        tracing::info!(subject = %identity.subject, "signed in at the OpenID provider");
        let old = jar.session(headers).ok().flatten();
        sign_in.begin(Who::of(&identity), old, &transaction.back, jar)
    }

    /// Takes an API key that a person typed.
    fn key(
        &self,
        sign_in: &SignIn,
        form: &Fields,
        back: &str,
        headers: &HeaderMap,
        jar: CookieJar,
    ) -> Result<SignInAnswer, SignInError> {
        if !is_own_form(headers) {
            return Err(SignInError::OtherSite);
        }
        let unknown = || Unauthenticated::from(api_key::KeyError::Unknown);
        let keys = self.keys.as_ref().ok_or_else(unknown)?;
        let typed = form.one("key").unwrap_or_default().trim();
        let used = keys.verify(typed, Timestamp::now());
        let used = used.map_err(|error| Unauthenticated::of_key(error, keys.owner(typed)))?;
        let id = used.id;
        tracing::info!(subject = %used.identity.subject, key = id, "signed in with an API key");
        let old = jar.session(headers).ok().flatten();
        sign_in.begin(Who::Key(id), old, back, jar)
    }
}

/// Sends a person to the provider.
async fn start(sign_in: &SignIn, back: &str, jar: CookieJar) -> Result<SignInAnswer, SignInError> {
    let (oidc, provider) = sign_in.oidc().ok_or(SignInError::Expired)?;
    let discovery = provider.discovery().await;
    let discovery = discovery.map_err(|_| SignInError::Unavailable)?;
    let verifier = CodeVerifier::new(&random());
    let transaction = Transaction {
        state: word(&random::<32>()),
        nonce: word(&random::<32>()),
        verifier: verifier.expose().to_owned(),
        // A path that makes the cookie too long is dropped.
        back: Some(back)
            .filter(|path| path.len() < 1024)
            .unwrap_or(HOME)
            .to_owned(),
    };
    let request = AuthorizationRequest {
        client_id: &oidc.client_id,
        redirect_uri: &callback_address(oidc),
        scopes: &oidc.scopes.join(" "),
        state: &transaction.state,
        nonce: &transaction.nonce,
        verifier: &verifier,
        resource: None,
    };
    let to = request.address(&discovery);
    let sealed = sign_in.transactions.seal(TRANSACTION, &transaction);
    Ok(SignInAnswer::Redirect {
        to,
        cookies: vec![jar.set_transaction(&sealed, TRANSACTION_LIFETIME)],
    })
}

/// Changes a code into an ID token.
async fn exchange(
    oidc: &OidcSettings,
    provider: &OpenIdProvider,
    discovery: &Discovery,
    code: &str,
    transaction: &Transaction,
) -> Result<String, SignInError> {
    let secret = oidc.client_secret.as_ref().map(|source| source.read());
    let secret = secret.transpose().map_err(|why| {
        tracing::error!("the client secret of the sign-in cannot be used: {why}");
        SignInError::Unavailable
    })?;
    let redirect = callback_address(oidc);
    let mut fields = vec![
        ("grant_type", "authorization_code"),
        ("code", code),
        ("redirect_uri", &redirect),
        ("code_verifier", &transaction.verifier),
    ];
    // Both parts of the pair are encoded like fields of a form (RFC 6749, section 2.3.1).
    let encoded = |text: &str| form(&[("", text)]).split_off(1);
    let basic = match &secret {
        Some(secret) if !discovery.takes_secret_in_body() => {
            Some((encoded(&oidc.client_id), encoded(secret.expose())))
        }
        Some(secret) => {
            fields.push(("client_id", &oidc.client_id));
            fields.push(("client_secret", secret.expose()));
            None
        }
        None => {
            fields.push(("client_id", &oidc.client_id));
            None
        }
    };
    let basic = basic
        .as_ref()
        .map(|(id, secret)| (id.as_str(), secret.as_str()));
    let answered = provider
        .fetcher
        .post(&discovery.token_endpoint, form(&fields), basic)
        .await;
    let answered = answered.map_err(|why| {
        tracing::error!("the token endpoint of the OpenID provider failed: {why}");
        SignInError::Unavailable
    })?;
    if answered.status != 200 {
        let refusal: Option<TokenRefusal> = serde_json::from_slice(&answered.body).ok();
        let status = answered.status;
        let why = refusal.map_or_else(|| format!("status {status}"), |it| code_word(&it.error));
        tracing::warn!("the OpenID provider refused the code of a sign-in: {why}");
        return Err(SignInError::Code(why));
    }
    let response: Option<TokenResponse> = serde_json::from_slice(&answered.body).ok();
    let token = response.and_then(|response| response.id_token);
    token.ok_or_else(|| SignInError::Code("the response has no ID token".to_owned()))
}

/// Ends the session here. The page leads on to the sign-out of the provider.
async fn sign_out(sign_in: &SignIn, headers: &HeaderMap, jar: CookieJar) -> SignInAnswer {
    if !is_own_form(headers) {
        return refused(sign_in, HOME, &SignInError::OtherSite);
    }
    let sealed = jar.session(headers).ok().flatten();
    let ended = sign_in.end(sealed, Timestamp::now());
    let mut page = sign_in.page(HOME);
    page.notice = Some("You are signed out.");
    if let (Some(Who::Oidc { .. }), Some((oidc, provider))) = (ended, sign_in.oidc())
        && let Ok(discovery) = provider.discovery().await
    {
        let back = format!("{}{PAGE}", oidc.public_url);
        let fields = [
            ("client_id", oidc.client_id.as_str()),
            ("post_logout_redirect_uri", &back),
        ];
        let address = discovery.end_session_endpoint.as_deref();
        page.provider_sign_out = address.map(|address| with_query(address, &fields));
    }
    SignInAnswer::Page {
        status: StatusCode::OK,
        page: Box::new(page),
        cookies: vec![jar.remove_session(), jar.remove_transaction()],
        owner: None,
    }
}

fn refused(sign_in: &SignIn, back: &str, error: &SignInError) -> SignInAnswer {
    let problem = SignInProblem {
        message: error.to_string(),
        hint: error.hint().to_owned(),
        reason: error.reason(),
    };
    let owner = match error {
        SignInError::Identity(refused) => refused.owner(),
        _ => None,
    };
    SignInAnswer::problem(sign_in.page(back), error.status(), problem).of_owner(owner)
}

fn count(method: &'static str, answer: &Result<SignInAnswer, SignInError>) {
    let outcome = match answer {
        Ok(_) => "accepted",
        Err(error) => error.reason(),
    };
    counter!("stateway_sign_ins_total", "method" => method, "outcome" => outcome).increment(1);
}

fn callback_address(oidc: &OidcSettings) -> String {
    format!("{}{CALLBACK}", oidc.public_url)
}

/// Whether a form was sent from a page of this gateway. The front has compared `Origin` with the host.
fn is_own_form(headers: &HeaderMap) -> bool {
    match headers.get(HeaderName::from_static("sec-fetch-site")) {
        Some(site) => site == "same-origin",
        None => headers.contains_key(ORIGIN),
    }
}

/// The code of an error as it may be shown: the provider's words are not ours.
fn code_word(error: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
    if (1..=64).contains(&error.len()) && error.bytes().all(is_plain) {
        error.to_owned()
    } else {
        "unknown error".to_owned()
    }
}

/// Takes the same time wherever the texts differ.
fn is_same(one: &str, other: &str) -> bool {
    let pairs = one.bytes().zip(other.bytes());
    one.len() == other.len() && pairs.fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

/// The fields of a form or of a query.
struct Fields(Vec<(String, String)>);

impl Fields {
    fn parse(text: &[u8]) -> Self {
        Self(form_urlencoded::parse(text).into_owned().collect())
    }

    /// The value of a field that came once.
    fn one(&self, name: &str) -> Option<&str> {
        let mut values = self.0.iter().filter(|(key, _)| key == name);
        let (_, value) = values.next()?;
        values.next().is_none().then_some(value)
    }

    fn has_twice(&self, name: &str) -> bool {
        self.0.iter().filter(|(key, _)| key == name).count() > 1
    }
}
