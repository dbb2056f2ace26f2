//! The attempts of one step, from the log of its execution: who worked on each, how it failed and what
//! it cost.

use std::collections::VecDeque;

use jiff::Timestamp;
use stateway_engine::EventRecord;
use stateway_machine::{Event, Fact, FailureCause, PolicyDecision};
use stateway_model::{ErrorCategory, ExecutionError, Usage};
use stateway_proto::v1;

use crate::convert;

/// The most attempts that are kept: the last ones.
const MOST_ATTEMPTS: usize = 100;

/// Gathers the attempts of one step, on every branch.
#[derive(Debug)]
pub(super) struct Attempts {
    step: String,
    found: VecDeque<Attempt>,
}

#[derive(Debug)]
struct Attempt {
    branch: u32,
    attempt: u32,
    worker: String,
    started: Timestamp,
    ended: Option<Timestamp>,
    error: Option<ExecutionError>,
    usage: Usage,
    policy: Option<(String, &'static str)>,
}

impl Attempts {
    pub(super) fn of(step: &str) -> Self {
        Self {
            step: step.to_owned(),
            found: VecDeque::new(),
        }
    }

    /// Takes the next event, in the order of branch and sequence.
    pub(super) fn add(&mut self, record: &EventRecord) {
        let (fact, at) = (&record.event.fact, record.event.at);
        if fact.step().is_none_or(|step| **step != *self.step) {
            return;
        }
        let Some(attempt) = attempt_of(fact) else {
            return;
        };
        let attempt = self.entry(record.branch, attempt, at);
        match fact {
            Fact::TaskAssigned { worker, .. } => attempt.worker = worker.to_string(),
            Fact::UsageReported { usage, .. } => attempt.usage = attempt.usage + *usage,
            // A rule that stopped the attempt says more than one that let it pass later.
            Fact::PolicyDecided { rule, decision, .. }
                if attempt.policy.is_none() || *decision != PolicyDecision::Allow =>
            {
                attempt.policy = Some((rule.to_string(), word(decision)));
            }
            Fact::StepCompleted { .. } => attempt.ended = Some(at),
            _ => {}
        }
        if let Some(error) = error_of(&record.event) {
            (attempt.ended, attempt.error) = (Some(at), Some(error));
        }
    }

    /// The attempts that began until a moment, oldest first, as clients see them.
    pub(super) fn until(self, moment: Timestamp) -> Vec<v1::EscalatedAttempt> {
        let mut found: Vec<Attempt> = self.found.into();
        found.retain(|attempt| attempt.started <= moment);
        found.sort_by_key(|attempt| (attempt.started, attempt.branch, attempt.attempt));
        found.into_iter().map(shown).collect()
    }

    /// An attempt that began on one branch may continue on another.
    fn entry(&mut self, branch: u32, attempt: u32, at: Timestamp) -> &mut Attempt {
        let same = |known: &Attempt| (known.branch, known.attempt) == (branch, attempt);
        let place = match self.found.iter().rposition(same) {
            Some(place) => place,
            None => {
                if self.found.len() == MOST_ATTEMPTS {
                    self.found.pop_front();
                }
                self.found.push_back(Attempt {
                    branch,
                    attempt,
                    worker: String::new(),
                    started: at,
                    ended: None,
                    error: None,
                    usage: Usage::default(),
                    policy: None,
                });
                self.found.len() - 1
            }
        };
        &mut self.found[place]
    }
}

/// The attempt to run a step that a fact is about; compensations are not attempts to run it.
const fn attempt_of(fact: &Fact) -> Option<u32> {
    match fact {
        Fact::StepStarted { attempt, .. }
        | Fact::StepWaiting { attempt, .. }
        | Fact::CorrectionRequested { attempt, .. }
        | Fact::StepCompleted { attempt, .. }
        | Fact::AttemptFailed { attempt, .. }
        | Fact::ApprovalRejected { attempt, .. }
        | Fact::ApprovalExpired { attempt, .. } => Some(*attempt),
        Fact::TaskAssigned { task, .. }
        | Fact::UsageReported { task, .. }
        | Fact::PolicyDecided { task, .. }
            if !task.undo =>
        {
            Some(task.attempt)
        }
        _ => None,
    }
}

/// The error that an event reports.
pub(super) fn error_of(event: &Event) -> Option<ExecutionError> {
    let (step, attempt, message, category, code) = match &event.fact {
        Fact::AttemptFailed {
            step,
            attempt,
            failure,
        } => {
            let code = match failure.cause {
                _ if !failure.code.is_empty() => failure.code.to_string(),
                FailureCause::Reported => String::new(),
                cause => cause.as_str().to_owned(),
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
            let code = FailureCause::Rejected.as_str().to_owned();
            (step, attempt, message, ErrorCategory::Governance, code)
        }
        Fact::ApprovalExpired { step, attempt } => {
            let message = "nobody decided in time".to_owned();
            let code = FailureCause::Expired.as_str().to_owned();
            (step, attempt, message, ErrorCategory::Timeout, code)
        }
        _ => return None,
    };
    Some(ExecutionError {
        step: step.to_string(),
        message,
        native_code: code,
        category: Some(category),
        attempt: *attempt,
        at: Some(event.at),
    })
}

const fn word(decision: &PolicyDecision) -> &'static str {
    match decision {
        PolicyDecision::Allow => "allow",
        PolicyDecision::Deny { .. } => "deny",
        PolicyDecision::RequireApproval { .. } => "require_approval",
    }
}

fn shown(attempt: Attempt) -> v1::EscalatedAttempt {
    let (policy_rule, policy_decision) = attempt.policy.unwrap_or_default();
    v1::EscalatedAttempt {
        attempt: attempt.attempt,
        branch: attempt.branch,
        worker: attempt.worker,
        start_time: Some(convert::timestamp(attempt.started)),
        end_time: attempt.ended.map(convert::timestamp),
        error: attempt.error.map(convert::error),
        usage: Some(attempt.usage)
            .filter(|usage| !usage.is_zero())
            .map(convert::usage),
        policy_rule,
        policy_decision: policy_decision.to_owned(),
    }
}
