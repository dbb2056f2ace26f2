//! The event log of an engine that keeps one: branches, steps, export, replay, projections.

use async_trait::async_trait;
use jiff::Timestamp;
use stateway_model::{Event, ExecutionError, ExecutionId, Payload, Usage};

use crate::{Call, EventOrder, Observation, Result, View};

/// An engine that keeps a log of events for each execution. Requires
/// [`Capabilities::event_log`](crate::Capabilities::event_log).
#[async_trait]
pub trait EventLog: Send + Sync {
    /// Lists the branches of an execution's log by number, after the branch `after`, at most `limit`.
    async fn branches(
        &self,
        call: &Call,
        id: &ExecutionId,
        after: Option<u32>,
        limit: usize,
    ) -> Result<Vec<Branch>>;

    /// Reads the events of one branch with its ancestors, or of every branch.
    ///
    /// - Ascending, without gaps or repeats over the pages.
    async fn branch_events(
        &self,
        call: &Call,
        request: BranchEventsRequest,
    ) -> Result<BranchEventsPage>;

    /// What happened to one step, on every branch.
    async fn step(&self, call: &Call, id: &ExecutionId, step: &str) -> Result<StepHistory>;

    /// The whole log as a file that another process can replay; `redact`: without payloads.
    async fn export(&self, call: &Call, id: &ExecutionId, redact: bool) -> Result<Vec<u8>>;

    /// Replays the log: to one of its events, or under another definition. Nothing is changed.
    async fn replay(&self, call: &Call, request: ReplayRequest) -> Result<Replayed>;

    /// The execution in the terms of another system's state machine.
    ///
    /// - An unknown vocabulary answers `InvalidArgument` with reason `UNKNOWN_VOCABULARY`.
    async fn project(&self, call: &Call, id: &ExecutionId, vocabulary: &str) -> Result<Projection>;
}

/// One branch of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Branch {
    /// Its number; the first one is 0.
    pub branch: u32,
    /// The branch that it continues; none for the first.
    pub parent: Option<u32>,
    /// The last event that it shares with its parent.
    pub cutoff: u64,
    /// Whether the execution continues on it.
    pub current: bool,
    /// Why it was opened, in words.
    pub cause: String,
    /// Who opened it.
    pub created_by: String,
    /// When.
    pub create_time: Option<Timestamp>,
    /// The cost of its own events.
    pub usage: Usage,
}

/// Which branches are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BranchChoice {
    /// Every branch, each with its own events only.
    Every,
    /// The current branch, with its ancestors.
    Current,
    /// This branch, with its ancestors.
    Number(u32),
}

/// Read the events of branches, a page at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BranchEventsRequest {
    /// The execution.
    pub id: ExecutionId,
    /// Which branches.
    pub branch: BranchChoice,
    /// Where the last page ended; the cursor keeps to the branch that was current then.
    pub cursor: Option<(u32, u64)>,
    /// The most events; at least 1.
    pub page_size: usize,
    /// With [`View::Full`] each event has its detail.
    pub view: View,
    /// In which order. [`EventOrder::NewestFirst`] requires
    /// [`Capabilities::history_newest_first`](crate::Capabilities::history_newest_first).
    pub order: EventOrder,
}

/// An event and the branch that it was written on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BranchEvent {
    /// The branch.
    pub branch: u32,
    /// The event.
    pub event: Event,
}

/// A page of events.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BranchEventsPage {
    /// At most as many as asked for.
    pub events: Vec<BranchEvent>,
    /// Where to continue; none at the end.
    pub next: Option<(u32, u64)>,
}

/// What happened to one step.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StepHistory {
    /// Its input on the current branch; none before it started.
    pub input: Option<Payload>,
    /// Its output on the current branch; none before it completed.
    pub output: Option<Payload>,
    /// Why no retry follows its last failure, in one sentence; empty while one follows.
    pub not_retried: String,
    /// Its attempts on every branch, compensations included, in the order they started.
    pub attempts: Vec<StepAttempt>,
    /// Older attempts were left out.
    pub truncated: bool,
}

/// One attempt of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepAttempt {
    /// The branch of the log.
    pub branch: u32,
    /// From 1; runs and compensations are counted apart.
    pub attempt: u32,
    /// Whether the step is compensated.
    pub compensation: bool,
    /// The worker that has it or had it last; empty without one.
    pub worker: String,
    /// How often a worker took it.
    pub hand_outs: u32,
    /// When it was ready for a worker, or began to wait.
    pub start_time: Option<Timestamp>,
    /// When the worker took it.
    pub assign_time: Option<Timestamp>,
    /// When it ended.
    pub end_time: Option<Timestamp>,
    /// How it ended.
    pub outcome: StepAttemptOutcome,
    /// What went wrong.
    pub error: Option<ExecutionError>,
    /// The cost of the attempt.
    pub usage: Usage,
    /// The execution that does it, for a step that runs another definition.
    pub child: Option<ExecutionId>,
    /// What a policy decided about it: `allow`, `deny` or `require_approval`; empty without one.
    pub policy_decision: String,
    /// The rule that decided; empty without one.
    pub policy_rule: String,
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepAttemptOutcome {
    /// It has not.
    Open,
    /// It succeeded.
    Succeeded,
    /// It failed.
    Failed,
    /// It was withdrawn because the execution ended.
    Cancelled,
    /// Its worker was lost while the execution was ending.
    Unknown,
    /// The execution continues on another branch.
    Abandoned,
}

/// Replay a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplayRequest {
    /// The execution.
    pub id: ExecutionId,
    /// Along this branch; the current one when there is none.
    pub branch: Option<u32>,
    /// What is replayed.
    pub under: ReplayUnder,
}

/// What a replay applies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplayUnder {
    /// The recorded events as they are, up to this one; 0: up to the last.
    Recorded {
        /// The sequence of the last event.
        until: u64,
    },
    /// The current revision of the execution's definition.
    Latest,
    /// The revision with these first digits.
    Revision(String),
    /// Another definition.
    Source(String),
}

/// What a replay led to.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Replayed {
    /// The execution as the replay left it.
    pub execution: Option<Observation>,
    /// The branch that was replayed.
    pub branch: u32,
    /// The number of recorded events that were replayed.
    pub event_count: u64,
    /// The revision that was replayed under; empty for the recorded events.
    pub revision: String,
    /// Where the derived events differ from the recorded ones.
    pub divergences: Vec<Divergence>,
    /// Steps whose outcome the recording does not have.
    pub unrecorded_steps: Vec<UnrecordedStep>,
    /// The steps, recorded and derived.
    pub steps: Vec<ReplayedStep>,
    /// The recorded outcome.
    pub recorded_outcome: String,
    /// The derived outcome.
    pub derived_outcome: String,
    /// Remarks for people.
    pub notes: Vec<String>,
    /// The number of derived events.
    pub derived_event_count: u64,
    /// The last link of the chain of hashes, in hexadecimal.
    pub head_hash: String,
    /// The hash of the log before the replay.
    pub source_hash_before: String,
    /// The hash of the same part of the log after the replay: a replay changes nothing.
    pub source_hash_after: String,
}

/// A difference between a recorded and a derived event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Divergence {
    /// Where in the recording.
    pub sequence: u64,
    /// A stable word.
    pub kind: String,
    /// The step; may be empty.
    pub step: String,
    /// What was recorded.
    pub recorded: String,
    /// What was derived.
    pub derived: String,
    /// In words.
    pub summary: String,
}

/// A step whose outcome the recording does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnrecordedStep {
    /// The step.
    pub step: String,
    /// The attempt.
    pub attempt: u32,
    /// Whether it is a compensation.
    pub compensation: bool,
    /// Why.
    pub why: String,
}

/// A step, recorded and derived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplayedStep {
    /// The step.
    pub step: String,
    /// What was recorded.
    pub recorded: String,
    /// What was derived.
    pub derived: String,
}

/// An execution in the terms of another system.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Projection {
    /// The vocabulary.
    pub vocabulary: String,
    /// The system that it describes.
    pub system: String,
    /// Where the execution is, in that system's word.
    pub status: String,
    /// Whether that is an end.
    pub terminal: bool,
    /// The steps under way.
    pub current_steps: Vec<String>,
    /// What went wrong last.
    pub last_error: Option<ExecutionError>,
    /// How the execution got there.
    pub moves: Vec<ProjectedMove>,
    /// How each step got where it is.
    pub steps: Vec<ProjectedStep>,
    /// The events, in that system's words.
    pub events: Vec<String>,
}

/// One step in the terms of another system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectedStep {
    /// The step.
    pub step: String,
    /// Where it is.
    pub status: String,
    /// How it got there.
    pub moves: Vec<ProjectedMove>,
}

/// A move of another system's state machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectedMove {
    /// From; empty at the beginning.
    pub from: String,
    /// To.
    pub to: String,
    /// What the other system says of it.
    pub kind: ProjectedMoveKind,
}

/// What another system says of a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProjectedMoveKind {
    /// The beginning.
    Begin,
    /// The system has this move.
    Legal,
    /// Several of the system's moves in one.
    Bridged,
    /// The system has no such move.
    Outside,
}
