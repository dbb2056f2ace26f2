//! Handlers: which one does which task, and what they answer.

use std::any::Any;
use std::collections::HashMap;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use serde::Serialize;
use stateway_proto::v1;
use stateway_proto::v1::stream_tasks_request::Message;

use super::{Task, TaskError, Usage};

/// The longest message of a failure that is sent.
const MAX_MESSAGE_BYTES: usize = 4 * 1024;

/// The output of a handler: any value that serde can serialise, or a [`Done`].
pub trait Answer: Send + 'static {
    /// The output as JSON, with its cost.
    ///
    /// # Errors
    /// The output cannot be serialised as JSON.
    fn into_done(self) -> Result<Done, TaskError>;
}

/// An output with its cost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    output: Bytes,
    usage: Option<Usage>,
}

impl Done {
    /// This output.
    ///
    /// # Errors
    /// The output cannot be serialised as JSON.
    pub fn new(output: &impl Serialize) -> Result<Self, TaskError> {
        let written = serde_json::to_vec(output);
        let written = written
            .map_err(|error| TaskError::agent_error(format!("the output is not JSON: {error}")))?;
        Ok(Self::json(written))
    }

    /// An output that is JSON already.
    #[must_use]
    pub fn json(output: impl Into<Bytes>) -> Self {
        Self {
            output: output.into(),
            usage: None,
        }
    }

    /// The cost of the attempt.
    #[must_use]
    pub const fn usage(mut self, usage: Usage) -> Self {
        self.usage = Some(usage);
        self
    }
}

impl Answer for Done {
    fn into_done(self) -> Result<Done, TaskError> {
        Ok(self)
    }
}

impl<T: Serialize + Send + 'static> Answer for T {
    fn into_done(self) -> Result<Done, TaskError> {
        Done::new(&self)
    }
}

type Handler = Arc<dyn Fn(Task) -> BoxFuture<'static, Result<Done, TaskError>> + Send + Sync>;

/// Which handler does which task.
#[derive(Default)]
pub(super) struct Handlers {
    pub(super) by_action: HashMap<String, Handler>,
    pub(super) by_role: HashMap<String, Handler>,
    pub(super) otherwise: Option<Handler>,
}

pub(super) fn boxed<H, F, A>(handler: H) -> Handler
where
    H: Fn(Task) -> F + Send + Sync + 'static,
    F: Future<Output = Result<A, TaskError>> + Send + 'static,
    A: Answer,
{
    Arc::new(move |task| handler(task).map(|answer| answer?.into_done()).boxed())
}

impl Handlers {
    fn of(&self, task: &Task) -> Option<Handler> {
        let found = self
            .by_action
            .get(task.action())
            .or_else(|| self.by_role.get(task.role()));
        found.or(self.otherwise.as_ref()).cloned()
    }

    /// The whole of one task: from the handler to the message that answers it. It never panics.
    pub(super) fn work_on(&self, task: Task) -> impl Future<Output = Message> + Send + 'static {
        let handler = self.of(&task);
        let token = task.token().to_owned();
        let action = task.action().to_owned();
        async move {
            let done = match handler {
                // The handler itself runs inside, so that a panic before its first await counts.
                Some(handler) => {
                    let work = async move { handler(task).await };
                    AssertUnwindSafe(work)
                        .catch_unwind()
                        .await
                        .unwrap_or_else(|panic| Err(panicked(&*panic)))
                }
                None => Err(TaskError::agent_error(format!(
                    "this worker has no handler for action `{action}`"
                ))),
            };
            message(token, done)
        }
    }
}

fn panicked(panic: &(dyn Any + Send)) -> TaskError {
    let said = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    TaskError::agent_error(format!(
        "the handler panicked: {}",
        said.unwrap_or("no reason was given")
    ))
    .effects_unknown()
}

fn message(task_token: String, done: Result<Done, TaskError>) -> Message {
    match done {
        Ok(done) => Message::Completed(v1::TaskCompleted {
            task_token,
            output: Some(v1::Payload {
                data: done.output,
                content_type: String::new(),
            }),
            usage: done.usage.map(Into::into),
        }),
        Err(error) => Message::Failed(v1::TaskFailed {
            task_token,
            category: v1::ErrorCategory::from(error.category).into(),
            message: bounded(error.message),
            code: error.code,
            retry_after: error
                .retry_after
                .and_then(|pause| prost_types::Duration::try_from(pause).ok()),
            usage: error.usage.map(Into::into),
            no_retry: error.no_retry,
            effects_unknown: error.effects_unknown,
        }),
    }
}

fn bounded(mut message: String) -> String {
    if message.len() > MAX_MESSAGE_BYTES {
        message.truncate(message.floor_char_boundary(MAX_MESSAGE_BYTES));
        message.push('…');
    }
    message
}
