//! The configuration of an engine, with its limits.

use std::path::PathBuf;
use std::time::Duration;

use std::sync::Arc;

use crate::bug::Bug;
use crate::policy::Policy;
use crate::store::PostgresConfig;
use crate::{Clock, Faults, Ids};

/// The settings of an engine.
#[derive(Debug, Clone)]
pub struct Config {
    /// The store's file, unless the store is in a database.
    pub path: PathBuf,
    /// The database that has the store, if any.
    pub postgres: Option<PostgresConfig>,
    /// Where the time comes from.
    pub clock: Clock,
    /// The maximum number of active executions; further executions are queued.
    pub max_active: usize,
    /// The most requests that may wait for the keeper; further requests are rejected with ENGINE_BUSY.
    pub max_backlog: usize,
    /// How long a silent worker keeps its tasks.
    pub lease: Duration,
    /// How long a disconnected worker keeps its tasks, so that it can reconnect.
    pub reconnect: Duration,
    /// The longest input, output, signal or event, in bytes of JSON.
    pub max_payload_bytes: usize,
    /// The longest message to a worker or a client, in bytes.
    pub max_message_bytes: usize,
    /// The maximum number of executions of one tree: an execution, its children and theirs. The start of
    /// a further child fails.
    pub max_tree: usize,
    /// The bytes of inputs, outputs and signals of active executions, past which no further execution
    /// gets a slot; it stays queued.
    pub max_memory_bytes: usize,
    /// How long the id of a request is remembered.
    pub request_id_retention: Duration,
    /// How long finished executions are retained.
    pub retention: Retention,
    /// A snapshot is written after this many events, so that no replay is longer.
    pub snapshot_events: u32,
    /// The interval between two checks of all executions against their logs; zero: no checks.
    pub verify_interval: Duration,
    /// The roles that may decide about escalations whose definition names none.
    pub escalation_roles: Vec<Arc<str>>,
    /// The rules that decide before a task is handed out; none: every task is.
    pub policy: Option<Arc<dyn Policy>>,
    /// Where new execution ids come from.
    pub ids: Ids,
    /// Faults that tests inject.
    pub faults: Faults,
    /// A defect that is planted, for simulations.
    #[cfg(feature = "simulation")]
    pub bug: Option<Bug>,
}

/// How long finished executions are retained, by their final sub-state. Without a duration they are
/// retained until someone purges them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Retention {
    /// After this time an execution that succeeded is removed.
    pub succeeded: Option<Duration>,
    /// After this time an execution that failed is removed; also one that was cancelled or rolled back.
    pub failed: Option<Duration>,
}

/// The role that may decide about escalations where neither definition nor configuration names one.
pub const OPERATOR_ROLE: &str = "operator";

impl Config {
    /// Whether a defect is planted. Only simulations plant defects.
    #[cfg(feature = "simulation")]
    pub(crate) fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    /// Whether a defect is planted. Only simulations plant defects.
    #[cfg(not(feature = "simulation"))]
    #[allow(clippy::unused_self)] // The same call as in simulations.
    pub(crate) const fn has(&self, _: Bug) -> bool {
        false
    }

    /// The defaults, for a file.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            postgres: None,
            clock: Clock::system(),
            max_active: 10_000,
            max_backlog: 20_000,
            lease: Duration::from_secs(30),
            reconnect: Duration::from_secs(5),
            max_payload_bytes: crate::limits::DEFAULT_PAYLOAD_BYTES,
            max_message_bytes: 4 * 1024 * 1024,
            max_tree: 10_000,
            max_memory_bytes: 64 * 1024 * 1024,
            request_id_retention: Duration::from_secs(24 * 60 * 60),
            retention: Retention::default(),
            snapshot_events: 500,
            verify_interval: Duration::from_secs(60 * 60),
            escalation_roles: vec![OPERATOR_ROLE.into()],
            policy: None,
            ids: Ids::default(),
            faults: Faults::default(),
            #[cfg(feature = "simulation")]
            bug: None,
        }
    }
}
