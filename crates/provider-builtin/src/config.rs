//! What an operator may say of the built-in engine.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::{Span, SpanRelativeTo};
use serde::{Deserialize, Deserializer, de::Error as _};
use stateway_engine::{
    Config as EngineConfig, DEFAULT_PAYLOAD_BYTES, EngineError, OPERATOR_ROLE, Retention,
    most_payload_bytes,
};
use thiserror::Error;

use crate::policy::Rules;
use crate::reach::{Http, Webhook};

/// The configuration of a built-in engine. Everything has a default.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The file that holds everything, `stateway.db` in the working directory unless said
    /// otherwise. One process at a time may have it.
    pub path: PathBuf,
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
