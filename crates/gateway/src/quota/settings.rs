//! What an operator can set about quotas.

use stateway_identity::{Glob, Identity};

/// The quotas of authenticated callers.
#[derive(Debug, Clone, PartialEq)]
pub struct QuotaSettings {
    /// Of every identity.
    pub default: Quota,
    /// Of some identities. The first rule that fits decides; what it leaves open is as in `default`.
    pub rules: Vec<QuotaRule>,
    /// The maximum number of identities whose use is remembered at the same time.
    pub max_identities: usize,
}

/// Limits of one identity. None: no limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quota {
    /// Calls and pages per second; a burst of one second is allowed.
    pub requests_per_second: Option<f64>,
    /// Calls of `StartExecution` per second.
    pub starts_per_second: Option<f64>,
    /// Open watches, waits, worker sessions and live pages.
    pub max_streams: Option<u64>,
    /// Bytes of request messages that are under way.
    pub max_request_bytes: Option<u64>,
}

/// Limits of some identities.
#[derive(Debug, Clone, PartialEq)]
pub struct QuotaRule {
    /// A pattern for the subject; none fits every subject.
    pub identity: Option<Glob>,
    /// A pattern that one of the roles fits.
    pub role: Option<Glob>,
    /// A pattern for the tenant.
    pub tenant: Option<Glob>,
    /// Their limits.
    pub quota: Quota,
}

impl Quota {
    /// No limits.
    pub const UNLIMITED: Self = Self {
        requests_per_second: None,
        starts_per_second: None,
        max_streams: None,
        max_request_bytes: None,
    };
}

impl Default for QuotaSettings {
    fn default() -> Self {
        Self {
            default: Quota {
                // Sixteen of the largest messages.
                max_request_bytes: Some(64 * 1024 * 1024),
                ..Quota::UNLIMITED
            },
            rules: Vec::new(),
            max_identities: 10_000,
        }
    }
}

impl QuotaSettings {
    /// The limits of an identity.
    #[must_use]
    pub fn of(&self, identity: &Identity) -> Quota {
        let default = self.default;
        let Some(rule) = self.rules.iter().find(|rule| rule.fits(identity)) else {
            return default;
        };
        let quota = rule.quota;
        Quota {
            requests_per_second: quota.requests_per_second.or(default.requests_per_second),
            starts_per_second: quota.starts_per_second.or(default.starts_per_second),
            max_streams: quota.max_streams.or(default.max_streams),
            max_request_bytes: quota.max_request_bytes.or(default.max_request_bytes),
        }
    }
}

impl QuotaRule {
    fn fits(&self, identity: &Identity) -> bool {
        let fits = |glob: &Option<Glob>, text: Option<&str>| match glob {
            None => true,
            Some(glob) => text.is_some_and(|text| glob.fits(text)),
        };
        fits(&self.identity, Some(&identity.subject))
            && fits(&self.tenant, identity.tenant.as_deref())
            && match &self.role {
                None => true,
                Some(glob) => identity.roles.iter().any(|role| glob.fits(role)),
            }
    }
}
