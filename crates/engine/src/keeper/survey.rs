//! The connected workers and the queues, for operators.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::Keeper;
use super::dispatch::{Need, WorkerIx};
use crate::clock::Moment;
use crate::request::{HeldTask, Survey, TaskLine, WorkerStatus};

/// The most tasks of one worker that are listed.
const MOST_TASKS: usize = 100;

impl Keeper {
    pub(super) fn survey(&self) -> Survey {
        let now = self.now.steady;
        let mut held = self.held_tasks();
        let workers = self
            .dispatch
            .workers()
            .filter(|(_, worker)| !worker.http)
            .map(|(ix, worker)| WorkerStatus {
                offer: worker.offer.clone(),
                connected: worker.session.is_some(),
                held: worker.held,
                lease_left: worker.until.saturating_duration_since(now),
                since: worker.since,
                seen: worker.since.and_then(|_| {
                    let left = worker.until.saturating_duration_since(now);
                    before(self.now.wall, self.config.lease.saturating_sub(left))
                }),
                tasks: held.remove(&ix).unwrap_or_default(),
                lease_until: {
                    let left = worker.until.saturating_duration_since(now);
                    self.now.wall.checked_add(left).ok()
                },
            });
        let tasks = self
            .dispatch
            .lines()
            .into_iter()
            .map(|(need, tenant, waiting, since)| {
                let (by_engine, role, skill) = match need {
                    Need::Http => (true, "".into(), "".into()),
                    Need::Role { role, skill } => (false, role.clone(), skill.clone()),
                };
                TaskLine {
                    by_engine,
                    role,
                    skill,
                    tenant: tenant.to_owned(),
                    waiting,
                    oldest: ago(self.now, since),
                }
            });
        Survey {
            workers: workers.collect(),
            tasks: tasks.collect(),
            queued: self.slots.lines(self.now),
            scheduled: self.triggers.scheduled(),
            damaged: self.executions.all_damaged().cloned().collect(),
            active: self.executions.active(),
            max_active: self.config.max_active,
            memory_bytes: self.executions.bytes(),
            max_memory_bytes: self.config.max_memory_bytes,
            memory_full: self.is_memory_full(),
        }
    }

    fn held_tasks(&self) -> HashMap<WorkerIx, Vec<HeldTask>> {
        let mut held: HashMap<WorkerIx, Vec<HeldTask>> = HashMap::new();
        for (worker, number, task) in self.dispatch.handed_out() {
            let tasks = held.entry(worker).or_default();
            if tasks.len() < MOST_TASKS
                && let Some(live) = self.executions.get(number)
            {
                tasks.push(HeldTask {
                    execution: live.origin.id.clone(),
                    task: task.clone(),
                });
            }
        }
        held
    }
}

/// The time of a moment of this process.
pub(super) fn ago(now: Moment, since: Instant) -> Option<Timestamp> {
    before(now.wall, now.steady.saturating_duration_since(since))
}

fn before(now: Timestamp, passed: Duration) -> Option<Timestamp> {
    now.checked_sub(passed).ok()
}
