//! Removes finished executions once they are as old as the configuration retains them.
//!
//! One step of a sweep reads and removes a bounded number of executions in a turn of its own,
//! after the turn is written, so that no request waits for long. The order is that of the ends: an
//! execution that was passed need not be read again, because later ends come after it.

use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use stateway_model::SubState;

use super::Keeper;
use crate::config::Retention;
use crate::error::Result;

/// The most executions that one step reads.
const AT_ONCE: usize = 200;
/// The pause of a sweep between two steps.
const BETWEEN_STEPS: Duration = Duration::from_millis(50);
/// How long a sweep rests at its end, and after the process has become the owner of the store: by then the configured
/// webhooks have reported how far they have got.
const BETWEEN_SWEEPS: Duration = Duration::from_secs(60);

/// The sweep over the executions of one final sub-state.
#[derive(Debug)]
pub(super) struct Sweep {
    shown: SubState,
    keep: Duration,
    next: Instant,
    /// How far the executions were read: the end and the number of the last one.
    after: (Timestamp, i64),
}

/// The sweeps that the configuration asks for.
pub(super) fn sweeps(retention: Retention, now: Instant) -> Vec<Sweep> {
    let Retention { succeeded, failed } = retention;
    let sweep = |(shown, keep): (SubState, Option<Duration>)| {
        Some(Sweep {
            shown,
            keep: keep?,
            next: now + BETWEEN_SWEEPS,
            after: (Timestamp::MIN, 0),
        })
    };
    let wanted = [(SubState::Succeeded, succeeded), (SubState::Failed, failed)];
    wanted.into_iter().filter_map(sweep).collect()
}

impl Keeper {
    /// Lets every sweep rest: the process has just become the owner of the store.
    pub(super) fn rest_sweeps(&mut self) {
        for sweep in &mut self.upkeep.sweeps {
            sweep.next = self.now.steady + BETWEEN_SWEEPS;
        }
    }

    /// Does the steps of sweeps that are due.
    pub(super) fn remove_unretained(&mut self) {
        for index in 0..self.upkeep.sweeps.len() {
            let sweep = &self.upkeep.sweeps[index];
            if self.now.steady < sweep.next {
                continue;
            }
            let more = match self.sweep_step(index) {
                Ok(more) => more,
                Err(error) => {
                    tracing::warn!("finished executions cannot be removed: {error}");
                    false
                }
            };
            let rest = if more { BETWEEN_STEPS } else { BETWEEN_SWEEPS };
            self.upkeep.sweeps[index].next = self.now.steady + rest;
        }
    }

    /// One step; whether there may be more to remove now.
    fn sweep_step(&mut self, index: usize) -> Result<bool> {
        let Sweep {
            shown, keep, after, ..
        } = self.upkeep.sweeps[index];
        let keep = SignedDuration::try_from(keep).unwrap_or(SignedDuration::MAX);
        // A clock that was moved forward may be wrong.
        let keep = keep.saturating_add(self.upkeep.moved_forward);
        let Ok(before) = self.now.wall.checked_sub(keep) else {
            return Ok(false);
        };
        let rows = self.store.ended_after(after, before, AT_ONCE)?;
        let full = rows.len() == AT_ONCE;
        let needed = self.needed_by_sinks();
        let (mut numbers, mut passed, mut held_back) = (Vec::new(), after, false);
        for (ended, number, sub_state) in rows {
            if sub_state == shown {
                let needed = match needed {
                    Some(position) => self.store.has_events_after(number, position)?,
                    None => false,
                };
                // In memory: it was opened again in this moment.
                if needed || self.executions.contains(number) {
                    held_back = true;
                } else {
                    numbers.push(number);
                }
            }
            // The next sweep begins before the first execution that has to stay for now.
            if !held_back {
                passed = (ended, number);
            }
        }
        if !numbers.is_empty() {
            self.remove_executions(&numbers)?;
            let removed = numbers.len() as u64;
            metrics::counter!("stateway_engine_retention_removed_total").increment(removed);
        }
        self.upkeep.sweeps[index].after = passed;
        Ok(full && !held_back)
    }
}
