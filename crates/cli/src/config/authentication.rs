//! The section `[authentication]`: how callers prove who they are.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use stateway_gateway::{AuthenticationSettings, JwksSource, JwtSettings};
use stateway_identity::Glob;
use stateway_identity::certificate::Grant;
use stateway_identity::jwks::Algorithm;
use stateway_identity::jwt::Rules;

use crate::duration::Span;

/// `[authentication]`. Paths are relative to the file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Authentication {
    /// How often files are checked for a change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reload_interval: Option<Span>,
    /// Client certificates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificates: Option<Certificates>,
    /// JSON Web Tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jwt: Option<Jwt>,
    /// API keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_keys: Option<ApiKeys>,
    /// Proxies that authenticate callers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy: Option<Proxy>,
}

/// `[authentication.certificates]`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Certificates {
    /// Roles and tenants by subject.
    pub grants: Vec<CertificateGrant>,
}

/// One of `[[authentication.certificates.grants]]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CertificateGrant {
    /// A pattern for subjects, in which `*` stands for any text.
    pub subject: String,
    /// The roles of these subjects.
    #[serde(default)]
    pub roles: Vec<String>,
    /// The tenant of these subjects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
}

/// `[authentication.jwt]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Jwt {
    /// `iss` of accepted tokens.
    pub issuer: String,
    /// `aud` of accepted tokens contains one of these.
    pub audience: Vec<String>,
    /// A file with the public keys of the issuer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jwks_file: Option<PathBuf>,
    /// The address of the public keys of the issuer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jwks_url: Option<String>,
    /// The authorities to trust at that address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jwks_ca: Option<PathBuf>,
    /// How often the keys are fetched.
    #[serde(default = "default_refresh")]
    pub jwks_refresh: Span,
    /// Accepted algorithms.
    #[serde(default = "default_algorithms")]
    pub algorithms: Vec<JwtAlgorithm>,
    /// The claim with the roles.
    #[serde(default = "default_roles_claim")]
    pub roles_claim: String,
    /// The claim with the tenant.
    #[serde(default = "default_tenant_claim")]
    pub tenant_claim: String,
    /// How far clocks may differ.
    #[serde(default = "default_leeway")]
    pub leeway: Span,
}

/// One of `algorithms`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct JwtAlgorithm(pub Algorithm);

impl TryFrom<String> for JwtAlgorithm {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let known = || Algorithm::ALL.map(Algorithm::as_str).join(", ");
        Algorithm::of(&name)
            .map(Self)
            .ok_or_else(|| format!("unknown algorithm `{name}`, expected one of {}", known()))
    }
}

impl From<JwtAlgorithm> for String {
    fn from(JwtAlgorithm(algorithm): JwtAlgorithm) -> Self {
        algorithm.as_str().to_owned()
    }
}

/// `[authentication.api_keys]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApiKeys {
    /// The file of `stateway keys`.
    pub file: PathBuf,
}

/// `[authentication.proxy]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Proxy {
    /// Patterns for the subjects of certificates of proxies.
    pub subjects: Vec<String>,
}

fn default_refresh() -> Span {
    Duration::from_secs(300).into()
}

fn default_algorithms() -> Vec<JwtAlgorithm> {
    Algorithm::ALL.map(JwtAlgorithm).to_vec()
}

fn default_roles_claim() -> String {
    "roles".to_owned()
}

fn default_tenant_claim() -> String {
    "tenant".to_owned()
}

fn default_leeway() -> Span {
    Duration::from_secs(30).into()
}

impl Authentication {
    /// The settings of the section in a file of this directory.
    ///
    /// # Errors
    /// Keys that contradict each other.
    pub fn settings(&self, directory: &Path) -> Result<AuthenticationSettings, &'static str> {
        let default = AuthenticationSettings::default();
        let interval = self.reload_interval.map(Duration::from);
        let grants = self.certificates.as_ref().map(|it| it.grants.iter());
        let proxies = self.proxy.iter().flat_map(|proxy| &proxy.subjects);
        Ok(AuthenticationSettings {
            certificates: grants.map(|grants| grants.map(CertificateGrant::grant).collect()),
            jwt: self
                .jwt
                .as_ref()
                .map(|jwt| jwt.settings(directory))
                .transpose()?,
            api_keys: self
                .api_keys
                .as_ref()
                .map(|keys| directory.join(&keys.file)),
            proxies: proxies.map(Glob::new).collect(),
            reload_interval: interval.unwrap_or(default.reload_interval),
        })
    }

    /// The section with all values.
    #[must_use]
    pub fn of(settings: &AuthenticationSettings) -> Self {
        let certificates = settings.certificates.as_ref().map(|grants| Certificates {
            grants: grants.iter().map(CertificateGrant::of).collect(),
        });
        let proxies = settings.proxies.iter().map(ToString::to_string);
        let is_proxied = !settings.proxies.is_empty();
        Self {
            reload_interval: Some(settings.reload_interval.into()),
            certificates,
            jwt: settings.jwt.as_ref().map(Jwt::of),
            api_keys: settings.api_keys.clone().map(|file| ApiKeys { file }),
            proxy: is_proxied.then(|| Proxy {
                subjects: proxies.collect(),
            }),
        }
    }
}

impl CertificateGrant {
    fn grant(&self) -> Grant {
        Grant {
            subject: Glob::new(&self.subject),
            roles: self.roles.clone(),
            tenant: self.tenant.clone(),
        }
    }

    fn of(grant: &Grant) -> Self {
        Self {
            subject: grant.subject.to_string(),
            roles: grant.roles.clone(),
            tenant: grant.tenant.clone(),
        }
    }
}

impl Jwt {
    fn settings(&self, directory: &Path) -> Result<JwtSettings, &'static str> {
        let keys = match (&self.jwks_file, &self.jwks_url) {
            (Some(file), None) if self.jwks_ca.is_none() => JwksSource::File(directory.join(file)),
            (Some(_), None) => return Err("`jwks_ca` needs `jwks_url`"),
            (None, Some(url)) => JwksSource::Url {
                url: url.clone(),
                ca: self.jwks_ca.as_ref().map(|file| directory.join(file)),
            },
            _ => return Err("give `jwks_file` or `jwks_url`, one of them"),
        };
        if self.issuer.is_empty() || self.audience.is_empty() || self.algorithms.is_empty() {
            return Err("`issuer`, `audience` and `algorithms` must not be empty");
        }
        Ok(JwtSettings {
            rules: Rules {
                issuer: self.issuer.clone(),
                audiences: self.audience.clone(),
                algorithms: self.algorithms.iter().map(|it| it.0).collect(),
                roles_claim: self.roles_claim.clone(),
                tenant_claim: self.tenant_claim.clone(),
                leeway: self.leeway.into(),
            },
            keys,
            refresh: self.jwks_refresh.into(),
        })
    }

    fn of(settings: &JwtSettings) -> Self {
        let rules = &settings.rules;
        let (jwks_file, jwks_url, jwks_ca) = match settings.keys.clone() {
            JwksSource::File(file) => (Some(file), None, None),
            JwksSource::Url { url, ca } => (None, Some(url), ca),
        };
        Self {
            issuer: rules.issuer.clone(),
            audience: rules.audiences.clone(),
            jwks_file,
            jwks_url,
            jwks_ca,
            jwks_refresh: settings.refresh.into(),
            algorithms: rules.algorithms.iter().copied().map(JwtAlgorithm).collect(),
            roles_claim: rules.roles_claim.clone(),
            tenant_claim: rules.tenant_claim.clone(),
            leeway: rules.leeway.into(),
        }
    }
}
