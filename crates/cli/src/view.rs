//! What `-o json` prints: the messages of the API.
//!
//! The output is stable: a key is always present, `null` or empty without a value, and is never
//! renamed or given another meaning. Times are RFC 3339, durations seconds as in protobuf's JSON
//! (`1.500s`).

mod approval;
mod definition;
mod event;
mod execution;
mod explanation;
mod intervention;
mod payload;
mod projection;
mod provider;
mod recovery;
mod step;
mod text;
mod time;
mod trigger;
mod worker;

pub use approval::{Approval, Decision, Escalation};
pub use definition::{Applied, Definition, Diagnostic, Portability};
pub use event::Event;
pub use execution::{Execution, ExecutionError, Progress, Retry, Step, Usage, Wait};
pub use explanation::{Explanation, StepExplanation};
pub use intervention::{Cancellation, Pause, Reopen};
pub use payload::payload;
pub use projection::{LastError, Move, Projection, StepProjection};
pub use provider::{Health, Provider, Row};
pub use recovery::{
    Branch, Divergence, Finding, Recovered, Remedy, Replayed, StepRow, Unrecorded, Verdict,
};
pub use step::{StepAttempt, StepDetail};
pub use text::Text;
pub use time::{duration, timestamp};
pub use trigger::{DisabledTrigger, Trigger};
pub use worker::{Queue, QueuedExecutions, QueuedTasks, ScheduledStart, Worker};
