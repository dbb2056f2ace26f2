//! Triggers: events that start executions of portable definitions.

use async_trait::async_trait;
use stateway_model::{ExecutionId, Labels, Payload};

use crate::{Call, RequestId, Result};

/// An engine whose definitions have triggers. Requires
/// [`Capabilities::triggers`](crate::Capabilities::triggers).
#[async_trait]
pub trait Triggers: Send + Sync {
    /// Publishes an event, which starts the executions whose triggers match.
    ///
    /// - The same `request_id` is published once; the answer is the same each time.
    async fn publish(&self, call: &Call, request: PublishRequest) -> Result<Published>;

    /// Disables or enables the trigger of a definition.
    ///
    /// - Doing it twice is the same as doing it once.
    /// - An unknown definition answers `NotFound`; a definition without a trigger answers
    ///   `FailedPrecondition`.
    async fn switch(&self, call: &Call, request: SwitchTriggerRequest) -> Result<()>;
}

/// Publish an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishRequest {
    /// The event's name.
    pub event: String,
    /// Its payload, which becomes the input.
    pub payload: Option<Payload>,
    /// The labels of the executions.
    pub labels: Labels,
    /// The idempotency key.
    pub request_id: RequestId,
}

/// The result of an event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Published {
    /// The executions that it started, now or when it was first published.
    pub started: Vec<ExecutionId>,
    /// Definitions that were not started although the event is theirs.
    pub refused: Vec<RefusedTrigger>,
}

/// A definition that an event did not start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedTrigger {
    /// The id of the portable definition.
    pub definition: String,
    /// Why, in words.
    pub reason: String,
}

/// Disable or enable a trigger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwitchTriggerRequest {
    /// The id of the portable definition.
    pub definition: String,
    /// False: neither events nor the schedule start executions.
    pub enabled: bool,
    /// The reason, for people; may be empty.
    pub comment: String,
    /// The idempotency key.
    pub request_id: RequestId,
}
