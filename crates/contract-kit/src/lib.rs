//! The contract of [`Provider`](stateway_provider_api::Provider) as named cases.
//!
//! An adapter implements [`Harness`] (make a fresh provider on a fresh upstream) and [`Subject`]
//! (stage a scene, disturb the upstream, restart the provider), and its contract test is
//!
//! ```text
//! fn main() -> std::process::ExitCode {
//!     stateway_contract_kit::main("restate", MockedRestate)
//! }
//! ```
//!
//! Each case is a test of its own with a fresh provider, named after the rule it checks. Cases
//! are chosen by capability, and "capability off" is checked too. What cannot be checked is
//! counted as skipped, with its reason; a skip is never silent.
//!
//! The kit is tested by providers with one defect each: see the tests of the reference provider.

mod case;
mod cases;
mod harness;
mod run;
mod stage;

pub use case::{Case, Outcome, Stop};
pub use cases::all as cases;
pub use harness::{Fault, Harness, Scene, Skip, Subject, Workload};
pub use run::{main, run};
pub use stage::Stage;
