//! The attempts of one step, read from the log: every branch, compensations included.
//!
//! Pure: takes events in the order of the log and returns attempts. A branch shares the beginning of
//! its parent's log. An attempt that was open at the start of the branch is open on the branch too, so
//! it is listed twice: as abandoned on the parent, and with its outcome on the branch.

use std::sync::Arc;

use jiff::Timestamp;
use stateway_machine::{
    Event, Fact, FailureCause, PolicyDecision, Task, TaskKey, WaitFor, child_id,
};
use stateway_model::{ErrorCategory, ExecutionError, Usage};

/// The maximum number of attempts that are returned, newest first.
const MOST_ATTEMPTS: usize = 1_000;

/// One attempt of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptRecord {
    /// The branch of the log.
    pub branch: u32,
    /// From 1; runs and compensations are counted apart.
    pub attempt: u32,
    /// Whether the step is compensated.
    pub compensation: bool,
    /// The worker that has it, or had it last; empty when none had.
    pub worker: Arc<str>,
    /// How often a worker took it.
    pub hand_outs: u32,
    /// When it was ready for a worker, or began to wait.
    pub started: Option<Timestamp>,
    /// When the worker took it.
    pub assigned: Option<Timestamp>,
    /// When it ended.
    pub ended: Option<Timestamp>,
    /// How it ended.
    pub outcome: AttemptOutcome,
    /// What went wrong.
    pub error: Option<ExecutionError>,
    /// The usage of the attempt.
    pub usage: Usage,
    /// The id of the execution that does it, for a step that runs another definition.
    pub child: Option<Arc<str>>,
    /// The policy rule that decided about it, and the decision. A rule that stopped the attempt stays
    /// when another one lets it pass later.
    pub policy: Option<(Arc<str>, PolicyDecision)>,
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptOutcome {
    /// The attempt is still open.
    Open,
    /// It succeeded.
    Succeeded,
    /// It failed.
    Failed,
    /// It was withdrawn because the execution ended.
    Cancelled,
    /// Its worker was lost while the execution was ending.
    Unknown,
    /// The execution continues on another branch.
    Abandoned,
}

/// Where a branch of the log begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BranchStart {
    /// The branch.
    pub branch: u32,
    /// The branch that it continues.
    pub parent: u32,
    /// The last event that the two share.
    pub cutoff: u64,
}

/// Gathers the attempts of one step.
#[derive(Debug)]
pub struct Attempts {
    execution: Arc<str>,
    step: Arc<str>,
    branches: Vec<BranchStart>,
    branch: u32,
    seen: Vec<AttemptEntry>,
    /// Older attempts were left out.
    truncated: bool,
}

/// An attempt, with the positions of its events in the log.
#[derive(Debug, Clone)]
struct AttemptEntry {
    record: AttemptRecord,
    started_at: (u32, u64),
    ended_at: Option<(u32, u64)>,
    /// The definition of the child execution that the attempt started, if it started one.
    runs: Option<Arc<str>>,
    /// The worker that was lost during the attempt, and when that worker got it.
    lost: Option<(Arc<str>, Option<Timestamp>)>,
}

impl Attempts {
    /// Of a step of an execution with these branches.
    #[must_use]
    pub fn of(execution: Arc<str>, step: Arc<str>, branches: Vec<BranchStart>) -> Self {
        Self {
            execution,
            step,
            branches,
            branch: 0,
            seen: Vec::new(),
            truncated: false,
        }
    }

    /// The attempts in the order they started, and whether older ones were left out.
    #[must_use]
    pub fn into_records(self) -> (Vec<AttemptRecord>, bool) {
        let records = self.seen.into_iter().map(|seen| {
            let mut record = seen.record;
            record.child = seen.runs.map(|_| {
                child_id(&TaskKey {
                    execution: Arc::clone(&self.execution),
                    branch: record.branch,
                    task: Task::of(Arc::clone(&self.step), record.attempt),
                })
            });
            record
        });
        (records.collect(), self.truncated)
    }

    /// Takes the next event of the log.
    pub fn take(&mut self, branch: u32, event: &Event) {
        if branch != self.branch {
            self.open_branch(branch, event.at);
        }
        let place = (branch, event.sequence);
        match &event.fact {
            Fact::ExecutionCompleted { .. }
            | Fact::ExecutionFailed { .. }
            | Fact::ExecutionRolledBack { .. }
            | Fact::ExecutionCancelled { .. } => self.withdraw(place, event.at, &[]),
            Fact::CompensationStarted { awaited, .. }
            | Fact::CancellationStarted { awaited, .. } => self.withdraw(place, event.at, awaited),
            fact if fact.step() == Some(&self.step) => self.take_own(place, event),
            _ => {}
        }
    }

    fn take_own(&mut self, place: (u32, u64), event: &Event) {
        let at = event.at;
        match &event.fact {
            Fact::StepStarted { attempt, .. } | Fact::CorrectionRequested { attempt, .. } => {
                self.start(place, *attempt, false, at);
            }
            Fact::StepWaiting { attempt, wait, .. } => {
                let seen = self.start(place, *attempt, false, at);
                if let WaitFor::Child(definition) = wait {
                    seen.runs = Some(Arc::clone(definition));
                }
            }
            Fact::StepCompensationStarted { attempt, .. } => {
                self.start(place, *attempt, true, at);
            }
            Fact::TaskAssigned { task, worker, .. } => {
                if let Some(seen) = self.find(task) {
                    seen.record.worker = Arc::clone(worker);
                    seen.record.hand_outs += 1;
                    seen.record.assigned = Some(at);
                }
            }
            Fact::TaskReleased { task, lost, .. } => {
                if let Some(seen) = self.find(task) {
                    let worker = std::mem::replace(&mut seen.record.worker, "".into());
                    let assigned = seen.record.assigned.take();
                    seen.lost = lost.then_some((worker, assigned));
                }
            }
            Fact::UsageReported { task, usage } => {
                if let Some(seen) = self.find(task) {
                    seen.record.usage = seen.record.usage + *usage;
                }
            }
            Fact::PolicyDecided {
                task,
                rule,
                decision,
            } => {
                if let Some(seen) = self.find(task)
                    && (seen.record.policy.is_none() || *decision != PolicyDecision::Allow)
                {
                    seen.record.policy = Some((Arc::clone(rule), decision.clone()));
                }
            }
            _ => self.end_own(place, event),
        }
    }

    fn end_own(&mut self, place: (u32, u64), event: &Event) {
        let (attempt, compensation, outcome) = match &event.fact {
            Fact::StepCompleted { attempt, .. } => (*attempt, false, AttemptOutcome::Succeeded),
            Fact::AttemptFailed { attempt, .. }
            | Fact::ApprovalRejected { attempt, .. }
            | Fact::ApprovalExpired { attempt, .. } => (*attempt, false, AttemptOutcome::Failed),
            Fact::OutcomeUnknown { attempt, .. } => (*attempt, false, AttemptOutcome::Unknown),
            Fact::StepCompensated { attempt, .. } => (*attempt, true, AttemptOutcome::Succeeded),
            Fact::StepCompensationFailed { attempt, .. } => {
                (*attempt, true, AttemptOutcome::Failed)
            }
            _ => return,
        };
        let step = Arc::clone(&self.step);
        let task = Task {
            step,
            attempt,
            undo: compensation,
        };
        if let Some(seen) = self.find(&task) {
            seen.end(outcome, place, event.at);
            seen.record.error = error_of(event);
        }
    }

    /// An attempt that starts, or that was started and waits now.
    fn start(
        &mut self,
        place: (u32, u64),
        attempt: u32,
        compensation: bool,
        at: Timestamp,
    ) -> &mut AttemptEntry {
        let known = self.seen.iter().rposition(|seen| {
            seen.is(self.branch, attempt, compensation)
                && seen.record.outcome == AttemptOutcome::Open
        });
        let index = known.unwrap_or_else(|| {
            if self.seen.len() == MOST_ATTEMPTS {
                self.seen.remove(0);
                self.truncated = true;
            }
            self.seen
                .push(AttemptEntry::new(place, attempt, compensation, at));
            self.seen.len() - 1
        });
        &mut self.seen[index]
    }

    fn find(&mut self, task: &Task) -> Option<&mut AttemptEntry> {
        let branch = self.branch;
        let mut newest = self.seen.iter_mut().rev();
        newest.find(|seen| seen.is(branch, task.attempt, task.undo))
    }

    /// The execution ends: attempts that it does not wait for are withdrawn.
    fn withdraw(&mut self, place: (u32, u64), at: Timestamp, awaited: &[Arc<str>]) {
        if awaited.contains(&self.step) {
            return;
        }
        for seen in &mut self.seen {
            if seen.record.outcome == AttemptOutcome::Open {
                seen.end(AttemptOutcome::Cancelled, place, at);
            }
        }
    }

    /// The log continues on another branch. Attempts that were open at its start are open again.
    fn open_branch(&mut self, branch: u32, at: Timestamp) {
        let shared = |place: (u32, u64)| self.shares(branch, place);
        let mut carried: Vec<AttemptEntry> = Vec::new();
        for seen in &self.seen {
            let ended = seen.ended_at.is_some_and(shared);
            let known = carried.iter().any(|one| one.started_at == seen.started_at);
            if shared(seen.started_at) && !ended && !known {
                carried.push(seen.carried_to(branch));
            }
        }
        for seen in &mut self.seen {
            if seen.record.outcome == AttemptOutcome::Open {
                seen.record.outcome = AttemptOutcome::Abandoned;
                seen.record.ended = Some(at);
            }
        }
        self.seen.extend(carried);
        self.branch = branch;
    }

    /// Whether an event is part of what led to a branch.
    fn shares(&self, branch: u32, (on, sequence): (u32, u64)) -> bool {
        let (mut at, mut up_to) = (branch, u64::MAX);
        loop {
            if at == on {
                return sequence <= up_to;
            }
            let Some(start) = self.branches.iter().find(|start| start.branch == at) else {
                return false;
            };
            if start.parent >= at {
                return false;
            }
            (at, up_to) = (start.parent, up_to.min(start.cutoff));
        }
    }
}

impl AttemptEntry {
    fn new(place: (u32, u64), attempt: u32, compensation: bool, at: Timestamp) -> Self {
        Self {
            record: AttemptRecord {
                branch: place.0,
                attempt,
                compensation,
                worker: "".into(),
                hand_outs: 0,
                started: Some(at),
                assigned: None,
                ended: None,
                outcome: AttemptOutcome::Open,
                error: None,
                usage: Usage::default(),
                child: None,
                policy: None,
            },
            started_at: place,
            ended_at: None,
            runs: None,
            lost: None,
        }
    }

    fn is(&self, branch: u32, attempt: u32, compensation: bool) -> bool {
        let record = &self.record;
        (record.branch, record.attempt, record.compensation) == (branch, attempt, compensation)
    }

    fn end(&mut self, outcome: AttemptOutcome, place: (u32, u64), at: Timestamp) {
        self.record.outcome = outcome;
        self.record.ended = Some(at);
        self.ended_at = Some(place);
        if self.record.worker.is_empty()
            && let Some((worker, assigned)) = self.lost.take()
        {
            (self.record.worker, self.record.assigned) = (worker, assigned);
        }
    }

    /// The same attempt on a new branch: no worker has it there, and its cost stays where it arose.
    fn carried_to(&self, branch: u32) -> Self {
        let mut carried = Self::new(
            self.started_at,
            self.record.attempt,
            self.record.compensation,
            Timestamp::UNIX_EPOCH,
        );
        carried.record.branch = branch;
        carried.record.started = self.record.started;
        carried.runs.clone_from(&self.runs);
        carried
    }
}

/// The error of the attempt that an event ends; none where the event ends no attempt with one.
#[must_use]
pub fn error_of(event: &Event) -> Option<ExecutionError> {
    let (step, attempt, message, category, code) = match &event.fact {
        Fact::AttemptFailed {
            step,
            attempt,
            failure,
        }
        | Fact::StepCompensationFailed {
            step,
            attempt,
            failure,
            ..
        } => {
            let code = match failure.cause {
                _ if !failure.code.is_empty() => &*failure.code,
                FailureCause::Reported => "",
                cause => cause.as_str(),
            };
            let message = failure.message.to_string();
            (step, attempt, message, failure.category, code)
        }
        Fact::ApprovalRejected {
            step,
            attempt,
            by,
            comment,
        } => {
            let message = format!("rejected by {by}: {comment}");
            let code = FailureCause::Rejected.as_str();
            (step, attempt, message, ErrorCategory::Governance, code)
        }
        Fact::ApprovalExpired { step, attempt } => {
            let message = "nobody decided in time".to_owned();
            let code = FailureCause::Expired.as_str();
            (step, attempt, message, ErrorCategory::Timeout, code)
        }
        _ => return None,
    };
    Some(ExecutionError {
        step: step.to_string(),
        message,
        native_code: code.to_owned(),
        category: Some(category),
        attempt: *attempt,
        at: Some(event.at),
    })
}

#[cfg(test)]
mod tests {
    use stateway_machine::Failure;

    use super::*;

    fn event(sequence: u64, fact: Fact) -> Event {
        Event {
            sequence,
            at: Timestamp::from_second(i64::try_from(sequence).unwrap()).unwrap(),
            causation: "r".into(),
            cause: None,
            actor: "".into(),
            correlation: "e".into(),
            fact,
        }
    }

    fn started(attempt: u32) -> Fact {
        Fact::StepStarted {
            step: "a".into(),
            attempt,
            queue_due: None,
            due: None,
            heartbeat_due: None,
        }
    }

    fn assigned(attempt: u32, worker: &str) -> Fact {
        Fact::TaskAssigned {
            task: Task::of("a", attempt),
            worker: worker.into(),
            identity: "".into(),
            due: None,
            heartbeat_due: None,
        }
    }

    fn failed(attempt: u32) -> Fact {
        Fact::AttemptFailed {
            step: "a".into(),
            attempt,
            failure: Failure::reported(ErrorCategory::Transient, "no"),
        }
    }

    fn completed(attempt: u32) -> Fact {
        Fact::StepCompleted {
            step: "a".into(),
            attempt,
            output: stateway_machine::Data::default(),
        }
    }

    fn told(branches: &[BranchStart], log: Vec<(u32, u64, Fact)>) -> Vec<AttemptRecord> {
        let mut attempts = Attempts::of("e".into(), "a".into(), branches.to_vec());
        for (branch, sequence, fact) in log {
            attempts.take(branch, &event(sequence, fact));
        }
        attempts.into_records().0
    }

    fn outcomes(records: &[AttemptRecord]) -> Vec<(u32, u32, AttemptOutcome, &str)> {
        let records = records.iter();
        let shown = records.map(|one| (one.branch, one.attempt, one.outcome, &*one.worker));
        shown.collect()
    }

    #[test]
    fn each_attempt_has_its_worker_times_error_and_cost() {
        let cost = Usage {
            input_tokens: 3,
            ..Usage::default()
        };
        let used = Fact::UsageReported {
            task: Task::of("a", 1),
            usage: cost,
        };
        let lost = Fact::TaskReleased {
            task: Task::of("a", 1),
            lost: true,
            queue_due: None,
        };
        let log = vec![
            (0, 1, started(1)),
            (0, 2, assigned(1, "w1")),
            (0, 3, lost),
            (0, 4, assigned(1, "w2")),
            (0, 5, used),
            (0, 6, failed(1)),
            (0, 7, started(2)),
        ];
        let records = told(&[], log);
        let at = |second| Timestamp::from_second(second).ok();
        let first = &records[0];
        assert_eq!((first.started, first.assigned), (at(1), at(4)));
        assert_eq!(
            (first.ended, first.hand_outs, first.usage),
            (at(6), 2, cost)
        );
        assert_eq!(first.error.as_ref().unwrap().message, "no");
        assert_eq!(
            outcomes(&records),
            [
                (0, 1, AttemptOutcome::Failed, "w2"),
                (0, 2, AttemptOutcome::Open, ""),
            ]
        );
    }

    #[test]
    fn an_attempt_that_ends_after_its_worker_was_lost_names_that_worker() {
        let lost = Fact::TaskReleased {
            task: Task::of("a", 1),
            lost: true,
            queue_due: None,
        };
        let unknown = Fact::OutcomeUnknown {
            step: "a".into(),
            attempt: 1,
            compensate: false,
        };
        let cancelled = Fact::ExecutionCancelled {
            by: "ada".into(),
            reason: stateway_model::Reason::Cancelled,
            comment: "".into(),
            left: Vec::new(),
        };
        for (end, outcome) in [
            (unknown, AttemptOutcome::Unknown),
            (cancelled, AttemptOutcome::Cancelled),
        ] {
            let log = vec![
                (0, 1, started(1)),
                (0, 2, assigned(1, "w1")),
                (0, 3, lost.clone()),
            ];
            let open = told(&[], log.clone());
            assert_eq!((&*open[0].worker, open[0].assigned), ("", None));
            let records = told(&[], [log, vec![(0, 4, end)]].concat());
            assert_eq!(outcomes(&records), [(0, 1, outcome, "w1")]);
            let at = |second| Timestamp::from_second(second).ok();
            assert_eq!((records[0].assigned, records[0].ended), (at(2), at(4)));
        }
    }

    #[test]
    fn an_attempt_that_ended_after_the_cutoff_is_open_again_on_the_branch() {
        let branch = BranchStart {
            branch: 1,
            parent: 0,
            cutoff: 2,
        };
        let log = vec![
            (0, 1, started(1)),
            (0, 2, assigned(1, "w1")),
            (0, 3, completed(1)),
            (1, 3, assigned(1, "w2")),
            (1, 4, completed(1)),
        ];
        assert_eq!(
            outcomes(&told(&[branch], log)),
            [
                (0, 1, AttemptOutcome::Succeeded, "w1"),
                (1, 1, AttemptOutcome::Succeeded, "w2"),
            ]
        );
    }

    #[test]
    fn a_child_is_named_by_the_branch_and_the_attempt_that_it_does() {
        let branch = BranchStart {
            branch: 1,
            parent: 0,
            cutoff: 1,
        };
        let waits = Fact::StepWaiting {
            step: "a".into(),
            attempt: 1,
            wait: WaitFor::Child("import".into()),
            due: None,
        };
        let log = vec![(0, 1, waits), (1, 2, completed(1))];
        let records = told(&[branch], log);
        let children: Vec<_> = records.iter().map(|one| one.child.as_deref()).collect();
        assert_eq!(children, [Some("e~a~1"), Some("e~a~1~b1")]);
    }

    #[test]
    fn what_started_after_the_cutoff_is_not_on_the_branch() {
        let branch = BranchStart {
            branch: 1,
            parent: 0,
            cutoff: 1,
        };
        let other = Fact::ExecutionResumed { by: "ada".into() };
        let log = vec![(0, 2, started(1)), (1, 2, other)];
        assert_eq!(
            outcomes(&told(&[branch], log)),
            [(0, 1, AttemptOutcome::Abandoned, "")]
        );
    }

    #[test]
    fn a_rollback_withdraws_what_nobody_has_and_tells_of_compensations() {
        let undo = |attempt| Fact::StepCompensationStarted {
            step: "a".into(),
            attempt,
            queue_due: None,
            due: None,
        };
        let rolling_back = Fact::CompensationStarted {
            cause: stateway_machine::TurnCause::TimedOut,
            message: "".into(),
            awaited: Vec::new(),
        };
        let undone = Fact::StepCompensated {
            step: "a".into(),
            attempt: 1,
        };
        let log = vec![
            (0, 1, started(1)),
            (0, 2, rolling_back),
            (0, 3, undo(1)),
            (0, 4, undone),
        ];
        let records = told(&[], log);
        assert_eq!(
            outcomes(&records),
            [
                (0, 1, AttemptOutcome::Cancelled, ""),
                (0, 1, AttemptOutcome::Succeeded, ""),
            ]
        );
        assert!(!records[0].compensation && records[1].compensation);
    }

    #[test]
    fn an_approval_that_expires_fails_its_attempt_and_names_the_rule_that_asked() {
        let asked = Fact::PolicyDecided {
            task: Task::of("a", 1),
            rule: "large-orders".into(),
            decision: PolicyDecision::RequireApproval {
                role: "cfo".into(),
                due: None,
            },
        };
        let expired = Fact::ApprovalExpired {
            step: "a".into(),
            attempt: 1,
        };
        let records = told(
            &[],
            vec![(0, 1, started(1)), (0, 2, asked), (0, 3, expired)],
        );
        let [record] = records.as_slice() else {
            panic!("{records:#?}");
        };
        assert_eq!(record.outcome, AttemptOutcome::Failed);
        let error = record.error.as_ref().unwrap();
        assert_eq!((&*error.native_code, error.attempt), ("expired", 1));
        assert_eq!(&*record.policy.as_ref().unwrap().0, "large-orders");
    }
}
