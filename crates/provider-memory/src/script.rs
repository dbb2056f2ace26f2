//! What an execution is to do, and the pure evolution of one that does it.
//!
//! No clock, no IO: time arrives as an argument. `Run` is the state; `Ask` is what someone
//! wants of it.

mod ask;
mod catalogue;
mod check;
mod model;
mod run;
mod state;
mod wind_up;

use std::time::Duration;

use jiff::Timestamp;

pub(crate) use ask::{Ask, Refusal};
pub(crate) use catalogue::catalogue;
pub use check::{MOST_ATTEMPTS, MOST_STEPS, ScriptError};
pub use model::{
    Pause, Pose, PosedStep, RetryScript, Script, Stage, StepError, StepScript, WaitFor,
    WhenExhausted,
};
pub(crate) use run::Run;
pub(crate) use state::{Cause, Ending, Phase, StepRun, StepState};

/// The time this much later; the end of time when there is none.
pub(crate) fn after(time: Timestamp, pause: Duration) -> Timestamp {
    time.checked_add(pause).unwrap_or(Timestamp::MAX)
}
