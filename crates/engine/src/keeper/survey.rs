//! Who is connected and what waits, for operators.

use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::Keeper;
use super::dispatch::Need;
use crate::request::{Survey, TaskLine, WorkerStatus};

impl Keeper {
    pub(super) fn survey(&self) -> Survey {
        let now = Instant::now();
        let workers = self
            .dispatch
            .workers()
            .filter(|(_, worker)| !worker.http)
            .map(|(_, worker)| WorkerStatus {
                offer: worker.offer.clone(),
                connected: worker.session.is_some(),
                held: worker.held,
                lease_left: worker.until.saturating_duration_since(now),
                since: worker.since,
                seen: worker.since.and_then(|_| {
                    let left = worker.until.saturating_duration_since(now);
                    before(self.now, self.config.lease.saturating_sub(left))
                }),
            });
        let tasks = self
            .dispatch
            .lines()
            .into_iter()
            .map(|(need, tenant, waiting, since)| {
                let (role, skill) = match need {
                    Need::Http => ("http".into(), "".into()),
                    Need::Role { role, skill } => (role.clone(), skill.clone()),
                };
                TaskLine {
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
            damaged: self.damaged.values().cloned().collect(),
            active: self.active,
            max_active: self.config.max_active,
        }
    }
}

/// The time of a moment of this process.
pub(super) fn ago(now: Timestamp, since: Instant) -> Option<Timestamp> {
    before(now, since.elapsed())
}

fn before(now: Timestamp, passed: Duration) -> Option<Timestamp> {
    now.checked_sub(passed).ok()
}
