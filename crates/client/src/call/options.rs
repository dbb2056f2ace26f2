//! The options of each call.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use stateway_proto::v1;
use stateway_proto::v1::Compensation;
use stateway_proto::v1::cancel_execution_request::Mode;
use stateway_proto::v1::read_payload_request::Source;
use stateway_proto::v1::retry_from_request::Origin;

use super::{
    AdoptDefinition, Cancel, DeleteDefinition, DisableTrigger, EnableTrigger, Events, Get, GetStep,
    List, ListProviders, MigrateDefinition, Pause, ReadPayload, RetryFrom, RetryNow, Signal, Start,
    Wait, WatchApprovals, WatchRequest,
};

impl Start {
    /// Starts this definition.
    pub fn new(definition: impl Into<String>) -> Self {
        Self::from_message(Default::default())
            .with(|message| message.definition = definition.into())
    }

    /// On this provider, `providers/{provider}`; not needed for a provider's own definition.
    #[must_use]
    pub fn on(self, parent: impl Into<String>) -> Self {
        self.with(|message| message.parent = parent.into())
    }

    /// With this id (default: chosen by the provider).
    #[must_use]
    pub fn id(self, id: impl Into<String>) -> Self {
        self.with(|message| message.execution_id = id.into())
    }

    /// With this JSON as input.
    #[must_use]
    pub fn json(self, input: impl Into<Bytes>) -> Self {
        self.with(|message| message.input = Some(json(input)))
    }

    /// With this label.
    #[must_use]
    pub fn label(self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.with(|message| {
            message.labels.insert(name.into(), value.into());
        })
    }

    /// With these labels and no others.
    #[must_use]
    pub fn labels(self, labels: HashMap<String, String>) -> Self {
        self.with(|message| message.labels = labels)
    }

    /// An option that only this kind of provider knows.
    #[must_use]
    pub fn option(self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.with(|message| {
            message.options.insert(name.into(), value.into());
        })
    }

    /// Starts the execution after this delay.
    #[must_use]
    pub fn delay(self, delay: Duration) -> Self {
        self.with(|message| message.delay = duration(delay))
    }

    /// Answers when the execution has finished, or shortly before the timeout of the call with the execution as it
    /// is then. The answer has neither input nor output.
    #[must_use]
    pub fn wait(self) -> Self {
        self.with(|message| message.wait = true)
    }
}

impl Get {
    /// With or without input and output (default: with both).
    #[must_use]
    pub fn view(self, view: v1::ExecutionView) -> Self {
        self.with(|message| message.view = view as i32)
    }
}

impl GetStep {
    /// About this step of an execution, `providers/{provider}/executions/{execution}`.
    pub fn new(execution: &str, step: &str) -> Self {
        let name = format!("{execution}/steps/{step}");
        Self::from_message(v1::GetStepRequest { name })
    }
}

impl ReadPayload {
    /// The input of an execution, `providers/{provider}/executions/{execution}`, or of its step
    /// `…/steps/{step}`.
    pub fn input(name: impl Into<String>) -> Self {
        Self::of(name, Source::Input)
    }

    /// The output of an execution or of a step.
    pub fn output(name: impl Into<String>) -> Self {
        Self::of(name, Source::Output)
    }

    fn of(name: impl Into<String>, source: Source) -> Self {
        Self::from_message(v1::ReadPayloadRequest {
            name: name.into(),
            source: source.into(),
        })
    }
}

impl List {
    /// Only results that match this AIP-160 filter.
    #[must_use]
    pub fn filter(self, filter: impl Into<String>) -> Self {
        self.with(|message| message.filter = filter.into())
    }

    /// The maximum number of results on a page.
    #[must_use]
    pub fn page_size(self, size: i32) -> Self {
        self.with(|message| message.page_size = size)
    }

    /// The page that this token names.
    #[must_use]
    pub fn page_token(self, token: impl Into<String>) -> Self {
        self.with(|message| message.page_token = token.into())
    }
}

impl Events {
    /// The maximum number of results on a page.
    #[must_use]
    pub fn page_size(self, size: i32) -> Self {
        self.with(|message| message.page_size = size)
    }

    /// The page that this token names.
    #[must_use]
    pub fn page_token(self, token: impl Into<String>) -> Self {
        self.with(|message| message.page_token = token.into())
    }
}

impl ListProviders {
    /// Every provider, a page at a time.
    #[must_use]
    pub fn new() -> Self {
        Self::from_message(Default::default())
    }

    /// The page that this token names.
    #[must_use]
    pub fn page_token(self, token: impl Into<String>) -> Self {
        self.with(|message| message.page_token = token.into())
    }
}

impl Default for ListProviders {
    fn default() -> Self {
        Self::new()
    }
}

impl WatchRequest {
    /// Follows these executions, up to 100. An execution alone that does not exist is an error; of
    /// several, the missing ones are not reported.
    pub fn of(names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let names = names.into_iter().map(Into::into).collect();
        Self::from_message(Default::default()).with(|message| message.names = names)
    }

    /// Only those that pass this AIP-160 filter; not together with names.
    #[must_use]
    pub fn filter(self, filter: impl Into<String>) -> Self {
        self.with(|message| message.filter = filter.into())
    }

    /// Resumes after this cursor.
    #[must_use]
    pub fn cursor(self, cursor: impl Into<String>) -> Self {
        self.with(|message| message.cursor = cursor.into())
    }
}

impl WatchApprovals {
    /// About the pending approvals of `providers/{provider}`, or of `providers/-` for all providers.
    pub fn new(parent: impl Into<String>) -> Self {
        Self::from_message(Default::default()).with(|message| message.parent = parent.into())
    }

    /// Only results that match this AIP-160 filter.
    #[must_use]
    pub fn filter(self, filter: impl Into<String>) -> Self {
        self.with(|message| message.filter = filter.into())
    }
}

impl Wait {
    /// Until it shows this sub-state, or another one that was given.
    #[must_use]
    pub fn until(self, state: v1::SubState) -> Self {
        self.with(|message| message.sub_states.push(state as i32))
    }
}

impl Signal {
    /// The signal's name.
    #[must_use]
    pub fn signal(self, signal: impl Into<String>) -> Self {
        self.with(|message| message.signal = signal.into())
    }

    /// With this JSON as payload.
    #[must_use]
    pub fn json(self, payload: impl Into<Bytes>) -> Self {
        self.with(|message| message.payload = Some(json(payload)))
    }
}

impl Cancel {
    /// Immediately, without a chance to clean up.
    #[must_use]
    pub fn kill(self) -> Self {
        self.with(|message| message.mode = Mode::Kill as i32)
    }

    /// Whether completed steps are compensated (default: as the definition's `failurePolicy` says).
    #[must_use]
    pub fn compensate(self, compensate: bool) -> Self {
        let choice = if compensate {
            Compensation::Compensate
        } else {
            Compensation::Skip
        };
        self.with(|message| message.compensation = choice as i32)
    }

    /// Why, for the record.
    #[must_use]
    pub fn comment(self, comment: impl Into<String>) -> Self {
        self.with(|message| message.comment = comment.into())
    }
}

impl Pause {
    /// Why, for the record.
    #[must_use]
    pub fn comment(self, comment: impl Into<String>) -> Self {
        self.with(|message| message.comment = comment.into())
    }
}

impl RetryNow {
    /// Only this step.
    #[must_use]
    pub fn step(self, step: impl Into<String>) -> Self {
        self.with(|message| message.step = step.into())
    }
}

impl RetryFrom {
    /// From this step. Default: from where the execution failed.
    #[must_use]
    pub fn step(self, step: impl Into<String>) -> Self {
        self.with(|message| message.origin = Some(Origin::Step(step.into())))
    }

    /// With this JSON as the step's input.
    #[must_use]
    pub fn json(self, input: impl Into<Bytes>) -> Self {
        self.with(|message| message.input = Some(json(input)))
    }

    /// With this message for the worker that runs the step.
    #[must_use]
    pub fn feedback(self, feedback: impl Into<String>) -> Self {
        self.with(|message| message.feedback = feedback.into())
    }

    /// Runs every step again, from the first step.
    #[must_use]
    pub fn from_start(self) -> Self {
        self.with(|message| message.origin = Some(Origin::Start(())))
    }

    /// The id of the new execution if a succeeded execution is forked.
    #[must_use]
    pub fn id(self, id: impl Into<String>) -> Self {
        self.with(|message| message.execution_id = id.into())
    }
}

impl MigrateDefinition {
    /// Of this definition, `definitions/{definition}`, to this provider, `providers/{provider}`.
    pub fn new(name: impl Into<String>, provider: impl Into<String>) -> Self {
        Self::from_message(Default::default()).with(|message| {
            message.name = name.into();
            message.provider = provider.into();
        })
    }

    /// Checks only; nothing is changed.
    #[must_use]
    pub fn validate_only(self, only: bool) -> Self {
        self.with(|message| message.validate_only = only)
    }
}

impl DeleteDefinition {
    /// Of this definition: `definitions/{definition}`.
    pub fn new(name: impl Into<String>) -> Self {
        Self::from_message(Default::default()).with(|message| message.name = name.into())
    }

    /// Although executions are open; they finish under their revision.
    #[must_use]
    pub fn keep_running(self, keep: bool) -> Self {
        self.with(|message| message.keep_running = keep)
    }
}

impl AdoptDefinition {
    /// This revision, or its first digits; default: the current one.
    #[must_use]
    pub fn revision(self, revision: impl Into<String>) -> Self {
        self.with(|message| message.revision = revision.into())
    }
}

impl DisableTrigger {
    /// Of this definition: `definitions/{definition}`.
    pub fn new(definition: &str) -> Self {
        let name = format!("{definition}/trigger");
        Self::from_message(Default::default()).with(|message| message.name = name)
    }

    /// The reason, for people.
    #[must_use]
    pub fn comment(self, comment: impl Into<String>) -> Self {
        self.with(|message| message.comment = comment.into())
    }
}

impl EnableTrigger {
    /// Of this definition: `definitions/{definition}`.
    pub fn new(definition: &str) -> Self {
        let name = format!("{definition}/trigger");
        Self::from_message(Default::default()).with(|message| message.name = name)
    }
}

impl Events {
    /// Along this branch: `providers/{provider}/executions/{execution}/branches/{branch}`, where
    /// `{branch}` is a number, `current`, or `-` for every branch.
    #[must_use]
    pub fn branch(self, branch: impl Into<String>) -> Self {
        self.with(|message| message.branch = branch.into())
    }

    /// The newest event first.
    #[must_use]
    pub fn newest_first(self) -> Self {
        self.with(|message| message.order_by = "sequence desc".into())
    }

    /// With payload, correlation, cause and actor of each event, or without (default).
    #[must_use]
    pub fn view(self, view: v1::ExecutionView) -> Self {
        self.with(|message| message.view = view as i32)
    }
}

fn json(data: impl Into<Bytes>) -> v1::Payload {
    v1::Payload {
        data: data.into(),
        content_type: "application/json".into(),
    }
}

/// A delay too long for the API's type is as good as never; the gateway refuses it.
fn duration(delay: Duration) -> Option<prost_types::Duration> {
    let longest = prost_types::Duration {
        seconds: i64::MAX,
        nanos: 0,
    };
    Some(prost_types::Duration::try_from(delay).unwrap_or(longest))
}
