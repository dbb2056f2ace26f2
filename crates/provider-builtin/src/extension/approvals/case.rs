//! One approval or escalation of an execution, from the moment it was asked for to its end.

use std::cmp::Ordering;
use std::sync::Arc;

use jiff::Timestamp;
use stateway_engine::View;
use stateway_machine::{Awaited, Resolution};
use stateway_model::{ExecutionError, Reason, Step};

use super::id::{CaseId, Kind};

/// One approval or escalation.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Case {
    pub(super) branch: u32,
    pub(super) step: Arc<str>,
    pub(super) attempt: u32,
    /// Which request about the attempt, from 1: several policy rules may ask about one attempt.
    pub(super) ordinal: u32,
    pub(super) about: About,
    /// When it was asked for.
    pub(super) opened: Timestamp,
    /// The event of its branch that opened it, or carried it over from the branch before.
    pub(super) sequence: u64,
    pub(super) outcome: Outcome,
}

/// What a person decides about.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum About {
    Approval {
        role: Arc<str>,
        /// The policy rule that asks for it; none for an approval step.
        rule: Option<Arc<str>>,
        expires: Option<Timestamp>,
    },
    Escalation {
        /// The role that the definition names.
        role: Option<Arc<str>>,
        /// Only from a log.
        reason: Option<Reason>,
        error: Option<ExecutionError>,
    },
}

/// How far a case is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    Pending,
    Decided {
        grant: bool,
        decision: Decision,
    },
    Expired,
    Resolved {
        resolution: Resolution,
        decision: Decision,
    },
    Withdrawn,
}

/// Who decided, when and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Decision {
    pub(super) by: Arc<str>,
    pub(super) comment: Arc<str>,
    pub(super) at: Timestamp,
}

/// The outcome without its decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Pending,
    Granted,
    Rejected,
    Expired,
    Resolved,
    Withdrawn,
}

impl Case {
    pub(super) const fn kind(&self) -> Kind {
        match self.about {
            About::Approval { .. } => Kind::Approval,
            About::Escalation { .. } => Kind::Escalation,
        }
    }

    /// Whether a policy rule asks for it.
    pub(super) const fn is_of_a_rule(&self) -> bool {
        matches!(self.about, About::Approval { rule: Some(_), .. })
    }

    /// Whether another case is about the same attempt.
    pub(super) fn is_beside(&self, other: &Self) -> bool {
        let place = |case: &Self| (case.branch, case.attempt, case.kind());
        place(self) == place(other) && self.step == other.step
    }

    /// The id under which the case is listed.
    pub(super) fn id(&self) -> CaseId {
        CaseId {
            step: self.step.to_string(),
            attempt: self.attempt,
            ordinal: self.ordinal,
            branch: self.branch,
        }
    }

    /// The order of the cases of one execution in lists. A decision does not change it.
    pub(super) fn in_list(&self, other: &Self) -> Ordering {
        self.id().in_list(&other.id())
    }

    pub(super) const fn stage(&self) -> Stage {
        match self.outcome {
            Outcome::Pending => Stage::Pending,
            Outcome::Decided { grant: true, .. } => Stage::Granted,
            Outcome::Decided { grant: false, .. } => Stage::Rejected,
            Outcome::Expired => Stage::Expired,
            Outcome::Resolved { .. } => Stage::Resolved,
            Outcome::Withdrawn => Stage::Withdrawn,
        }
    }
}

/// What is pending in an execution, without reading its log. Only the log knows which request of an
/// attempt a policy rule's is.
pub(super) fn pending(view: &View) -> Vec<Case> {
    view.awaited
        .iter()
        .filter_map(|awaited| of_awaited(view, awaited))
        .collect()
}

fn of_awaited(view: &View, awaited: &Awaited) -> Option<Case> {
    let (step, attempt, branch, about) = match awaited {
        Awaited::Approval {
            step,
            attempt,
            branch,
            rule,
            role,
        } => {
            let about = About::Approval {
                role: Arc::clone(role),
                rule: rule.clone(),
                expires: deadline(view, step),
            };
            (step, attempt, branch, about)
        }
        Awaited::Person {
            step,
            attempt,
            branch,
            role,
        } => {
            let error = shown(view, step).and_then(|step| step.last_error.clone());
            let about = About::Escalation {
                role: role.clone(),
                reason: None,
                error,
            };
            (step, attempt, branch, about)
        }
        Awaited::Trigger | Awaited::Resume | Awaited::Signal { .. } => return None,
    };
    let wait = shown(view, step).and_then(|step| step.waits.first());
    Some(Case {
        branch: *branch,
        step: Arc::clone(step),
        attempt: *attempt,
        ordinal: 1,
        about,
        opened: wait.and_then(|wait| wait.since).unwrap_or_default(),
        sequence: 0,
        outcome: Outcome::Pending,
    })
}

fn shown<'v>(view: &'v View, step: &str) -> Option<&'v Step> {
    view.steps.iter().find(|shown| shown.name == step)
}

/// When the wait of a step ends by itself.
pub(super) fn deadline(view: &View, step: &str) -> Option<Timestamp> {
    shown(view, step)?.waits.first()?.deadline
}
