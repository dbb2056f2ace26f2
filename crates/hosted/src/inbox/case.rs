//! One approval or escalation of an execution, from the moment it was asked for to its end.

use std::cmp::Ordering;
use std::sync::Arc;

use jiff::Timestamp;
use stateway_driver::View;
use stateway_machine::{Awaited, Resolution};
use stateway_model::{ExecutionError, Reason, Step};

use super::id::{CaseId, Kind};

/// One approval or escalation.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// The branch of the log.
    pub branch: u32,
    /// The step.
    pub step: Arc<str>,
    /// The attempt of the step.
    pub attempt: u32,
    /// Which request about the attempt, from 1: several policy rules may ask about one attempt.
    pub ordinal: u32,
    /// What a person decides about.
    pub about: About,
    /// When it was asked for.
    pub opened: Timestamp,
    /// The event of its branch that opened it, or carried it over from the branch before.
    pub sequence: u64,
    /// How far it is.
    pub outcome: Outcome,
}

/// What a person decides about.
#[derive(Debug, Clone, PartialEq)]
pub enum About {
    /// A step or a policy rule asks.
    Approval {
        /// The role that may decide.
        role: Arc<str>,
        /// The policy rule that asks for it; none for an approval step.
        rule: Option<Arc<str>>,
        /// When it expires, as it was asked for.
        expires: Option<Timestamp>,
    },
    /// A step failed and needs a person.
    Escalation {
        /// The role that the definition names.
        role: Option<Arc<str>>,
        /// Why; only from a log.
        reason: Option<Reason>,
        /// The failure that led to it.
        error: Option<ExecutionError>,
    },
}

/// How far a case is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// No decision yet.
    Pending,
    /// An approval was granted or rejected.
    Decided {
        /// Whether it was granted.
        grant: bool,
        /// By whom.
        decision: Decision,
    },
    /// No decision in time.
    Expired,
    /// An escalation was resolved.
    Resolved {
        /// How.
        resolution: Resolution,
        /// By whom.
        decision: Decision,
    },
    /// It is not needed any more.
    Withdrawn,
}

/// Who decided, when and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Who.
    pub by: Arc<str>,
    /// Why; may be empty.
    pub comment: Arc<str>,
    /// When.
    pub at: Timestamp,
}

/// The outcome without its decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// No decision yet.
    Pending,
    /// An approval was granted.
    Granted,
    /// An approval was rejected.
    Rejected,
    /// No decision in time.
    Expired,
    /// An escalation was resolved.
    Resolved,
    /// It is not needed any more.
    Withdrawn,
}

impl Case {
    /// Whether it is an approval or an escalation.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self.about {
            About::Approval { .. } => Kind::Approval,
            About::Escalation { .. } => Kind::Escalation,
        }
    }

    /// Whether a policy rule asks for it.
    #[must_use]
    pub const fn is_of_a_rule(&self) -> bool {
        matches!(self.about, About::Approval { rule: Some(_), .. })
    }

    /// Whether another case is about the same attempt.
    #[must_use]
    pub fn is_beside(&self, other: &Self) -> bool {
        let place = |case: &Self| (case.branch, case.attempt, case.kind());
        place(self) == place(other) && self.step == other.step
    }

    /// The id under which the case is listed.
    #[must_use]
    pub fn id(&self) -> CaseId {
        CaseId {
            step: self.step.to_string(),
            attempt: self.attempt,
            ordinal: self.ordinal,
            branch: self.branch,
        }
    }

    /// The order of the cases of one execution in lists. A decision does not change it.
    #[must_use]
    pub fn in_list(&self, other: &Self) -> Ordering {
        self.id().in_list(&other.id())
    }

    /// The outcome without its decision.
    #[must_use]
    pub const fn stage(&self) -> Stage {
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
#[must_use]
pub fn pending(view: &View) -> Vec<Case> {
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
