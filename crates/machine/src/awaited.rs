//! What someone outside could do next. Together with the obligations it answers the question
//! "what moves this execution on?" for every state that is not terminal.

use std::sync::Arc;

use crate::event::WaitFor;
use crate::{ExecutionState, State};

/// Something outside that moves an execution on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Awaited {
    /// Someone or something triggers it.
    Trigger,
    /// Someone resumes it.
    Resume,
    /// A message of this name arrives.
    Signal {
        /// The step that waits.
        step: Arc<str>,
        /// The message's name.
        name: Arc<str>,
    },
    /// Someone of this role decides.
    Approval {
        /// The step that waits.
        step: Arc<str>,
        /// The request; a decision has to name it.
        attempt: u32,
        /// The role.
        role: Arc<str>,
    },
    /// Someone decides about an escalated step.
    Person {
        /// The step.
        step: Arc<str>,
    },
}

/// Everything outside that would move the execution on.
#[must_use]
pub fn awaited(state: &State) -> Vec<Awaited> {
    let mut found = Vec::new();
    match state.state() {
        ExecutionState::Created => found.push(Awaited::Trigger),
        ExecutionState::Paused => found.push(Awaited::Resume),
        _ => {}
    }
    for ix in &state.head.open {
        let (step, run) = (state.plan().name(*ix), state.run(*ix));
        match &run.wait {
            Some(WaitFor::Signal(name)) => {
                found.push(Awaited::Signal {
                    step,
                    name: Arc::clone(name),
                });
            }
            Some(WaitFor::Approval(role)) => found.push(Awaited::Approval {
                step,
                attempt: run.attempt,
                role: Arc::clone(role),
            }),
            Some(WaitFor::Person) => found.push(Awaited::Person { step }),
            Some(WaitFor::Timer | WaitFor::Child(_)) | None => {}
        }
    }
    found
}
