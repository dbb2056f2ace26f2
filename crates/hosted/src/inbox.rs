//! Approvals and escalations of executions of the machine, read from their views and logs.
//!
//! Everything here is pure and the same on every engine: which requests an execution has, how each one
//! ended, the ids under which they are listed, and the answer to a decision that comes too late. The
//! providers of the built-in engine and of hosted executions add the reads and the writes.

mod answer;
mod attempt;
mod case;
mod docket;
mod id;
mod shown;

pub use answer::{changed, decided_before, is_over, resolution, resolved_before};
pub use attempt::step_attempt;
pub use case::{About, Case, Decision, Outcome, Stage, pending};
pub use docket::Docket;
pub use id::{CaseId, Kind};
pub use shown::{approval, details, escalation, roles};
