//! Sign-in from the command line: what a gateway offers, the two ways to get a token from an OpenID
//! provider, and a new token before the old one expires.

mod browser;
mod device;
mod http;
mod refresh;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use stateway_identity::oidc::Discovery;

use crate::contexts::Grant;
use crate::exit::Exit;
use crate::failure::Failure;
pub use browser::in_browser;
pub use device::on_device;
pub use http::{Web, check_protected, current_token};
pub use refresh::{Fresh, keep_fresh};

/// What a gateway offers, at `/sign-in/methods`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Methods {
    /// Whether callers must authenticate.
    pub authentication: bool,
    /// Sign-in at a provider.
    pub oidc: Option<Oidc>,
    /// Whether API keys are accepted.
    pub api_keys: bool,
    /// Whether tokens are accepted.
    pub tokens: bool,
}

/// Sign-in at a provider.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Oidc {
    /// Who issues tokens.
    pub issuer: String,
    /// The name of this client.
    pub client_id: String,
    /// What is asked for.
    pub scopes: Vec<String>,
    /// Which token is sent to the gateway.
    pub token: String,
    /// For whom the access token is meant.
    pub resource: Option<String>,
}

/// The identity of the caller at a gateway, from `/whoami`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, serde::Serialize)]
pub struct CallerIdentity {
    /// The name.
    pub subject: String,
    /// The roles.
    pub roles: Vec<String>,
    /// The tenant.
    pub tenant: Option<String>,
    /// The method of authentication.
    pub method: String,
    /// The permissions that the access rules grant on at least one object; `None` without access rules.
    #[serde(default)]
    pub permissions: Option<Vec<String>>,
}

/// A token for a gateway, and how to get the next one.
#[derive(Debug)]
pub struct Signed {
    /// What is sent to the gateway. A secret.
    pub token: stateway_identity::Secret,
    /// How to get the next one.
    pub grant: Grant,
}

/// The response of a token endpoint.
#[derive(Deserialize)]
struct TokenResponse {
    id_token: Option<String>,
    access_token: Option<String>,
    refresh_token: Option<String>,
    expires_in: Option<i64>,
}

/// The refusal of a token endpoint.
#[derive(Deserialize)]
struct TokenRefusal {
    error: String,
}

/// The configuration of a provider.
///
/// # Errors
/// The configuration cannot be read, or belongs to another issuer.
pub async fn discover(web: &Web, issuer: &str) -> Result<Discovery, Failure> {
    let answer = web.get(&Discovery::address(issuer), None).await?;
    let parsed = Discovery::parse(&answer.body, issuer);
    parsed.map_err(|error| {
        let message = format!("the provider {issuer} cannot be used: {error}");
        Failure::new(Exit::Unreachable, message)
    })
}

impl TokenResponse {
    /// The token for the gateway. `old` is the refresh token that stays if there is no new one.
    fn signed(
        self,
        oidc: &Oidc,
        nonce: Option<&str>,
        old: Option<String>,
    ) -> Result<Signed, Failure> {
        if let (Some(nonce), Some(token)) = (nonce, &self.id_token) {
            check(token, oidc, nonce)?;
        }
        let token = match oidc.token.as_str() {
            "access_token" => self.access_token,
            _ => self.id_token,
        };
        let token = token.ok_or_else(|| {
            let message = format!("the provider gave no {}", oidc.token);
            Failure::new(Exit::Refused, message)
                .hint("Sign in again with `stateway login`; check the scopes of the client.")
        })?;
        let expires = claims(&token).and_then(|claims| claims.get("exp")?.as_i64());
        let expires = match (expires, self.expires_in) {
            (Some(seconds), _) => Timestamp::from_second(seconds).ok(),
            (None, Some(seconds)) => {
                let now = Timestamp::now().as_second();
                Timestamp::from_second(now.saturating_add(seconds)).ok()
            }
            (None, None) => None,
        };
        Ok(Signed {
            token: stateway_identity::Secret::new(token),
            grant: Grant {
                server: String::new(),
                issuer: oidc.issuer.clone(),
                client_id: oidc.client_id.clone(),
                token: oidc.token.clone(),
                refresh_token: self.refresh_token.or(old),
                expires,
            },
        })
    }
}

/// The claims of a token. Its signature is the business of the gateway.
fn claims(token: &str) -> Option<Value> {
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    let claims = token.split('.').nth(1)?;
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()
}

/// Whether an ID token, which came directly from the provider, was made for this sign-in.
fn check(token: &str, oidc: &Oidc, nonce: &str) -> Result<(), Failure> {
    let claims = claims(token).unwrap_or_default();
    let text = |name: &str| claims.get(name).and_then(Value::as_str);
    let is_for_us = match claims.get("aud") {
        Some(Value::Array(list)) => list.iter().any(|one| one.as_str() == Some(&oidc.client_id)),
        _ => text("aud") == Some(&oidc.client_id),
    };
    if text("iss") == Some(&oidc.issuer) && is_for_us && text("nonce") == Some(nonce) {
        return Ok(());
    }
    let message = "the token of the provider was not issued for this sign-in";
    Err(Failure::new(Exit::Refused, message).hint("Sign in again."))
}

/// The failure for a refusal of the token endpoint.
fn refused(body: &[u8], status: u16) -> Failure {
    let refusal: Option<TokenRefusal> = serde_json::from_slice(body).ok();
    let why = refusal.map_or_else(|| format!("status {status}"), |it| it.error);
    let message = format!("the provider refused the sign-in: {why}");
    Failure::new(Exit::Refused, message).hint("Sign in again with `stateway login`.")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn oidc() -> Oidc {
        Oidc {
            issuer: "https://id.example".into(),
            client_id: "cli".into(),
            scopes: vec!["openid".into()],
            token: "id_token".into(),
            resource: None,
        }
    }

    fn token(claims: &Value) -> String {
        let claims = stateway_identity::oidc::word(claims.to_string().as_bytes());
        format!("e30.{claims}.sig")
    }

    fn response(claims: &Value) -> TokenResponse {
        TokenResponse {
            id_token: Some(token(claims)),
            access_token: Some("opaque".into()),
            refresh_token: None,
            expires_in: Some(60),
        }
    }

    #[test]
    fn a_token_of_another_sign_in_is_refused() {
        let good = serde_json::json!({
            "iss": "https://id.example", "aud": ["cli"], "nonce": "n", "exp": 1_800_000_000,
        });
        let old = Some("refresh".to_owned());
        let signed = response(&good).signed(&oidc(), Some("n"), old).unwrap();
        assert_eq!(signed.grant.expires.unwrap().as_second(), 1_800_000_000);
        assert_eq!(signed.grant.refresh_token.as_deref(), Some("refresh"));
        assert!(!format!("{signed:?}").contains("refresh\""));
        for (name, value) in [
            ("iss", "https://evil.example"),
            ("aud", "other"),
            ("nonce", "m"),
        ] {
            let mut claims = good.clone();
            claims[name] = value.into();
            let failure = response(&claims)
                .signed(&oidc(), Some("n"), None)
                .unwrap_err();
            assert_eq!(failure.exit, Exit::Refused, "{name}");
        }
    }

    #[test]
    fn the_configured_token_is_sent() {
        let mut oidc = oidc();
        oidc.token = "access_token".into();
        let signed = response(&Value::Null).signed(&oidc, None, None).unwrap();
        assert_eq!(signed.token.expose(), "opaque");
        assert!(signed.grant.expires.is_some());
        let nothing = TokenResponse {
            id_token: None,
            access_token: None,
            refresh_token: None,
            expires_in: None,
        };
        assert!(nothing.signed(&oidc, None, None).is_err());
    }
}
