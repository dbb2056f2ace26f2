//! Publishes the connected workers to readers, and updates the executions that are affected.
//!
//! When the last worker for a kind of task leaves, or the first worker connects, the state of the
//! executions that wait with such tasks changes. A turn updates a bounded number of them.

use std::collections::VecDeque;
use std::sync::Arc;

use super::Keeper;
use crate::coverage::{Coverage, SharedCoverage, WorkerProfile};

/// The most executions whose row is brought up to date in one turn.
const MOST_AT_ONCE: usize = 1_000;

/// Which workers are connected, and the executions that a change of that affects.
#[derive(Debug)]
pub(super) struct Connected {
    /// Where readers find it.
    covered: Arc<SharedCoverage>,
    coverage: Arc<Coverage>,
    /// Executions whose tasks may have found or lost the workers that could take them.
    stale: VecDeque<i64>,
}

impl Connected {
    pub(super) fn new(covered: Arc<SharedCoverage>) -> Self {
        Self {
            covered,
            coverage: Arc::default(),
            stale: VecDeque::new(),
        }
    }

    pub(super) const fn coverage(&self) -> &Arc<Coverage> {
        &self.coverage
    }

    /// Whether executions wait to be updated.
    pub(super) fn has_stale(&self) -> bool {
        !self.stale.is_empty()
    }

    /// Publishes the coverage. False: it has not changed.
    fn publish(&mut self, coverage: Coverage) -> bool {
        if coverage == *self.coverage {
            return false;
        }
        self.coverage = Arc::new(coverage.clone());
        self.covered.set(coverage);
        true
    }
}

impl Keeper {
    /// Publishes who is connected, if that has changed, and brings rows up to date.
    pub(super) fn refresh_coverage(&mut self) {
        if self.dispatch.take_changed() {
            self.publish_coverage();
        }
        for _ in 0..MOST_AT_ONCE {
            let Some(number) = self.connected.stale.pop_front() else {
                break;
            };
            self.executions.touch(number);
        }
    }

    fn publish_coverage(&mut self) {
        let able = self.dispatch.workers().filter(|(_, worker)| {
            let offer = &worker.offer;
            worker.http || offer.capacity > 0 && worker.was_connected()
        });
        let mut workers: Vec<WorkerProfile> = able
            .map(|(_, worker)| WorkerProfile {
                roles: worker.offer.roles.clone(),
                skills: worker.offer.skills.clone(),
                tenant: Arc::clone(&worker.offer.tenant),
                http: worker.http,
                connected: worker.http || worker.session.is_some(),
            })
            .collect();
        workers.sort_by(|left, right| {
            let key = |able: &WorkerProfile| {
                let WorkerProfile { roles, skills, .. } = able.clone();
                (roles, skills, able.tenant.clone(), able.connected)
            };
            key(left).cmp(&key(right))
        });
        let coverage = Coverage { workers };
        if self.connected.publish(coverage) {
            let waiting = self.dispatch.waiting_executions();
            self.connected.stale.extend(waiting);
        }
    }
}
