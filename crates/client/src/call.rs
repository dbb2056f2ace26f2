//! One call to make: the API's message and how long it may take.

mod options;

use std::time::Duration;

use stateway_proto::v1;

/// A message on its way, with the time it may take, retries included.
#[derive(Debug, Clone, PartialEq)]
pub struct Call<M> {
    pub(crate) message: M,
    pub(crate) timeout: Option<Duration>,
    pub(crate) at_least_once: bool,
}

/// Starts an execution.
pub type Start = Call<v1::StartExecutionRequest>;
/// Reads an execution.
pub type Get = Call<v1::GetExecutionRequest>;
/// Lists executions.
pub type List = Call<v1::ListExecutionsRequest>;
/// Counts executions by sub-state.
pub type Count = Call<v1::CountExecutionsRequest>;
/// Follows executions.
pub type WatchRequest = Call<v1::WatchExecutionsRequest>;
/// Waits for an execution.
pub type Wait = Call<v1::WaitExecutionRequest>;
/// Reads an execution's history.
pub type Events = Call<v1::ListEventsRequest>;
/// Reads one step with its attempts.
pub type GetStep = Call<v1::GetStepRequest>;
/// Reads one payload in parts.
pub type ReadPayload = Call<v1::ReadPayloadRequest>;
/// Asks why an execution shows what it shows.
pub type Explain = Call<v1::ExplainExecutionRequest>;
/// Sends a signal.
pub type Signal = Call<v1::SignalExecutionRequest>;
/// Ends an execution.
pub type Cancel = Call<v1::CancelExecutionRequest>;
/// Pauses an execution.
pub type Pause = Call<v1::PauseExecutionRequest>;
/// Resumes a paused execution.
pub type Resume = Call<v1::ResumeExecutionRequest>;
/// Makes the next attempt now.
pub type RetryNow = Call<v1::RetryNowRequest>;
/// Does the work again from a step on.
pub type RetryFrom = Call<v1::RetryFromRequest>;
/// Removes the record of a finished execution.
pub type Purge = Call<v1::PurgeExecutionRequest>;
/// Lists providers.
pub type ListProviders = Call<v1::ListProvidersRequest>;
/// Reads a provider.
pub type GetProvider = Call<v1::GetProviderRequest>;
/// Projects an execution into another system's vocabulary.
pub type Project = Call<v1::ProjectExecutionRequest>;
/// Makes a definition known.
pub type ApplyDefinition = Call<v1::ApplyDefinitionRequest>;
/// Reads a definition.
pub type GetDefinition = Call<v1::GetDefinitionRequest>;
/// Lists definitions.
pub type ListDefinitions = Call<v1::ListDefinitionsRequest>;
/// Checks a definition.
pub type ValidateDefinition = Call<v1::ValidateDefinitionRequest>;
/// Deletes a definition.
pub type DeleteDefinition = Call<v1::DeleteDefinitionRequest>;
/// Makes a provider the default of a definition.
pub type MigrateDefinition = Call<v1::MigrateDefinitionRequest>;
/// Offers another revision of its definition to an execution.
pub type AdoptDefinition = Call<v1::AdoptDefinitionRequest>;
/// Disables the trigger of a definition.
pub type DisableTrigger = Call<v1::DisableTriggerRequest>;
/// Enables the trigger of a definition.
pub type EnableTrigger = Call<v1::EnableTriggerRequest>;
/// Lists approvals.
pub type ListApprovals = Call<v1::ListApprovalsRequest>;
/// Follows the pending approvals.
pub type WatchApprovals = Call<v1::WatchApprovalsRequest>;
/// Reads an approval.
pub type GetApproval = Call<v1::GetApprovalRequest>;
/// Decides about an approval.
pub type DecideApproval = Call<v1::DecideApprovalRequest>;
/// Lists escalations.
pub type ListEscalations = Call<v1::ListEscalationsRequest>;
/// Reads an escalation.
pub type GetEscalation = Call<v1::GetEscalationRequest>;
/// Decides about an escalation.
pub type ResolveEscalation = Call<v1::ResolveEscalationRequest>;
/// Lists workers.
pub type ListWorkers = Call<v1::ListWorkersRequest>;
/// Reads what waits.
pub type GetQueue = Call<v1::GetQueueRequest>;
/// Removes finished executions.
pub type PurgeExecutions = Call<v1::PurgeExecutionsRequest>;
/// Copies a store.
pub type Backup = Call<v1::BackupStoreRequest>;
/// Publishes an event.
pub type PublishEvent = Call<v1::PublishEventRequest>;

/// Compares what is kept of an execution with its log.
pub type Verify = Call<v1::VerifyExecutionRequest>;
/// The same for every execution.
pub type VerifyAll = Call<v1::VerifyExecutionsRequest>;
/// Repairs an execution.
pub type Recover = Call<v1::RecoverExecutionRequest>;
/// Replays an execution.
pub type Replay = Call<v1::ReplayExecutionRequest>;
/// Lists the branches of an execution's log.
pub type ListBranches = Call<v1::ListBranchesRequest>;
/// Reads a history as a file.
pub type ExportHistory = Call<v1::ExportHistoryRequest>;

impl<M> Call<M> {
    /// A call with this message.
    pub const fn from_message(message: M) -> Self {
        Self {
            message,
            timeout: None,
            at_least_once: false,
        }
    }

    /// How long it may take, retries included; the client's own limit otherwise.
    #[must_use]
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    fn with(mut self, change: impl FnOnce(&mut M)) -> Self {
        change(&mut self.message);
        self
    }
}

/// The idempotency key of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Repeat {
    /// The request id, or the nature of the write.
    Harmless,
    /// The provider, if its capabilities include this one. Without a name, the gateway chooses the
    /// provider.
    Capability {
        /// The capability that makes a repetition harmless.
        needs: IdempotentCapability,
        /// `providers/{provider}`.
        provider: Option<String>,
    },
}

/// Capabilities that make a repeated write harmless.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdempotentCapability {
    /// `start_idempotent`.
    Start,
    /// `signal_idempotent`.
    Signal,
    /// `retry_now_idempotent`.
    RetryNow,
    /// `retry_from_idempotent`.
    RetryFrom,
}

impl IdempotentCapability {
    pub(crate) const fn is_offered(self, by: &v1::Capabilities) -> bool {
        match self {
            Self::Start => by.start_idempotent,
            Self::Signal => by.signal_idempotent,
            Self::RetryNow => by.retry_now_idempotent,
            Self::RetryFrom => by.retry_from_idempotent,
        }
    }
}

/// Messages that change something. Each carries an id under which it happens at most once, if the
/// provider can keep ids.
pub trait Write {
    /// The request id.
    fn request_id(&mut self) -> &mut String;

    /// The idempotency key.
    fn repeat(&self) -> Repeat {
        Repeat::Harmless
    }

    /// The etag that the execution must still have; empty where any will do.
    fn etag(&self) -> &str {
        ""
    }
}

/// Messages that can be limited to one state of the execution.
pub trait ConditionalWrite: Write {
    /// The etag that the execution must still have.
    fn etag_field(&mut self) -> &mut String;
}

macro_rules! writes {
    ($($message:ident { $($etag:ident)? } $(if $repeat:expr)?;)+) => { $(
        impl Write for v1::$message {
            fn request_id(&mut self) -> &mut String {
                &mut self.request_id
            }
            $(
                fn repeat(&self) -> Repeat {
                    $repeat(self)
                }
            )?
            $(
                fn $etag(&self) -> &str {
                    &self.$etag
                }
            )?
        }
        $(
            impl ConditionalWrite for v1::$message {
                fn etag_field(&mut self) -> &mut String {
                    &mut self.$etag
                }
            }
        )?
    )+ };
}

writes! {
    StartExecutionRequest {} if start_repeat;
    SignalExecutionRequest { etag } if signal_repeat;
    CancelExecutionRequest { etag };
    PauseExecutionRequest { etag };
    ResumeExecutionRequest { etag };
    RetryNowRequest { etag } if retry_now_repeat;
    RetryFromRequest { etag } if retry_from_repeat;
    ApplyDefinitionRequest {};
    DeleteDefinitionRequest {};
    MigrateDefinitionRequest {};
    AdoptDefinitionRequest { etag };
    DisableTriggerRequest {};
    EnableTriggerRequest {};
    PublishEventRequest {};
    DecideApprovalRequest { etag };
    ResolveEscalationRequest { etag };
    PurgeExecutionRequest { etag };
    RecoverExecutionRequest { etag };
}

fn start_repeat(message: &v1::StartExecutionRequest) -> Repeat {
    let parent = Some(message.parent.as_str()).filter(|parent| !parent.is_empty());
    Repeat::Capability {
        needs: IdempotentCapability::Start,
        provider: parent
            .or_else(|| provider_of(&message.definition))
            .map(Into::into),
    }
}

fn signal_repeat(message: &v1::SignalExecutionRequest) -> Repeat {
    repeat_of(IdempotentCapability::Signal, &message.name)
}

fn retry_now_repeat(message: &v1::RetryNowRequest) -> Repeat {
    repeat_of(IdempotentCapability::RetryNow, &message.name)
}

fn retry_from_repeat(message: &v1::RetryFromRequest) -> Repeat {
    repeat_of(IdempotentCapability::RetryFrom, &message.name)
}

/// By the provider of the execution.
fn repeat_of(needs: IdempotentCapability, execution: &str) -> Repeat {
    Repeat::Capability {
        needs,
        provider: provider_of(execution).map(Into::into),
    }
}

/// `providers/{provider}` at the beginning of a name.
fn provider_of(name: &str) -> Option<&str> {
    let (provider, _) = name.strip_prefix("providers/")?.split_once('/')?;
    name.get(.."providers/".len() + provider.len())
}

impl<M: Write> Call<M> {
    /// Retries also where the provider cannot recognise a repetition (`start_idempotent`,
    /// `signal_idempotent`, `retry_now_idempotent` and `retry_from_idempotent` of its capabilities):
    /// after a lost answer the write may be carried out twice. By default the error is returned
    /// instead.
    #[must_use]
    pub const fn at_least_once(mut self) -> Self {
        self.at_least_once = true;
        self
    }

    /// Chooses the request id. A random one is made otherwise; choose it where the same request
    /// may be made again by another process.
    #[must_use]
    pub fn request_id(self, id: impl Into<String>) -> Self {
        self.with(|message| *message.request_id() = id.into())
    }
}

impl<M: ConditionalWrite> Call<M> {
    /// Refused with `ABORTED` if the execution has another etag by now.
    ///
    /// The client does not retry a call with an etag: a repetition of a change that was carried out
    /// would be refused by its own etag. After `UNAVAILABLE`, read the execution to see whether it
    /// was changed.
    #[must_use]
    pub fn etag(self, etag: impl Into<String>) -> Self {
        self.with(|message| *message.etag_field() = etag.into())
    }
}

/// Constructors of calls about one execution.
macro_rules! about_one {
    ($($alias:ident { $field:ident })+) => { $(
        impl $alias {
            /// About this execution: `providers/{provider}/executions/{execution}`.
            pub fn new(name: impl Into<String>) -> Self {
                Self::from_message(Default::default()).with(|message| message.$field = name.into())
            }
        }
    )+ };
}

about_one! {
    Get { name }
    Wait { name }
    Events { parent }
    Explain { name }
    Signal { name }
    Cancel { name }
    Pause { name }
    Resume { name }
    RetryNow { name }
    RetryFrom { name }
    AdoptDefinition { name }
    Project { name }
    GetApproval { name }
    DecideApproval { name }
    GetEscalation { name }
    ResolveEscalation { name }
    Purge { name }
    Verify { name }
    Recover { name }
    Replay { name }
    ListBranches { parent }
    ExportHistory { name }
    GetProvider { name }
}

/// Constructors of calls about a collection of executions.
macro_rules! about_many {
    ($($alias:ident)+) => { $(
        impl $alias {
            /// About the executions of `providers/{provider}`, or of `providers/-` for all providers.
            pub fn new(parent: impl Into<String>) -> Self {
                Self::from_message(Default::default()).with(|message| message.parent = parent.into())
            }
        }
    )+ };
}

about_many! {
    WatchRequest
    List
    Count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_is_repeated_by_the_provider_that_it_names() {
        let asks = |start: Start| match start.message.repeat() {
            Repeat::Capability { needs, provider } => (needs, provider),
            Repeat::Harmless => panic!("a start needs a capability"),
        };
        let start = IdempotentCapability::Start;
        let own = Start::new("providers/sfn/definitions/d");
        assert_eq!(asks(own), (start, Some("providers/sfn".into())));
        let chosen = Start::new("definitions/d").on("providers/b");
        assert_eq!(asks(chosen), (start, Some("providers/b".into())));
        assert_eq!(asks(Start::new("definitions/d")), (start, None));
    }
}
