//! The input of a recorded run from outside: who did what when, and how long each answer took.
//!
//! Everything else in a log follows from this and the definition, so this is all that a shadow is
//! given. An answer (of a worker to a task, of a person to a request) is kept with the time since it
//! was asked for; an act without a question (a signal, a pause) keeps its own time.

mod people;
mod reader;
mod timers;

pub(super) use reader::of;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use stateway_model::Usage;

use super::window::Window;
use stateway_machine::{Data, Failure, PolicyDecision, Resolution, Task, Verb};

/// The input of a recorded run from outside.
#[derive(Debug, Default)]
pub(super) struct Recorded {
    /// Acts at a time of their own, in order.
    pub(super) acts: VecDeque<Act>,
    /// How each attempt was handed out, in order.
    pub(super) hand_outs: BTreeMap<Task, VecDeque<Reply<HandOut>>>,
    /// The answer to each attempt.
    pub(super) results: BTreeMap<Task, Reply<RecordedAnswer>>,
    /// For how long an attempt or a wait is known to have got no answer.
    pub(super) silent: BTreeMap<Task, SignedDuration>,
    pub(super) decisions: BTreeMap<Task, VecDeque<Reply<Vote>>>,
    pub(super) resolutions: BTreeMap<Arc<str>, VecDeque<Reply<Resolved>>>,
    pub(super) resumes: VecDeque<Reply<Arc<str>>>,
    /// Attempts that were started before their time because someone asked for it, and who.
    pub(super) hurried: BTreeMap<Task, Reply<Arc<str>>>,
    /// How late each timer fired.
    pub(super) late: BTreeMap<Window, Late>,
    /// Timers that were set when the log ended, and how long after they were set they are due.
    pub(super) unfired: BTreeMap<Window, SignedDuration>,
    /// How many attempts of each step were opened.
    pub(super) opened: BTreeMap<Arc<str>, u32>,
    /// When the last event happened.
    pub(super) until: Option<Timestamp>,
}

/// Something done at a time of its own.
#[derive(Debug)]
pub(super) struct Act {
    pub(super) at: Timestamp,
    pub(super) sequence: u64,
    pub(super) cause: Arc<str>,
    pub(super) deed: Deed,
}

/// What was done.
#[derive(Debug)]
pub(super) enum Deed {
    Command(Verb),
    /// A branch or a fork in its place, and for how long time stood still before it.
    Branch(Verb, SignedDuration),
    /// A branch or a fork whose step had not started yet. It is opened at the beginning of the
    /// shadow, so that the step has its new input whenever the shadow starts it; what else the
    /// branch changes follows as `Continue`.
    Early(Verb),
    /// The place of such a branch in the log.
    Continue {
        /// Who had the step run again; that person decides about nothing from here on.
        by: Option<Arc<str>>,
        /// What the part of the log cost that was left.
        spent: Usage,
        /// The same for each step.
        spent_by_step: BTreeMap<Arc<str>, Usage>,
        /// Another execution begins here, and has cost nothing yet.
        forked: bool,
    },
}

/// An answer to something, and how long it took.
#[derive(Debug, Clone)]
pub(super) struct Reply<T> {
    pub(super) after: SignedDuration,
    pub(super) sequence: u64,
    pub(super) cause: Arc<str>,
    pub(super) what: T,
}

/// What happened to an attempt before it was answered.
#[derive(Debug, Clone)]
pub(super) enum HandOut {
    /// The policy rules decided about it; a request for approval stands for this long.
    Policy {
        rule: Arc<str>,
        decision: PolicyDecision,
        lasts: Option<SignedDuration>,
    },
    /// A worker took it.
    Assigned {
        worker: Arc<str>,
        identity: Arc<str>,
    },
    /// A worker gave it back, or was lost with it.
    Released { lost: bool },
}

/// What a worker or a child answered.
#[derive(Debug, Clone)]
pub(super) enum RecordedAnswer {
    Completed(Data, Option<Usage>),
    Failed(Failure, Option<Usage>),
    /// The output did not fit its schema and was not stored.
    Refused(Failure, Option<Usage>),
}

/// A person's approval or rejection.
#[derive(Debug, Clone)]
pub(super) struct Vote {
    pub(super) grant: bool,
    pub(super) role: Arc<str>,
    pub(super) by: Arc<str>,
    pub(super) comment: Arc<str>,
}

/// A person's decision about an escalated step.
#[derive(Debug, Clone)]
pub(super) struct Resolved {
    pub(super) resolution: Resolution,
    pub(super) by: Arc<str>,
    pub(super) comment: Arc<str>,
    /// Whether it compensated, where the failure policy says otherwise.
    pub(super) compensate: Option<bool>,
}

/// How late a timer fired, and at which event; at none if its step went on before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Late {
    pub(super) by: SignedDuration,
    pub(super) fired_at: Option<u64>,
}
