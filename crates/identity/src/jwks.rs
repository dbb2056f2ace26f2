//! The public keys of an issuer of tokens (RFC 7517).

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, RsaPublicKeyComponents,
    UnparsedPublicKey,
};
use serde::Deserialize;
use thiserror::Error;

/// The most bytes of a set of keys.
pub const MOST_BYTES: usize = 256 * 1024;

/// The most keys of a set.
pub const MOST_KEYS: usize = 100;

/// The size of RSA keys in bytes: 2048 to 8192 bits.
const RSA_BYTES: std::ops::RangeInclusive<usize> = 256..=1024;

/// How a token is signed. Only signatures that a public key verifies: a method that shares a secret
/// would let anyone sign who can verify.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Algorithm {
    /// RSA with SHA-256.
    Rs256,
    /// RSA with SHA-384.
    Rs384,
    /// RSA with SHA-512.
    Rs512,
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// ECDSA on P-384 with SHA-384.
    Es384,
    /// Ed25519.
    EdDsa,
}

impl Algorithm {
    /// Every algorithm.
    pub const ALL: [Self; 6] = [
        Self::Rs256,
        Self::Rs384,
        Self::Rs512,
        Self::Es256,
        Self::Es384,
        Self::EdDsa,
    ];

    /// The name in the header of a token.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::Rs384 => "RS384",
            Self::Rs512 => "RS512",
            Self::Es256 => "ES256",
            Self::Es384 => "ES384",
            Self::EdDsa => "EdDSA",
        }
    }

    /// The algorithm of a name.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.as_str() == name)
    }
}

/// Keys that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum JwksError {
    /// Not a set of keys.
    #[error("the keys are not a JSON Web Key Set: {0}")]
    Malformed(String),
    /// Too large.
    #[error("the key set has more than {MOST_KEYS} keys or {MOST_BYTES} bytes")]
    TooLarge,
    /// No key for a supported algorithm.
    #[error("the key set has no public key for {}", names())]
    NoKey,
    /// A private or shared key was published.
    #[error("the key set contains a private or shared key; publish only public keys")]
    Private,
}

fn names() -> String {
    Algorithm::ALL.map(Algorithm::as_str).join(", ")
}

/// The public keys of an issuer.
#[derive(Debug, Clone, Default)]
pub struct Jwks {
    keys: Vec<Key>,
}

#[derive(Debug, Clone)]
struct Key {
    id: Option<String>,
    /// The only algorithm of the key, if it says so.
    algorithm: Option<Algorithm>,
    material: Material,
}

#[derive(Debug, Clone)]
enum Material {
    Rsa { n: Vec<u8>, e: Vec<u8> },
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
}

/// Why no key verifies a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyError {
    /// No key has this id and fits the algorithm.
    Unknown,
    /// The key does not verify the signature.
    Signature,
}

#[derive(Deserialize)]
struct Document {
    keys: Vec<serde_json::Value>,
}

#[derive(Deserialize)]
struct Written {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    #[serde(rename = "use")]
    usage: Option<String>,
    key_ops: Option<Vec<String>>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

impl Jwks {
    /// Reads a set of keys. Keys of other kinds and for other uses are left out.
    ///
    /// # Errors
    /// Not a set of keys, none that can be used, or one that must not be public.
    pub fn parse(text: &[u8]) -> Result<Self, JwksError> {
        if text.len() > MOST_BYTES {
            return Err(JwksError::TooLarge);
        }
        let document: Document = serde_json::from_slice(text)
            .map_err(|error| JwksError::Malformed(error.to_string()))?;
        if document.keys.len() > MOST_KEYS {
            return Err(JwksError::TooLarge);
        }
        let is_private = |key: &serde_json::Value| key.get("d").is_some() || key.get("k").is_some();
        if document.keys.iter().any(is_private) {
            return Err(JwksError::Private);
        }
        let keys: Vec<Key> = document.keys.into_iter().filter_map(key).collect();
        if keys.is_empty() {
            return Err(JwksError::NoKey);
        }
        Ok(Self { keys })
    }

    /// Verifies a signature by the key with this id, or by the only key that fits the algorithm.
    ///
    /// # Errors
    /// No such key, or another signature.
    pub fn verify(
        &self,
        id: Option<&str>,
        algorithm: Algorithm,
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), KeyError> {
        let fits = |key: &&Key| key.fits(algorithm) && (id.is_none() || key.id.as_deref() == id);
        let mut fitting = self.keys.iter().filter(fits);
        let key = fitting.next().ok_or(KeyError::Unknown)?;
        if fitting.next().is_some() {
            // Which one is meant must not be guessed.
            return Err(KeyError::Unknown);
        }
        key.verify(algorithm, message, signature)
    }
}

impl Key {
    /// The kind of the key decides, never what the token says alone.
    fn fits(&self, algorithm: Algorithm) -> bool {
        let is_kind = match self.material {
            Material::Rsa { .. } => matches!(
                algorithm,
                Algorithm::Rs256 | Algorithm::Rs384 | Algorithm::Rs512
            ),
            Material::P256(_) => algorithm == Algorithm::Es256,
            Material::P384(_) => algorithm == Algorithm::Es384,
            Material::Ed25519(_) => algorithm == Algorithm::EdDsa,
        };
        is_kind && self.algorithm.is_none_or(|only| only == algorithm)
    }

    fn verify(&self, algorithm: Algorithm, message: &[u8], sent: &[u8]) -> Result<(), KeyError> {
        let verified = match &self.material {
            Material::Rsa { n, e } => {
                let parameters = match algorithm {
                    Algorithm::Rs384 => &RSA_PKCS1_2048_8192_SHA384,
                    Algorithm::Rs512 => &RSA_PKCS1_2048_8192_SHA512,
                    _ => &RSA_PKCS1_2048_8192_SHA256,
                };
                RsaPublicKeyComponents { n, e }.verify(parameters, message, sent)
            }
            Material::P256(point) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, sent)
            }
            Material::P384(point) => {
                UnparsedPublicKey::new(&ECDSA_P384_SHA384_FIXED, point).verify(message, sent)
            }
            Material::Ed25519(key) => UnparsedPublicKey::new(&ED25519, key).verify(message, sent),
        };
        verified.map_err(|_| KeyError::Signature)
    }
}

/// A key that can be used.
fn key(value: serde_json::Value) -> Option<Key> {
    let written: Written = serde_json::from_value(value).ok()?;
    let is_for_signatures = written.usage.as_deref().is_none_or(|usage| usage == "sig")
        && written
            .key_ops
            .as_ref()
            .is_none_or(|operations| operations.iter().any(|operation| operation == "verify"));
    let algorithm = match written.alg.as_deref() {
        Some(name) => Some(Algorithm::of(name)?),
        None => None,
    };
    let curve = written.crv.as_deref();
    let material = match (written.kty.as_str(), curve) {
        ("RSA", _) => {
            let n = bytes(written.n.as_deref()?)?;
            // Leading zeros are not part of the number, and the verifier refuses them.
            let zeros = n.iter().take_while(|byte| **byte == 0).count();
            let n = n[zeros..].to_vec();
            let e = bytes(written.e.as_deref()?)?;
            RSA_BYTES
                .contains(&n.len())
                .then_some(Material::Rsa { n, e })?
        }
        ("EC", Some("P-256")) => Material::P256(point(&written, 32)?),
        ("EC", Some("P-384")) => Material::P384(point(&written, 48)?),
        ("OKP", Some("Ed25519")) => {
            let key = bytes(written.x.as_deref()?)?;
            (key.len() == 32).then_some(Material::Ed25519(key))?
        }
        _ => return None,
    };
    is_for_signatures.then_some(Key {
        id: written.kid,
        algorithm,
        material,
    })
}

/// An uncompressed point of a curve.
fn point(written: &Written, size: usize) -> Option<Vec<u8>> {
    let (x, y) = (bytes(written.x.as_deref()?)?, bytes(written.y.as_deref()?)?);
    (x.len() == size && y.len() == size).then(|| [&[4], x.as_slice(), y.as_slice()].concat())
}

fn bytes(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_cannot_be_used_are_left_out() {
        let point = URL_SAFE_NO_PAD.encode([7; 32]);
        let good = format!(r#"{{"kty":"EC","crv":"P-256","x":"{point}","y":"{point}"}}"#);
        let set = |keys: &str| Jwks::parse(format!(r#"{{"keys":[{keys}]}}"#).as_bytes());
        assert_eq!(set(&good).unwrap().keys.len(), 1);
        for useless in [
            r#"{"kty":"EC","crv":"secp256k1","x":"AA","y":"AA"}"#.to_owned(),
            r#"{"kty":"RSA","n":"AQAB","e":"AQAB"}"#.to_owned(),
            format!(r#"{{"kty":"OKP","crv":"X25519","x":"{point}"}}"#),
            good.replace("\"kty\"", "\"use\":\"enc\",\"kty\""),
            good.replace("\"kty\"", "\"alg\":\"HS256\",\"kty\""),
            good.replace("\"kty\"", "\"key_ops\":[\"sign\"],\"kty\""),
            "7".to_owned(),
        ] {
            assert_eq!(set(&useless).unwrap_err(), JwksError::NoKey, "{useless}");
            let both = set(&format!("{useless},{good}")).unwrap();
            assert_eq!(both.keys.len(), 1, "{useless}");
        }
    }

    #[test]
    fn a_set_with_a_secret_or_without_bounds_is_refused() {
        for secret in [
            r#"{"keys":[{"kty":"oct","k":"c2VjcmV0"}]}"#,
            r#"{"keys":[{"kty":"RSA","d":"c2VjcmV0"}]}"#,
        ] {
            let error = Jwks::parse(secret.as_bytes()).unwrap_err();
            assert_eq!(error, JwksError::Private);
            assert!(!error.to_string().contains("c2VjcmV0"));
        }
        let many = format!(r#"{{"keys":[{}7]}}"#, "7,".repeat(MOST_KEYS));
        assert_eq!(
            Jwks::parse(many.as_bytes()).unwrap_err(),
            JwksError::TooLarge
        );
        let large = vec![b' '; MOST_BYTES + 1];
        assert_eq!(Jwks::parse(&large).unwrap_err(), JwksError::TooLarge);
        assert!(matches!(Jwks::parse(b"[]"), Err(JwksError::Malformed(_))));
    }
}
