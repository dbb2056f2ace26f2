//! Compares what the keeper has in memory of an execution with its log.

use stateway_driver::resume;
use stateway_machine::{ExecutionState, TaskOrder};

use super::{Keeper, Live};
use crate::recovery::{Code, Finding};

impl Keeper {
    /// What is wrong in memory. A row that is known to be wrong is not evidence about memory.
    pub(super) fn memory_findings(&self, number: i64, row_is_right: bool) -> Vec<Finding> {
        if self.pace.is_waking() {
            // Memory is not complete yet.
            return Vec::new();
        }
        let live = self.executions.get(number);
        let owed = live.map(tasks_owed).unwrap_or_default();
        let held = live.is_some_and(|live| live.state.state().is_held());
        let mut found = self.lost(number, &owed, held);
        found.extend(self.strays(number, &owed));
        match live {
            Some(live) => {
                found.extend(self.timer(live));
                found.extend(self.ahead(live));
            }
            None if row_is_right => found.extend(self.is_unattended(number)),
            None => {}
        }
        found
    }

    /// Attempts that are open and that no worker will ever be given.
    fn lost(&self, number: i64, owed: &[TaskOrder], held: bool) -> Vec<Finding> {
        let lost = owed.iter().filter(|order| {
            // Unassigned tasks of a paused execution are queued when it resumes.
            let later = held && order.worker.is_none();
            !later
                && !self
                    .dispatch
                    .knows(number, &order.key.task, order.key.branch)
        });
        lost.map(|order| {
            Finding::new(
                Code::F1,
                "an attempt is open, but not in the queue for workers",
            )
            .seen(format!("log: {} is open", order.key))
            .seen("memory: neither a worker nor the queue has the attempt")
        })
        .collect()
    }

    /// Attempts that workers have or wait for, and that are not open.
    fn strays(&self, number: i64, owed: &[TaskOrder]) -> Vec<Finding> {
        let book = self.dispatch.tasks_of(number).into_iter();
        let strays = book.filter(|(_, task, branch)| {
            let is = |order: &TaskOrder| order.key.task == *task && order.key.branch == *branch;
            !owed.iter().any(is)
        });
        strays
            .map(|(step, task, branch)| {
                let attempt = task.attempt;
                Finding::new(Code::F1, "a worker has an attempt that is not open")
                    .seen(format!(
                        "memory: step `{step}`, attempt {attempt}, branch {branch}"
                    ))
                    .seen("log: no such attempt is open")
            })
            .collect()
    }

    fn timer(&self, live: &Live) -> Option<Finding> {
        let due = self.alarm_of(live, &live.under_way());
        // A heartbeat defers a timer when the timer rings: until then the timer is set too early.
        let late = due.is_some_and(|due| live.alarm.is_none_or(|alarm| alarm > due));
        // The timer of an execution that this turn touched is set when the turn ends.
        (!live.touched && late).then(|| {
            Finding::new(Code::T1, "a timer differs from the log")
                .seen(format!("memory: {}", moment(live.alarm)))
                .seen(format!("log: {}", moment(due)))
        })
    }

    /// Whether the log contains all that memory has seen, and more: another process has written to the store.
    pub(super) fn is_behind(&self, live: &Live) -> bool {
        let number = live.origin.number;
        if !matches!(self.store.head(number), Ok(Some(head)) if head != (live.branch, live.hash)) {
            return false;
        }
        // The hash covers all events before, so that equal hashes mean equal logs.
        let mut contains = false;
        let read = self.store.chronicle(number, (0, 0), &mut |row| {
            contains |= row.hash() == live.hash;
            Ok(!contains)
        });
        read.is_ok() && contains
    }

    /// Memory is ahead of the log: acknowledged writes are lost.
    fn ahead(&self, live: &Live) -> Option<Finding> {
        if live.is_unwritten() {
            return None;
        }
        let head = self.store.head(live.origin.number).ok()?;
        let differs = head != Some((live.branch, live.hash));
        (differs && !self.is_behind(live)).then(|| {
            Finding::new(
                Code::L1,
                "memory has seen more than the log: events are lost",
            )
            .seen(format!(
                "memory: branch {}, event {}",
                live.branch,
                live.state.sequence()
            ))
        })
    }

    /// An execution with open work that is not in memory is never continued.
    fn is_unattended(&self, number: i64) -> Option<Finding> {
        let kept = self.store.kept(number).ok()??;
        let due = kept.status.wake_at?;
        let waits_its_turn = kept.status.state == ExecutionState::Queued;
        if due > jiff::Timestamp::UNIX_EPOCH || waits_its_turn {
            return None;
        }
        let damaged = self.executions.damaged(number);
        let found = match damaged.and_then(|damaged| damaged.code) {
            Some(Code::E2) => Finding::new(
                Code::E2,
                "the execution was set aside while its definition was missing, and is not loaded",
            ),
            _ => Finding::new(Code::F1, "the execution has open work but is not loaded"),
        };
        let found = found.seen("row: work under way").seen("memory: not loaded");
        Some(match damaged {
            Some(damaged) => found.seen(format!("it was set aside: {}", damaged.why)),
            None => found,
        })
    }
}

fn tasks_owed(live: &Live) -> Vec<TaskOrder> {
    resume(&live.state).start
}

fn moment(at: Option<jiff::Timestamp>) -> String {
    at.map_or_else(|| "no timer".to_owned(), |at| format!("timer at {at}"))
}
