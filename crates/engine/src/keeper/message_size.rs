//! Whether a task fits into a message to its worker. A message that is too long would end the stream of the
//! worker, and with it every other task of the worker.
//!
//! The core bounds the input of an attempt before the attempt opens. What can still be too long: an attempt of a
//! build without that bound, or one from before the limit was lowered. Workers may also have a limit of
//! their own, which the engine only sees by sessions that end without a message.

use std::sync::Arc;

use stateway_machine::{Data, Excess, Failure, Task, Verb, check_payload, task_input};
use stateway_model::ErrorCategory;

use super::dispatch::WorkerIx;
use super::hand_out::worker_task;
use super::{Keeper, Live};
use crate::cause;
use crate::limits::MAX_ENDED_SESSIONS;

/// The bytes of a message to a worker beside the texts that are counted.
const HEADROOM: usize = 2 * 1024;

impl Keeper {
    /// The input of a task that is handed to this worker. An attempt whose task does not fit into a message
    /// fails, and none is returned.
    pub(super) fn fitting_input(
        &mut self,
        number: i64,
        task: &Task,
        worker: WorkerIx,
    ) -> Option<Data> {
        let live = self.executions.get(number)?;
        // The references of an open attempt have values: the core checked before it opened the attempt.
        let input = task_input(&live.state, task).unwrap_or_default();
        let most = self.config.max_message_bytes;
        // The engine's own caller of HTTP steps gets no messages.
        let is_http = self.dispatch.worker(worker)?.http;
        match oversize(live, task, &input, most) {
            Some(bytes) if !is_http => {
                self.fail_oversize(number, task, bytes);
                None
            }
            _ => Some(input),
        }
    }

    fn fail_oversize(&mut self, number: i64, task: &Task, bytes: usize) {
        let most = self.config.max_message_bytes;
        let why = format!(
            "the task has {bytes} bytes, and a message to a worker at most {most} \
             (`max_message_bytes`): reference less data in `input`"
        );
        let failure = Failure {
            no_retry: true,
            ..Failure::reported(ErrorCategory::Validation, why)
        };
        let verb = Verb::FailTask {
            task: task.clone(),
            failure,
            usage: None,
        };
        let cause: Arc<str> = cause::HAND_OUT.into();
        self.dispatch.remove(number, &task.step);
        if let Err(error) = self.command(number, &cause, verb) {
            tracing::warn!(number, step = %task.step, "a task that is too large had already ended: {error}");
        }
    }

    /// Takes the longest task from a worker whose sessions keep ending without a message: the worker may be
    /// unable to receive it. The task goes to another worker, and the attempt fails after as many as may
    /// be lost.
    pub(super) fn relieve(&mut self, worker: WorkerIx) {
        let Some(unheard) = self
            .dispatch
            .worker_mut(worker)
            .map(|worker| &mut worker.unheard)
        else {
            return;
        };
        if *unheard < MAX_ENDED_SESSIONS {
            return;
        }
        *unheard = 0;
        let tasks = self.dispatch.tasks_with(worker).into_iter();
        let longest = tasks.max_by_key(|(number, task)| {
            let live = self.executions.get(*number);
            live.map_or(0, |live| {
                let input = task_input(&live.state, task).unwrap_or_default();
                size(live, task, &input, usize::MAX).unwrap_or(usize::MAX)
            })
        });
        if let Some((number, task)) = longest {
            tracing::warn!(
                number,
                step = %task.step,
                "a worker ended {MAX_ENDED_SESSIONS} sessions without a message; its longest task goes to another one"
            );
            self.lose(number, task);
        }
    }
}

/// The bytes of a task, where they are more than a message may have.
fn oversize(live: &Live, task: &Task, input: &Data, most: usize) -> Option<usize> {
    match size(live, task, input, most) {
        Ok(bytes) if bytes <= most => None,
        Ok(bytes) => Some(bytes),
        Err(Excess::Bytes { found, .. }) => Some(found),
        // Data of a build without a limit of depth is as it is.
        Err(Excess::Depth { .. }) => None,
    }
}

fn size(live: &Live, task: &Task, input: &Data, most: usize) -> Result<usize, Excess> {
    let message = worker_task(live, task.clone(), Data::clone(input));
    let feedback = message.feedback.as_deref().unwrap_or_default();
    let texts = [
        &*message.execution,
        &*message.action,
        &*message.model_policy,
        &*message.role,
        feedback,
        &*message.task.step,
        &*message.task.step,
    ];
    let texts: usize = texts.iter().map(|text| text.len()).sum();
    let input = check_payload(input, most)?;
    Ok(input.saturating_add(texts + HEADROOM))
}
