//! Queues executions for a slot, and lets them begin.

use std::sync::Arc;
use std::time::Duration;

use stateway_machine::Verb;

use super::Keeper;
use super::slots::Queued;
use crate::cause;
use crate::error::Result;
use crate::store::{ExecutionRow, plan};
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
        let known = numbers.iter().filter_map(|number| {
            let cause = self.queue_cause(*number)?;
            Some((*number, cause))
        });
        known.collect()
    }

    /// Why an execution that waits for a slot has not begun.
    pub(super) fn queue_cause(&self, number: i64) -> Option<QueueCause> {
        match self.slots.cause(number, self.executions.active())? {
            QueueCause::Next if self.is_memory_full() => Some(QueueCause::Memory),
            cause => Some(cause),
        }
    }

    /// Puts an execution into the queue by its row, without loading it.
    pub(super) fn queue_kept(&mut self, kept: &ExecutionRow) -> Result<()> {
        let plan = plan(&*self.store, &kept.revision, &self.definitions.catalogue)?;
        self.slots.push(Queued {
            number: kept.origin.number,
            tenant: kept.origin.tenant().into(),
            definition: Arc::clone(&kept.origin.definition),
            limit: limit_of(&plan),
            since: self.now.steady,
        });
        Ok(())
    }

    /// Whether the executions in memory leave no room for another one.
    pub(super) fn is_memory_full(&self) -> bool {
        self.executions.active() > 0 && self.executions.bytes() >= self.config.max_memory_bytes
    }

    /// Tries again to let executions begin that could not.
    pub(super) fn try_postponed(&mut self) {
        let next = self.slots.next_postponed();
        if next.is_some_and(|until| until <= self.now.steady) {
            self.grant();
            self.do_work();
        }
    }

    /// Lets executions begin while they may. After one that has further work the turn does that work first, so
    /// that its children count for the turn before the next execution begins.
    pub(super) fn grant(&mut self) {
        if self.pace.is_waking() {
            // How many executions are active is not known yet.
            return;
        }
        metrics::gauge!("stateway_engine_memory_bytes").set(self.executions.bytes() as f64);
        if self.is_memory_full() && self.slots.are_wanted() {
            metrics::counter!("stateway_engine_memory_waits_total").increment(1);
        }
        let cause: Arc<str> = cause::SLOT.into();
        while !self.is_memory_full() {
            if self.pace.is_half_full() || !self.work.is_empty() {
                self.slots_due = true;
                return;
            }
            let Some(queued) = self.slots.next(self.executions.active(), self.now.steady) else {
                return;
            };
            let number = queued.number;
            let Err(error) = self.command(number, &cause, Verb::GrantSlot) else {
                continue;
            };
            match error.kind {
                // It has ended or begun already.
                ErrorKind::FailedPrecondition | ErrorKind::NotFound => {
                    tracing::debug!(number, "a queued execution no longer waits: {error}");
                    self.slots.give_up(&queued.definition);
                }
                ErrorKind::DataLoss | ErrorKind::Internal => {
                    self.set_aside_by_number(number, &error);
                    self.slots.give_up(&queued.definition);
                }
                _ => {
                    tracing::error!(number, "a queued execution cannot start yet: {error}");
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
