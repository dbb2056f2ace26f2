//! OpenID Connect without the network: what a provider publishes, the address that a person is sent
//! to, and the proof key of the code that comes back (OpenID Connect Core and Discovery, RFC 7636, RFC
//! 9207).

use std::net::IpAddr;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use form_urlencoded::Serializer;
use ring::digest::{SHA256, digest};
use serde::Deserialize;
use thiserror::Error;

use crate::Secret;

/// The most bytes of the document of a provider, and of each of its responses.
pub const MOST_BYTES: usize = 256 * 1024;

/// Where the document of an issuer is.
const WELL_KNOWN: &str = "/.well-known/openid-configuration";

/// A document of a provider that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DiscoveryError {
    /// Not a document of a provider.
    #[error("the response is not the configuration of an OpenID provider: {0}")]
    Malformed(String),
    /// The document of another issuer.
    #[error("the configuration belongs to another issuer")]
    OtherIssuer,
    /// An address that may be read or changed on the way.
    #[error("`{0}` must begin with https:// (http:// on this machine only)")]
    Address(&'static str),
}

/// What a provider publishes about itself.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Discovery {
    /// Who issues tokens.
    pub issuer: String,
    /// Where people sign in.
    pub authorization_endpoint: String,
    /// Where codes become tokens.
    pub token_endpoint: String,
    /// Where the public keys are.
    pub jwks_uri: String,
    /// Where people sign out.
    #[serde(default)]
    pub end_session_endpoint: Option<String>,
    /// Where a device asks for a code that a person confirms elsewhere.
    #[serde(default)]
    pub device_authorization_endpoint: Option<String>,
    /// Where a token is given back.
    #[serde(default)]
    pub revocation_endpoint: Option<String>,
    /// How a client may prove who it is; `client_secret_basic` if the provider does not say.
    #[serde(default)]
    pub token_endpoint_auth_methods_supported: Option<Vec<String>>,
    /// Whether every answer names its issuer.
    #[serde(default)]
    pub authorization_response_iss_parameter_supported: bool,
}

impl Discovery {
    /// Where the document of an issuer is.
    #[must_use]
    pub fn address(issuer: &str) -> String {
        format!("{}{WELL_KNOWN}", issuer.trim_end_matches('/'))
    }

    /// Reads the document of an issuer.
    ///
    /// # Errors
    /// No such document, that of another issuer, or with addresses that are not protected.
    pub fn parse(text: &[u8], issuer: &str) -> Result<Self, DiscoveryError> {
        let found: Self = serde_json::from_slice(text)
            .map_err(|error| DiscoveryError::Malformed(error.to_string()))?;
        if found.issuer != issuer {
            return Err(DiscoveryError::OtherIssuer);
        }
        let required = [
            (
                "authorization_endpoint",
                Some(&found.authorization_endpoint),
            ),
            ("token_endpoint", Some(&found.token_endpoint)),
            ("jwks_uri", Some(&found.jwks_uri)),
            ("end_session_endpoint", found.end_session_endpoint.as_ref()),
            (
                "device_authorization_endpoint",
                found.device_authorization_endpoint.as_ref(),
            ),
            ("revocation_endpoint", found.revocation_endpoint.as_ref()),
        ];
        for (name, address) in required {
            if address.is_some_and(|address| !is_protected(address)) {
                return Err(DiscoveryError::Address(name));
            }
        }
        Ok(found)
    }

    /// Whether a client sends its secret in the body of a request instead of in a header.
    #[must_use]
    pub fn takes_secret_in_body(&self) -> bool {
        let Some(methods) = &self.token_endpoint_auth_methods_supported else {
            return false;
        };
        let has = |wanted: &str| methods.iter().any(|method| method == wanted);
        !has("client_secret_basic") && has("client_secret_post")
    }

    /// Whether an answer comes from this issuer, by its parameter `iss` (RFC 9207).
    #[must_use]
    pub fn is_issuer_of(&self, named: Option<&str>) -> bool {
        match named {
            Some(named) => named == self.issuer,
            None => !self.authorization_response_iss_parameter_supported,
        }
    }
}

/// Whether data on the way to an address is protected against reading and changes: `https`, or `http` on this machine.
#[must_use]
pub fn is_protected(address: &str) -> bool {
    if !address.bytes().all(|byte| byte.is_ascii_graphic()) || address.contains('\\') {
        return false;
    }
    let (is_encrypted, rest) = match address.split_once("://") {
        Some(("https", rest)) => (true, rest),
        Some(("http", rest)) => (false, rest),
        _ => return false,
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.is_empty() || authority.contains('@') {
        return false;
    }
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    let is_local = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    !host.is_empty() && (is_encrypted || is_local)
}

/// The key that proves that the code is redeemed by the client that requested it (PKCE).
#[derive(Debug, Clone)]
pub struct CodeVerifier(Secret);

impl CodeVerifier {
    /// Of random bytes.
    #[must_use]
    pub fn new(random: &[u8; 32]) -> Self {
        Self(Secret::new(word(random)))
    }

    /// One that was made before.
    #[must_use]
    pub fn again(text: String) -> Self {
        Self(Secret::new(text))
    }

    /// The verifier itself, which is sent to the token endpoint.
    #[must_use]
    pub fn expose(&self) -> &str {
        self.0.expose()
    }

    /// The hash of the verifier, which is sent to the provider when the sign-in begins.
    #[must_use]
    pub fn challenge(&self) -> String {
        URL_SAFE_NO_PAD.encode(digest(&SHA256, self.0.expose().as_bytes()))
    }
}

/// Random bytes as one word.
#[must_use]
pub fn word(random: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(random)
}

/// What a person is sent to the provider with.
#[derive(Debug, Clone)]
pub struct AuthorizationRequest<'r> {
    /// Who asks.
    pub client_id: &'r str,
    /// The redirect address.
    pub redirect_uri: &'r str,
    /// What is asked for, separated by blanks.
    pub scopes: &'r str,
    /// Returned with the redirect.
    pub state: &'r str,
    /// Returned in the token.
    pub nonce: &'r str,
    /// The key of the code.
    pub verifier: &'r CodeVerifier,
    /// For whom the access token is meant (RFC 8707).
    pub resource: Option<&'r str>,
}

impl AuthorizationRequest<'_> {
    /// The address that the person is sent to.
    #[must_use]
    pub fn address(&self, discovery: &Discovery) -> String {
        let challenge = self.verifier.challenge();
        let mut fields = vec![
            ("response_type", "code"),
            ("client_id", self.client_id),
            ("redirect_uri", self.redirect_uri),
            ("scope", self.scopes),
            ("state", self.state),
            ("nonce", self.nonce),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
        ];
        fields.extend(self.resource.map(|resource| ("resource", resource)));
        // A provider gives a refresh token only with the consent of the person.
        if self
            .scopes
            .split(' ')
            .any(|scope| scope == "offline_access")
        {
            fields.push(("prompt", "consent"));
        }
        with_query(&discovery.authorization_endpoint, &fields)
    }
}

/// An address with more parameters.
#[must_use]
pub fn with_query(address: &str, fields: &[(&str, &str)]) -> String {
    let separator = if address.contains('?') { '&' } else { '?' };
    format!("{address}{separator}{}", form(fields))
}

/// Fields as a form.
#[must_use]
pub fn form(fields: &[(&str, &str)]) -> String {
    let mut form = Serializer::new(String::new());
    form.extend_pairs(fields);
    form.finish()
}

/// The fields of a form or of a query.
#[must_use]
pub fn fields(form: &[u8]) -> Vec<(String, String)> {
    form_urlencoded::parse(form).into_owned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ISSUER: &str = "https://id.example.org";

    fn document(more: &str) -> String {
        format!(
            r#"{{"issuer": "{ISSUER}", "authorization_endpoint": "{ISSUER}/auth?a=b",
                "token_endpoint": "{ISSUER}/token", "jwks_uri": "{ISSUER}/keys"{more}}}"#
        )
    }

    fn parsed(more: &str) -> Result<Discovery, DiscoveryError> {
        Discovery::parse(document(more).as_bytes(), ISSUER)
    }

    #[test]
    fn the_document_of_another_issuer_is_refused() {
        let found = parsed("").unwrap();
        assert_eq!(found.end_session_endpoint, None);
        let document = document("");
        let other = Discovery::parse(document.as_bytes(), "https://id.example.org/");
        assert_eq!(other, Err(DiscoveryError::OtherIssuer));
        assert!(matches!(
            Discovery::parse(b"{}", ISSUER),
            Err(DiscoveryError::Malformed(_))
        ));
    }

    #[test]
    fn every_address_must_be_protected() {
        for (name, more) in [
            (
                "end_session_endpoint",
                r#", "end_session_endpoint": "http://id.example.org/x""#,
            ),
            (
                "revocation_endpoint",
                r#", "revocation_endpoint": "javascript:alert(1)""#,
            ),
        ] {
            assert_eq!(parsed(more), Err(DiscoveryError::Address(name)));
        }
        for address in [
            "https://a",
            "https://a:1/x",
            "http://localhost:7/x",
            "http://127.0.0.1",
            "http://[::1]:8/x",
        ] {
            assert!(is_protected(address), "{address}");
        }
        for address in [
            "",
            "https://",
            "http://a",
            "http://localhost.evil.example",
            "http://127.0.0.1@evil.example/",
            "http://127.0.0.1\\@evil.example/",
            "https:///x",
            "ftp://a",
            "https://a b",
            "//a",
        ] {
            assert!(!is_protected(address), "{address}");
        }
    }

    #[test]
    fn the_proof_key_is_that_of_the_standard() {
        // Appendix B of RFC 7636.
        let verifier = CodeVerifier::again("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk".into());
        let challenge = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";
        assert_eq!(verifier.challenge(), challenge);
        assert!((43..=128).contains(&CodeVerifier::new(&[7; 32]).expose().len()));
        assert!(!format!("{verifier:?}").contains("dBjf"));
    }

    #[test]
    fn the_address_has_every_parameter_escaped() {
        let verifier = CodeVerifier::new(&[0; 32]);
        let request = AuthorizationRequest {
            client_id: "a&b",
            redirect_uri: "https://gateway/sign-in/callback",
            scopes: "openid offline_access",
            state: "s",
            nonce: "n",
            verifier: &verifier,
            resource: None,
        };
        let address = request.address(&parsed("").unwrap());
        let beginning = "https://id.example.org/auth?a=b&response_type=code&client_id=a%26b&\
             redirect_uri=https%3A%2F%2Fgateway%2Fsign-in%2Fcallback&scope=openid+offline_access&\
             state=s&nonce=n&code_challenge=";
        assert!(address.starts_with(beginning), "{address}");
        assert!(address.ends_with("&code_challenge_method=S256&prompt=consent"));
    }

    #[test]
    fn an_answer_names_its_issuer_if_the_provider_promises_it() {
        let silent = parsed("").unwrap();
        assert!(silent.is_issuer_of(None) && silent.is_issuer_of(Some(ISSUER)));
        assert!(!silent.is_issuer_of(Some("https://evil.example")));
        let more = r#", "authorization_response_iss_parameter_supported": true"#;
        let naming = parsed(more).unwrap();
        assert!(!naming.is_issuer_of(None) && naming.is_issuer_of(Some(ISSUER)));
    }

    #[test]
    fn the_secret_is_sent_as_the_provider_wants_it() {
        assert!(!parsed("").unwrap().takes_secret_in_body());
        let methods = |list: &str| {
            let more = format!(r#", "token_endpoint_auth_methods_supported": [{list}]"#);
            parsed(&more).unwrap().takes_secret_in_body()
        };
        assert!(!methods(r#""client_secret_post", "client_secret_basic""#));
        assert!(methods(r#""private_key_jwt", "client_secret_post""#));
        assert!(!methods(""));
    }
}
