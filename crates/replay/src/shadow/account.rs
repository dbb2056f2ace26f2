//! The course of each step in a log, in a form that can be compared with another log.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use stateway_model::Reason;

use stateway_machine::{
    Data, Event, ExecutionState, Fact, FailureCause, Plan, PolicyDecision, Resolution, SkipCause,
    State, Task, WaitFor, task_input,
};

/// What a log says.
#[derive(Debug)]
pub(super) struct Account {
    /// The steps that have begun, in the order in which they did.
    pub(super) order: Vec<Arc<str>>,
    pub(super) steps: BTreeMap<Arc<str>, StepAccount>,
    pub(super) state: ExecutionState,
    pub(super) reason: Option<Reason>,
    pub(super) output: Option<Data>,
    /// Completed steps that a rollback left as they are.
    pub(super) left: Vec<Arc<str>>,
    /// When each event happened, and where it is.
    pub(super) times: Vec<(Timestamp, u64)>,
}

/// What a log says of a step.
#[derive(Debug, Default)]
pub(super) struct StepAccount {
    pub(super) legs: Vec<Leg>,
    /// What each attempt was given.
    pub(super) inputs: Vec<(u64, u32, Data)>,
    pub(super) attempts: u32,
}

/// One thing that happened to a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Leg {
    pub(super) sequence: u64,
    pub(super) at: Timestamp,
    pub(super) kind: LegKind,
    pub(super) words: String,
}

/// What a leg is about, as far as a comparison cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LegKind {
    Attempt,
    Pause,
    Other,
}

impl StepAccount {
    /// Everything that happened to the step, on one line.
    pub(super) fn words(&self) -> String {
        self.words_from(0)
    }

    /// What happened to the step from a place on.
    pub(super) fn words_from(&self, place: usize) -> String {
        let legs = self.legs.get(place..).unwrap_or_default();
        let words: Vec<_> = legs.iter().map(|leg| leg.words.as_str()).collect();
        match (words.is_empty(), place) {
            (true, 1..) => "nothing more".to_owned(),
            _ => words.join(", "),
        }
    }
}

/// Reads the account of a log.
pub(super) fn of(plan: &Arc<Plan>, events: &[Event]) -> Account {
    let mut state = State::new(Arc::clone(plan));
    let mut order = Vec::new();
    let mut steps: BTreeMap<Arc<str>, StepAccount> = BTreeMap::new();
    for event in events {
        state.apply(event);
        let Some((step, kind, words)) = leg(event) else {
            continue;
        };
        if !steps.contains_key(step) {
            order.push(Arc::clone(step));
        }
        let account = steps.entry(Arc::clone(step)).or_default();
        account.legs.push(Leg {
            sequence: event.sequence,
            at: event.at,
            kind,
            words,
        });
        if let Some(attempt) = opened(&event.fact) {
            account.attempts = account.attempts.max(attempt);
            let task = Task::of(Arc::clone(step), attempt);
            if let Ok(input) = task_input(&state, &task) {
                account.inputs.push((event.sequence, attempt, input));
            }
        }
    }
    Account {
        order,
        steps,
        state: state.state(),
        reason: state.reason(),
        output: state.output().cloned(),
        left: state.left_behind().to_vec(),
        times: events
            .iter()
            .map(|event| (event.at, event.sequence))
            .collect(),
    }
}

impl Account {
    /// Where the last event is.
    pub(super) fn last(&self) -> u64 {
        self.times.last().map_or(0, |(_, sequence)| *sequence)
    }

    /// Where the last event by this time is.
    pub(super) fn by(&self, at: Timestamp) -> u64 {
        let count = self.times.partition_point(|(then, _)| *then <= at);
        self.times[..count]
            .last()
            .map_or(0, |(_, sequence)| *sequence)
    }
}

/// The attempt that a fact opens with an input of its own.
const fn opened(fact: &Fact) -> Option<u32> {
    match fact {
        Fact::StepStarted { attempt, .. }
        | Fact::CorrectionRequested { attempt, .. }
        | Fact::StepWaiting {
            attempt,
            wait: WaitFor::Child(_) | WaitFor::Approval(_),
            ..
        } => Some(*attempt),
        _ => None,
    }
}

/// What an event says of a step; nothing for what does not affect the outcome: which worker had a
/// task, its progress, its cost.
fn leg(event: &Event) -> Option<(&Arc<str>, LegKind, String)> {
    let step = event.fact.step()?;
    let other = |words: &str| Some((LegKind::Other, words.to_owned()));
    let (kind, words) = match &event.fact {
        Fact::StepStarted { attempt, .. } => (LegKind::Attempt, format!("attempt {attempt}")),
        Fact::CorrectionRequested { attempt, .. } => {
            (LegKind::Attempt, format!("correction, attempt {attempt}"))
        }
        Fact::StepWaiting { wait, .. } => (LegKind::Attempt, waits(wait)),
        Fact::RetryScheduled { at, .. } => (
            LegKind::Pause,
            format!("again after {}", span(event.at, *at)),
        ),
        Fact::AttemptFailed { failure, .. } => match failure.cause {
            FailureCause::TimedOut => other("timed out")?,
            FailureCause::WentSilent => other("worker went silent")?,
            FailureCause::InvalidOutput => other("output does not match")?,
            FailureCause::BadInput => other("could not start")?,
            FailureCause::QueueTimedOut => other("no worker took it")?,
            FailureCause::WorkerLost => other("workers lost")?,
            FailureCause::PolicyDenied => other("denied by policy")?,
            FailureCause::BudgetExceeded => other("budget used up")?,
            FailureCause::Reported | FailureCause::Rejected | FailureCause::Expired => {
                (LegKind::Other, format!("failed ({})", failure.category))
            }
        },
        Fact::StepCompleted { .. } => other("completed")?,
        Fact::StepSkipped { cause, .. } => match cause {
            SkipCause::Condition => other("skipped (condition)")?,
            SkipCause::Upstream(step) => (LegKind::Other, format!("skipped ({step} was)")),
            SkipCause::Failure => other("skipped (failure)")?,
        },
        Fact::OutcomeUnknown { .. } => other("outcome unknown")?,
        Fact::PolicyDecided {
            rule,
            decision: PolicyDecision::RequireApproval { role, .. },
            ..
        } => {
            let words = format!("needs an approval by {role} ({rule})");
            (LegKind::Other, words)
        }
        Fact::ApprovalGranted { .. } => other("granted")?,
        Fact::ApprovalRejected { .. } => other("rejected")?,
        Fact::ApprovalExpired { .. } => other("expired")?,
        Fact::ExecutionEscalated { .. } => other("escalated")?,
        Fact::EscalationResolved { resolution, .. } => match resolution {
            Resolution::Resume => other("resumed by a person")?,
            Resolution::Reassign { role } => (LegKind::Other, format!("reassigned to {role}")),
            Resolution::Cancel => other("cancelled by a person")?,
        },
        Fact::StepCompensationStarted { attempt, .. } => {
            let words = format!("compensation, attempt {attempt}");
            (LegKind::Attempt, words)
        }
        Fact::StepCompensationFailed {
            retry_at: Some(at), ..
        } => {
            let pause = span(event.at, *at);
            let words = format!("compensation failed, again after {pause}");
            (LegKind::Pause, words)
        }
        Fact::StepCompensationFailed { .. } => other("compensation failed")?,
        Fact::StepCompensated { .. } => other("compensated")?,
        _ => return None,
    };
    Some((step, kind, words))
}

fn waits(wait: &WaitFor) -> String {
    match wait {
        WaitFor::Timer => "sleeps".to_owned(),
        WaitFor::Signal(name) => format!("waits for signal {name}"),
        WaitFor::Approval(role) => format!("waits for an approval by {role}"),
        WaitFor::Child(definition) => format!("runs child {definition}"),
        WaitFor::Person => "waits for a person".to_owned(),
    }
}

fn span(from: Timestamp, to: Timestamp) -> String {
    let lasts: SignedDuration = to.duration_since(from);
    format!("{lasts:#}")
}
