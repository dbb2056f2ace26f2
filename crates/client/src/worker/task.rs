//! One task, as a handler sees it.

use std::time::{Duration, SystemTime};

use serde::de::DeserializeOwned;
use stateway_proto::v1;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::TaskError;
use super::task_records::Signals;

/// One attempt of a step.
#[derive(Debug)]
pub struct Task {
    task: v1::Task,
    signals: Signals,
    heartbeats: mpsc::Sender<v1::TaskHeartbeat>,
}

impl Task {
    pub(super) const fn new(
        task: v1::Task,
        signals: Signals,
        heartbeats: mpsc::Sender<v1::TaskHeartbeat>,
    ) -> Self {
        Self {
            task,
            signals,
            heartbeats,
        }
    }

    /// The input, read as this type.
    ///
    /// # Errors
    /// A validation failure, which a handler can return with `?`.
    pub fn input<T: DeserializeOwned>(&self) -> Result<T, TaskError> {
        serde_json::from_slice(self.input_json()).map_err(|error| {
            TaskError::validation(format!(
                "the input does not have the type that this worker expects: {error}"
            ))
        })
    }

    /// The input as JSON.
    #[must_use]
    pub fn input_json(&self) -> &[u8] {
        let data = self.task.input.as_ref().map(|input| &*input.data);
        data.filter(|data| !data.is_empty()).unwrap_or(b"null")
    }

    /// The instruction for the worker.
    #[must_use]
    pub fn action(&self) -> &str {
        &self.task.action
    }

    /// The role of the task.
    #[must_use]
    pub fn role(&self) -> &str {
        &self.task.role
    }

    /// The execution: `providers/{provider}/executions/{execution}`.
    #[must_use]
    pub fn execution(&self) -> &str {
        &self.task.execution
    }

    /// The step.
    #[must_use]
    pub fn step(&self) -> &str {
        &self.task.step
    }

    /// The attempt, from 1.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        u32::try_from(self.task.attempt).unwrap_or(0)
    }

    /// Whether the task compensates the step; the input is then the step's output.
    #[must_use]
    pub const fn is_compensation(&self) -> bool {
        self.task.compensation
    }

    /// Whether the task compensates a step whose worker was lost, so that the step may or may not
    /// have completed. The compensation has to work in both cases; its input is `null`.
    #[must_use]
    pub const fn outcome_unknown(&self) -> bool {
        self.task.outcome_unknown
    }

    /// The validator's messages about the previous attempt.
    #[must_use]
    pub fn feedback(&self) -> Option<&str> {
        Some(self.task.feedback.as_str()).filter(|feedback| !feedback.is_empty())
    }

    /// The policy by which the worker is to pick its model; may be empty.
    #[must_use]
    pub fn model_policy(&self) -> &str {
        &self.task.model_policy
    }

    /// When the attempt times out.
    #[must_use]
    pub fn deadline(&self) -> Option<SystemTime> {
        self.task.expire_time.and_then(|at| at.try_into().ok())
    }

    /// The longest interval of heartbeats, if the step has a `heartbeatTimeout`.
    #[must_use]
    pub fn heartbeat_timeout(&self) -> Option<Duration> {
        self.task
            .heartbeat_timeout
            .and_then(|timeout| timeout.try_into().ok())
            .filter(|timeout: &Duration| !timeout.is_zero())
    }

    /// Names this hand-out of the attempt. If a worker is lost, another worker gets the same attempt with
    /// another token, so the token is not an idempotency key for other systems. Use execution,
    /// step, attempt and `is_compensation` together.
    #[must_use]
    pub fn token(&self) -> &str {
        &self.task.task_token
    }

    /// Sends a heartbeat with the progress, from 0 to 1.
    ///
    /// Never waits: if heartbeats are made faster than they can be sent, some are dropped.
    pub fn heartbeat(&self, progress: f64, detail: impl Into<String>) {
        let heartbeat = v1::TaskHeartbeat {
            task_token: self.task.task_token.clone(),
            progress,
            detail: detail.into(),
        };
        // Full means that others say the same; closed means that the worker has stopped.
        let _ = self.heartbeats.try_send(heartbeat);
    }

    /// Whether the handler is asked to stop. See [`Task::cancelled`].
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.signals.cancelled.is_cancelled()
    }

    /// Resolves when the handler is asked to stop: the execution is cancelled or rolls back, the
    /// attempt went to another worker, or the worker has to stop now.
    ///
    /// The handler may stop early or finish; it returns its result as always. While the execution
    /// ends, the gateway waits for the result: a task that completed is compensated. In every other
    /// case the result is dropped.
    pub async fn cancelled(&self) {
        self.signals.cancelled.cancelled().await;
    }

    /// Resolves when the result is not wanted any more, whatever the handler returns.
    pub async fn withdrawn(&self) {
        self.signals.withdrawn.cancelled().await;
    }

    /// [`Task::cancelled`] as a token to pass on.
    #[must_use]
    pub fn cancellation(&self) -> CancellationToken {
        self.signals.cancelled.clone()
    }
}
