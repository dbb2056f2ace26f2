//! Queues executions for a slot, and lets them begin.

use std::sync::Arc;
use std::time::Duration;

use stateway_machine::Verb;

use super::Keeper;
use super::slots::Queued;
use crate::{ErrorKind, QueueCause};

/// How long an execution that could not begin waits before it is tried again.
const TRY_AGAIN: Duration = Duration::from_secs(1);

impl Keeper {
    /// Puts an execution in memory into the queue.
    pub(super) fn queue(&mut self, number: i64) {
        let Some(live) = self.executions.get(number) else {
            return;
        };
        let queued = Queued {
            number,
            tenant: live.origin.tenant().into(),
            definition: Arc::clone(&live.origin.definition),
            limit: limit_of(live.state.plan()),
            since: self.now.steady,
        };
        self.slots.push(queued);
    }

    /// Why executions that wait for a slot have not begun.
    pub(super) fn queue_causes(&self, numbers: &[i64]) -> Vec<(i64, QueueCause)> {
        let active = self.executions.active();
        let known = numbers.iter().filter_map(|number| {
            let cause = self.slots.cause(*number, active)?;
            Some((*number, cause))
        });
        known.collect()
    }

    /// Tries again to let executions begin that could not.
    pub(super) fn try_postponed(&mut self) {
        let next = self.slots.next_postponed();
        if next.is_some_and(|until| until <= self.now.steady) {
            self.grant();
            self.work_off();
        }
    }

    /// Lets as many executions begin as may.
    pub(super) fn grant(&mut self) {
        let cause: Arc<str> = "slot".into();
        while let Some(queued) = self.slots.next(self.executions.active(), self.now.steady) {
            let number = queued.number;
            let Err(error) = self.carry(number, &cause, Verb::GrantSlot) else {
                continue;
            };
            match error.kind {
                // It has ended or begun already.
                ErrorKind::FailedPrecondition | ErrorKind::NotFound => {
                    tracing::debug!(number, "an execution does not wait any more: {error}");
                }
                ErrorKind::DataLoss | ErrorKind::Internal => {
                    self.set_aside_by_number(number, &error);
                }
                _ => {
                    tracing::error!(number, "a queued execution cannot begin yet: {error}");
                    self.slots.postpone(queued, self.now.steady + TRY_AGAIN);
                }
            }
        }
    }
}

fn limit_of(plan: &stateway_machine::Plan) -> Option<usize> {
    let limit = plan.definition().concurrency?;
    Some(usize::try_from(limit).unwrap_or(usize::MAX))
}
