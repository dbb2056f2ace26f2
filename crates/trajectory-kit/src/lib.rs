//! Conformance by trajectory: the same definition, the same outside world, the same trajectory on every
//! engine.
//!
//! A [`Scenario`] is a portable definition with what its worker, people and callers do. [`run`] plays it
//! against any provider of portable definitions and returns the trajectory: the sequence of (step,
//! attempt, sub-state, reason), step by step, of the execution and of its children. The files in `golden/`
//! are the trajectories of the built-in engine. Another engine shows the same, or its portability report
//! says before the start why it cannot run the definition, and the start is refused with the same words.
//!
//! [`play_random`] does the same with random definitions: the seed decides the definition and everything that the
//! outside world does.

#![allow(clippy::unwrap_used)] // In a test, a wrong value is meant to end it.

mod differences;
mod random;
mod run;
mod scenarios;
mod worker;

pub use differences::{DIFFERENCES, Difference, Engine, conform, differences, table};
pub use random::{name_of, play_random, sources};
pub use run::{Played, compare_some_at_a_time, run};
pub use scenarios::{SCENARIOS, scenario};

use stateway_model::{ErrorCategory, Reason, SubState};
use stateway_provider_api::{CancelMode, CompensationChoice};

/// A definition and what the outside world does.
#[derive(Debug)]
pub struct Scenario {
    /// Its name: that of the definition, of its role and of its golden file.
    pub name: &'static str,
    /// The steps and everything else of the definition but its name. `@` stands for the name of the
    /// scenario: the role of its worker, and the beginning of the names of other definitions.
    pub definition: &'static str,
    /// Other definitions: the end of the name, and the rest.
    pub others: &'static [(&'static str, &'static str)],
    /// What the worker answers, by `step.attempt` or, for a compensation, `step.undo.attempt`. Every other task
    /// completes with `null`.
    pub answers: &'static [(&'static str, Answer)],
    /// What callers and people do, in order.
    pub script: &'static [Act],
    /// The ends of the ids of executions that belong to it, for example `~sub~1`.
    pub children: &'static [&'static str],
}

/// What the worker does with a task.
#[derive(Debug, Clone, Copy)]
pub enum Answer {
    /// Completes it with this JSON.
    Complete(&'static str),
    /// Fails it.
    Fail(ErrorCategory),
    /// Fails the task without a retry.
    FailForGood(ErrorCategory),
    /// Never answers.
    Hang,
}

/// What a caller or a person does.
#[derive(Debug, Clone, Copy)]
pub enum Act {
    /// Waits until the execution, or the one whose id ends so, shows this.
    Until(&'static str, SubState, Option<Reason>),
    /// Waits until a worker has this step.
    Taken(&'static str),
    /// Sends a signal.
    Signal(&'static str, &'static str),
    /// Decides about an approval as `bob` with the role `boss`.
    Decide(&'static str, bool),
    /// Resolves an escalation as `olga` with the role `operator`.
    Resolve(&'static str, Resolve),
    /// Cancels the execution.
    Cancel(CancelMode, CompensationChoice),
    /// Pauses the execution.
    Pause,
    /// Resumes the execution.
    Resume,
    /// Starts the next attempts immediately.
    RetryNow,
    /// Runs the execution again from a step.
    RetryFrom(&'static str),
}

/// How an escalation is resolved.
#[derive(Debug, Clone, Copy)]
pub enum Resolve {
    /// The step runs again.
    Resume,
    /// The step goes to the role of the scenario's worker.
    Reassign,
    /// The execution is cancelled.
    Cancel,
}
