//! JSON Web Tokens, verified without asking their issuer (RFC 7519, RFC 8725).

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;

use crate::jwks::{Algorithm, Jwks, KeyError};
use crate::{Identity, Method, Unfit};

/// The longest token in bytes.
pub const LONGEST_TOKEN: usize = 8 * 1024;

/// Which tokens are accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// `iss` must be this.
    pub issuer: String,
    /// `aud` must contain one of these.
    pub audiences: Vec<String>,
    /// The algorithms that are accepted.
    pub algorithms: Vec<Algorithm>,
    /// The claim with the roles: a list of texts, or one text with blanks between roles. A dot leads
    /// into an object, as in `realm_access.roles`.
    pub roles_claim: String,
    /// The claim with the tenant.
    pub tenant_claim: String,
    /// How far the clocks of the issuer and of the gateway may differ.
    pub leeway: Duration,
}

/// A token that was accepted.
#[derive(Debug, Clone, PartialEq)]
pub struct Accepted {
    /// Who sent it.
    pub identity: Identity,
    /// When it is not accepted any more.
    pub until: Timestamp,
}

/// Why a token is refused. No variant carries a part of the token.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum JwtError {
    /// It is no token.
    #[error("the token is not a signed JSON Web Token")]
    Malformed,
    /// It is too long.
    #[error("the token is longer than {LONGEST_TOKEN} bytes")]
    TooLong,
    /// Its algorithm is not accepted: `none`, a shared secret, or one that is not configured.
    #[error("the algorithm of the token is not accepted")]
    Algorithm,
    /// Its header asks for something that must be understood and is not.
    #[error("the header of the token has a `typ` or `crit` that is not supported")]
    Header,
    /// No key of the issuer has its key id and fits its algorithm.
    #[error("the issuer has no key for this token")]
    UnknownKey,
    /// The signature is not the issuer's.
    #[error("the signature of the token is wrong")]
    Signature,
    /// Another issuer.
    #[error("the token is from another issuer")]
    Issuer,
    /// For another audience.
    #[error("the token is for another audience")]
    Audience,
    /// It has expired.
    #[error("the token has expired")]
    Expired,
    /// It is not valid yet.
    #[error("the token is not valid yet")]
    NotYetValid,
    /// It was not made for this sign-in.
    #[error("the token was not issued for this sign-in")]
    Nonce,
    /// A claim is missing or has another type.
    #[error("the claim `{0}` of the token is missing or has the wrong type")]
    Claim(String),
    /// A name does not fit.
    #[error(transparent)]
    Unfit(#[from] Unfit),
}

impl JwtError {
    /// The reason in errors and metrics.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Malformed | Self::TooLong | Self::Header => "TOKEN_MALFORMED",
            Self::Algorithm => "TOKEN_ALGORITHM_NOT_ACCEPTED",
            Self::UnknownKey => "TOKEN_KEY_UNKNOWN",
            Self::Signature => "TOKEN_SIGNATURE_INVALID",
            Self::Issuer => "TOKEN_ISSUER_NOT_ACCEPTED",
            Self::Audience => "TOKEN_AUDIENCE_NOT_ACCEPTED",
            Self::Expired => "TOKEN_EXPIRED",
            Self::NotYetValid => "TOKEN_NOT_YET_VALID",
            Self::Nonce => "TOKEN_NONCE_INVALID",
            Self::Claim(_) | Self::Unfit(_) => "TOKEN_CLAIM_INVALID",
        }
    }
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    typ: Option<String>,
    crit: Option<Value>,
}

/// The claims that are always read. A claim that comes twice is an error.
#[derive(Deserialize)]
struct Claims {
    iss: Option<Value>,
    sub: Option<Value>,
    aud: Option<Value>,
    exp: Option<Value>,
    nbf: Option<Value>,
    azp: Option<Value>,
    nonce: Option<Value>,
}

impl Rules {
    /// Verifies a token: first its form and algorithm, then its signature, then its claims.
    ///
    /// # Errors
    /// Why it is refused.
    pub fn verify(&self, token: &str, keys: &Jwks, now: Timestamp) -> Result<Accepted, JwtError> {
        let claims = self.signed(token, keys, &is_access_token)?;
        let known: Claims = json(claims)?;
        let until = self.check(&known, &self.audiences, now)?;
        self.accepted(claims, &known, Method::Jwt, until)
    }

    /// Verifies the ID token of a sign-in: a token for this client, with the nonce that the person was
    /// sent to the provider with.
    ///
    /// # Errors
    /// Why it is refused.
    pub fn verify_id_token(
        &self,
        token: &str,
        keys: &Jwks,
        now: Timestamp,
        client_id: &str,
        nonce: &str,
    ) -> Result<Accepted, JwtError> {
        let claims = self.signed(token, keys, &is_id_token)?;
        let known: Claims = json(claims)?;
        let until = self.check(&known, &[client_id.to_owned()], now)?;
        let has_others = matches!(&known.aud, Some(Value::Array(list)) if list.len() > 1);
        let is_ours = match &known.azp {
            Some(party) => party.as_str() == Some(client_id),
            None => !has_others,
        };
        if !is_ours {
            return Err(JwtError::Audience);
        }
        if known.nonce.as_ref().and_then(Value::as_str) != Some(nonce) {
            return Err(JwtError::Nonce);
        }
        self.accepted(claims, &known, Method::Oidc, until)
    }

    /// The claims of a token whose form, algorithm and signature are right.
    fn signed<'t>(
        &self,
        token: &'t str,
        keys: &Jwks,
        is_type: &dyn Fn(&str) -> bool,
    ) -> Result<&'t str, JwtError> {
        if token.len() > LONGEST_TOKEN {
            return Err(JwtError::TooLong);
        }
        let (message, signature) = token.rsplit_once('.').ok_or(JwtError::Malformed)?;
        let (header, claims) = message.split_once('.').ok_or(JwtError::Malformed)?;
        if claims.contains('.') {
            return Err(JwtError::Malformed);
        }
        let header: Header = json(header)?;
        let algorithm = Algorithm::of(&header.alg).filter(|it| self.algorithms.contains(it));
        let algorithm = algorithm.ok_or(JwtError::Algorithm)?;
        if header.crit.is_some() || !header.typ.as_deref().is_none_or(is_type) {
            return Err(JwtError::Header);
        }
        let signature = decoded(signature)?;
        let signed = keys.verify(
            header.kid.as_deref(),
            algorithm,
            message.as_bytes(),
            &signature,
        );
        signed.map_err(|error| match error {
            KeyError::Unknown => JwtError::UnknownKey,
            KeyError::Signature => JwtError::Signature,
        })?;
        Ok(claims)
    }

    fn accepted(
        &self,
        claims: &str,
        known: &Claims,
        method: Method,
        until: Timestamp,
    ) -> Result<Accepted, JwtError> {
        let subject = text(&known.sub, "sub")?;
        let all: Value = json(claims)?;
        let roles = roles(&all, &self.roles_claim)?;
        let tenant = tenant(&all, &self.tenant_claim)?;
        let identity = Identity::new(method, subject, roles, tenant)?;
        Ok(Accepted { identity, until })
    }

    /// Issuer, audience and times.
    fn check(
        &self,
        claims: &Claims,
        audiences: &[String],
        now: Timestamp,
    ) -> Result<Timestamp, JwtError> {
        if text(&claims.iss, "iss")? != self.issuer {
            return Err(JwtError::Issuer);
        }
        let is_ours = |audience: &Value| {
            let audience = audience.as_str();
            audience.is_some_and(|audience| audiences.iter().any(|ours| ours == audience))
        };
        let is_for_us = match &claims.aud {
            Some(Value::Array(audiences)) => audiences.iter().any(is_ours),
            Some(audience) => is_ours(audience),
            None => false,
        };
        if !is_for_us {
            return Err(JwtError::Audience);
        }
        let expires = time(&claims.exp, "exp")?.ok_or_else(|| JwtError::Claim("exp".into()))?;
        let until = expires.saturating_add(self.leeway).unwrap_or(expires);
        if until <= now {
            return Err(JwtError::Expired);
        }
        if let Some(begins) = time(&claims.nbf, "nbf")?
            && begins.saturating_sub(self.leeway).unwrap_or(begins) > now
        {
            return Err(JwtError::NotYetValid);
        }
        Ok(until)
    }
}

/// A token of another type, such as a logout token, was not made for calls.
fn is_access_token(typ: &str) -> bool {
    let typ = typ.strip_prefix("application/").unwrap_or(typ);
    typ.eq_ignore_ascii_case("JWT") || typ.eq_ignore_ascii_case("at+jwt")
}

/// An access token was not made for a sign-in.
fn is_id_token(typ: &str) -> bool {
    typ.eq_ignore_ascii_case("JWT")
}

fn json<T: for<'d> Deserialize<'d>>(part: &str) -> Result<T, JwtError> {
    serde_json::from_slice(&decoded(part)?).map_err(|_| JwtError::Malformed)
}

fn decoded(part: &str) -> Result<Vec<u8>, JwtError> {
    let bytes = URL_SAFE_NO_PAD.decode(part);
    let bytes = bytes.map_err(|_| JwtError::Malformed)?;
    if bytes.is_empty() {
        return Err(JwtError::Malformed);
    }
    Ok(bytes)
}

fn text<'c>(claim: &'c Option<Value>, name: &str) -> Result<&'c str, JwtError> {
    let text = claim.as_ref().and_then(Value::as_str);
    text.ok_or_else(|| JwtError::Claim(name.to_owned()))
}

/// A time in seconds, which may have a fraction.
fn time(claim: &Option<Value>, name: &str) -> Result<Option<Timestamp>, JwtError> {
    let Some(value) = claim else {
        return Ok(None);
    };
    let wrong = || JwtError::Claim(name.to_owned());
    let seconds = value.as_f64().ok_or_else(wrong)?;
    // A time beyond what can be written is as good as never, and no mistake that harms.
    let bounded = seconds.clamp(-1e11, 2e11);
    #[allow(clippy::cast_possible_truncation)]
    let whole = bounded.floor() as i64;
    Timestamp::from_second(whole).map(Some).map_err(|_| wrong())
}

/// The claim that a path leads to.
fn claim<'c>(claims: &'c Value, path: &str) -> Option<&'c Value> {
    // A name with dots, such as a URL, is tried as a whole first.
    claims.get(path).or_else(|| {
        let mut at = claims;
        for name in path.split('.') {
            at = at.get(name)?;
        }
        Some(at)
    })
}

fn roles<'c>(claims: &'c Value, path: &str) -> Result<Vec<&'c str>, JwtError> {
    let wrong = || JwtError::Claim(path.to_owned());
    match claim(claims, path) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::String(list)) => Ok(list.split_ascii_whitespace().collect()),
        Some(Value::Array(list)) => list
            .iter()
            .map(|role| role.as_str().ok_or_else(wrong))
            .collect(),
        Some(_) => Err(wrong()),
    }
}

fn tenant<'c>(claims: &'c Value, path: &str) -> Result<Option<&'c str>, JwtError> {
    match claim(claims, path) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(tenant)) => Ok(Some(tenant)),
        Some(_) => Err(JwtError::Claim(path.to_owned())),
    }
}

#[cfg(test)]
#[path = "jwt_tests.rs"]
mod tests;
