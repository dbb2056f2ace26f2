//! Every approval and escalation of an execution, read from its log: on every branch, and how each one
//! ended.
//!
//! The log is read branch after branch. A branch begins where its parent was left, so the cases that
//! were pending there continue on the new branch, under new names. Cases that are pending when the
//! execution ends or rolls back are withdrawn.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use stateway_machine::{Event, Fact, PolicyDecision, WaitFor};
use stateway_model::ExecutionError;
use stateway_replay::error_of;

use super::case::{About, Case, Decision, Outcome};
use super::id::Kind;

/// Gathers the cases of one execution.
#[derive(Debug, Default)]
pub struct Docket {
    entries: Vec<Entry>,
    /// The parent of each branch, and the last event that the branch shares with the parent.
    parents: HashMap<u32, (u32, u64)>,
    /// The last failure of each step, by branch.
    errors: HashMap<(u32, Arc<str>), ExecutionError>,
    /// The branch that was opened last.
    newest: u32,
}

/// A case, and the event of its branch that ended it.
#[derive(Debug)]
struct Entry {
    case: Case,
    ended: Option<u64>,
}

impl Docket {
    /// Takes the next event, in the order of branch and sequence.
    pub fn add(&mut self, branch: u32, event: &Event) {
        let record = (branch, event);
        self.newest = self.newest.max(branch);
        match &event.fact {
            Fact::BranchOpened { parent, cutoff, .. } if *parent != branch => {
                self.parents.insert(branch, (*parent, *cutoff));
                self.carry_over(branch, (*parent, *cutoff), event.sequence);
            }
            Fact::StepWaiting {
                step,
                attempt,
                wait: WaitFor::Approval(role),
                due,
            } => {
                let about = approval(role, None, *due);
                self.open(record, step, *attempt, about);
            }
            Fact::PolicyDecided {
                task,
                rule,
                decision: PolicyDecision::RequireApproval { role, due },
            } => {
                let about = approval(role, Some(rule), *due);
                self.open(record, &task.step, task.attempt, about);
            }
            Fact::ApprovalGranted {
                step,
                attempt,
                by,
                comment,
                ..
            } => {
                let decision = decision(by, comment, event.at);
                let outcome = Outcome::Decided {
                    grant: true,
                    decision,
                };
                self.close(record, Kind::Approval, (step, *attempt), outcome);
            }
            Fact::ApprovalRejected {
                step,
                attempt,
                by,
                comment,
            } => {
                let decision = decision(by, comment, event.at);
                let outcome = Outcome::Decided {
                    grant: false,
                    decision,
                };
                self.close(record, Kind::Approval, (step, *attempt), outcome);
                self.failed(record);
            }
            Fact::ApprovalExpired { step, attempt } => {
                let case = (step, *attempt);
                self.close(record, Kind::Approval, case, Outcome::Expired);
                self.failed(record);
            }
            Fact::AttemptFailed { .. } => self.failed(record),
            Fact::ExecutionEscalated {
                step,
                reason,
                attempt,
                role,
            } => {
                let error = self.errors.get(&(branch, Arc::clone(step))).cloned();
                // Logs of version 1 do not name the attempt; the one that failed last led to it.
                let failed = error.as_ref().map_or(1, |error| error.attempt);
                let attempt = if *attempt == 0 { failed } else { *attempt };
                let about = About::Escalation {
                    role: Some(Arc::clone(role)).filter(|role| !role.is_empty()),
                    reason: Some(*reason),
                    error,
                };
                self.open(record, step, attempt, about);
            }
            Fact::EscalationResolved {
                step,
                attempt,
                resolution,
                by,
                comment,
            } => {
                let outcome = Outcome::Resolved {
                    resolution: resolution.clone(),
                    decision: decision(by, comment, event.at),
                };
                self.close(record, Kind::Escalation, (step, *attempt), outcome);
            }
            Fact::CompensationStarted { .. }
            | Fact::CancellationStarted { .. }
            | Fact::ExecutionCompleted { .. }
            | Fact::ExecutionRolledBack { .. }
            | Fact::ExecutionFailed { .. }
            | Fact::ExecutionCancelled { .. } => self.withdraw(branch, event.sequence),
            _ => {}
        }
    }

    /// The cases in the order they were opened. Those of branches that the execution has left are
    /// withdrawn.
    #[must_use]
    pub fn cases(self) -> Vec<Case> {
        let current = self.newest;
        let mut cases: Vec<Case> = self.entries.into_iter().map(|entry| entry.case).collect();
        for case in &mut cases {
            if case.outcome == Outcome::Pending && case.branch != current {
                case.outcome = Outcome::Withdrawn;
            }
        }
        cases
    }

    fn open(
        &mut self,
        (branch, event): (u32, &Event),
        step: &Arc<str>,
        attempt: u32,
        about: About,
    ) {
        let mut case = Case {
            branch,
            step: Arc::clone(step),
            attempt,
            ordinal: 1,
            about,
            opened: event.at,
            sequence: event.sequence,
            outcome: Outcome::Pending,
        };
        let before = self.entries.iter().rev();
        let before = before
            .map(|entry| &entry.case)
            .find(|it| it.is_beside(&case));
        case.ordinal = before.map_or(1, |before| before.ordinal + 1);
        self.entries.push(Entry { case, ended: None });
    }

    fn close(
        &mut self,
        (branch, event): (u32, &Event),
        kind: Kind,
        (step, attempt): (&Arc<str>, u32),
        outcome: Outcome,
    ) {
        let found = self.entries.iter_mut().rev().find(|entry| {
            let case = &entry.case;
            // Logs of version 1 do not name the attempt of an escalation.
            let same = case.attempt == attempt || attempt == 0;
            let same = same && case.step == *step && case.branch == branch;
            same && case.kind() == kind && entry.ended.is_none()
        });
        if let Some(entry) = found {
            (entry.case.outcome, entry.ended) = (outcome, Some(event.sequence));
        }
    }

    fn failed(&mut self, (branch, event): (u32, &Event)) {
        if let (Some(error), Some(step)) = (error_of(event), event.fact.step()) {
            self.errors.insert((branch, Arc::clone(step)), error);
        }
    }

    fn withdraw(&mut self, branch: u32, sequence: u64) {
        for entry in &mut self.entries {
            if entry.case.branch == branch && entry.ended.is_none() {
                (entry.case.outcome, entry.ended) = (Outcome::Withdrawn, Some(sequence));
            }
        }
    }

    /// The cases that were pending where the parent was left continue on the new branch.
    fn carry_over(&mut self, branch: u32, (parent, cutoff): (u32, u64), sequence: u64) {
        let owner = self.owner(parent, cutoff);
        let carried: Vec<Entry> = self
            .entries
            .iter()
            .filter(|entry| {
                let open = entry.ended.is_none_or(|ended| ended > cutoff);
                entry.case.branch == owner && entry.case.sequence <= cutoff && open
            })
            .map(|entry| Entry {
                case: Case {
                    branch,
                    sequence,
                    ordinal: 1,
                    outcome: Outcome::Pending,
                    ..entry.case.clone()
                },
                ended: None,
            })
            .collect();
        self.entries.extend(carried);
    }

    /// The branch that an event was written on: the one named, or an ancestor that it shares the event
    /// with.
    fn owner(&self, mut branch: u32, sequence: u64) -> u32 {
        while let Some((parent, cutoff)) = self.parents.get(&branch)
            && sequence <= *cutoff
        {
            branch = *parent;
        }
        branch
    }
}

fn approval(role: &Arc<str>, rule: Option<&Arc<str>>, expires: Option<Timestamp>) -> About {
    About::Approval {
        role: Arc::clone(role),
        rule: rule.cloned(),
        expires,
    }
}

fn decision(by: &Arc<str>, comment: &Arc<str>, at: Timestamp) -> Decision {
    Decision {
        by: Arc::clone(by),
        comment: Arc::clone(comment),
        at,
    }
}

#[cfg(test)]
mod tests {
    use super::super::case::Stage;
    use super::*;
    use stateway_machine::{ExecutionState, Failure, Resolution, Task};
    use stateway_model::{Reason, Usage};

    fn docket(facts: Vec<(u32, u64, Fact)>) -> Vec<Case> {
        let mut docket = Docket::default();
        for (position, (branch, sequence, fact)) in facts.into_iter().enumerate() {
            let event = Event {
                sequence,
                at: Timestamp::from_second(i64::try_from(position).unwrap()).unwrap(),
                causation: "c".into(),
                cause: None,
                actor: "".into(),
                correlation: "c".into(),
                fact,
            };
            docket.add(branch, &event);
        }
        docket.cases()
    }

    fn asked(attempt: u32) -> Fact {
        Fact::StepWaiting {
            step: "ship".into(),
            attempt,
            wait: WaitFor::Approval("ops".into()),
            due: None,
        }
    }

    fn granted(attempt: u32) -> Fact {
        Fact::ApprovalGranted {
            step: "ship".into(),
            attempt,
            by: "ada".into(),
            comment: "".into(),
            queue_due: None,
        }
    }

    fn branched(branch: u32, parent: u32, cutoff: u64) -> Fact {
        Fact::BranchOpened {
            branch,
            parent,
            cutoff,
            by: "ops".into(),
            redo: None,
            spent: Usage::default(),
            spent_by_step: std::collections::BTreeMap::new(),
        }
    }

    fn escalated(attempt: u32) -> Fact {
        Fact::ExecutionEscalated {
            step: "ship".into(),
            reason: Reason::Governance,
            attempt,
            role: "".into(),
        }
    }

    fn failed(attempt: u32) -> Fact {
        Fact::AttemptFailed {
            step: "ship".into(),
            attempt,
            failure: Failure::reported(stateway_model::ErrorCategory::Governance, "no"),
        }
    }

    fn resolved(attempt: u32) -> Fact {
        Fact::EscalationResolved {
            step: "ship".into(),
            attempt,
            resolution: Resolution::Resume,
            by: "eve".into(),
            comment: "".into(),
        }
    }

    fn stages(cases: &[Case]) -> Vec<(u32, u32, Stage)> {
        let stage = |case: &Case| (case.branch, case.attempt, case.stage());
        cases.iter().map(stage).collect()
    }

    #[test]
    fn each_request_keeps_its_outcome() {
        let cases = docket(vec![
            (0, 1, asked(1)),
            (
                0,
                2,
                Fact::ApprovalExpired {
                    step: "ship".into(),
                    attempt: 1,
                },
            ),
            (0, 3, asked(2)),
            (
                0,
                4,
                Fact::ApprovalRejected {
                    step: "ship".into(),
                    attempt: 2,
                    by: "ada".into(),
                    comment: "too early".into(),
                },
            ),
            (0, 5, asked(3)),
        ]);
        let expected = [
            (0, 1, Stage::Expired),
            (0, 2, Stage::Rejected),
            (0, 3, Stage::Pending),
        ];
        assert_eq!(stages(&cases), expected);
        let Outcome::Decided { decision, .. } = &cases[1].outcome else {
            panic!("undecided");
        };
        assert_eq!(&*decision.by, "ada");
        assert_eq!(decision.at, Timestamp::from_second(3).unwrap());
    }

    #[test]
    fn a_decision_stays_on_its_branch_when_the_step_is_asked_again_on_another() {
        let cases = docket(vec![
            (0, 2, asked(1)),
            (0, 3, granted(1)),
            (1, 2, branched(1, 0, 1)),
            (1, 3, asked(1)),
        ]);
        let expected = [(0, 1, Stage::Granted), (1, 1, Stage::Pending)];
        assert_eq!(stages(&cases), expected);
    }

    #[test]
    fn a_pending_request_moves_to_the_new_branch() {
        let cases = docket(vec![
            (0, 2, asked(1)),
            (1, 5, branched(1, 0, 4)),
            (2, 7, branched(2, 1, 6)),
            (2, 8, granted(1)),
        ]);
        let expected = [
            (0, 1, Stage::Withdrawn),
            (1, 1, Stage::Withdrawn),
            (2, 1, Stage::Granted),
        ];
        assert_eq!(stages(&cases), expected);
        assert_eq!(cases[2].opened, cases[0].opened);
    }

    #[test]
    fn a_branch_takes_over_nothing_that_was_asked_behind_its_beginning() {
        let cases = docket(vec![
            (0, 4, asked(1)),
            (1, 4, branched(1, 0, 3)),
            // The cut-off lies on the part that branch 1 shares with branch 0.
            (2, 6, branched(2, 1, 3)),
        ]);
        assert_eq!(stages(&cases), [(0, 1, Stage::Withdrawn)]);
    }

    #[test]
    fn a_branch_takes_over_what_was_decided_behind_its_beginning() {
        let cases = docket(vec![
            (0, 2, asked(1)),
            (0, 9, granted(1)),
            (1, 5, branched(1, 0, 4)),
        ]);
        let expected = [(0, 1, Stage::Granted), (1, 1, Stage::Pending)];
        assert_eq!(stages(&cases), expected);
    }

    #[test]
    fn what_is_pending_at_a_rollback_or_an_end_is_withdrawn() {
        for end in [
            Fact::CompensationStarted {
                cause: stateway_machine::TurnCause::TimedOut,
                message: "".into(),
                awaited: Vec::new(),
            },
            Fact::ExecutionFailed {
                step: None,
                reason: Reason::TimedOut,
                message: "".into(),
                left: Vec::new(),
            },
        ] {
            let cases = docket(vec![(0, 2, asked(1)), (0, 3, end)]);
            assert_eq!(stages(&cases), [(0, 1, Stage::Withdrawn)]);
        }
        let reopened = Fact::ExecutionReopened {
            by: "ops".into(),
            from: ExecutionState::Failed,
        };
        let cases = docket(vec![(0, 2, asked(1)), (0, 3, reopened)]);
        assert_eq!(stages(&cases), [(0, 1, Stage::Pending)]);
    }

    #[test]
    fn an_approval_that_a_rule_asks_for_names_the_rule() {
        let cases = docket(vec![(
            0,
            3,
            Fact::PolicyDecided {
                task: Task::of("ship", 2),
                rule: "large-orders".into(),
                decision: PolicyDecision::RequireApproval {
                    role: "cfo".into(),
                    due: None,
                },
            },
        )]);
        assert_eq!(stages(&cases), [(0, 2, Stage::Pending)]);
        assert_eq!(
            cases[0].about,
            approval(&"cfo".into(), Some(&"large-orders".into()), None)
        );
    }

    #[test]
    fn a_second_rule_about_one_attempt_asks_under_a_name_of_its_own() {
        let asks = |rule: &str| Fact::PolicyDecided {
            task: Task::of("ship", 1),
            rule: rule.into(),
            decision: PolicyDecision::RequireApproval {
                role: "cfo".into(),
                due: None,
            },
        };
        let cases = docket(vec![
            (0, 3, asks("large-orders")),
            (0, 4, granted(1)),
            (0, 5, asks("expensive")),
            (1, 7, branched(1, 0, 6)),
            (1, 8, granted(1)),
            (1, 9, asks("late")),
        ]);
        let ordinals: Vec<_> = cases
            .iter()
            .map(|case| (case.branch, case.ordinal))
            .collect();
        assert_eq!(ordinals, [(0, 1), (0, 2), (1, 1), (1, 2)]);
        let expected = [
            Stage::Granted,
            Stage::Withdrawn,
            Stage::Granted,
            Stage::Pending,
        ];
        let stages: Vec<_> = cases.iter().map(Case::stage).collect();
        assert_eq!(stages, expected);
    }

    #[test]
    fn escalations_of_version_1_take_the_attempt_that_failed() {
        let cases = docket(vec![
            (0, 2, failed(2)),
            (0, 3, escalated(0)),
            (0, 4, resolved(0)),
            (0, 6, failed(3)),
            (0, 7, escalated(3)),
        ]);
        let expected = [(0, 2, Stage::Resolved), (0, 3, Stage::Pending)];
        assert_eq!(stages(&cases), expected);
        let About::Escalation { error, .. } = &cases[0].about else {
            panic!("not an escalation");
        };
        assert_eq!(error.as_ref().unwrap().message, "no");
    }
}
