//! What a host does after a command.

use std::sync::Arc;

use jiff::Timestamp;
use stateway_machine::{
    ChildOrder, Data, Event, Failure, Obligation, TaskKey, TaskOrder, Timer, Withdrawn,
};
use stateway_model::Usage;

/// What a host does after a command, in the order of the fields: it stores the events, takes back and
/// ends what is not needed any more, and then begins what is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Step {
    /// The events to store. Without events the command had no effect, and the rest is empty too.
    pub events: Vec<Event>,
    /// The tasks that workers give back, or that no worker has to take any more.
    pub withdraw: Vec<Withdrawn>,
    /// The children whose parent step does not wait for them any more.
    pub end_children: Vec<EndedChild>,
    /// A retry, a fork or a repair replaced a part of the log. The host may have tasks and children that these events do
    /// not mention; it ends those that are not in [`crate::open_keys`].
    pub reconcile: bool,
    /// The execution waits for a slot.
    pub slot: bool,
    /// The execution got its slot with these events.
    pub started: bool,
    /// The tasks that are open. A host may know a task already, and then does nothing about it, unless
    /// the task is to be cancelled.
    pub start: Vec<TaskOrder>,
    /// The children to start.
    pub start_children: Vec<ChildOrder>,
    /// The children to cancel; the execution waits for their end.
    pub cancel_children: Vec<ChildOrder>,
    /// The timers that these events set. Timers that are not needed any more are rejected when they
    /// fire, so a host need not take them back.
    pub timers: Vec<TimerOrder>,
    /// The execution has ended; what its parent learns of it.
    pub ended: Option<Outcome>,
}

/// A timer to set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimerOrder {
    /// Which timer.
    pub timer: Timer,
    /// When it fires.
    pub due: Timestamp,
}

/// A child whose parent step does not wait for it any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedChild {
    /// The step of the parent and the attempt that started the child.
    pub key: TaskKey,
    /// The id of the child.
    pub id: Arc<str>,
    /// Whether the child is killed with its parent, without compensation.
    pub kill: bool,
}

/// The result of an execution, as its parent gets it.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The output, or why the step of the parent fails.
    pub result: Result<Data, Failure>,
    /// The usage of the execution, including its own children.
    pub usage: Usage,
}

/// The answer to an accepted command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The command led to events.
    Accepted,
    /// The command had been carried out before and had no further effect.
    NothingNew,
}

impl Step {
    /// The answer for the sender of the command.
    #[must_use]
    pub const fn answer(&self) -> Answer {
        if self.events.is_empty() {
            Answer::NothingNew
        } else {
            Answer::Accepted
        }
    }

    /// Adds what has to be done.
    pub(crate) fn owe(&mut self, owed: Obligation) {
        match owed {
            Obligation::Slot => self.slot = true,
            Obligation::Task(order) => self.start.push(order),
            Obligation::Child(order) if order.cancel => self.cancel_children.push(order),
            Obligation::Child(order) => self.start_children.push(order),
            Obligation::Timer { timer, due } => self.timers.push(TimerOrder { timer, due }),
        }
    }
}
