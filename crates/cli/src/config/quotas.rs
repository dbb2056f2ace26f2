//! The section `[quotas]`: limits of authenticated callers.

use serde::{Deserialize, Serialize};
use stateway_gateway::{Quota, QuotaRule, QuotaSettings};
use stateway_identity::Glob;

/// `[quotas]`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Quotas {
    /// Calls and pages per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_per_second: Option<f64>,
    /// Starts per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub starts_per_second: Option<f64>,
    /// Open watches, waits, worker sessions and live pages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_streams: Option<u64>,
    /// Bytes of request messages under way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_request_bytes: Option<u64>,
    /// The maximum number of identities whose use is remembered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_identities: Option<usize>,
    /// Limits of some identities.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<Rule>,
}

/// One of `[[quotas.rules]]`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Rule {
    /// A pattern for the subject.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
    /// A pattern that one of the roles fits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// A pattern for the tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Calls and pages per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_per_second: Option<f64>,
    /// Starts per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub starts_per_second: Option<f64>,
    /// Open watches, waits, worker sessions and live pages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_streams: Option<u64>,
    /// Bytes of request messages under way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_request_bytes: Option<u64>,
}

impl Quotas {
    /// The settings of the section.
    #[must_use]
    pub fn settings(&self) -> QuotaSettings {
        let default = QuotaSettings::default();
        let glob = |text: &Option<String>| text.as_deref().map(Glob::new);
        let rules = self.rules.iter().map(|rule| QuotaRule {
            identity: glob(&rule.identity),
            role: glob(&rule.role),
            tenant: glob(&rule.tenant),
            quota: Quota {
                requests_per_second: rule.requests_per_second,
                starts_per_second: rule.starts_per_second,
                max_streams: rule.max_streams,
                max_request_bytes: rule.max_request_bytes,
            },
        });
        QuotaSettings {
            default: Quota {
                requests_per_second: self.requests_per_second,
                starts_per_second: self.starts_per_second,
                max_streams: self.max_streams,
                max_request_bytes: self.max_request_bytes.or(default.default.max_request_bytes),
            },
            rules: rules.collect(),
            max_identities: self.max_identities.unwrap_or(default.max_identities),
        }
    }

    /// The section with all values.
    #[must_use]
    pub fn of(settings: &QuotaSettings) -> Self {
        let text = |glob: &Option<Glob>| glob.as_ref().map(|glob| glob.as_str().to_owned());
        let rules = settings.rules.iter().map(|rule| Rule {
            identity: text(&rule.identity),
            role: text(&rule.role),
            tenant: text(&rule.tenant),
            requests_per_second: rule.quota.requests_per_second,
            starts_per_second: rule.quota.starts_per_second,
            max_streams: rule.quota.max_streams,
            max_request_bytes: rule.quota.max_request_bytes,
        });
        Self {
            requests_per_second: settings.default.requests_per_second,
            starts_per_second: settings.default.starts_per_second,
            max_streams: settings.default.max_streams,
            max_request_bytes: settings.default.max_request_bytes,
            max_identities: Some(settings.max_identities),
            rules: rules.collect(),
        }
    }
}
