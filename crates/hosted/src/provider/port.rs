//! What an engine offers to the provider: sending requests to objects, and reading their values.

use std::time::Duration;

use async_trait::async_trait;
use stateway_provider_api::{Call, Capabilities, Health, Result, Verb};

use super::capability::CAPABILITIES;
use crate::portability::EngineLimits;

/// A kind of object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ObjectKind {
    /// An execution, by its id.
    Execution,
    /// A definition, by its name.
    Definition,
}

/// One stored value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredValue {
    /// The key of the object.
    pub object: String,
    /// The key of the value.
    pub key: String,
    /// The value.
    pub value: Vec<u8>,
}

/// Which stored views are wanted, newest creation first; of the same millisecond the largest id first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ViewQuery {
    /// Only what comes after this creation (in milliseconds) and id in the order of the list.
    pub before: Option<(i64, String)>,
    /// The most views.
    pub limit: usize,
    /// Only executions with open tasks.
    pub open_only: bool,
    /// Only executions in which a person has to decide.
    pub awaits_person: bool,
    /// Only executions that were forked from this one.
    pub forked_from: Option<String>,
    /// Only executions of this definition.
    pub definition: Option<String>,
}

/// How often a gateway reads and writes for its workers. An engine on which a write is expensive is slower.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// How long a task stays with its worker when nothing renews the lease in the object: only when the
    /// worker and its gateway die together.
    pub lease: Duration,
    /// How often the leases in the objects are renewed.
    pub renew: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(30),
            renew: Duration::from_secs(10),
        }
    }
}

/// An engine that hosts the objects.
///
/// - `send` waits for the answer of the object. Requests to one object are carried out one after another.
/// - A value that was written by a request is visible to reads when the request is answered.
/// - Reads do not need a host that runs.
#[async_trait]
pub trait HostPort: Send + Sync + 'static {
    /// Whether definitions have alarms, which their schedules need. The alarm of an object of a definition
    /// sends [`definition_object::alarm`](crate::definition_object::alarm).
    fn has_schedules(&self) -> bool {
        false
    }

    /// What a provider on this engine can do.
    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    /// The limits of the engine, for the portability report.
    fn limits(&self) -> EngineLimits {
        EngineLimits::default()
    }

    /// How often a gateway reads and writes for its workers.
    fn pace(&self) -> Pace {
        Pace::default()
    }

    /// Asks the engine how it is.
    async fn health(&self, call: &Call) -> Result<Health>;

    /// Sends a request to an object and returns its answer.
    async fn send(
        &self,
        call: &Call,
        verb: Verb,
        object: (ObjectKind, &str),
        request: Vec<u8>,
    ) -> Result<Vec<u8>>;

    /// The values of one key of several objects; objects without the value are left out.
    async fn values(
        &self,
        call: &Call,
        verb: Verb,
        objects: (ObjectKind, &[&str]),
        key: &str,
    ) -> Result<Vec<StoredValue>>;

    /// The values of one object whose keys begin with `prefix` and are not before `from`, in the order of
    /// their keys.
    async fn values_from(
        &self,
        call: &Call,
        verb: Verb,
        object: (ObjectKind, &str),
        keys: (&str, &str, usize),
    ) -> Result<Vec<StoredValue>>;

    /// Stored views of executions.
    async fn views(&self, call: &Call, verb: Verb, query: &ViewQuery) -> Result<Vec<StoredValue>>;

    /// How many stored views begin with which sub-state; views without one are counted under another word.
    async fn counts(&self, call: &Call) -> Result<Vec<(String, u64)>>;

    /// The current revisions of definitions, by name, after a name.
    async fn definitions(
        &self,
        call: &Call,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<StoredValue>>;
}
