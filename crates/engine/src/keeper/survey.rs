//! Who is connected and what waits, for operators.

use std::time::Instant;

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
            });
        let tasks = self.dispatch.lines().map(|(need, tenant, waiting)| {
            let (role, skill) = match need {
                Need::Http => ("http".into(), "".into()),
                Need::Role { role, skill } => (role.clone(), skill.clone()),
            };
            TaskLine {
                role,
                skill,
                tenant: tenant.to_owned(),
                waiting,
            }
        });
        Survey {
            workers: workers.collect(),
            tasks: tasks.collect(),
            queued: self.slots.lines(),
            active: self.active,
            max_active: self.config.max_active,
        }
    }
}
