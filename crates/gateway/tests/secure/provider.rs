//! A small OpenID provider on this machine. It signs in everyone who comes, and a test decides what it
//! gets wrong.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{RawQuery, State};
use axum::http::header::{AUTHORIZATION, LOCATION};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::digest::{SHA256, digest};
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};

pub(crate) const CLIENT: &str = "stateway-dashboard";
pub(crate) const SECRET: &str = "s3cret/with+signs";

type Fields = HashMap<String, String>;

/// Makes an ID token from the claims of a good one.
pub(crate) type Forge = fn(&Provider, Value) -> String;

/// What a test can change, and what the provider has seen.
#[derive(Default)]
pub(crate) struct Habits {
    /// Claims that replace those of a good ID token; null removes one.
    pub(crate) claims: Value,
    /// The ID token, made by the test from the claims.
    pub(crate) forge: Option<Forge>,
    /// What the configuration says in addition.
    pub(crate) discovery: Value,
    /// Whether `iss` is part of the answers, and which.
    pub(crate) iss: Option<String>,
    /// The seconds that a token lives.
    pub(crate) lifetime: Option<i64>,
    /// How often a device asks before its person has confirmed.
    pub(crate) pending: u32,
    /// How many seconds a device is to wait between its questions.
    pub(crate) interval: Option<u64>,
    /// Codes by the request that they were given for; each counts once.
    codes: HashMap<String, Fields>,
    /// Forms that the token endpoint has received.
    pub(crate) token_requests: Vec<Fields>,
    /// Refresh tokens that were given back.
    pub(crate) revoked: Vec<String>,
    refreshed: u32,
}

pub(crate) struct Provider {
    pub(crate) address: SocketAddr,
    key: Mutex<(String, Ed25519KeyPair)>,
    habits: Mutex<Habits>,
}

pub(crate) fn encoded(value: &Value) -> String {
    URL_SAFE_NO_PAD.encode(value.to_string())
}

fn new_key() -> Ed25519KeyPair {
    let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
    Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap()
}

fn random() -> String {
    let bytes: [u8; 16] = ring::rand::generate(&SystemRandom::new()).unwrap().expose();
    URL_SAFE_NO_PAD.encode(bytes)
}

impl Provider {
    pub(crate) async fn start() -> Arc<Self> {
        let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .unwrap();
        let provider = Arc::new(Self {
            address: listener.local_addr().unwrap(),
            key: Mutex::new(("k1".to_owned(), new_key())),
            habits: Mutex::default(),
        });
        let router = Router::new()
            .route("/.well-known/openid-configuration", get(discovery))
            .route("/keys", get(keys))
            .route("/auth", get(authorize))
            .route("/token", post(token))
            .route("/device", post(device))
            .route("/revoke", post(revoke))
            .with_state(provider.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        provider
    }

    pub(crate) fn issuer(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn habits(&self) -> MutexGuard<'_, Habits> {
        self.habits.lock().unwrap()
    }

    /// Another key takes the place of the old one.
    pub(crate) fn rotate(&self, id: &str) {
        *self.key.lock().unwrap() = (id.to_owned(), new_key());
    }

    pub(crate) fn public_key(&self) -> Vec<u8> {
        self.key.lock().unwrap().1.public_key().as_ref().to_vec()
    }

    /// Signs these claims with the current key.
    pub(crate) fn signed(&self, claims: &Value) -> String {
        let key = self.key.lock().unwrap();
        let header = json!({"alg": "EdDSA", "kid": key.0});
        let message = format!("{}.{}", encoded(&header), encoded(claims));
        let signature = URL_SAFE_NO_PAD.encode(key.1.sign(message.as_bytes()));
        format!("{message}.{signature}")
    }

    fn id_token(&self, client: &str, nonce: Option<&String>) -> String {
        let habits = self.habits();
        let now = jiff::Timestamp::now().as_second();
        let lifetime = habits.lifetime.unwrap_or(300);
        let mut claims = json!({
            "iss": self.issuer(), "aud": client, "sub": "ada@example.org", "iat": now,
            "exp": now + lifetime, "nonce": nonce, "roles": ["ops"], "tenant": "acme",
        });
        let all = claims.as_object_mut().unwrap();
        for (name, value) in habits.claims.as_object().into_iter().flatten() {
            all.insert(name.clone(), value.clone());
        }
        all.retain(|_, value| !value.is_null());
        let forge = habits.forge;
        drop(habits);
        match forge {
            Some(forge) => forge(self, claims),
            None => self.signed(&claims),
        }
    }
}

async fn discovery(State(provider): State<Arc<Provider>>) -> String {
    let issuer = provider.issuer();
    let mut document = json!({
        "issuer": issuer,
        "authorization_endpoint": format!("{issuer}/auth"),
        "token_endpoint": format!("{issuer}/token"),
        "jwks_uri": format!("{issuer}/keys"),
        "end_session_endpoint": format!("{issuer}/end"),
        "device_authorization_endpoint": format!("{issuer}/device"),
        "revocation_endpoint": format!("{issuer}/revoke"),
    });
    let more = provider.habits().discovery.clone();
    let all = document.as_object_mut().unwrap();
    for (name, value) in more.as_object().into_iter().flatten() {
        all.insert(name.clone(), value.clone());
    }
    all.retain(|_, value| !value.is_null());
    document.to_string()
}

async fn keys(State(provider): State<Arc<Provider>>) -> String {
    let key = provider.key.lock().unwrap();
    let x = URL_SAFE_NO_PAD.encode(key.1.public_key());
    json!({"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": key.0, "x": x}]}).to_string()
}

/// Everyone who comes is signed in and sent back.
async fn authorize(State(provider): State<Arc<Provider>>, RawQuery(query): RawQuery) -> Response {
    let query = query.unwrap_or_default();
    let query: Fields = form_urlencoded::parse(query.as_bytes())
        .into_owned()
        .collect();
    let code = random();
    let mut habits = provider.habits();
    let mut back = form_urlencoded::Serializer::new(String::new());
    back.append_pair("code", &code);
    back.append_pair("state", &query["state"]);
    if let Some(iss) = &habits.iss {
        back.append_pair("iss", iss);
    }
    let to = format!("{}?{}", query["redirect_uri"], back.finish());
    habits.codes.insert(code, query);
    (StatusCode::FOUND, [(LOCATION, to)]).into_response()
}

fn refused(error: &str) -> Response {
    let body = json!({"error": error, "error_description": "<script>alert(1)</script>"});
    (StatusCode::BAD_REQUEST, body.to_string()).into_response()
}

async fn token(State(provider): State<Arc<Provider>>, headers: HeaderMap, body: Bytes) -> Response {
    let mut form: Fields = form_urlencoded::parse(&body).into_owned().collect();
    if let Some(basic) = headers.get(AUTHORIZATION) {
        let pair = basic.to_str().unwrap().strip_prefix("Basic ").unwrap();
        let pair = String::from_utf8(STANDARD.decode(pair).unwrap()).unwrap();
        let (id, secret) = pair.split_once(':').unwrap();
        let decoded = |text: &str| {
            let pair = format!("x={text}");
            let (_, value) = form_urlencoded::parse(pair.as_bytes()).next().unwrap();
            value.into_owned()
        };
        form.insert("client_id".into(), decoded(id));
        form.insert("client_secret".into(), decoded(secret));
    }
    provider.habits().token_requests.push(form.clone());
    let client = form.get("client_id").cloned().unwrap_or_default();
    if client == CLIENT && form.get("client_secret").map(String::as_str) != Some(SECRET) {
        return refused("invalid_client");
    }
    let nonce = match form["grant_type"].as_str() {
        "authorization_code" => {
            let Some(request) = provider.habits().codes.remove(&form["code"]) else {
                return refused("invalid_grant");
            };
            let hash = digest(&SHA256, form["code_verifier"].as_bytes());
            let is_proved = request["code_challenge"] == URL_SAFE_NO_PAD.encode(hash)
                && request["code_challenge_method"] == "S256"
                && request["redirect_uri"] == form["redirect_uri"]
                && request["client_id"] == client;
            if !is_proved {
                return refused("invalid_grant");
            }
            Some(request["nonce"].clone())
        }
        "refresh_token" => {
            let mut habits = provider.habits();
            if form["refresh_token"] != format!("refresh-{}", habits.refreshed) {
                return refused("invalid_grant");
            }
            habits.refreshed += 1;
            None
        }
        "urn:ietf:params:oauth:grant-type:device_code" => {
            let mut habits = provider.habits();
            if habits.pending > 0 {
                habits.pending -= 1;
                return refused("authorization_pending");
            }
            None
        }
        _ => return refused("unsupported_grant_type"),
    };
    let token = provider.id_token(&client, nonce.as_ref());
    let habits = provider.habits();
    let answer = json!({
        "access_token": "opaque", "token_type": "Bearer",
        "expires_in": habits.lifetime.unwrap_or(300),
        "refresh_token": format!("refresh-{}", habits.refreshed), "id_token": token,
    });
    answer.to_string().into_response()
}

async fn device(State(provider): State<Arc<Provider>>) -> String {
    let issuer = provider.issuer();
    let interval = provider.habits().interval.unwrap_or(1);
    json!({
        "device_code": "device", "user_code": "ABCD-EFGH", "expires_in": 60, "interval": interval,
        "verification_uri": format!("{issuer}/confirm"),
    })
    .to_string()
}

async fn revoke(State(provider): State<Arc<Provider>>, body: Bytes) -> StatusCode {
    let form: Fields = form_urlencoded::parse(&body).into_owned().collect();
    provider.habits().revoked.push(form["token"].clone());
    StatusCode::OK
}
