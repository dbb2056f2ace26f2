//! The section `[authentication]`: how callers authenticate.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use stateway_gateway::{
    AuthenticationSettings, CliClientSettings, CliToken, JwksSource, JwtSettings, OidcSettings,
    Origin, SecretSource, SignInSettings,
};
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
    /// Sign-in of people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sign_in: Option<SignIn>,
}

/// `[authentication.sign_in]`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SignIn {
    /// A session without requests ends after this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_timeout: Option<Span>,
    /// A session ends after this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lifetime: Option<Span>,
    /// Sign-in at the issuer of tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oidc: Option<Oidc>,
    /// How the command line signs in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cli: Option<CliClient>,
}

/// `[authentication.sign_in.oidc]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Oidc {
    /// The origin of the dashboard as browsers see it.
    pub public_url: String,
    /// The name of this client.
    pub client_id: String,
    /// A file with the secret of this client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_secret_file: Option<PathBuf>,
    /// A variable of the environment with the secret of this client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_secret_env: Option<String>,
    /// The name of the provider on the page.
    #[serde(default = "default_name")]
    pub name: String,
    /// What is asked for.
    #[serde(default = "default_scopes")]
    pub scopes: Vec<String>,
}

/// `[authentication.sign_in.cli]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CliClient {
    /// The name of the client.
    pub client_id: String,
    /// What is asked for.
    #[serde(default = "default_cli_scopes")]
    pub scopes: Vec<String>,
    /// Which token the command line sends.
    #[serde(default = "default_token")]
    pub token: TokenKind,
    /// For whom the access token is meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
}

/// One of the tokens of a sign-in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenKind {
    /// The ID token.
    IdToken,
    /// The access token.
    AccessToken,
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
    /// A header in which a proxy passes on a token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
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

fn default_name() -> String {
    "OpenID Connect".to_owned()
}

fn default_scopes() -> Vec<String> {
    ["openid", "profile", "email"].map(str::to_owned).to_vec()
}

fn default_cli_scopes() -> Vec<String> {
    ["openid", "profile", "email", "offline_access"]
        .map(str::to_owned)
        .to_vec()
}

const fn default_token() -> TokenKind {
    TokenKind::IdToken
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
    pub fn settings(&self, directory: &Path) -> Result<AuthenticationSettings, String> {
        let default = AuthenticationSettings::default();
        let interval = self.reload_interval.map(Duration::from);
        let grants = self.certificates.as_ref().map(|it| it.grants.iter());
        // No subject would mean no proxy, and perhaps no authentication at all.
        if self.proxy.as_ref().is_some_and(|it| it.subjects.is_empty()) {
            return Err("`proxy.subjects` must not be empty".to_owned());
        }
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
            sign_in: self.sign_in.as_ref().map_or_else(
                || Ok(SignInSettings::default()),
                |sign_in| sign_in.settings(directory),
            )?,
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
            sign_in: Some(SignIn::of(&settings.sign_in)),
        }
    }
}

impl SignIn {
    fn settings(&self, directory: &Path) -> Result<SignInSettings, String> {
        let default = SignInSettings::default();
        let oidc = self.oidc.as_ref().map(|oidc| oidc.settings(directory));
        let lifetime = self.lifetime.map(Duration::from);
        let idle_timeout = self.idle_timeout.map(Duration::from);
        Ok(SignInSettings {
            idle_timeout: idle_timeout.unwrap_or(default.idle_timeout),
            lifetime: lifetime.unwrap_or(default.lifetime),
            oidc: oidc.transpose()?,
            cli: self.cli.as_ref().map(CliClient::settings).transpose()?,
        })
    }

    fn of(settings: &SignInSettings) -> Self {
        Self {
            idle_timeout: Some(settings.idle_timeout.into()),
            lifetime: Some(settings.lifetime.into()),
            oidc: settings.oidc.as_ref().map(Oidc::of),
            cli: settings.cli.as_ref().map(CliClient::of),
        }
    }
}

impl Oidc {
    fn settings(&self, directory: &Path) -> Result<OidcSettings, String> {
        let at = |message: &str| Err(format!("[authentication.sign_in.oidc] {message}"));
        let public_url: Origin = match self.public_url.parse() {
            Ok(origin) => origin,
            Err(error) => return at(&format!("`public_url`: {error}")),
        };
        if !stateway_identity::oidc::is_protected(public_url.as_str()) {
            return at("`public_url` must begin with https:// (http:// on this machine only)");
        }
        let client_secret = match (&self.client_secret_file, &self.client_secret_env) {
            (Some(_), Some(_)) => {
                return at("give `client_secret_file` or `client_secret_env`, not both");
            }
            (Some(file), None) => Some(SecretSource::File(directory.join(file))),
            (None, Some(name)) => Some(SecretSource::Variable(name.clone())),
            (None, None) => None,
        };
        if self.client_id.is_empty() || !self.scopes.iter().any(|scope| scope == "openid") {
            return at("`client_id` must not be empty, and `scopes` must contain \"openid\"");
        }
        Ok(OidcSettings {
            public_url,
            name: self.name.clone(),
            client_id: self.client_id.clone(),
            client_secret,
            scopes: self.scopes.clone(),
        })
    }

    fn of(settings: &OidcSettings) -> Self {
        let (client_secret_file, client_secret_env) = match settings.client_secret.clone() {
            Some(SecretSource::File(file)) => (Some(file), None),
            Some(SecretSource::Variable(name)) => (None, Some(name)),
            None => (None, None),
        };
        Self {
            public_url: settings.public_url.to_string(),
            client_id: settings.client_id.clone(),
            client_secret_file,
            client_secret_env,
            name: settings.name.clone(),
            scopes: settings.scopes.clone(),
        }
    }
}

impl CliClient {
    fn settings(&self) -> Result<CliClientSettings, String> {
        if self.client_id.is_empty() || !self.scopes.iter().any(|scope| scope == "openid") {
            return Err(
                "[authentication.sign_in.cli] `client_id` must not be empty, and `scopes` must \
                 contain \"openid\""
                    .to_owned(),
            );
        }
        Ok(CliClientSettings {
            client_id: self.client_id.clone(),
            scopes: self.scopes.clone(),
            token: match self.token {
                TokenKind::IdToken => CliToken::Id,
                TokenKind::AccessToken => CliToken::Access,
            },
            resource: self.resource.clone(),
        })
    }

    fn of(settings: &CliClientSettings) -> Self {
        Self {
            client_id: settings.client_id.clone(),
            scopes: settings.scopes.clone(),
            token: match settings.token {
                CliToken::Id => TokenKind::IdToken,
                CliToken::Access => TokenKind::AccessToken,
            },
            resource: settings.resource.clone(),
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
    fn settings(&self, directory: &Path) -> Result<JwtSettings, String> {
        let wrong = |message: &str| Err(format!("[authentication.jwt] {message}"));
        let ca = self.jwks_ca.as_ref().map(|file| directory.join(file));
        let keys = match (&self.jwks_file, &self.jwks_url) {
            (Some(file), None) if ca.is_none() => JwksSource::File(directory.join(file)),
            (Some(_), None) => return wrong("`jwks_ca` cannot be combined with `jwks_file`"),
            (None, Some(url)) => JwksSource::Url {
                url: url.clone(),
                ca,
            },
            (None, None) => JwksSource::Discovered { ca },
            (Some(_), Some(_)) => return wrong("give `jwks_file` or `jwks_url`, not both"),
        };
        if self.issuer.is_empty() || self.audience.is_empty() || self.algorithms.is_empty() {
            return wrong("`issuer`, `audience` and `algorithms` must not be empty");
        }
        let header = match self.header.as_deref().map(str::parse) {
            Some(Ok(name)) => Some(name),
            Some(Err(_)) => return wrong("`header` is not the name of a header"),
            None => None,
        };
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
            header,
        })
    }

    fn of(settings: &JwtSettings) -> Self {
        let rules = &settings.rules;
        let (jwks_file, jwks_url, jwks_ca) = match settings.keys.clone() {
            JwksSource::File(file) => (Some(file), None, None),
            JwksSource::Url { url, ca } => (None, Some(url), ca),
            JwksSource::Discovered { ca } => (None, None, ca),
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
            header: settings.header.as_ref().map(ToString::to_string),
        }
    }
}
