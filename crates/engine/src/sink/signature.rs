//! Signatures of the Standard Webhooks scheme: HMAC-SHA256 over id, time and body.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac as _};
use sha2::Sha256;

/// The shortest secret that is accepted, in bytes.
const SHORTEST: usize = 16;

/// What a receiver checks signatures with. It is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl Secret {
    /// Reads a secret: `whsec_` and base 64, or any other text as it is.
    ///
    /// # Errors
    /// It is too short, or not base 64.
    pub fn new(text: &str) -> Result<Self, &'static str> {
        let text = text.trim();
        let bytes = match text.strip_prefix("whsec_") {
            Some(encoded) => STANDARD
                .decode(encoded)
                .map_err(|_| "what follows `whsec_` is not base 64")?,
            None => text.as_bytes().to_vec(),
        };
        if bytes.len() < SHORTEST {
            return Err("it is shorter than 16 bytes");
        }
        Ok(Self(bytes))
    }

    /// The signature of a message.
    pub(super) fn sign(&self, id: &str, timestamp: i64, body: &[u8]) -> String {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(&self.0).expect("an HMAC takes a key of any length");
        mac.update(format!("{id}.{timestamp}.").as_bytes());
        mac.update(body);
        format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_signs_like_the_scheme_says() {
        // The example of the scheme's specification.
        let secret = Secret::new("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let signature = secret.sign(
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            br#"{"test": 2432232314}"#,
        );
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn a_secret_is_never_shown_and_never_short() {
        let secret = Secret::new("correct horse battery").unwrap();
        assert_eq!(format!("{secret:?}"), "Secret(…)");
        assert!(Secret::new("short").is_err());
        assert!(Secret::new("whsec_c2hvcnQ=").is_err());
        assert!(Secret::new("whsec_%").is_err());
    }
}
