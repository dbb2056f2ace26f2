//! Workers: tasks that an engine hands out to connected workers.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use stateway_model::{ErrorCategory, ExecutionId, Payload, Progress, Usage};

use super::DisabledTrigger;
use crate::{Call, Result};

/// An engine that hands out tasks. Requires [`Capabilities::workers`](crate::Capabilities::workers).
#[async_trait]
pub trait Workers: Send + Sync {
    /// Connects a worker.
    ///
    /// - A worker that connects again with the same id keeps its tasks; its earlier session is closed.
    /// - Dropping the session reports to the engine that the connection is gone.
    async fn connect(&self, call: &Call, offer: WorkerOffer) -> Result<WorkerConnection>;

    /// The connected workers and the waiting tasks, now.
    async fn queue(&self, call: &Call) -> Result<WorkQueue>;
}

/// A connected worker.
pub struct WorkerConnection {
    /// Both directions.
    pub session: Box<dyn WorkerSession>,
    /// How long a silent worker keeps its tasks.
    pub lease: Duration,
}

/// One connected worker: both directions, polled by the task that owns the connection, so that a message
/// needs no task, lock or wake-up of its own.
pub trait WorkerSession: Send {
    /// Ready when the engine takes another message of this worker. Asked before each message, so that a
    /// worker that sends faster than the engine reads is slowed down by its own connection.
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()>;

    /// The next message for the worker; `None` when the engine has stopped.
    fn poll_message(&mut self, context: &mut Context<'_>) -> Poll<Option<WorkerMessage>>;

    /// Reports how an attempt ended. The engine answers with `Accepted` or `Refused`.
    fn settle(&mut self, task_token: String, outcome: TaskOutcome, usage: Option<Usage>);

    /// Reports that the worker is alive, and one of its attempts with it.
    fn heartbeat(&mut self, task_token: Option<String>, progress: Option<Progress>);

    /// Changes what the worker can take on.
    fn offer(&mut self, offer: WorkerOffer);
}

/// The tasks that a worker can take.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WorkerOffer {
    /// Its id; the same id after a reconnect keeps its tasks.
    pub worker: Arc<str>,
    /// Its roles; tasks without a role go to any worker.
    pub roles: Vec<Arc<str>>,
    /// Its skills.
    pub skills: Vec<Arc<str>>,
    /// The maximum number of tasks that it has at one time, prefetched ones included.
    pub capacity: u32,
    /// The tenant whose tasks the worker takes; empty for all tenants.
    pub tenant: Arc<str>,
    /// The person or service in whose name it is connected; empty if none is named. They may not
    /// decide about the worker's steps.
    pub identity: Arc<str>,
}

/// A message for a worker.
#[derive(Debug, Clone)]
pub enum WorkerMessage {
    /// Run this.
    Task(Box<WorkerTask>),
    /// Stop this task if possible, and answer all the same.
    Cancelled {
        /// Which task.
        task_token: String,
    },
    /// The answer to this task is not wanted any more.
    Withdrawn {
        /// Which task.
        task_token: String,
        /// A stable word.
        reason: &'static str,
    },
    /// An answer was refused.
    Refused {
        /// Which task.
        task_token: String,
        /// A stable word.
        reason: &'static str,
        /// For people.
        message: String,
    },
    /// An answer is on disk.
    Accepted {
        /// Which task.
        task_token: String,
    },
    /// The session is over.
    Closed {
        /// A stable word.
        reason: &'static str,
    },
}

/// One attempt of a step, for a worker.
#[derive(Debug, Clone)]
pub struct WorkerTask {
    /// The answer carries it.
    pub task_token: String,
    /// The execution.
    pub execution: ExecutionId,
    /// The step.
    pub step: Arc<str>,
    /// The attempt, from 1.
    pub attempt: u32,
    /// Whether the step is compensated.
    pub compensation: bool,
    /// A compensation of a step of which it is unknown whether it completed.
    pub outcome_unknown: bool,
    /// What to do, in the worker's terms.
    pub action: Arc<str>,
    /// The input.
    pub input: Payload,
    /// The feedback of a validator on the previous attempt; may be empty.
    pub feedback: Option<Arc<str>>,
    /// When the attempt times out.
    pub deadline: Option<Timestamp>,
    /// How long the worker may be silent about it.
    pub heartbeat_timeout: Option<Duration>,
    /// The role that was asked for.
    pub role: Arc<str>,
    /// The policy by which the worker picks its model.
    pub model_policy: Arc<str>,
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskOutcome {
    /// It completed. An output that the engine cannot use fails the attempt, and the worker is notified.
    Completed {
        /// The output; none is no output.
        output: Option<Payload>,
    },
    /// It failed.
    Failed(TaskFailure),
    /// The worker gives it back.
    Released {
        /// Whether the worker had begun: the step may have taken effect.
        begun: bool,
    },
}

/// Why an attempt failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskFailure {
    /// The kind of failure.
    pub category: ErrorCategory,
    /// For people.
    pub message: String,
    /// The worker's own code; may be empty.
    pub code: String,
    /// No other attempt can succeed.
    pub no_retry: bool,
    /// The attempt may have taken effect although it failed.
    pub effects_unknown: bool,
    /// How long to wait before another attempt.
    pub retry_after: Option<Duration>,
}

/// The connected workers and the waiting tasks at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WorkQueue {
    /// The workers, connected or expected to reconnect.
    pub workers: Vec<WorkerStatus>,
    /// Tasks that no worker has.
    pub tasks: Vec<QueuedTasks>,
    /// Executions that wait for a slot.
    pub executions: Vec<QueuedExecutions>,
    /// The schedules: first the enabled ones by their next start, then the disabled ones.
    pub scheduled: Vec<ScheduledStart>,
    /// Executions with work under way.
    pub active: usize,
    /// The most of them.
    pub max_active: usize,
    /// About how many bytes the executions in memory have together.
    pub memory_bytes: usize,
    /// From how many bytes on no further execution gets a slot.
    pub max_memory_bytes: usize,
    /// Whether queued executions wait because of it.
    pub memory_full: bool,
}

/// A worker at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WorkerStatus {
    /// What it offers.
    pub offer: WorkerOffer,
    /// Whether it is connected.
    pub connected: bool,
    /// How many tasks it has.
    pub held: u32,
    /// Since when it is connected.
    pub connect_time: Option<Timestamp>,
    /// When it last sent something.
    pub seen_time: Option<Timestamp>,
    /// Until when its tasks stay with it if it sends nothing.
    pub lease_time: Option<Timestamp>,
    /// The first of its tasks.
    pub tasks: Vec<HeldTask>,
}

/// A task that a worker has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldTask {
    /// The execution.
    pub execution: ExecutionId,
    /// The step.
    pub step: String,
    /// The attempt.
    pub attempt: u32,
    /// Whether the step is compensated.
    pub compensation: bool,
}

/// Tasks of one kind and tenant that wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuedTasks {
    /// The engine carries them out itself, as it does HTTP calls; they need no worker.
    pub by_engine: bool,
    /// The role they need; empty for any worker.
    pub role: Arc<str>,
    /// The skill they need; empty for any worker.
    pub skill: Arc<str>,
    /// Whose they are.
    pub tenant: String,
    /// How many.
    pub count: usize,
    /// Since when the first of them waits.
    pub oldest_time: Option<Timestamp>,
}

/// Executions of one tenant that wait for a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuedExecutions {
    /// Whose they are.
    pub tenant: String,
    /// How many.
    pub count: usize,
    /// Since when the first of them waits.
    pub oldest_time: Option<Timestamp>,
}

/// A schedule of a definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduledStart {
    /// The id of the portable definition.
    pub definition: String,
    /// The next start; none while the trigger is disabled.
    pub next_time: Option<Timestamp>,
    /// Who disabled the trigger; none while it is enabled.
    pub disabled: Option<DisabledTrigger>,
}
