//! The etag of an execution, and what else a reader would see change.
//!
//! An etag is for conflicts: it changes whenever the state changes that a client acts on. Every replica
//! of the gateway must give the same etag, so nothing that one process remembers or infers is part of
//! it: not the number of an attempt, which some engines keep in the memory of one process, and not the
//! workers that are connected to one process.
//!
//! The etag is weak (RFC 7232): `W/"` and 16 hexadecimal digits and `"`. The digits are the FNV-1a hash,
//! 64 bits, of the parts in the order of [`Execution::etag`], each written by [`Parts`].

use std::hash::{Hash, Hasher};

use jiff::Timestamp;

use crate::{Execution, ExecutionError, Reason, Retry, Step, SubState, Wait};

/// The weak etag of a content that is made of texts.
#[must_use]
pub fn content_etag(texts: &[&str]) -> String {
    let mut parts = Parts::default();
    for text in texts {
        parts.text(text);
    }
    parts.etag()
}

impl Execution {
    /// A tag that changes whenever anything a client could act on changes; empty for an execution of
    /// which the provider has read only a part, because another replica may have read more.
    ///
    /// Payloads have no part in it, and no steps that only the full view has: a list, which leaves them
    /// out, must show the same tag as a get. Nor have progress and usage, which a worker reports while
    /// someone decides to pause the execution.
    #[must_use]
    pub fn etag(&self) -> String {
        if self.is_partial {
            return String::new();
        }
        self.acted_on().etag()
    }

    /// A number that changes whenever a reader would see a difference, payloads aside: with the
    /// etag, with attempts, progress and cost, and with the workers that are connected. Only for
    /// comparisons within one process.
    #[must_use]
    pub fn look(&self) -> u64 {
        let mut hasher = self.acted_on().0;
        (self.sub_state, self.reason, &self.retry).hash(&mut hasher);
        (&self.usage, &self.abandoned_usage, &self.last_error).hash(&mut hasher);
        (&self.reopen, &self.forked_from, &self.not_rolled_back).hash(&mut hasher);
        for wait in &self.waits {
            (&wait.detail, wait.blocker).hash(&mut hasher);
        }
        for step in &self.steps {
            (step.sub_state, step.reason, &step.retry).hash(&mut hasher);
            (&step.progress, &step.usage, &step.blocked_by).hash(&mut hasher);
        }
        hasher.finish()
    }

    fn acted_on(&self) -> Parts {
        let mut parts = Parts::default();
        let steps = if self.steps_are_detail {
            &[][..]
        } else {
            &self.steps
        };
        let unserved = |step: &Step| step.reason == Some(Reason::NoWorker);
        let unserved = self.reason == Some(Reason::NoWorker) || steps.iter().any(unserved);
        parts.text(&self.name.resource_name());
        parts.state(self.sub_state, self.reason, unserved);
        parts.text(&self.native_state);
        // Which step's retry the execution shows depends on the connected workers too; the retry of
        // every step is written below.
        let written = |step: &Step| step.retry.next_attempt_time == self.retry.next_attempt_time;
        let shown = !steps.iter().any(written);
        parts.option(shown.then_some(&self.retry), Parts::retry);
        parts.list(&self.waits, Parts::wait);
        parts.list(steps, Parts::step);
        parts.option(self.last_error.as_ref(), Parts::error);
        parts.text(&self.revision);
        parts.time(self.end_time);
        parts.number(self.labels.len() as u64);
        for (name, value) in &self.labels {
            parts.text(name);
            parts.text(value);
        }
        parts.option(self.pause.as_ref(), |parts, pause| {
            parts.text(&pause.by);
            parts.text(&pause.comment);
            parts.text(&pause.step);
            parts.text(&pause.offered_revision);
            parts.list(&pause.conflicts, |parts, conflict| parts.text(conflict));
        });
        parts.option(self.cancellation.as_ref(), |parts, cancelled| {
            parts.text(&cancelled.by);
            parts.text(&cancelled.comment);
            parts.time(cancelled.time);
        });
        parts
    }
}

/// What is hashed, as bytes that are the same in every build: a text is its length and its UTF-8, a
/// number eight bytes, little end first, a time its nanoseconds since 1970 in sixteen such bytes, an
/// enum value its word; what may be absent follows a byte 0 or 1, and a list follows its length.
#[derive(Default)]
struct Parts(Fnv1a);

impl Parts {
    fn etag(&self) -> String {
        let mut etag = String::with_capacity("W/\"0123456789abcdef\"".len());
        etag.push_str("W/\"");
        for byte in self.0.finish().to_be_bytes() {
            etag.push(digit(byte >> 4));
            etag.push(digit(byte & 0xf));
        }
        etag.push('"');
        etag
    }

    fn number(&mut self, number: u64) {
        match u8::try_from(number) {
            Ok(small) => self.0.write_and_zeros(small),
            Err(_) => self.0.write(&number.to_le_bytes()),
        }
    }

    fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.0.write(text.as_bytes());
    }

    fn option<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        self.0.write(&[u8::from(value.is_some())]);
        if let Some(value) = value {
            write(self, value);
        }
    }

    fn list<T>(&mut self, items: &[T], write: impl Fn(&mut Self, &T)) {
        self.number(items.len() as u64);
        for item in items {
            write(self, item);
        }
    }

    fn time(&mut self, time: Option<Timestamp>) {
        self.option(time, |parts, time| {
            let nanoseconds = time.as_nanosecond();
            match u64::try_from(nanoseconds) {
                Ok(low) => {
                    parts.0.write(&low.to_le_bytes());
                    parts.0.write_and_zeros(0);
                }
                Err(_) => parts.0.write(&nanoseconds.to_le_bytes()),
            }
        });
    }

    /// The state as it is where a worker for every task is connected. Compensating is left out, because
    /// the native state says it: that a compensation has no worker replaces that reason.
    fn state(&mut self, sub_state: SubState, reason: Option<Reason>, unserved: bool) {
        let (sub_state, reason) = if unserved {
            (SubState::Running, None)
        } else {
            let reason = reason.filter(|reason| *reason != Reason::Compensating);
            (sub_state, reason)
        };
        self.text(sub_state.as_str());
        self.option(reason, |parts, reason| parts.text(reason.as_str()));
    }

    /// When the next attempt starts. Its number is left out: some engines keep it in the memory of
    /// one process.
    fn retry(&mut self, retry: &Retry) {
        self.time(retry.next_attempt_time);
    }

    /// Everything but the number of the attempt.
    fn error(&mut self, error: &ExecutionError) {
        self.text(&error.step);
        self.text(&error.message);
        self.text(&error.native_code);
        self.option(error.category, |parts, category| {
            parts.text(category.as_str());
        });
        self.time(error.at);
    }

    /// Everything but the detail and the blocker, which follow from workers and limits of one process.
    fn wait(&mut self, wait: &Wait) {
        self.text(wait.kind.as_str());
        self.text(&wait.name);
        self.time(wait.since);
        self.time(wait.deadline);
    }

    /// Everything but progress and cost, and what follows from connected workers.
    fn step(&mut self, step: &Step) {
        self.text(&step.name);
        self.state(
            step.sub_state,
            step.reason,
            step.reason == Some(Reason::NoWorker),
        );
        self.text(&step.native_state);
        self.text(step.mapping_basis.as_str());
        self.retry(&step.retry);
        self.list(&step.waits, Self::wait);
        self.option(step.last_error.as_ref(), Self::error);
        self.time(step.start_time);
        self.time(step.end_time);
    }
}

/// A hexadecimal digit; `value` is below 16.
fn digit(value: u8) -> char {
    char::from(b"0123456789abcdef"[usize::from(value & 0xf)])
}

/// FNV-1a, 64 bits. The standard library's hasher may change between compiler versions; a tag
/// that two replicas compare must not.
struct Fnv1a(u64);

impl Default for Fnv1a {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv1a {
    const PRIME: u64 = 0x0000_0100_0000_01b3;

    /// Hashes a byte and seven zeros. A zero only multiplies by the prime, so that one multiplication
    /// is enough for all of them.
    fn write_and_zeros(&mut self, byte: u8) {
        const FACTOR: u64 = Fnv1a::PRIME.wrapping_pow(8);
        self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(FACTOR);
    }
}

impl Hasher for Fnv1a {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(Self::PRIME);
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
            is_partial: false,
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
            parent_execution: None,
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
    fn the_number_of_an_attempt_is_seen_but_does_not_change_the_etag() {
        let mut counted = ready(true);
        counted.steps[1].retry.attempt = 3;
        counted.steps[1].last_error = Some(ExecutionError::message("busy"));
        let mut elsewhere = counted.clone();
        elsewhere.steps[1].retry.attempt = 17;
        elsewhere.steps[1].last_error.as_mut().unwrap().attempt = 16;
        assert_eq!(counted.etag(), elsewhere.etag());
        assert_ne!(counted.look(), elsewhere.look());
    }

    /// One replica has added up the attempts of the step, the other those of the execution only.
    #[test]
    fn attempts_that_one_replica_has_counted_do_not_change_the_etag() {
        let mut counted = ready(false);
        counted.steps[1].retry.attempt = 3;
        counted.retry.attempt = 3;
        let mut elsewhere = counted.clone();
        elsewhere.retry.attempt = 2;
        assert_eq!(counted.etag(), elsewhere.etag());
    }

    #[test]
    fn the_next_attempt_and_the_last_error_change_the_etag() {
        let mut later = ready(true);
        later.steps[1].retry.next_attempt_time = Some(Timestamp::UNIX_EPOCH);
        let mut failed = ready(true);
        failed.steps[1].last_error = Some(ExecutionError::message("busy"));
        for other in [later, failed] {
            assert_ne!(other.etag(), ready(true).etag());
        }
    }

    #[test]
    fn an_execution_that_was_read_in_part_has_no_etag() {
        let part = Execution {
            is_partial: true,
            ..execution()
        };
        assert_eq!(part.etag(), "");
    }

    #[test]
    fn parts_do_not_run_into_each_other() {
        assert_ne!(content_etag(&["ab", "c"]), content_etag(&["a", "bc"]));
        assert_ne!(content_etag(&["a"]), content_etag(&["a", ""]));
    }

    #[test]
    fn etag_is_the_same_in_every_build() {
        assert_eq!(execution().etag(), "W/\"6840bdf367a89283\"");
    }
}
