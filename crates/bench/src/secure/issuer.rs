//! An issuer of tokens, with one key.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde_json::json;

use crate::Outcome;

pub(super) const ISSUER: &str = "https://issuer.example";
pub(super) const AUDIENCE: &str = "stateway";
pub(super) const ROLE: &str = "benchmark";

const KEY_ID: &str = "bench";
const LIFETIME: Duration = Duration::from_secs(3600);

pub(super) struct Issuer(Ed25519KeyPair);

impl Issuer {
    pub(super) fn new() -> Outcome<Self> {
        let wrong = |_| "no key for tokens can be made";
        let made = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).map_err(wrong)?;
        let pair = Ed25519KeyPair::from_pkcs8(made.as_ref());
        Ok(Self(pair.map_err(|_| "the key for tokens cannot be read")?))
    }

    /// The public keys, as a gateway reads them.
    pub(super) fn keys(&self) -> String {
        let x = URL_SAFE_NO_PAD.encode(self.0.public_key());
        let key = json!({"kty": "OKP", "crv": "Ed25519", "kid": KEY_ID, "alg": "EdDSA", "x": x});
        json!({"keys": [key]}).to_string()
    }

    pub(super) fn token(&self) -> Outcome<String> {
        let expires = (SystemTime::now() + LIFETIME).duration_since(UNIX_EPOCH)?;
        let header = json!({"alg": "EdDSA", "kid": KEY_ID, "typ": "JWT"});
        let claims = json!({
            "iss": ISSUER, "aud": AUDIENCE, "sub": "bench@example.org", "exp": expires.as_secs(),
            "roles": [ROLE, "other"], "tenant": "acme",
        });
        let encoded = |value: serde_json::Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", encoded(header), encoded(claims));
        let signature = URL_SAFE_NO_PAD.encode(self.0.sign(signed.as_bytes()));
        Ok(format!("{signed}.{signature}"))
    }
}
