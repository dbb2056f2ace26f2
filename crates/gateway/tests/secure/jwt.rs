//! Tokens over the wire: who is accepted, every attack, and keys that change.

use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use ring::hmac;
use serde_json::json;
use stateway_client::Security;
use stateway_gateway::{JwksSource, Settings, StartError};
use wiremock::matchers::path;
use wiremock::{Mock, MockServer, ResponseTemplate};

use crate::support::{Authority, Folder, Running, eventually, settings};
use crate::tokens::{Issuer, accepting, claims, encoded};

struct World {
    folder: Folder,
    running: Running,
}

impl World {
    async fn new(issuer: &Issuer) -> Self {
        let (folder, authority) = (Folder::new(), Authority::new("servers"));
        let mut settings = settings(&folder, &authority);
        let keys = folder.write("jwks.json", &issuer.set());
        settings.authentication.jwt = Some(accepting(JwksSource::File(keys)));
        Self::with(folder, settings).await
    }

    async fn with(folder: Folder, mut settings: Settings) -> Self {
        settings.authentication.reload_interval = std::time::Duration::from_millis(20);
        let running = Running::new(settings).await;
        Self { folder, running }
    }

    fn trusting(&self) -> Security {
        Security::default().ca(self.folder.path("ca.pem"))
    }

    async fn who(&self, token: &str) -> Result<String, String> {
        let security = self.trusting().token(token).unwrap();
        self.running.who(&security).await
    }
}

#[tokio::test]
async fn a_token_names_the_caller_and_its_roles() {
    let issuer = Issuer::new("a");
    let world = World::new(&issuer).await;
    let token = issuer.token("ada@example.org", &json!({}));
    for _ in 0..2 {
        assert_eq!(world.who(&token).await.unwrap(), "ada@example.org ops,dev");
    }
    // Each token has its own identity, however close they are.
    let token = issuer.token("bob@example.org", &json!({"roles": []}));
    assert_eq!(world.who(&token).await.unwrap(), "bob@example.org ");
}

#[tokio::test]
async fn a_request_without_a_good_token_is_refused() {
    let (issuer, other) = (Issuer::new("a"), Issuer::new("a"));
    let world = World::new(&issuer).await;
    let nobody = world.running.who(&world.trusting()).await;
    assert_eq!(nobody.unwrap_err(), "CREDENTIALS_MISSING");

    let now = Timestamp::now().as_second();
    let with = |claims: serde_json::Value| issuer.token("ada", &claims);
    let good = with(json!({}));
    let (message, signature) = good.rsplit_once('.').unwrap();
    let none = encoded(&json!({"alg": "none"}));
    let hmac_header = encoded(&json!({"alg": "HS256", "kid": "a"}));
    let hmac_message = format!("{hmac_header}.{}", encoded(&claims("root")));
    let key = hmac::Key::new(hmac::HMAC_SHA256, issuer.public_key());
    let tag = URL_SAFE_NO_PAD.encode(hmac::sign(&key, hmac_message.as_bytes()));
    let (header, _) = message.split_once('.').unwrap();
    for (token, reason) in [
        (with(json!({"exp": now - 1})), "TOKEN_EXPIRED"),
        (with(json!({"nbf": now + 60})), "TOKEN_NOT_YET_VALID"),
        (with(json!({"aud": "other"})), "TOKEN_AUDIENCE_NOT_ACCEPTED"),
        (
            with(json!({"iss": "https://evil.example"})),
            "TOKEN_ISSUER_NOT_ACCEPTED",
        ),
        (with(json!({"sub": "a b"})), "TOKEN_CLAIM_INVALID"),
        (other.token("root", &json!({})), "TOKEN_SIGNATURE_INVALID"),
        (
            Issuer::new("b").token("root", &json!({})),
            "TOKEN_KEY_UNKNOWN",
        ),
        (format!("{message}."), "TOKEN_MALFORMED"),
        (message.to_owned(), "TOKEN_MALFORMED"),
        (
            format!("{none}.{}.", encoded(&claims("root"))),
            "TOKEN_ALGORITHM_NOT_ACCEPTED",
        ),
        (
            format!("{hmac_message}.{tag}"),
            "TOKEN_ALGORITHM_NOT_ACCEPTED",
        ),
        (
            format!("{header}.{}.{signature}", encoded(&claims("root"))),
            "TOKEN_SIGNATURE_INVALID",
        ),
        (
            "stw_0011223344556677_x".to_owned(),
            "CREDENTIALS_NOT_ACCEPTED",
        ),
    ] {
        assert_eq!(world.who(&token).await, Err(reason.to_owned()), "{token}");
    }
}

#[tokio::test]
async fn a_token_is_refused_as_soon_as_it_expires_even_if_it_was_just_used() {
    let issuer = Issuer::new("a");
    let world = World::new(&issuer).await;
    let soon = Timestamp::now().as_second() + 2;
    let token = issuer.token("ada", &json!({"exp": soon}));
    assert_eq!(world.who(&token).await.unwrap(), "ada ops,dev");
    eventually(async || world.who(&token).await == Err("TOKEN_EXPIRED".to_owned())).await;
    assert!(Timestamp::now().as_second() >= soon);
}

#[tokio::test]
async fn keys_in_a_file_are_rotated_without_a_restart() {
    let (old, new) = (Issuer::new("old"), Issuer::new("new"));
    let world = World::new(&old).await;
    let (of_old, of_new) = (old.token("ada", &json!({})), new.token("ada", &json!({})));
    assert!(world.who(&of_old).await.is_ok());
    assert!(world.who(&of_new).await.is_err());
    // A broken file changes nothing.
    world.folder.write("jwks.json", "garbage");
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    assert!(world.who(&of_old).await.is_ok());
    world.folder.write("jwks.json", &new.set());
    eventually(async || world.who(&of_new).await.is_ok()).await;
    // The token was verified before its key was removed.
    assert_eq!(
        world.who(&of_old).await,
        Err("TOKEN_KEY_UNKNOWN".to_owned())
    );
}

#[tokio::test]
async fn keys_at_an_address_are_fetched_and_an_unknown_key_asks_again() {
    let (old, new) = (Issuer::new("old"), Issuer::new("new"));
    let keys = Arc::new(Mutex::new(old.set()));
    let served = keys.clone();
    let server = MockServer::start().await;
    Mock::given(path("/keys"))
        .respond_with(move |_: &wiremock::Request| {
            ResponseTemplate::new(200).set_body_string(served.lock().unwrap().clone())
        })
        .mount(&server)
        .await;
    let asked = async || server.received_requests().await.unwrap().len();
    let (folder, authority) = (Folder::new(), Authority::new("servers"));
    let mut settings = settings(&folder, &authority);
    let url = format!("{}/keys", server.uri());
    settings.authentication.jwt = Some(accepting(JwksSource::Url { url, ca: None }));
    let world = World::with(folder, settings).await;
    let (of_old, of_new) = (old.token("ada", &json!({})), new.token("ada", &json!({})));
    assert_eq!(world.who(&of_old).await.unwrap(), "ada ops,dev");
    let unknown = Err("TOKEN_KEY_UNKNOWN".to_owned());
    // Unknown keys ask the issuer once in a while, not with every token.
    for _ in 0..20 {
        assert_eq!(world.who(&of_new).await, unknown);
    }
    assert_eq!(asked().await, 1);
    // The issuer replaces its key. The token of the new key makes the gateway ask, 10 seconds after the last time.
    *keys.lock().unwrap() = new.set();
    eventually(async || world.who(&of_new).await.is_ok()).await;
    assert_eq!(world.who(&of_old).await, unknown);
    assert_eq!(asked().await, 2);
}

#[tokio::test]
async fn an_issuer_that_cannot_be_reached_is_not_the_fault_of_the_token() {
    let issuer = Issuer::new("a");
    let (folder, authority) = (Folder::new(), Authority::new("servers"));
    let mut settings = settings(&folder, &authority);
    let url = "http://127.0.0.1:1/keys".to_owned();
    settings.authentication.jwt = Some(accepting(JwksSource::Url { url, ca: None }));
    let world = World::with(folder, settings).await;
    let error = world
        .who(&issuer.token("ada", &json!({})))
        .await
        .unwrap_err();
    assert!(error.starts_with("Unavailable"), "{error}");
}

#[tokio::test]
async fn keys_that_cannot_be_used_are_reported_at_the_start() {
    let (folder, authority) = (Folder::new(), Authority::new("servers"));
    let good = settings(&folder, &authority);
    let secret = r#"{"keys":[{"kty":"oct","k":"c2VjcmV0"}]}"#;
    let file = JwksSource::File(folder.write("jwks.json", secret));
    let plain = JwksSource::Url {
        url: "http://issuer.example/keys".into(),
        ca: None,
    };
    for keys in [file, plain, JwksSource::File(folder.path("missing"))] {
        let mut settings = good.clone();
        settings.authentication.jwt = Some(accepting(keys));
        let Err(error) = Running::try_new(settings).await else {
            panic!("the keys are used");
        };
        assert!(matches!(error, StartError::Authentication(_)), "{error}");
        assert!(!error.to_string().contains("c2VjcmV0"), "{error}");
    }
}
