//! One identity, whatever it was proved by.

use std::fmt;
use std::sync::Arc;

use thiserror::Error;

/// The longest subject in bytes.
pub const LONGEST_SUBJECT: usize = 256;
/// The longest role in bytes.
pub const LONGEST_ROLE: usize = 64;
/// The most roles of one identity.
pub const MOST_ROLES: usize = 64;
/// The longest tenant in bytes.
pub const LONGEST_TENANT: usize = 128;

/// Who a caller is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The name of the person or service.
    pub subject: Arc<str>,
    /// The roles of the subject.
    pub roles: Arc<[Arc<str>]>,
    /// The tenant of the subject, if it has one.
    pub tenant: Option<Arc<str>>,
    /// What proved it.
    pub method: Method,
}

/// What proved an identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Method {
    /// A client certificate.
    Certificate,
    /// A JSON Web Token.
    Jwt,
    /// An API key.
    ApiKey,
    /// The headers of a configured proxy.
    Proxy,
    /// A sign-in at the OpenID provider, in a browser.
    Oidc,
}

impl Method {
    /// Every method.
    pub const ALL: [Self; 5] = [
        Self::Certificate,
        Self::Jwt,
        Self::ApiKey,
        Self::Proxy,
        Self::Oidc,
    ];

    /// The name in logs, metrics and records.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Certificate => "certificate",
            Self::Jwt => "jwt",
            Self::ApiKey => "api-key",
            Self::Proxy => "proxy",
            Self::Oidc => "oidc",
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A name that no identity can have.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Unfit {
    /// The subject.
    #[error("the subject must be 1 to {LONGEST_SUBJECT} printable ASCII characters without blanks")]
    Subject,
    /// A role.
    #[error(
        "roles must be 1 to {LONGEST_ROLE} printable ASCII characters without blanks and commas"
    )]
    Role,
    /// Too many roles.
    #[error("an identity has at most {MOST_ROLES} roles")]
    TooManyRoles,
    /// The tenant.
    #[error("the tenant must be 1 to {LONGEST_TENANT} printable ASCII characters without blanks")]
    Tenant,
}

impl Identity {
    /// An identity whose names fit.
    ///
    /// # Errors
    /// A name that is too long or not plain.
    pub fn new<R: AsRef<str>>(
        method: Method,
        subject: &str,
        roles: impl IntoIterator<Item = R>,
        tenant: Option<&str>,
    ) -> Result<Self, Unfit> {
        if !is_word(subject, LONGEST_SUBJECT) {
            return Err(Unfit::Subject);
        }
        if tenant.is_some_and(|tenant| !is_word(tenant, LONGEST_TENANT)) {
            return Err(Unfit::Tenant);
        }
        let mut fit: Vec<Arc<str>> = Vec::new();
        for role in roles {
            let role = role.as_ref();
            if !is_word(role, LONGEST_ROLE) || role.contains(',') {
                return Err(Unfit::Role);
            }
            if !fit.iter().any(|known| **known == *role) {
                fit.push(role.into());
            }
            if fit.len() > MOST_ROLES {
                return Err(Unfit::TooManyRoles);
            }
        }
        Ok(Self {
            subject: subject.into(),
            roles: fit.into(),
            tenant: tenant.map(Arc::from),
            method,
        })
    }
}

/// Whether a text is one word that a header can carry.
#[must_use]
pub fn is_word(text: &str, longest: usize) -> bool {
    (1..=longest).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(subject: &str, roles: &[&str], tenant: Option<&str>) -> Result<Identity, Unfit> {
        Identity::new(Method::Jwt, subject, roles, tenant)
    }

    #[test]
    fn names_are_bounded_and_plain() {
        let identity = made("ada@example.org", &["ops", "dev", "ops"], Some("acme")).unwrap();
        assert_eq!(identity.roles.len(), 2);
        for subject in [
            "",
            "a b",
            "a\nb",
            "\u{e4}",
            &"a".repeat(LONGEST_SUBJECT + 1),
        ] {
            assert_eq!(made(subject, &[], None), Err(Unfit::Subject));
        }
        for role in ["", "a b", "a,b", &"a".repeat(LONGEST_ROLE + 1)] {
            assert_eq!(made("ada", &[role], None), Err(Unfit::Role));
        }
        assert_eq!(made("ada", &[], Some("")), Err(Unfit::Tenant));
        let many: Vec<_> = (0..=MOST_ROLES).map(|role| role.to_string()).collect();
        let many = Identity::new(Method::Jwt, "ada", &many, None);
        assert_eq!(many, Err(Unfit::TooManyRoles));
    }
}
