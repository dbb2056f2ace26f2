//! What the gateway asks of a provider, and the pages it gets back.

use std::time::Duration;

use stateway_model::{Event, ExecutionId, Labels, Payload, SubState};

use crate::filter::Hints;
use crate::{Capabilities, Error, Observation, RequestId, Result, Verb};

/// How much of an execution is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum View {
    /// Everything but input and output.
    #[default]
    Basic,
    /// Input and output too, and steps that are shown nowhere else.
    Full,
}

/// Start an execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartRequest {
    /// What to start: the engine's own id of it, or the id of a portable definition.
    pub definition: String,
    /// Whether `definition` is portable.
    pub portable: bool,
    /// The id the caller wants; the provider chooses when there is none.
    pub execution_id: Option<ExecutionId>,
    /// What to start it with.
    pub input: Option<Payload>,
    /// What to attach to it.
    pub labels: Labels,
    /// Put off the start by this much.
    pub delay: Option<Duration>,
    /// The idempotency key.
    pub request_id: RequestId,
}

/// List executions, a page at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListRequest {
    /// What the answer may be narrowed to. The gateway filters again, so using none of it is
    /// right and using too much of it is wrong.
    pub hints: Hints,
    /// The most rows wanted; at least 1.
    pub page_size: u32,
    /// Where the last page ended, as the provider said it.
    pub cursor: Option<String>,
}

/// How many executions show a sub-state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count {
    /// Which one.
    pub sub_state: SubState,
    /// How many.
    pub count: u64,
    /// There are more; counting stopped here.
    pub at_least: bool,
}

/// A page of executions. It may be empty and still not be the last.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListPage {
    /// At most as many as asked for, without payloads.
    pub observations: Vec<Observation>,
    /// Where to go on; `None` is the only sign of the end.
    pub next: Option<String>,
}

/// Read an execution's history, a page at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryRequest {
    /// Whose history.
    pub id: ExecutionId,
    /// The most events wanted; at least 1.
    pub page_size: u32,
    /// Where the last page ended, as the provider said it.
    pub cursor: Option<String>,
    /// With [`View::Full`] each event has its [`detail`](Event::detail), where the engine keeps it.
    pub view: View,
}

/// A page of events, in ascending order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HistoryPage {
    /// At most as many as asked for.
    pub events: Vec<Event>,
    /// Where to go on; `None` is the only sign of the end.
    pub next: Option<String>,
}

/// Send a signal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignalRequest {
    /// To whom.
    pub id: ExecutionId,
    /// The signal's name.
    pub signal: String,
    /// Its body.
    pub payload: Option<Payload>,
    /// The idempotency key.
    pub request_id: RequestId,
}

/// How an execution is to be ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CancelMode {
    /// The execution may clean up and compensate first.
    #[default]
    Graceful,
    /// Immediately.
    Kill,
}

/// Whether a graceful end compensates completed steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compensation {
    /// As the definition says, or the engine's own rule.
    #[default]
    AsDefined,
    /// Completed steps are compensated.
    Compensate,
    /// Nothing is compensated.
    NoCompensation,
}

/// End an execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CancelRequest {
    /// Which one.
    pub id: ExecutionId,
    /// How.
    pub mode: CancelMode,
    /// Whether completed steps are compensated; a choice only where the provider has
    /// [`Capabilities::cancel_compensation`].
    pub compensation: Compensation,
    /// Why, for the record; may be empty.
    pub cause: String,
    /// The idempotency key.
    pub request_id: RequestId,
}

impl CancelRequest {
    /// Refuses a choice about compensation that a provider cannot follow, so that none is ignored.
    ///
    /// # Errors
    /// The request has a choice and the provider takes none.
    pub fn check_compensation(&self, can: &Capabilities) -> Result<()> {
        if self.compensation == Compensation::AsDefined || can.cancel_compensation {
            return Ok(());
        }
        Err(Error::unsupported(Verb::Cancel).with_hint(
            "Cancel without a choice about compensation; the engine's own rule applies.",
        ))
    }
}

/// Hold an execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PauseRequest {
    /// Which one.
    pub id: ExecutionId,
    /// Why, for the record; may be empty.
    pub cause: String,
    /// The idempotency key.
    pub request_id: RequestId,
}

/// Resume a paused execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResumeRequest {
    /// Which one.
    pub id: ExecutionId,
    /// The idempotency key.
    pub request_id: RequestId,
}

/// Make the next attempt now instead of at its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryNowRequest {
    /// Which one.
    pub id: ExecutionId,
    /// Which step; every step that backs off when empty.
    pub step: String,
    /// The idempotency key.
    pub request_id: RequestId,
}

/// Do the work again from a step on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryFromRequest {
    /// Which one.
    pub id: ExecutionId,
    /// From which step; from where it failed when empty.
    pub step: String,
    /// Other input for that step. A provider that takes none answers
    /// [`Unsupported`](crate::ErrorKind::Unsupported); it never ignores it.
    pub input: Option<Payload>,
    /// A message for the worker that runs that step; may be empty. Likewise never ignored.
    pub feedback: String,
    /// Every step runs again, from the first one on. Likewise never ignored.
    pub from_start: bool,
    /// The id of the new execution, where the provider forks a succeeded one. Likewise never
    /// ignored.
    pub execution_id: Option<ExecutionId>,
    /// The idempotency key.
    pub request_id: RequestId,
}

impl RetryFromRequest {
    /// For a provider that can only do a step again as it was.
    ///
    /// # Errors
    /// [`Unsupported`](crate::ErrorKind::Unsupported) when something is to be different.
    pub fn ensure_plain(&self) -> Result<()> {
        let asked = match self {
            Self { input: Some(_), .. } => "Retry without an input.",
            Self {
                from_start: true, ..
            } => "Start a new execution instead.",
            Self { feedback, .. } if !feedback.is_empty() => "Retry without feedback.",
            Self {
                execution_id: Some(_),
                ..
            } => "Retry without an execution id: the execution keeps its name.",
            Self { .. } => return Ok(()),
        };
        Err(Error::unsupported(Verb::RetryFrom).with_hint(asked))
    }
}

/// Remove the record of a finished execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PurgeRequest {
    /// Which one.
    pub id: ExecutionId,
    /// The idempotency key.
    pub request_id: RequestId,
}

/// How a provider is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Health {
    /// The engine's version, where it tells.
    pub engine_version: String,
    /// One line for an operator; may be empty.
    pub detail: String,
}
