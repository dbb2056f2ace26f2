//! The etag of an execution, and what else a reader would see change.
//!
//! An etag is for conflicts: it changes whenever the state changes that a client acts on. Which
//! workers are connected is not part of that state, so an execution keeps its etag when the last
//! worker that could take one of its tasks leaves, and when one comes.

use std::hash::{Hash, Hasher};

use crate::{Execution, Reason, Step, SubState, Wait};

impl Execution {
    /// A tag that changes whenever anything a client could act on changes.
    ///
    /// Computed from the content, so that every replica gives the same tag. Payloads have no part
    /// in it, and no steps that only the full view has: a list, which leaves them out, must show the
    /// same tag as a get. Nor have progress and usage, which a worker reports while someone decides
    /// to pause the execution, nor what follows from the workers that are connected.
    #[must_use]
    pub fn etag(&self) -> String {
        format!("{:016x}", self.hash_acted_on().finish())
    }

    /// A number that changes whenever a reader would see a difference, payloads aside: with the
    /// etag, with progress and cost, and with the workers that are connected.
    #[must_use]
    pub fn look(&self) -> u64 {
        let mut hasher = self.hash_acted_on();
        (self.sub_state, self.reason, &self.retry).hash(&mut hasher);
        (&self.usage, &self.abandoned_usage).hash(&mut hasher);
        (&self.reopen, &self.forked_from, &self.not_rolled_back).hash(&mut hasher);
        for wait in &self.waits {
            wait.detail.hash(&mut hasher);
        }
        for step in &self.steps {
            (step.sub_state, step.reason).hash(&mut hasher);
            (&step.progress, &step.usage, &step.blocked_by).hash(&mut hasher);
        }
        hasher.finish()
    }

    fn hash_acted_on(&self) -> Fnv1a {
        let mut hasher = Fnv1a::default();
        let steps = if self.steps_are_detail {
            &[][..]
        } else {
            &self.steps
        };
        let unserved = |step: &Step| step.reason == Some(Reason::NoWorker);
        let unserved = self.reason == Some(Reason::NoWorker) || steps.iter().any(unserved);
        let (sub_state, reason) = with_workers(self.sub_state, self.reason, unserved);
        (&self.name, sub_state, &self.native_state, reason).hash(&mut hasher);
        // Which step's figures the execution shows depends on the connected workers too; the figures
        // of every step are hashed below.
        if !steps.iter().any(|step| step.retry == self.retry) {
            self.retry.hash(&mut hasher);
        }
        hash_waits(&self.waits, &mut hasher);
        hasher.write_usize(steps.len());
        for step in steps {
            hash_step(step, &mut hasher);
        }
        self.last_error.hash(&mut hasher);
        (&self.revision, self.end_time, &self.labels).hash(&mut hasher);
        if let Some(pause) = &self.pause {
            pause.hash(&mut hasher);
        }
        if let Some(cancellation) = &self.cancellation {
            cancellation.hash(&mut hasher);
        }
        hasher
    }
}

/// What is shown where a worker for every task is connected. Compensating is left out, because the
/// native state says it: that a compensation has no worker replaces that reason.
fn with_workers(
    sub_state: SubState,
    reason: Option<Reason>,
    unserved: bool,
) -> (SubState, Option<Reason>) {
    if unserved {
        return (SubState::Running, None);
    }
    (
        sub_state,
        reason.filter(|reason| *reason != Reason::Compensating),
    )
}

/// Everything of a step but its progress, its cost and what follows from connected workers.
fn hash_step(step: &Step, hasher: &mut Fnv1a) {
    let Step {
        name,
        sub_state,
        native_state,
        reason,
        mapping_basis,
        retry,
        waits,
        last_error,
        start_time,
        end_time,
        progress: _,
        usage: _,
        child: _,
        blocked_by: _,
    } = step;
    let unserved = *reason == Some(Reason::NoWorker);
    let (sub_state, reason) = with_workers(*sub_state, *reason, unserved);
    (name, sub_state, native_state, reason, mapping_basis).hash(hasher);
    retry.hash(hasher);
    hash_waits(waits, hasher);
    (last_error, start_time, end_time).hash(hasher);
}

/// Everything of a wait but its detail, which tells of connected workers.
fn hash_waits(waits: &[Wait], hasher: &mut Fnv1a) {
    hasher.write_usize(waits.len());
    for wait in waits {
        let Wait {
            kind,
            name,
            since,
            deadline,
            detail: _,
        } = wait;
        (kind, name, since, deadline).hash(hasher);
    }
}

/// FNV-1a, 64 bits. The standard library's hasher may change between compiler versions; a tag
/// that two replicas compare must not.
struct Fnv1a(u64);

impl Default for Fnv1a {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for Fnv1a {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Labels, MappingBasis, Payload, Retry, RetryBasis, Usage, WaitKind};

    fn execution() -> Execution {
        Execution {
            name: "providers/memory/executions/a".parse().unwrap(),
            definition: "definitions/order".into(),
            revision: String::new(),
            sub_state: SubState::Running,
            native_state: "RUNNING".into(),
            reason: None,
            mapping_basis: MappingBasis::Native,
            retry: Retry::UNKNOWN,
            waits: vec![],
            steps: vec![],
            steps_are_detail: false,
            last_error: None,
            create_time: None,
            start_time: None,
            update_time: None,
            end_time: None,
            input: None,
            output: None,
            labels: Labels::new(),
            usage: None,
            abandoned_usage: None,
            cancellation: None,
            pause: None,
            reopen: None,
            forked_from: None,
            forks: vec![],
            not_rolled_back: vec![],
        }
    }

    fn step(name: &str, sub_state: SubState, reason: Option<Reason>) -> Step {
        Step {
            name: name.into(),
            sub_state,
            native_state: "WORKING".into(),
            reason,
            mapping_basis: MappingBasis::Native,
            retry: Retry::UNKNOWN,
            waits: vec![],
            last_error: None,
            start_time: None,
            end_time: None,
            progress: None,
            usage: None,
            child: None,
            blocked_by: vec![],
        }
    }

    #[test]
    fn etag_changes_with_the_state_but_not_with_the_view() {
        let running = execution();
        let with_payload = Execution {
            input: Some(Payload::json("{}")),
            ..execution()
        };
        let waiting = Execution {
            sub_state: SubState::Waiting,
            ..execution()
        };
        assert_eq!(running.etag(), with_payload.etag());
        assert_ne!(running.etag(), waiting.etag());
    }

    #[test]
    fn progress_and_usage_are_seen_but_do_not_change_the_etag() {
        let at = |progress| Execution {
            steps: vec![Step {
                progress,
                ..step("a", SubState::Running, None)
            }],
            ..execution()
        };
        let begun = at(None);
        let further = at(crate::Progress::new(0.5, "reading"));
        let cost = Some(Usage {
            cost_micros: 1,
            ..Usage::default()
        });
        let dearer = Execution {
            usage: cost,
            ..begun.clone()
        };
        let mut dearer_step = begun.clone();
        dearer_step.steps[0].usage = cost;
        for other in [&further, &dearer, &dearer_step] {
            assert_eq!(other.etag(), begun.etag());
            assert_ne!(other.look(), begun.look());
        }
        assert_eq!(begun.look(), at(None).look());
    }

    /// One step is ready for a worker, another one backs off: what the execution shows depends on
    /// whether a worker for the first is connected.
    fn ready(connected: bool) -> Execution {
        let (shown, reason, detail) = if connected {
            (SubState::Running, None, "1 worker is connected")
        } else {
            (
                SubState::Waiting,
                Some(Reason::NoWorker),
                "no worker is connected",
            )
        };
        let wait = Wait {
            detail: detail.into(),
            ..Wait::new(WaitKind::Capacity, "etl")
        };
        let mut first = step("a", shown, reason);
        first.waits = vec![wait.clone()];
        let mut second = step("b", SubState::BackingOff, None);
        second.retry = Retry {
            attempt: 2,
            basis: RetryBasis::Reported,
            ..Retry::UNKNOWN
        };
        let deciding = if connected { &first } else { &second };
        Execution {
            sub_state: deciding.sub_state,
            reason: deciding.reason,
            retry: deciding.retry.clone(),
            waits: vec![wait],
            steps: vec![first, second],
            ..execution()
        }
    }

    #[test]
    fn a_worker_that_comes_or_leaves_is_seen_but_does_not_change_the_etag() {
        assert_eq!(ready(true).etag(), ready(false).etag());
        assert_ne!(ready(true).look(), ready(false).look());
        let mut other = ready(true);
        other.waits[0].detail = "2 workers are connected".into();
        assert_eq!(ready(true).etag(), other.etag());
        assert_ne!(ready(true).look(), other.look());
    }

    #[test]
    fn a_compensation_keeps_its_etag_when_its_worker_leaves() {
        let at = |sub_state, reason| Execution {
            sub_state,
            reason: Some(reason),
            native_state: "compensating".into(),
            steps: vec![step("a", sub_state, Some(reason))],
            ..execution()
        };
        let with = at(SubState::Running, Reason::Compensating);
        let without = at(SubState::Waiting, Reason::NoWorker);
        assert_eq!(with.etag(), without.etag());
        assert_ne!(with.look(), without.look());
    }

    #[test]
    fn a_new_attempt_of_the_deciding_step_changes_the_etag() {
        let mut next = ready(true);
        next.steps[1].retry.attempt = 3;
        assert_ne!(next.etag(), ready(true).etag());
    }

    #[test]
    fn etag_is_the_same_in_every_build() {
        assert_eq!(execution().etag(), "51d03d1420347266");
    }
}
