//! What an operator may say of the built-in engine.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::{Span, SpanRelativeTo};
use serde::{Deserialize, Deserializer, de::Error as _};
use stateway_engine::{
    Config as EngineConfig, DEFAULT_PAYLOAD_BYTES, EngineError, OPERATOR_ROLE, Password,
    PostgresConfig, Retention, most_payload_bytes,
};
use thiserror::Error;

use crate::policy::Rules;
use crate::reach::{Http, Webhook};

/// The configuration of a built-in engine. Everything has a default.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The file of the store (default: `stateway.db` in the working directory). One process at a time
    /// can open it.
    pub path: PathBuf,
    /// The PostgreSQL database that holds everything instead of a file:
    /// `postgres://user@host:5432/database`. Several gateways may share it.
    pub store: Option<String>,
    /// The environment variable with the password of the database.
    pub store_password_env: Option<String>,
    /// Or the file with the password, which is read for each new connection.
    pub store_password_file: Option<PathBuf>,
    /// The certificates that are trusted for TLS; `None`: those of the system.
    pub store_ca_file: Option<PathBuf>,
    /// The schema of the tables; `None`: `stateway`.
    pub store_schema: Option<String>,
    /// How long after the last sign of life of a gateway another one takes over; `None`: 10 seconds.
    #[serde(deserialize_with = "some_duration")]
    pub store_lease: Option<Duration>,
    /// Where other gateways that share the store reach this one: `http://127.0.0.1:7380` or
    /// `https://gateway-1.example.org:7380`. A gateway that stands by then forwards its calls to the active one.
    pub store_address: Option<String>,
    /// The maximum number of active executions; further executions are queued.
    pub max_active: usize,
    /// The maximum number of requests that wait for the engine; further ones are refused with `ENGINE_BUSY`.
    pub max_backlog: usize,
    /// The longest input, output or signal, in bytes of JSON; `None`: 1 MiB, or less where
    /// `max_message_bytes` has no room for that.
    pub max_payload_bytes: Option<usize>,
    /// The longest message of the gateway, in bytes. It is configured for the gateway, not here.
    #[serde(skip)]
    pub max_message_bytes: usize,
    /// The maximum number of executions of one tree: an execution, its children and theirs.
    pub max_tree: usize,
    /// The bytes of inputs, outputs and signals of active executions, past which further executions
    /// stay queued.
    pub max_memory_bytes: usize,
    /// How long a silent worker keeps its tasks.
    #[serde(deserialize_with = "duration")]
    pub lease: Duration,
    /// How long a worker whose connection broke keeps its tasks, so that it can reconnect.
    #[serde(deserialize_with = "duration")]
    pub reconnect: Duration,
    /// How long the id of a request is remembered.
    #[serde(deserialize_with = "duration")]
    pub request_id_retention: Duration,
    /// How long finished executions are retained: `"30d"`, or `{ succeeded = "7d", failed = "90d" }`.
    /// Without it they are retained until someone purges them.
    pub retain: Retain,
    /// How long to rest between two looks over all executions for what contradicts their logs;
    /// `0s`: no such looks.
    #[serde(deserialize_with = "duration")]
    pub verify_interval: Duration,
    /// The roles that may decide about escalations whose definition names none; without any, the role
    /// `operator`.
    pub escalation_roles: Vec<String>,
    /// The folder for backups; `None`: backups are refused.
    pub backups: Option<PathBuf>,
    /// HTTP steps.
    pub http: Http,
    /// Receivers of every event.
    pub webhooks: Vec<Webhook>,
    /// Rules that decide before a task is handed out; the first one that applies decides.
    pub policy: Rules,
}

impl Default for Config {
    fn default() -> Self {
        let engine = EngineConfig::new(Self::PATH);
        Self {
            path: engine.path,
            store: None,
            store_password_env: None,
            store_password_file: None,
            store_ca_file: None,
            store_schema: None,
            store_lease: None,
            store_address: None,
            max_active: engine.max_active,
            max_backlog: engine.max_backlog,
            max_payload_bytes: None,
            max_message_bytes: engine.max_message_bytes,
            max_tree: engine.max_tree,
            max_memory_bytes: engine.max_memory_bytes,
            lease: engine.lease,
            reconnect: engine.reconnect,
            request_id_retention: engine.request_id_retention,
            retain: Retain::default(),
            verify_interval: engine.verify_interval,
            escalation_roles: vec![OPERATOR_ROLE.to_owned()],
            backups: None,
            http: Http::default(),
            webhooks: Vec::new(),
            policy: Rules::default(),
        }
    }
}

/// Why a configuration cannot be used.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// HTTP steps or webhooks cannot be done like that.
    #[error("{0}")]
    Reach(String),
    /// The shared store cannot be used like that.
    #[error("{0}")]
    SharedStore(String),
    /// A limit of zero.
    #[error("`{0}` must be greater than zero")]
    Zero(&'static str),
    /// Limits that do not fit into each other.
    #[error("{0}")]
    Limits(String),
    /// A role that cannot exist.
    #[error(
        "`{0}` in `escalation_roles` is not a role: a role must not be empty, contain a comma, or begin or end with a space"
    )]
    Role(String),
    /// The store cannot be opened.
    #[error("{path}: {error}{}", hint(error))]
    Store {
        /// The file.
        path: String,
        /// What is wrong.
        error: Box<EngineError>,
    },
}

fn hint(error: &EngineError) -> String {
    match &*error.hint {
        "" => String::new(),
        hint => format!(" ({hint})"),
    }
}

impl Config {
    /// The default path of the store.
    pub const PATH: &'static str = "stateway.db";

    /// What the engine is opened with.
    ///
    /// # Errors
    /// A limit that cannot be used.
    pub fn engine(&self) -> Result<EngineConfig, ConfigError> {
        let limits = [
            ("max_active", self.max_active == 0),
            ("max_backlog", self.max_backlog == 0),
            ("max_payload_bytes", self.max_payload_bytes == Some(0)),
            ("max_tree", self.max_tree == 0),
            ("max_memory_bytes", self.max_memory_bytes == 0),
            ("lease", self.lease.is_zero()),
            ("request_id_retention", self.request_id_retention.is_zero()),
            ("retain", self.retain.has_zero()),
            ("http.capacity", self.http.capacity == 0),
            ("http.timeout", self.http.timeout.is_zero()),
        ];
        if let Some((name, _)) = limits.iter().find(|(_, is_zero)| *is_zero) {
            return Err(ConfigError::Zero(name));
        }
        let mut config = EngineConfig::new(&self.path);
        config.postgres = self.shared_store()?;
        config.max_active = self.max_active;
        config.max_backlog = self.max_backlog;
        config.max_message_bytes = self.max_message_bytes;
        config.max_payload_bytes = self.max_payload_bytes.unwrap_or_else(|| {
            DEFAULT_PAYLOAD_BYTES.min(most_payload_bytes(self.max_message_bytes))
        });
        config.max_tree = self.max_tree;
        config.max_memory_bytes = self.max_memory_bytes;
        config.lease = self.lease;
        config.reconnect = self.reconnect;
        config.request_id_retention = self.request_id_retention;
        config.retention = self.retain.retention();
        config.verify_interval = self.verify_interval;
        config.escalation_roles = self.escalation_roles()?;
        if !self.policy.is_empty() {
            config.policy = Some(Arc::new(self.policy.clone()));
        }
        let fitting = config.check_limits().map(|()| config);
        fitting.map_err(|error| ConfigError::Limits(error.message))
    }

    /// The store for people: its file, or its database without what is secret.
    pub(crate) fn shown_store(&self) -> String {
        match &self.store {
            Some(_) => "the shared store".to_owned(),
            None => self.path.display().to_string(),
        }
    }

    /// The database of the store, if it is in one. Errors quote neither the address nor the password.
    fn shared_store(&self) -> Result<Option<PostgresConfig>, ConfigError> {
        let wrong = |key: &str, why: &str| ConfigError::SharedStore(format!("`{key}`: {why}"));
        let Some(url) = &self.store else {
            let others = [
                ("store_password_env", self.store_password_env.is_some()),
                ("store_password_file", self.store_password_file.is_some()),
                ("store_ca_file", self.store_ca_file.is_some()),
                ("store_schema", self.store_schema.is_some()),
                ("store_lease", self.store_lease.is_some()),
                ("store_address", self.store_address.is_some()),
            ];
            return match others.iter().find(|(_, is_set)| *is_set) {
                Some((key, _)) => Err(wrong(key, "is set without `store`")),
                None => Ok(None),
            };
        };
        let mut config = PostgresConfig::new(url).map_err(|why| {
            let hint = " (Give the password in `store_password_file` or `store_password_env`.)";
            let hint = if why.contains("password") { hint } else { "" };
            wrong("store", &format!("{why}{hint}"))
        })?;
        let password = match (&self.store_password_env, &self.store_password_file) {
            (Some(_), Some(_)) => {
                return Err(wrong(
                    "store_password_env",
                    "`store_password_file` is set too",
                ));
            }
            (Some(name), None) => {
                let text = stateway_provider_api::adapter::secret_variable(name);
                let text =
                    text.map_err(|why| wrong("store_password_env", &format!("{name}: {why}")))?;
                Some(Password::Text(text))
            }
            (None, Some(file)) => Some(Password::File(file.clone())),
            (None, None) => None,
        };
        if let Some(password) = password {
            config = config.with_password(password);
        }
        if let Some(schema) = &self.store_schema {
            config = config
                .with_schema(schema)
                .map_err(|why| wrong("store_schema", &why))?;
        }
        if let Some(lease) = self.store_lease {
            config = config
                .with_lease(lease)
                .map_err(|why| wrong("store_lease", &why))?;
        }
        if let Some(address) = &self.store_address {
            config = config
                .with_reached_at(address)
                .map_err(|why| wrong("store_address", &why))?;
        }
        config.ca_file.clone_from(&self.store_ca_file);
        Ok(Some(config.with_name(&this_gateway())))
    }

    /// Somebody must be able to decide, so an empty list stands for the operator's role.
    fn escalation_roles(&self) -> Result<Vec<Arc<str>>, ConfigError> {
        let wrong = |role: &&String| {
            role.is_empty() || role.contains(',') || role.trim().len() != role.len()
        };
        if let Some(role) = self.escalation_roles.iter().find(wrong) {
            return Err(ConfigError::Role(role.clone()));
        }
        if self.escalation_roles.is_empty() {
            return Ok(vec![OPERATOR_ROLE.into()]);
        }
        let roles = self.escalation_roles.iter();
        Ok(roles.map(|role| role.as_str().into()).collect())
    }
}

/// This gateway for people: the machine and the process.
fn this_gateway() -> String {
    let machine = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let process = std::process::id();
    match machine.trim() {
        "" => format!("the gateway with process id {process}"),
        machine => format!("the gateway on {machine} with process id {process}"),
    }
}

/// How long finished executions are retained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Retain {
    /// All alike.
    All(#[serde(deserialize_with = "duration")] Duration),
    /// By their final sub-state.
    By(RetainBy),
}

/// How long executions of each final sub-state are retained; without a duration, until someone purges
/// them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RetainBy {
    /// Those that succeeded.
    #[serde(deserialize_with = "some_duration")]
    pub succeeded: Option<Duration>,
    /// Those that failed; also those that were cancelled or rolled back.
    #[serde(deserialize_with = "some_duration")]
    pub failed: Option<Duration>,
}

impl Default for Retain {
    fn default() -> Self {
        Self::By(RetainBy::default())
    }
}

impl Retain {
    const fn retention(self) -> Retention {
        match self {
            Self::All(keep) => Retention {
                succeeded: Some(keep),
                failed: Some(keep),
            },
            Self::By(RetainBy { succeeded, failed }) => Retention { succeeded, failed },
        }
    }

    fn has_zero(self) -> bool {
        let Retention { succeeded, failed } = self.retention();
        [succeeded, failed].contains(&Some(Duration::ZERO))
    }
}

fn some_duration<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    duration(from).map(Some)
}

pub(crate) fn duration<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(from)?;
    let parsed: Span = text.parse().map_err(D::Error::custom)?;
    let day = SpanRelativeTo::days_are_24_hours();
    let parsed = parsed.to_duration(day).map_err(D::Error::custom)?;
    Duration::try_from(parsed).map_err(|_| D::Error::custom("a duration cannot be negative"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_has_a_default_and_durations_are_words() {
        assert_eq!(toml::from_str::<Config>("").unwrap(), Config::default());
        let config: Config = toml::from_str(
            "path = \"a.db\"\nlease = \"1m30s\"\nrequest_id_retention = \"2d\"\nverify_interval = \"0s\"",
        )
        .unwrap();
        assert_eq!(config.path, PathBuf::from("a.db"));
        assert_eq!(config.lease, Duration::from_secs(90));
        assert_eq!(
            config.request_id_retention,
            Duration::from_secs(2 * 24 * 3_600)
        );
        assert!(config.engine().unwrap().verify_interval.is_zero());
    }

    #[test]
    fn retention_is_for_all_or_by_state_and_not_zero() {
        let retention = |text: &str| {
            let config: Config = toml::from_str(text).unwrap();
            config.engine().map(|engine| engine.retention)
        };
        let days = |days: u64| Some(Duration::from_secs(days * 24 * 3_600));
        assert_eq!(retention("").unwrap(), Retention::default());
        let all = Retention {
            succeeded: days(30),
            failed: days(30),
        };
        assert_eq!(retention("retain = \"30d\"").unwrap(), all);
        let by_state = Retention {
            succeeded: days(7),
            failed: None,
        };
        let text = "retain = { succeeded = \"7d\" }";
        assert_eq!(retention(text).unwrap(), by_state);
        for zero in ["retain = \"0s\"", "retain = { failed = \"0s\" }"] {
            let refused = retention(zero);
            assert!(matches!(refused, Err(ConfigError::Zero("retain"))));
        }
        assert!(toml::from_str::<Config>("retain = { done = \"7d\" }").is_err());
    }

    #[test]
    fn a_store_in_a_database_is_understood_and_what_cannot_be_used_is_refused_without_secrets() {
        let shared = |text: &str| {
            let config: Config = toml::from_str(text).unwrap();
            config.engine().map(|engine| engine.postgres)
        };
        assert!(shared("").unwrap().is_none());
        let whole = r#"
            store = "postgres://stateway@db.example:5432/flows"
            store_password_file = "/run/secrets/password"
            store_ca_file = "/etc/ca.pem"
            store_schema = "flows"
            store_lease = "5s"
        "#;
        assert!(shared(whole).unwrap().is_some());
        for (wrong, words) in [
            ("store = \"postgres://a:hush@db/d\"", "store_password_file"),
            ("store = \"hush.db\"", "begins with `postgres://`"),
            (
                "store_lease = \"5s\"",
                "`store_lease`: is set without `store`",
            ),
            (
                "store = \"postgres://a@b/c\"\nstore_lease = \"5ms\"",
                "at least one second",
            ),
            (
                "store = \"postgres://a@b/c\"\nstore_schema = \"A\"",
                "is not a schema",
            ),
            (
                "store = \"postgres://a@b/c\"\nstore_password_env = \"STATEWAY_NO_SUCH\"",
                "environment variable not found",
            ),
        ] {
            let refused = shared(wrong).unwrap_err().to_string();
            assert!(refused.contains(words), "{refused}");
            assert!(!refused.contains("hush"), "{refused}");
        }
    }

    #[test]
    fn a_key_that_is_not_known_is_refused() {
        for wrong in [
            "pth = \"a\"",
            "lease = 3",
            "lease = \"-3s\"",
            "max_active = -1",
        ] {
            assert!(toml::from_str::<Config>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn operators_decide_about_escalations_unless_other_roles_are_configured() {
        let roles = |text: &str| {
            let config: Config = toml::from_str(text).unwrap();
            config.engine().map(|engine| engine.escalation_roles)
        };
        assert_eq!(roles("").unwrap(), ["operator".into()]);
        assert_eq!(roles("escalation_roles = []").unwrap(), ["operator".into()]);
        assert_eq!(
            roles("escalation_roles = [\"sre\", \"lead\"]").unwrap(),
            ["sre".into(), "lead".into()]
        );
        for wrong in ["", "a,b", " sre"] {
            let refused = roles(&format!("escalation_roles = [\"{wrong}\"]"));
            assert!(matches!(refused, Err(ConfigError::Role(_))), "{wrong}");
        }
    }

    #[test]
    fn a_payload_that_no_message_or_event_holds_is_refused_by_both_names() {
        let mut config: Config = toml::from_str("max_payload_bytes = 8388608").unwrap();
        let refused = config.engine().unwrap_err().to_string();
        assert!(refused.contains("max_payload_bytes") && refused.contains("max_message_bytes"));
        config.max_message_bytes = 64 * 1024 * 1024;
        let refused = config.engine().unwrap_err().to_string();
        assert!(refused.contains("an event holds at most"), "{refused}");
        config.max_payload_bytes = Some(3 * 1024 * 1024);
        assert!(config.engine().is_ok());
    }

    #[test]
    fn without_a_setting_a_payload_is_as_long_as_the_message_allows() {
        let mut config = Config::default();
        assert_eq!(config.engine().unwrap().max_payload_bytes, 1024 * 1024);
        config.max_message_bytes = 64 * 1024;
        assert_eq!(config.engine().unwrap().max_payload_bytes, 24 * 1024);
    }

    #[test]
    fn a_limit_of_nothing_is_refused() {
        let config = Config {
            lease: Duration::ZERO,
            ..Config::default()
        };
        assert!(matches!(config.engine(), Err(ConfigError::Zero("lease"))));
    }
}
