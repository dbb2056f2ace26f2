//! The contract kit over gRPC: the same cases as in process, against a provider in another process.
//!
//! - [`WireHarness`] drives a provider that serves `stateway.provider.v1.Staging` beside the contract.
//!   `stateway conformance` runs it; see [`Report`].
//! - [`StagedProvider`] serves any harness of the kit with its Staging service.
//! - [`OverWire`] joins both: an adapter's own harness passes the kit through the wire, so that both ways
//!   stay equal.

mod harness;
mod junit;
mod over_wire;
mod report;
mod scene;
mod staging;
mod wire_case;

pub use harness::WireHarness;
pub use junit::junit;
pub use over_wire::OverWire;
pub use report::{CaseResult, Report, Verdict, run};
pub use staging::StagedProvider;
