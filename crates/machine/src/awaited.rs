//! The external actions that an open execution waits for. Together with the obligations they are
//! everything that can move the execution.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::event::WaitFor;
use crate::{ExecutionState, State};

/// An external action that an execution waits for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Awaited {
    /// A trigger.
    Trigger,
    /// A person resumes the execution.
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
        /// The branch of the log it belongs to.
        branch: u32,
        /// The policy rule that asked for it; none for an approval step.
        rule: Option<Arc<str>>,
        /// The role.
        role: Arc<str>,
    },
    /// Someone decides about an escalated step.
    Person {
        /// The step.
        step: Arc<str>,
        /// The attempt that was escalated; a decision has to name it.
        attempt: u32,
        /// The branch of the log it belongs to.
        branch: u32,
        /// The role that may decide; none where the definition names none.
        role: Option<Arc<str>>,
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
                branch: run.branch,
                rule: run.policy.as_ref().map(|asked| Arc::clone(&asked.rule)),
                role: Arc::clone(role),
            }),
            Some(WaitFor::Person) => found.push(Awaited::Person {
                step,
                attempt: run.attempt,
                branch: run.branch,
                role: run.escalation_role.clone(),
            }),
            Some(WaitFor::Timer | WaitFor::Child(_)) | None => {}
        }
    }
    found
}
