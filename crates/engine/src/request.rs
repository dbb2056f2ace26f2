//! What can be asked of the engine, and what lists answer.

mod definition;
mod digest;

pub use definition::{
    AdoptDefinition, DeleteDefinition, DeletedDefinition, DisabledTrigger, SwitchTrigger,
};

pub use digest::RequestDigest;

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use stateway_machine::{CancelMode, Data, Event, ExecutionState, Resolution};
use stateway_model::{SubState, Usage};
use stateway_replay::AttemptRecord;

/// The caller, as the gateway authenticated it.
pub type ActorName = Arc<str>;

/// What makes a repeated request one request: the same id with the same body is answered again,
/// the same id with another body is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestKey {
    /// The caller's id.
    pub id: Arc<str>,
    /// A [digest](RequestDigest) of what is asked.
    pub body: [u8; 16],
}

/// Start an execution.
#[derive(Debug, Clone)]
pub struct Start {
    /// The definition's name.
    pub definition: Arc<str>,
    /// The id of the new execution; none: the engine chooses one.
    pub id: Option<Arc<str>>,
    /// The input.
    pub input: Data,
    /// The labels. The label `tenant` names the tenant.
    pub labels: BTreeMap<String, String>,
    /// Not before this time.
    pub not_before: Option<Timestamp>,
    /// The caller.
    pub actor: ActorName,
    /// The idempotency key.
    pub request: RequestKey,
}

/// A change of an execution: cancel, pause, resume, retry and others.
#[derive(Debug, Clone)]
#[allow(missing_docs)] // The variants are the verbs of the API.
pub enum Steer {
    Signal {
        name: Arc<str>,
        payload: Data,
    },
    Cancel {
        mode: CancelMode,
        cause: Arc<str>,
    },
    Pause {
        cause: Arc<str>,
    },
    Resume,
    /// Every step that backs off when `step` is empty.
    RetryNow {
        step: Arc<str>,
    },
}

/// Run an execution again from a step, on a new branch.
#[derive(Debug, Clone, Default)]
pub struct RetryFrom {
    /// The step to begin with; empty: the step that failed.
    pub step: Arc<str>,
    /// Run every step again, from the first one; then no step is named.
    pub from_start: bool,
    /// New input for the step.
    pub input: Option<Data>,
    /// A message for the worker that runs the step; may be empty.
    pub feedback: Arc<str>,
    /// The roles the person has. They count where an escalation of the execution is not resolved.
    pub roles: Vec<Arc<str>>,
    /// The id of the new execution where a succeeded one is forked; the engine chooses when there
    /// is none.
    pub fork_id: Option<Arc<str>>,
}

/// Decide about an approval.
#[derive(Debug, Clone)]
pub struct Decide {
    /// The step that waits for it.
    pub step: Arc<str>,
    /// The number of the request of the step.
    pub attempt: u32,
    /// The branch of the log it belongs to; none: the present one.
    pub branch: Option<u32>,
    /// Whether it is granted.
    pub grant: bool,
    /// The roles the person has.
    pub roles: Vec<Arc<str>>,
    /// Why.
    pub comment: Arc<str>,
}

/// Decide about an escalated step.
#[derive(Debug, Clone)]
pub struct Resolve {
    /// The step.
    pub step: Arc<str>,
    /// The attempt that was escalated.
    pub attempt: u32,
    /// The branch of the log it belongs to; none: the present one.
    pub branch: Option<u32>,
    /// The roles the person has.
    pub roles: Vec<Arc<str>>,
    /// The decision.
    pub resolution: Resolution,
    /// Why.
    pub comment: Arc<str>,
    /// Whether a cancellation compensates; none: the failure policy of the definition decides.
    pub compensate: Option<bool>,
}

/// An event that may start executions.
#[derive(Debug, Clone)]
pub struct Publish {
    /// The event's name.
    pub name: String,
    /// Its payload, which becomes the input.
    pub payload: Data,
    /// The idempotency key.
    pub id: Arc<str>,
    /// The labels of the started executions.
    pub labels: BTreeMap<String, String>,
    /// Who publishes the event.
    pub actor: ActorName,
}

/// The result of an event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Published {
    /// The executions that the event started, now or when it was first published.
    pub started: Vec<Arc<str>>,
    /// Definitions that were not started although the event is theirs, and why: the condition could
    /// not be evaluated, or the trigger is disabled.
    pub refused: Vec<(Arc<str>, String)>,
}

/// A schedule of a definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scheduled {
    /// The definition.
    pub definition: Arc<str>,
    /// The next start; none while the trigger is disabled.
    pub next: Option<Timestamp>,
    /// Who disabled the trigger, and when; none while it is enabled.
    pub disabled: Option<DisabledTrigger>,
}

/// Apply a definition.
#[derive(Debug, Clone)]
pub struct ApplyDefinition {
    /// YAML or JSON.
    pub source: String,
    /// Names the source in diagnostics.
    pub source_name: String,
    /// The idempotency key, so that a repetition does not restore an old revision; none if the request
    /// is never repeated.
    pub request: Option<RequestKey>,
}

/// The result of applying a definition.
#[derive(Debug, Clone)]
pub struct Applied {
    /// The definition as it is now.
    pub record: DefinitionRecord,
    /// Whether it is new or has changed.
    pub changed: bool,
    /// Warnings.
    pub warnings: Vec<stateway_definition::Diagnostic>,
}

/// One revision of a definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefinitionRecord {
    /// Its name.
    pub name: Arc<str>,
    /// Its content hash.
    pub revision: Arc<str>,
    /// As it was applied.
    pub source: String,
    /// When this revision was first applied.
    pub created: Timestamp,
}

/// The selection of a list, newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListQuery {
    /// Only with one of these sub-states; all when empty.
    pub sub_states: Vec<SubState>,
    /// Only in one of these states; all when empty.
    pub states: Vec<ExecutionState>,
    /// Only of this definition.
    pub definition: Option<String>,
    /// Only with all of these labels.
    pub labels: Vec<(String, String)>,
    /// Only those that wait for a person.
    pub inbox: bool,
    /// Only those older than this place.
    pub before: Option<i64>,
    /// The maximum number of rows.
    pub limit: usize,
}

/// A page of something.
#[derive(Debug, Clone)]
pub struct Page<T> {
    /// The rows of the page.
    pub items: Vec<T>,
    /// Where the next page begins; `None` at the end.
    pub next: Option<i64>,
}

impl<T> Default for Page<T> {
    fn default() -> Self {
        Self {
            items: Vec::new(),
            next: None,
        }
    }
}

/// One event of the log, with its place among the events of all executions.
#[derive(Debug, Clone, PartialEq)]
pub struct EventRecord {
    /// Where it is in the log of everything; events of one append share it.
    pub position: i64,
    /// The execution of the event.
    pub execution: Arc<str>,
    /// The branch it was written on.
    pub branch: u32,
    /// What happened.
    pub event: Event,
}

/// One branch of an execution's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BranchRecord {
    /// Its number; the first one is 0.
    pub branch: u32,
    /// The one it grew from; none for the first.
    pub parent: Option<u32>,
    /// The last event it shares with its parent.
    pub cutoff: u64,
    /// Whether the execution continues on this branch.
    pub current: bool,
    /// Why it was opened, in words.
    pub cause: String,
    /// Who opened it.
    pub by: Arc<str>,
    /// When.
    pub created: Option<Timestamp>,
    /// What its own events cost; what it shares with its parent counts there.
    pub usage: Usage,
}

/// What happened to one step.
#[derive(Debug, Clone, PartialEq)]
pub struct StepRecord {
    /// The input of the step on the current branch; none before the step started.
    pub input: Option<Data>,
    /// What it answered on the current branch; none before it completed.
    pub output: Option<Data>,
    /// Why no retry follows its last failure, in one sentence; none while one does.
    pub not_retried: Option<String>,
    /// Its attempts on every branch, compensations included, in the order they started.
    pub attempts: Vec<AttemptRecord>,
    /// Older attempts were left out.
    pub truncated: bool,
}

/// What a purge removed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Purged {
    /// How many executions.
    pub executions: u64,
    /// Whether the policy covers more executions.
    pub more: bool,
    /// How many it covers that stay, because a webhook has not got all of their events yet; not
    /// counted beyond the limit of the request.
    pub held_back: u64,
}

/// Who is connected and what waits, at one moment.
#[derive(Debug, Clone, Default)]
pub struct Survey {
    /// The workers, connected or expected back.
    pub workers: Vec<WorkerStatus>,
    /// Tasks that no worker has.
    pub tasks: Vec<TaskLine>,
    /// Executions that wait for a slot.
    pub queued: Vec<QueueLine>,
    /// The schedules: first the enabled ones by their next start, then the disabled ones.
    pub scheduled: Vec<Scheduled>,
    /// Executions that could not be taken up because what is stored of them cannot be read.
    pub damaged: Vec<Damaged>,
    /// The number of active executions.
    pub active: usize,
    /// The maximum number of active executions.
    pub max_active: usize,
    /// About how many bytes the executions in memory have together.
    pub memory_bytes: usize,
    /// From how many bytes on no further execution gets a slot.
    pub max_memory_bytes: usize,
    /// Whether executions are queued because of this limit.
    pub memory_full: bool,
}

/// An execution that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damaged {
    /// Its id.
    pub id: Arc<str>,
    /// The finding.
    pub why: String,
    /// What kind of finding that is, where it is one.
    pub code: Option<crate::recovery::Code>,
}

/// A worker at one moment.
#[derive(Debug, Clone)]
pub struct WorkerStatus {
    /// The offer of the worker.
    pub offer: crate::Offer,
    /// Whether the worker is connected; if not, it is expected to reconnect.
    pub connected: bool,
    /// How many tasks it has.
    pub held: u32,
    /// How much longer it may be silent.
    pub lease_left: std::time::Duration,
    /// Since when it is connected; none while it is expected back.
    pub since: Option<Timestamp>,
    /// When it last sent a message; none before the first.
    pub seen: Option<Timestamp>,
    /// The first of its tasks, by execution and step.
    pub tasks: Vec<HeldTask>,
    /// Until when the tasks stay with the worker if it sends nothing.
    pub lease_until: Option<Timestamp>,
}

/// A task that a worker has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldTask {
    /// The execution's id.
    pub execution: Arc<str>,
    /// Step, attempt, and whether it is a compensation.
    pub task: stateway_machine::Task,
}

/// Tasks of one kind and tenant that wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskLine {
    /// The engine carries them out itself, as it does HTTP calls; they need no worker.
    pub by_engine: bool,
    /// The role they need; empty for any worker.
    pub role: Arc<str>,
    /// The skill they need.
    pub skill: Arc<str>,
    /// The tenant.
    pub tenant: String,
    /// The number.
    pub waiting: usize,
    /// Since when the first of them waits.
    pub oldest: Option<Timestamp>,
}

/// Executions of one tenant that wait for a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueLine {
    /// The tenant.
    pub tenant: String,
    /// The number.
    pub waiting: usize,
    /// Since when the first of them waits.
    pub oldest: Option<Timestamp>,
}
