//! The one function that computes the sub-state of an execution of another engine, and why.
//!
//! Pure: a table, an observation and the time go in, a verdict comes out. The verdict borrows
//! its input, so that it is cheap, and only an explanation costs more. The built-in engine reports its
//! sub-states itself (`stateway_machine::sub_state`); for its executions the table only explains.

mod explain;
#[cfg(test)]
mod tests;

use jiff::Timestamp;
use stateway_model::{MappingBasis, Reason, SubState, Wait, WaitKind};

pub use explain::{Explanation, StepExplanation};

use crate::table::{Row, Scope};
use crate::{NativeState, Observation, RetryEvidence, RetryPhase, Table};

/// The verdict on an observation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Classified<'a> {
    /// The verdict on the execution as a whole.
    pub execution: Verdict<'a>,
    /// The verdict on each step, in the order of the observation.
    pub steps: Vec<Verdict<'a>>,
}

/// The verdict on an execution or a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict<'a> {
    /// Where it really is.
    pub sub_state: SubState,
    /// Why, where six words are not enough.
    pub reason: Option<Reason>,
    /// How this was arrived at.
    pub basis: MappingBasis,
    /// What decided.
    pub decision: Decision,
    /// The table row that applies; none for a state the table does not know.
    pub row: Option<&'a Row>,
    /// The scheduled attempt's time has passed and nothing new was seen.
    pub overdue: bool,
}

/// What decided a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// The table row alone.
    Row,
    /// The open steps; this one, by position, is the first that shows what the whole shows.
    Steps {
        /// Position in the observation's steps.
        deciding: usize,
    },
    /// The attempts.
    Attempts,
    /// The waits.
    Waits,
    /// Nothing: the state is in no table.
    Default,
    /// The engine alone: it reports the sub-state, and no row of its table contains the same.
    Reported,
    /// The execution as a whole has finished, and a step cannot outlive it.
    ExecutionFinished,
}

/// Says where an execution really is.
///
/// A row that is not refined decides alone: what an engine reports beside its own clear word is
/// detail, and may be stale. A refined row is decided by the first of these that says something:
/// the open steps (running > backing-off > error > waiting), the attempts, the waits, the row.
#[must_use]
pub fn classify<'a>(table: &'a Table, observation: &Observation, now: Timestamp) -> Classified<'a> {
    let mut steps: Vec<Verdict<'a>> = observation
        .steps
        .iter()
        .map(|step| {
            let evidence = Evidence::new(step.retry.as_ref(), &step.waits, now);
            match step.reported {
                Some(reported) => {
                    let row = table.find(Scope::Step, &step.native);
                    of_engine(row, reported, None, &evidence)
                }
                None => verdict(table, Scope::Step, &step.native, None, &evidence),
            }
        })
        .collect();
    let evidence = Evidence::new(observation.retry.as_ref(), &observation.waits, now);
    let (scope, native) = (Scope::Execution, &observation.native);
    let execution = match observation.reported {
        Some(reported) => {
            let mut all = steps.iter().enumerate();
            let deciding = all.find(|(_, step)| step.shows(reported));
            of_engine(table.find(scope, native), reported, deciding, &evidence)
        }
        None => {
            let decides = !observation.steps_are_detail;
            let open = decides.then(|| open_steps(&steps)).flatten();
            verdict(table, scope, native, open, &evidence)
        }
    };
    if execution.sub_state.is_terminal() {
        steps.iter_mut().for_each(close);
    }
    Classified { execution, steps }
}

/// What the open steps together show, and the first step that shows it. A step that has not started
/// is not open. Among waiting steps, one that no worker can take decides: it is the one to act on.
fn open_steps<'a>(steps: &[Verdict<'a>]) -> Option<(usize, Verdict<'a>)> {
    let begun = |step: &&Verdict<'a>| step.reason != Some(Reason::NotStarted);
    let shown = SubState::of_open_steps(steps.iter().filter(begun).map(|step| step.sub_state))?;
    let shows = |step: &Verdict<'a>| begun(&step) && step.sub_state == shown;
    let unserved = |step: &Verdict<'a>| shows(step) && step.reason == Some(Reason::NoWorker);
    let deciding = steps
        .iter()
        .position(unserved)
        .or_else(|| steps.iter().position(shows))?;
    Some((deciding, steps[deciding]))
}

impl Verdict<'_> {
    /// Whether a step has started and shows the same as its execution.
    fn shows(&self, (sub_state, reason): (SubState, Option<Reason>)) -> bool {
        let begun = self.reason != Some(Reason::NotStarted);
        begun && self.sub_state == sub_state && (reason.is_none() || self.reason == reason)
    }
}

/// The verdict of an engine that computes the sub-state itself. The row and the step only explain it.
fn of_engine<'a>(
    row: Option<&'a Row>,
    (sub_state, reason): (SubState, Option<Reason>),
    deciding: Option<(usize, &Verdict<'_>)>,
    evidence: &Evidence<'_>,
) -> Verdict<'a> {
    let decision = match row {
        Some(row) if row.refine => match deciding {
            Some((deciding, _)) => Decision::Steps { deciding },
            None if evidence.waits().is_some() => Decision::Waits,
            None => Decision::Row,
        },
        Some(row) if (row.sub_state, row.reason) == (sub_state, reason) => Decision::Row,
        _ => Decision::Reported,
    };
    let basis = match (decision, row) {
        (Decision::Row, Some(row)) => row.basis,
        (Decision::Reported, _) => MappingBasis::Native,
        _ => MappingBasis::Derived,
    };
    let overdue = deciding.map_or_else(|| evidence.is_overdue(), |(_, step)| step.overdue);
    Verdict {
        sub_state,
        reason,
        basis,
        decision,
        row,
        overdue: sub_state == SubState::BackingOff && overdue,
    }
}

/// Engines leave pending work behind in runs that were ended from outside.
fn close(step: &mut Verdict<'_>) {
    let row_is_open = step.row.is_some_and(|row| !row.sub_state.is_terminal());
    if step.decision == Decision::Reported && row_is_open {
        step.basis = MappingBasis::Derived;
        step.decision = Decision::ExecutionFinished;
    }
    if !step.sub_state.is_terminal() {
        step.sub_state = SubState::Failed;
        step.reason = step
            .reason
            .filter(|reason| *reason == Reason::NotStarted)
            .or(Some(Reason::Cancelled));
        step.basis = MappingBasis::Derived;
        step.decision = Decision::ExecutionFinished;
        step.overdue = false;
    }
}

/// Attempts and waits of an execution or a step.
struct Evidence<'o> {
    retry: Option<&'o RetryEvidence>,
    waits: &'o [Wait],
    now: Timestamp,
}

impl<'o> Evidence<'o> {
    fn new(retry: Option<&'o RetryEvidence>, waits: &'o [Wait], now: Timestamp) -> Self {
        Self { retry, waits, now }
    }

    /// What the attempts say, if anything.
    fn attempts(&self) -> Option<(SubState, Option<Reason>)> {
        match self.retry?.phase {
            RetryPhase::UnderWay => None,
            RetryPhase::BetweenAttempts => Some((SubState::BackingOff, None)),
            RetryPhase::Exhausted => Some((SubState::Error, Some(Reason::RetriesExhausted))),
        }
    }

    /// What the waits say, if anything. Whatever also waits for capacity is ready to run.
    fn waits(&self) -> Option<(SubState, Option<Reason>)> {
        let first = self.waits.first()?;
        if !self.waits.iter().all(Wait::is_outside) {
            return None;
        }
        let reason = match first.kind {
            WaitKind::Signal | WaitKind::Approval | WaitKind::Callback => Reason::AwaitingInput,
            WaitKind::Timer => Reason::AwaitingTimer,
            WaitKind::Child => Reason::AwaitingChild,
            WaitKind::Escalation => return Some((SubState::Error, Some(Reason::Escalated))),
            WaitKind::Capacity => return None,
        };
        Some((SubState::Waiting, Some(reason)))
    }

    fn is_overdue(&self) -> bool {
        let next = self.retry.and_then(|retry| {
            let jitter = retry.jitter.unwrap_or_default();
            retry.next_attempt_time?.checked_add(jitter).ok()
        });
        next.is_some_and(|next| next < self.now)
    }
}

fn verdict<'a>(
    table: &'a Table,
    scope: Scope,
    native: &NativeState,
    open: Option<(usize, Verdict<'a>)>,
    evidence: &Evidence<'_>,
) -> Verdict<'a> {
    let Some(row) = table.find(scope, native) else {
        return Verdict {
            sub_state: SubState::Running,
            reason: None,
            basis: MappingBasis::Defaulted,
            decision: Decision::Default,
            row: None,
            overdue: false,
        };
    };
    let (sub_state, reason, decision) = decide(row, open, evidence);
    let basis = if decision == Decision::Row {
        row.basis
    } else {
        MappingBasis::Derived
    };
    let overdue = sub_state == SubState::BackingOff
        && match open {
            Some((_, step)) if matches!(decision, Decision::Steps { .. }) => step.overdue,
            _ => evidence.is_overdue(),
        };
    Verdict {
        sub_state,
        reason,
        basis,
        decision,
        row: Some(row),
        overdue,
    }
}

fn decide(
    row: &Row,
    open: Option<(usize, Verdict<'_>)>,
    evidence: &Evidence<'_>,
) -> (SubState, Option<Reason>, Decision) {
    if row.refine {
        if let Some((deciding, step)) = open {
            return (
                step.sub_state,
                row.reason.or(step.reason),
                Decision::Steps { deciding },
            );
        }
        if let Some((sub_state, reason)) = evidence.attempts() {
            return (sub_state, row.reason.or(reason), Decision::Attempts);
        }
        if let Some((sub_state, reason)) = evidence.waits() {
            return (sub_state, row.reason.or(reason), Decision::Waits);
        }
    }
    (row.sub_state, row.reason, Decision::Row)
}
