//! The requests of the gateway to a provider, and the pages of its answers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use stateway_model::{Event, ExecutionId, Labels, Payload};

use crate::filter::Hints;
use crate::{
    Capabilities, Error, ErrorKind, NativeState, Observation, RequestId, Result, Verb, nearest,
};

/// Which parts of an execution a read returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum View {
    /// Everything but input and output.
    #[default]
    Basic,
    /// Input and output too, and steps that are shown nowhere else.
    Full,
}

/// The definition that a new execution runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StartDefinition {
    /// A definition of the engine's own, by its native id.
    Native(String),
    /// A portable definition.
    Portable {
        /// Its id.
        id: String,
        /// Its source, for a provider that does not store portable definitions itself; `None`: the
        /// provider reads the current revision from its own store.
        source: Option<Arc<str>>,
    },
}

impl StartDefinition {
    /// A definition of the engine's own.
    #[must_use]
    pub fn native(id: impl Into<String>) -> Self {
        Self::Native(id.into())
    }

    /// The id, without the owner of the definition.
    #[must_use]
    pub fn id(&self) -> &str {
        match self {
            Self::Native(id) | Self::Portable { id, .. } => id,
        }
    }

    /// Whether the definition is portable.
    #[must_use]
    pub const fn is_portable(&self) -> bool {
        matches!(self, Self::Portable { .. })
    }
}

/// Start an execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartRequest {
    /// The definition to run.
    pub definition: StartDefinition,
    /// Options that only this kind of provider knows, for example a task queue or a timeout. A
    /// provider refuses an option that it does not know ([`check_options`](Self::check_options)).
    pub options: BTreeMap<String, String>,
    /// The id of the execution (default: chosen by the provider).
    pub execution_id: Option<ExecutionId>,
    /// The input.
    pub input: Option<Payload>,
    /// The labels.
    pub labels: Labels,
    /// The delay of the start.
    pub delay: Option<Duration>,
    /// The idempotency key.
    pub request_id: RequestId,
}

impl StartRequest {
    /// A start of this definition, with nothing else requested.
    #[must_use]
    pub fn new(definition: StartDefinition, request_id: RequestId) -> Self {
        Self {
            definition,
            options: BTreeMap::new(),
            execution_id: None,
            input: None,
            labels: Labels::new(),
            delay: None,
            request_id,
        }
    }

    /// Whether both requests are equal except for their request ids.
    #[must_use]
    pub fn has_same_body(&self, other: &Self) -> bool {
        let other = Self {
            request_id: self.request_id.clone(),
            ..other.clone()
        };
        *self == other
    }

    /// Refuses labels and a delay that a provider cannot keep, so that none is ignored.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported).
    pub fn check_capabilities(&self, can: &Capabilities) -> Result<()> {
        if self.delay.is_some() && !can.start_delayed {
            return Err(Error::unsupported(Verb::Start).with_hint("Start without a delay."));
        }
        if !self.labels.is_empty() && !can.labels {
            return Err(Error::unsupported(Verb::Start).with_hint("Start without labels."));
        }
        Ok(())
    }

    /// Refuses an option that the provider does not know.
    ///
    /// # Errors
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) with reason `OPTION_NOT_SUPPORTED` and the
    /// known option that was probably meant.
    pub fn check_options(&self, known: &[&str]) -> Result<()> {
        let unknown = |name: &&String| !known.contains(&name.as_str());
        let Some(name) = self.options.keys().find(unknown) else {
            return Ok(());
        };
        let message = format!("this provider does not know the option `{name}`");
        let error = Error::new(ErrorKind::InvalidArgument, Verb::Start, message)
            .with_reason("OPTION_NOT_SUPPORTED")
            .with_metadata([("option", name.clone())]);
        let error = match known {
            [] => error.with_hint("Start without options: this provider has none."),
            known => error.with_hint(format!("Known options: {}.", known.join(", "))),
        };
        match nearest(name, known.iter().copied()) {
            Some(similar) => Err(error.with_suggestion(similar)),
            None => Err(error),
        }
    }
}

/// List executions, a page at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListRequest {
    /// Conditions that every wanted execution meets. A provider may ignore them, because the gateway filters the
    /// answer again. It must not leave out an execution that meets them.
    pub hints: Hints,
    /// The maximum number of rows; at least 1.
    pub page_size: u32,
    /// The provider's cursor at the end of the previous page.
    pub cursor: Option<String>,
}

/// How many executions show the same sub-state. Like everything else a provider reports, a count is
/// evidence: the sub-state follows from the example and the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Count {
    /// An observation that stands for each of these executions: everything that decides about the
    /// sub-state. Its id is not read.
    pub example: Observation,
    /// How many.
    pub count: u64,
    /// There are more; counting stopped here.
    pub at_least: bool,
}

impl Count {
    /// The number of executions with the same state as this example.
    #[must_use]
    pub const fn of(example: Observation, count: u64) -> Self {
        Self {
            example,
            count,
            at_least: false,
        }
    }

    /// A count of executions in a native state that the table maps without further evidence.
    ///
    /// # Panics
    /// Never.
    #[must_use]
    pub fn in_state(native: NativeState, count: u64) -> Self {
        let id = ExecutionId::new(Self::EXAMPLE).expect("the constant is a good id");
        Self::of(Observation::new(id, native), count)
    }

    /// The id of an example without an id.
    pub const EXAMPLE: &'static str = "example";
}

/// A page of executions. It may be empty and still not be the last.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListPage {
    /// At most as many as asked for, without payloads.
    pub observations: Vec<Observation>,
    /// The cursor of the next page; `None` on the last page only.
    pub next: Option<String>,
}

/// Read an execution's history, a page at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryRequest {
    /// Whose history.
    pub id: ExecutionId,
    /// The most events wanted; at least 1.
    pub page_size: u32,
    /// The provider's cursor at the end of the previous page.
    pub cursor: Option<String>,
    /// With [`View::Full`] each event has its [`detail`](Event::detail), where the engine keeps it.
    pub view: View,
    /// In which order. [`EventOrder::NewestFirst`] requires
    /// [`Capabilities::history_newest_first`].
    pub order: EventOrder,
}

/// In which order events are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum EventOrder {
    /// From the first event on.
    #[default]
    OldestFirst,
    /// From the last event back.
    NewestFirst,
}

impl EventOrder {
    /// Refuses the newest event first where that is not supported.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`].
    pub fn check(self, can: &Capabilities, verb: Verb) -> Result<()> {
        if self == Self::OldestFirst || can.history_newest_first {
            return Ok(());
        }
        Err(Error::unsupported(verb))
    }
}

/// A page of events, in the order of the request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HistoryPage {
    /// At most as many as asked for.
    pub events: Vec<Event>,
    /// The cursor of the next page; `None` only after the last page.
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
pub enum CompensationChoice {
    /// As the definition says, or the engine's own rule.
    #[default]
    AsDefined,
    /// Completed steps are compensated.
    Compensate,
    /// Nothing is compensated.
    Skip,
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
    pub compensation: CompensationChoice,
    /// Why, for the record; may be empty.
    pub comment: String,
    /// The idempotency key.
    pub request_id: RequestId,
}

impl CancelRequest {
    /// The verb of the mode.
    #[must_use]
    pub const fn verb(&self) -> Verb {
        match self.mode {
            CancelMode::Graceful => Verb::Cancel,
            CancelMode::Kill => Verb::Kill,
        }
    }

    /// Refuses a choice about compensation that a provider cannot follow, so that none is ignored.
    ///
    /// # Errors
    /// The request has a choice and the provider takes none.
    pub fn check_compensation(&self, can: &Capabilities) -> Result<()> {
        if self.compensation == CompensationChoice::AsDefined || can.cancel_compensation {
            return Ok(());
        }
        Err(Error::unsupported(Verb::Cancel).with_hint(
            "Cancel without a choice about compensation; the engine's own rule applies.",
        ))
    }
}

/// Pause an execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PauseRequest {
    /// Which one.
    pub id: ExecutionId,
    /// Why, for the record; may be empty.
    pub comment: String,
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

/// Start the next attempt immediately instead of at its scheduled time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryNowRequest {
    /// Which one.
    pub id: ExecutionId,
    /// Which step; every step that backs off when empty.
    pub step: String,
    /// The idempotency key.
    pub request_id: RequestId,
}

/// Run an execution again from a step.
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
    /// For a provider that can only run a step again unchanged.
    ///
    /// # Errors
    /// [`Unsupported`](crate::ErrorKind::Unsupported) if the request changes something.
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

/// The health of a provider.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Health {
    /// The engine's version, if it reports one.
    pub engine_version: String,
    /// One line for an operator; may be empty.
    pub detail: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_that_the_provider_does_not_know_is_refused_with_the_one_that_was_meant() {
        let definition = StartDefinition::native("order");
        let mut request = StartRequest::new(definition, "r1".parse().unwrap());
        let known = ["task_queue", "run_timeout"];
        assert!(request.check_options(&[]).is_ok());
        request.options.insert("task_queue".into(), "orders".into());
        assert!(request.check_options(&known).is_ok());
        request.options.insert("run_timout".into(), "1h".into());
        let refused = request.check_options(&known).unwrap_err();
        assert_eq!(refused.kind, ErrorKind::InvalidArgument);
        assert_eq!(refused.reason(), "OPTION_NOT_SUPPORTED");
        assert_eq!(refused.suggestion.as_deref(), Some("run_timeout"));
        assert_eq!(
            request.check_options(&[]).unwrap_err().reason(),
            "OPTION_NOT_SUPPORTED"
        );
    }
}
