//! Which proof of a request counts. A request has exactly one identity: two proofs are refused, even
//! if they agree, because the next one of the same client might not.

use thiserror::Error;

use crate::api_key;
use crate::{Glob, Identity, LONGEST_ROLE, MOST_ROLES, Method, Unfit, is_word};

/// The methods that are configured.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Methods {
    /// Whether client certificates name their owners.
    pub certificates: bool,
    /// Whether tokens are accepted.
    pub jwt: bool,
    /// Whether API keys are accepted.
    pub api_keys: bool,
    /// The subjects of certificates whose owners are proxies: they authenticate callers and name them
    /// in headers.
    pub proxies: Vec<Glob>,
}

/// What a request brings as proof.
#[derive(Debug, Clone, Copy, Default)]
pub struct Request<'r> {
    /// The subject of its client certificate.
    pub certificate: Option<&'r str>,
    /// Its token or API key.
    pub bearer: Option<&'r str>,
    /// The session of a person in a browser.
    pub session: Option<&'r str>,
    /// The headers that name a caller.
    pub headers: Option<ProxyHeaders<'r>>,
}

/// The headers that name a caller.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProxyHeaders<'r> {
    /// `x-stateway-actor`.
    pub actor: Option<&'r str>,
    /// `x-stateway-roles`, separated by commas.
    pub roles: Option<&'r str>,
    /// `x-stateway-tenant`.
    pub tenant: Option<&'r str>,
}

/// The one proof that counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proof<'r> {
    /// The subject of a client certificate.
    Certificate(&'r str),
    /// A token that is still to be verified.
    Jwt(&'r str),
    /// An API key that is still to be verified.
    ApiKey(&'r str),
    /// The headers of a proxy.
    Proxy(ProxyHeaders<'r>),
    /// The session of a person in a browser, still to be verified.
    Session(&'r str),
}

/// Why no proof counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ProofError {
    /// There is none.
    #[error("the request has no credential")]
    Missing,
    /// There are several.
    #[error("the request has more than one credential")]
    Conflicting,
    /// The headers do not come from a proxy.
    #[error(
        "the headers x-stateway-actor, -roles and -tenant are accepted from configured proxies only"
    )]
    NotAProxy,
    /// A proxy did not say for whom it calls.
    #[error("the proxy does not name the caller in x-stateway-actor")]
    Unnamed,
    /// A method that is not configured.
    #[error("this kind of credential is not configured")]
    NotConfigured,
}

impl ProofError {
    /// The reason in errors and metrics.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Missing => "CREDENTIALS_MISSING",
            Self::Conflicting => "CREDENTIALS_CONFLICT",
            Self::NotAProxy => "IDENTITY_HEADERS_NOT_ACCEPTED",
            Self::Unnamed => "CALLER_NOT_NAMED",
            Self::NotConfigured => "CREDENTIALS_NOT_ACCEPTED",
        }
    }
}

impl Methods {
    /// Whether any method is configured.
    #[must_use]
    pub fn is_any(&self) -> bool {
        self.certificates || self.jwt || self.api_keys || !self.proxies.is_empty()
    }

    /// The one proof of a request that counts.
    ///
    /// A proxy may pass on the token of a caller instead of headers. The certificate of a proxy is
    /// never the identity of a request, because the proxy acts for other callers.
    ///
    /// # Errors
    /// None, several, or one that is not accepted.
    pub fn choose<'r>(&self, request: Request<'r>) -> Result<Proof<'r>, ProofError> {
        let is_proxy = request
            .certificate
            .is_some_and(|subject| self.proxies.iter().any(|proxy| proxy.fits(subject)));
        let bearer = match (request.bearer, request.session) {
            (Some(_), Some(_)) => return Err(ProofError::Conflicting),
            (Some(bearer), None) => Some(self.bearer(bearer)),
            (None, Some(session)) => Some(Ok(Proof::Session(session))),
            (None, None) => None,
        };
        if is_proxy {
            return match (request.headers, bearer) {
                (Some(_), Some(_)) => Err(ProofError::Conflicting),
                (Some(headers), None) if headers.actor.is_some() => Ok(Proof::Proxy(headers)),
                (_, Some(bearer)) => bearer,
                (_, None) => Err(ProofError::Unnamed),
            };
        }
        if request.headers.is_some() {
            return Err(ProofError::NotAProxy);
        }
        let certificate = request.certificate.filter(|_| self.certificates);
        match (certificate, bearer) {
            (Some(_), Some(_)) => Err(ProofError::Conflicting),
            (Some(subject), None) => Ok(Proof::Certificate(subject)),
            (None, Some(bearer)) => bearer,
            (None, None) => Err(ProofError::Missing),
        }
    }

    fn bearer<'r>(&self, bearer: &'r str) -> Result<Proof<'r>, ProofError> {
        let (proof, is_configured) = if bearer.starts_with(api_key::PREFIX) {
            (Proof::ApiKey(bearer), self.api_keys)
        } else {
            (Proof::Jwt(bearer), self.jwt)
        };
        if is_configured {
            Ok(proof)
        } else {
            Err(ProofError::NotConfigured)
        }
    }
}

impl ProxyHeaders<'_> {
    /// The identity that a proxy names.
    ///
    /// # Errors
    /// Names that do not fit.
    pub fn identity(&self) -> Result<Identity, Unfit> {
        let roles: Vec<&str> = self
            .roles
            .unwrap_or_default()
            .split(',')
            .map(str::trim)
            .filter(|role| !role.is_empty())
            .collect();
        if roles.len() > MOST_ROLES {
            return Err(Unfit::TooManyRoles);
        }
        if !roles.iter().all(|role| is_word(role, LONGEST_ROLE)) {
            return Err(Unfit::Role);
        }
        let subject = self.actor.unwrap_or_default();
        Identity::new(Method::Proxy, subject, roles, self.tenant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADA: ProxyHeaders<'_> = ProxyHeaders {
        actor: Some("ada"),
        roles: Some("ops"),
        tenant: None,
    };

    fn all() -> Methods {
        Methods {
            certificates: true,
            jwt: true,
            api_keys: true,
            proxies: vec![Glob::new("proxy.*")],
        }
    }

    fn request<'r>(
        certificate: Option<&'r str>,
        bearer: Option<&'r str>,
        headers: Option<ProxyHeaders<'r>>,
    ) -> Request<'r> {
        Request {
            certificate,
            bearer,
            headers,
            session: None,
        }
    }

    #[test]
    fn a_session_counts_alone_or_behind_a_proxy() {
        let methods = all();
        let chosen = |request: Request<'static>| {
            let session = Some("s");
            methods.choose(Request { session, ..request })
        };
        let proxy = Some("proxy.example");
        let session = Ok(Proof::Session("s"));
        assert_eq!(chosen(request(None, None, None)), session);
        assert_eq!(chosen(request(proxy, None, None)), session);
        for other in [
            request(Some("svc"), None, None),
            request(None, Some("a.b.c"), None),
            request(None, Some("stw_1_2"), None),
            request(proxy, None, Some(ADA)),
        ] {
            assert_eq!(chosen(other), Err(ProofError::Conflicting));
        }
        let spoofed = chosen(request(None, None, Some(ADA)));
        assert_eq!(spoofed, Err(ProofError::NotAProxy));
    }

    #[test]
    fn each_proof_counts_alone() {
        let methods = all();
        let chosen =
            |certificate, bearer, headers| methods.choose(request(certificate, bearer, headers));
        let proxy = Some("proxy.example");
        assert_eq!(
            chosen(Some("svc"), None, None),
            Ok(Proof::Certificate("svc"))
        );
        assert_eq!(chosen(None, Some("a.b.c"), None), Ok(Proof::Jwt("a.b.c")));
        assert_eq!(
            chosen(None, Some("stw_1_2"), None),
            Ok(Proof::ApiKey("stw_1_2"))
        );
        assert_eq!(chosen(proxy, None, Some(ADA)), Ok(Proof::Proxy(ADA)));
        assert_eq!(chosen(proxy, Some("a.b.c"), None), Ok(Proof::Jwt("a.b.c")));
    }

    #[test]
    fn two_proofs_and_none_are_refused() {
        let methods = all();
        let refused = |certificate, bearer, headers| {
            methods
                .choose(request(certificate, bearer, headers))
                .unwrap_err()
        };
        let proxy = Some("proxy.example");
        assert_eq!(refused(None, None, None), ProofError::Missing);
        assert_eq!(
            refused(Some("svc"), Some("a.b.c"), None),
            ProofError::Conflicting
        );
        assert_eq!(
            refused(proxy, Some("a.b.c"), Some(ADA)),
            ProofError::Conflicting
        );
        assert_eq!(refused(proxy, None, None), ProofError::Unnamed);
        let roles_only = ProxyHeaders { actor: None, ..ADA };
        assert_eq!(refused(proxy, None, Some(roles_only)), ProofError::Unnamed);
    }

    #[test]
    fn headers_count_from_a_proxy_only_whatever_else_is_proved() {
        let methods = all();
        for certificate in [None, Some("svc"), Some("evil.proxy.example")] {
            for bearer in [None, Some("a.b.c"), Some("stw_1_2")] {
                for headers in [ADA, ProxyHeaders { actor: None, ..ADA }] {
                    let refused = methods.choose(request(certificate, bearer, Some(headers)));
                    assert_eq!(refused, Err(ProofError::NotAProxy));
                }
            }
        }
    }

    #[test]
    fn a_method_that_is_not_configured_proves_nothing() {
        let none = Methods::default();
        assert!(!none.is_any());
        let refused = |bearer| none.choose(request(Some("svc"), bearer, None)).unwrap_err();
        assert_eq!(refused(None), ProofError::Missing);
        for bearer in ["a.b.c", "stw_1_2"] {
            assert_eq!(refused(Some(bearer)), ProofError::NotConfigured);
        }
    }
}
