//! The connected workers, and whether any of them could take a task.
//!
//! The keeper publishes the coverage, readers use it. The coverage is not part of the log: a task that
//! no connected worker can take is shown as waiting for a worker, with the number of workers.

use std::sync::{Arc, PoisonError, RwLock};

use stateway_machine::{Seeking, State, seeking};

/// The tasks that one worker takes, which is connected or expected to reconnect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WorkerProfile {
    pub(crate) roles: Vec<Arc<str>>,
    pub(crate) skills: Vec<Arc<str>>,
    /// The tenant whose tasks the worker takes; empty: every tenant.
    pub(crate) tenant: Arc<str>,
    /// The engine's own HTTP client.
    pub(crate) http: bool,
    /// Whether it is connected; one that is expected to reconnect keeps its tasks for a while.
    pub(crate) connected: bool,
}

/// The connected workers at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Coverage {
    pub(crate) workers: Vec<WorkerProfile>,
}

/// The newest coverage, shared.
#[derive(Debug, Default)]
pub(crate) struct SharedCoverage(RwLock<Arc<Coverage>>);

impl SharedCoverage {
    pub(crate) fn get(&self) -> Arc<Coverage> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn set(&self, coverage: Coverage) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(coverage);
    }
}

impl WorkerProfile {
    fn has_role(&self, role: &Arc<str>) -> bool {
        !self.http && (role.is_empty() || self.roles.contains(role))
    }

    fn takes(&self, task: &Seeking, tenant: &str) -> bool {
        if task.http {
            return self.http;
        }
        self.has_role(&task.role)
            && (task.skill.is_empty() || self.skills.contains(&task.skill))
            && self.takes_tenant(tenant)
    }

    fn takes_tenant(&self, tenant: &str) -> bool {
        self.tenant.is_empty() || *self.tenant == *tenant
    }
}

impl Coverage {
    /// Whether a connected worker could take the task, now or when it has room.
    pub(crate) fn serves(&self, task: &Seeking, tenant: &str) -> bool {
        self.workers.iter().any(|worker| worker.takes(task, tenant))
    }

    /// The steps of an execution whose tasks no connected worker can take.
    pub(crate) fn unserved(&self, state: &State, tenant: &str) -> Vec<Seeking> {
        let mut found = seeking(state);
        found.retain(|task| !self.serves(task, tenant));
        found
    }

    /// How many workers are connected that a task could go to, in one line, and how many that lost
    /// their connection are expected to reconnect. Tenants share the engine and must not learn of each other's
    /// workers: workers of other tenants are not counted, and the line is the same with and without them.
    pub(crate) fn words(&self, task: &Seeking, tenant: &str) -> String {
        if task.http {
            return String::new();
        }
        let counted = self.count_connected(task, tenant);
        match self.of_role(task, tenant, false).count() {
            0 => counted,
            1 => format!("{counted}; 1 is expected to reconnect"),
            many => format!("{counted}; {many} are expected to reconnect"),
        }
    }

    fn of_role(
        &self,
        task: &Seeking,
        tenant: &str,
        connected: bool,
    ) -> impl Iterator<Item = &WorkerProfile> {
        let workers = self.workers.iter();
        let of_tenant =
            workers.filter(move |it| it.connected == connected && it.takes_tenant(tenant));
        of_tenant.filter(move |worker| worker.has_role(&task.role))
    }

    fn count_connected(&self, task: &Seeking, tenant: &str) -> String {
        let part = |before: &str, name: &str| {
            if name.is_empty() {
                String::new()
            } else {
                format!("{before} `{name}`")
            }
        };
        let role = part(" of role", &task.role);
        let connected = self.of_role(task, tenant, true).count();
        let workers = match connected {
            0 => {
                let skill = part(" with skill", &task.skill);
                let tenant = part(" for tenant", tenant);
                return format!("no worker{role}{skill} is connected{tenant}");
            }
            1 => format!("1 worker{role} is connected"),
            many => format!("{many} workers{role} are connected"),
        };
        let able = self.of_role(task, tenant, true);
        match able.filter(|worker| worker.takes(task, tenant)).count() {
            0 => format!("{workers}, none with skill `{}`", task.skill),
            able if able == connected => workers,
            able => format!("{workers}, {able} of them able to take it"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(role: &str, skill: &str, tenant: &str) -> WorkerProfile {
        WorkerProfile {
            roles: vec![role.into()],
            skills: Some(skill.into())
                .filter(|skill: &Arc<str>| !skill.is_empty())
                .into_iter()
                .collect(),
            tenant: tenant.into(),
            http: false,
            connected: true,
        }
    }

    fn task(role: &str, skill: &str) -> Seeking {
        Seeking {
            step: "a".into(),
            role: role.into(),
            skill: skill.into(),
            http: false,
        }
    }

    #[test]
    fn a_task_is_served_by_a_worker_with_its_role_skill_and_tenant() {
        let coverage = Coverage {
            workers: vec![worker("w", "", ""), worker("w", "s", "acme")],
        };
        assert!(coverage.serves(&task("w", ""), "anyone"));
        assert!(coverage.serves(&task("w", "s"), "acme"));
        assert!(!coverage.serves(&task("w", "s"), "other"));
        assert!(!coverage.serves(&task("x", ""), ""));
        assert!(coverage.serves(&task("", ""), ""));
    }

    #[test]
    fn a_worker_that_lost_its_connection_still_serves_but_is_not_counted() {
        let lost = WorkerProfile {
            connected: false,
            ..worker("w", "", "")
        };
        let coverage = |workers: &[&WorkerProfile]| Coverage {
            workers: workers.iter().map(|able| (*able).clone()).collect(),
        };
        let alone = coverage(&[&lost]);
        assert!(alone.serves(&task("w", ""), ""));
        assert_eq!(
            alone.words(&task("w", ""), ""),
            "no worker of role `w` is connected; 1 is expected to reconnect"
        );
        let both = coverage(&[&worker("w", "", ""), &lost, &lost]);
        assert_eq!(
            both.words(&task("w", ""), ""),
            "1 worker of role `w` is connected; 2 are expected to reconnect"
        );
    }

    #[test]
    fn workers_of_other_tenants_are_not_counted() {
        let lost = WorkerProfile {
            connected: false,
            ..worker("w", "", "acme")
        };
        let shared = Coverage {
            workers: vec![worker("w", "s", "acme"), lost],
        };
        let alone = Coverage::default();
        for skill in ["", "s"] {
            let task = task("w", skill);
            assert_eq!(shared.words(&task, "evil"), alone.words(&task, "evil"));
            assert_eq!(shared.words(&task, ""), alone.words(&task, ""));
        }
        assert_eq!(
            shared.words(&task("w", ""), "evil"),
            "no worker of role `w` is connected for tenant `evil`"
        );
        assert_eq!(
            shared.words(&task("w", ""), "acme"),
            "1 worker of role `w` is connected; 1 is expected to reconnect"
        );
    }

    #[test]
    fn the_line_names_role_skill_and_count() {
        let coverage = Coverage {
            workers: vec![worker("w", "", ""), worker("w", "", "")],
        };
        assert_eq!(
            coverage.words(&task("x", ""), ""),
            "no worker of role `x` is connected"
        );
        assert_eq!(
            coverage.words(&task("x", "s"), ""),
            "no worker of role `x` with skill `s` is connected"
        );
        assert_eq!(
            coverage.words(&task("w", "s"), ""),
            "2 workers of role `w` are connected, none with skill `s`"
        );
        assert_eq!(
            coverage.words(&task("w", ""), ""),
            "2 workers of role `w` are connected"
        );
    }
}
