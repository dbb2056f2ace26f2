//! An issuer of tokens.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};
use stateway_gateway::{JwksSource, JwtSettings};
use stateway_identity::jwks::Algorithm;
use stateway_identity::jwt::Rules;

/// An issuer with one key.
pub(crate) struct Issuer {
    id: &'static str,
    key: Ed25519KeyPair,
}

impl Issuer {
    pub(crate) fn new(id: &'static str) -> Self {
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        let key = Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap();
        Self { id, key }
    }

    /// The public key.
    pub(crate) fn set(&self) -> String {
        let x = URL_SAFE_NO_PAD.encode(self.key.public_key());
        json!({"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": self.id, "x": x}]}).to_string()
    }

    pub(crate) fn public_key(&self) -> &[u8] {
        self.key.public_key().as_ref()
    }

    /// A good token for a subject, with claims added or replaced.
    pub(crate) fn token(&self, subject: &str, more: &Value) -> String {
        let mut claims = claims(subject);
        let all = claims.as_object_mut().unwrap();
        all.extend(more.as_object().unwrap().clone());
        let header = json!({"alg": "EdDSA", "kid": self.id});
        let message = format!("{}.{}", encoded(&header), encoded(&claims));
        let signature = self.key.sign(message.as_bytes());
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}

/// The claims of a good token.
pub(crate) fn claims(subject: &str) -> Value {
    let now = Timestamp::now().as_second();
    json!({
        "iss": "https://issuer.example", "aud": "stateway", "sub": subject,
        "exp": now + 600, "nbf": now - 60, "roles": ["ops", "dev"],
    })
}

pub(crate) fn encoded(value: &Value) -> String {
    URL_SAFE_NO_PAD.encode(value.to_string())
}

/// Accepts tokens whose keys are there.
pub(crate) fn accepting(keys: JwksSource) -> JwtSettings {
    JwtSettings {
        rules: Rules {
            issuer: "https://issuer.example".into(),
            audiences: vec!["stateway".into()],
            algorithms: Algorithm::ALL.to_vec(),
            roles_claim: "roles".into(),
            tenant_claim: "tenant".into(),
            leeway: std::time::Duration::ZERO,
        },
        keys,
        refresh: std::time::Duration::from_secs(300),
        header: None,
    }
}
