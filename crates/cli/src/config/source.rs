//! The sources of the configuration and their precedence.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::Args;
use stateway_gateway::{Settings, TokenKey};
use stateway_identity::Secret;

use super::read::{File, Provider, read};
use super::{
    Access, AllowedOrigin, Config, ConfigError, Kind, LogFormat, Problem, ProviderConfig, overlay,
    unusable,
};

/// The file that is read by default, if it exists.
const DEFAULT_FILE: &str = "stateway.toml";

/// Why a key in the configuration is refused.
const INLINE_TOKEN_KEY: &str = "`token_key` is a secret, and secrets are not part of the configuration: write the key to \
     a file that only the gateway can read, and set `token_key_file`";

/// The values of flags and of the environment. Both override the file.
#[derive(Debug, Clone, Default, Args)]
pub struct Overrides {
    /// Configuration file (default: `stateway.toml` in this folder, if it exists)
    #[arg(long, env = "STATEWAY_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Address of the gateway (default: 127.0.0.1:7380)
    #[arg(long, env = "STATEWAY_LISTEN", value_name = "ADDRESS")]
    pub listen: Option<SocketAddr>,
    /// Log levels, for example `info` or `warn,stateway_gateway=debug` (default: `info`)
    #[arg(long, env = "STATEWAY_LOG", value_name = "FILTER")]
    pub log: Option<String>,
    /// Format of the log (default: `text`)
    #[arg(long, env = "STATEWAY_LOG_FORMAT", value_name = "FORMAT")]
    pub log_format: Option<LogFormat>,
    /// Export traces to this OTLP collector
    #[arg(long, env = "STATEWAY_OTLP_ENDPOINT", value_name = "URL")]
    pub otlp_endpoint: Option<String>,
}

/// Merges file, environment, flags and defaults.
///
/// # Errors
/// All errors of a configuration.
pub fn load(overrides: &Overrides) -> Result<Config, ConfigError> {
    let (config, problems) = load_all(overrides)?;
    if problems.is_empty() {
        Ok(config)
    } else {
        Err(ConfigError { problems })
    }
}

/// Like [`load`], but also returns the configuration as far as it is valid if there are errors.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn load_all(overrides: &Overrides) -> Result<(Config, Vec<Problem>), ConfigError> {
    let named = overrides.config.as_deref();
    let default = Path::new(DEFAULT_FILE);
    match named.or_else(|| default.is_file().then_some(default)) {
        None => Ok(combine(None, File::default(), Vec::new(), overrides)),
        Some(path) => {
            let text = std::fs::read_to_string(path).map_err(|error| {
                ConfigError::one(Problem::of(path, format!("cannot be read: {error}")))
            })?;
            let (file, problems) = read(path, &text);
            Ok(combine(Some(path), file, problems, overrides))
        }
    }
}

fn combine(
    path: Option<&Path>,
    file: File,
    mut problems: Vec<Problem>,
    overrides: &Overrides,
) -> (Config, Vec<Problem>) {
    let directory = path.and_then(Path::parent).unwrap_or(Path::new(""));
    let mut settings = Settings::default();
    file.server.apply(&mut settings);
    file.watch.apply(&mut settings.watch);
    file.limits.apply(&mut settings.default_upstream);
    if let Some(listen) = overrides.listen {
        settings.listen = listen;
    }
    settings.monitoring_listen = file.server.monitoring_listen;
    let origins = file.server.allowed_origins.into_iter();
    settings.allowed_origins = origins.map(|AllowedOrigin(origin)| origin).collect();
    settings.tls = file.server.tls.map(|tls| tls.settings(directory));
    settings.peers = file.server.peers.map(|peers| peers.settings(directory));
    match file.authentication.settings(directory) {
        Ok(authentication) => settings.authentication = authentication,
        Err(message) => problems.push(Problem {
            file: path.map(Path::to_owned),
            place: None,
            message,
        }),
    }
    let is_authenticated = settings.authentication.is_required();
    match file.access.settings(path, is_authenticated) {
        Ok(access) => settings.access = access,
        Err(messages) => problems.extend(messages.into_iter().map(|message| Problem {
            file: path.map(Path::to_owned),
            place: None,
            message: format!("[access] {message}"),
        })),
    }
    settings.audit = file.audit.map(|audit| audit.settings(directory));
    settings.quotas = file.quotas.settings();
    let token_key_file = file.server.token_key_file.map(|file| directory.join(file));
    let read = match file.server.token_key {
        Some(_) => Err(INLINE_TOKEN_KEY.to_owned()),
        None => token_key(token_key_file.as_deref()),
    };
    match read {
        Ok(key) => settings.token_key = key.map(TokenKey::new),
        Err(message) => problems.push(match path {
            Some(path) => Problem::of(path, message),
            None => Problem {
                file: None,
                place: None,
                message,
            },
        }),
    }

    let mut providers = Vec::new();
    for provider in file.providers {
        let mut limits = settings.default_upstream;
        if file.limits.max_concurrent.is_none() {
            limits.max_concurrent = provider.kind.max_concurrent();
        }
        provider.limits.apply(&mut limits);
        let says = [&file.limits, &provider.limits].map(|it| it.max_poll_interval.is_some());
        if let (Some(slowest), [false, false]) = (provider.kind.max_poll_interval(), says) {
            limits.max_poll_interval = slowest.max(limits.min_poll_interval);
        }
        let section = format!("providers.{}.limits", provider.id);
        problems.extend(unusable::limits(path, &section, &limits));
        settings.upstreams.insert(provider.id.clone(), limits);
        let provider = configured(provider, directory);
        problems.extend(overlay::table(provider.kind, provider.table.as_deref()).err());
        providers.push(provider);
    }
    if providers.is_empty() {
        let provider = builtin();
        let mut limits = settings.default_upstream;
        if file.limits.max_concurrent.is_none() {
            limits.max_concurrent = provider.kind.max_concurrent();
        }
        settings.upstreams.insert(provider.id.clone(), limits);
        providers.push(provider);
    }
    providers.sort_by(|a, b| a.id.cmp(&b.id));
    problems.extend(unusable::server(path, &settings));
    problems.extend(unusable::peers(path, &settings, &providers));
    if let Some(tls) = &settings.tls {
        problems.extend(unusable::tls(path, tls));
    }
    problems.extend(unusable::authentication(path, &settings.authentication));
    problems.extend(unusable::access(path, &settings.access));
    problems.extend(unusable::quotas(path, &settings));
    if let Some(audit) = &settings.audit {
        problems.extend(unusable::audit(path, audit));
    }
    problems.extend(unusable::watch(path, &settings.watch));
    problems.extend(unusable::limits(path, "limits", &settings.default_upstream));

    let file_access = Access {
        file: file.access.file.map(|file| directory.join(file)),
        ..file.access
    };
    let mut log = file.log;
    log.filter = overrides.log.clone().unwrap_or(log.filter);
    log.format = overrides.log_format.unwrap_or(log.format);
    if let Err(error) = tracing_subscriber::EnvFilter::try_new(&log.filter) {
        let message = format!("log filter `{}`: {error}", log.filter);
        problems.push(Problem {
            file: None,
            place: None,
            message,
        });
    }
    let mut otlp = file.otlp;
    if let Some(endpoint) = &overrides.otlp_endpoint {
        otlp.endpoint.clone_from(endpoint);
        otlp.enabled = true;
    }
    let file = path.map(Path::to_owned);
    let config = Config {
        file,
        settings,
        access: file_access,
        token_key_file,
        log,
        otlp,
        providers,
    };
    (config, problems)
}

impl Config {
    /// The defaults, with the store of the built-in engine in this file.
    ///
    /// # Errors
    /// A path that is not UTF-8.
    pub fn built_in(store: &Path) -> Result<Self, ConfigError> {
        let (mut config, _) = combine(None, File::default(), Vec::new(), &Overrides::default());
        let path = store
            .to_str()
            .ok_or_else(|| ConfigError::one(Problem::of(store, "is not UTF-8".to_owned())))?;
        for provider in &mut config.providers {
            provider.options.insert("path".to_owned(), path.into());
        }
        Ok(config)
    }
}

/// Without a configuration there is one provider, so that the first minute needs no file.
fn builtin() -> ProviderConfig {
    ProviderConfig {
        id: "builtin"
            .parse()
            .expect("`builtin` follows the rule for provider ids"),
        kind: Kind::Builtin,
        table: None,
        disable: Vec::new(),
        options: toml::Table::new(),
    }
}

fn configured(provider: Provider, directory: &Path) -> ProviderConfig {
    ProviderConfig {
        id: provider.id,
        kind: provider.kind,
        table: provider.table.map(|table| directory.join(table)),
        disable: provider.disable,
        options: provider.options,
    }
}

fn token_key(file: Option<&Path>) -> Result<Option<[u8; 32]>, String> {
    let Some(file) = file else {
        return Ok(None);
    };
    let text = std::fs::read_to_string(file).map_err(|error| {
        format!(
            "`token_key_file` {} cannot be read: {error}",
            file.display()
        )
    })?;
    let text = Secret::new(text);
    let text = text.expose();
    // The key itself is never repeated in the message.
    let wrong = || "the token key must be 64 hexadecimal digits".to_owned();
    let digits = text.trim();
    if digits.len() != 64 || !digits.is_ascii() {
        return Err(wrong());
    }
    let mut key = [0; 32];
    for (index, byte) in key.iter_mut().enumerate() {
        let pair = &digits[2 * index..2 * index + 2];
        *byte = u8::from_str_radix(pair, 16).map_err(|_| wrong())?;
    }
    Ok(Some(key))
}
