//! The report of a conformance run, and the contract over the wire.

#![allow(clippy::unwrap_used)] // In a test, a wrong value is meant to end it.

#[path = "../../provider-memory/tests/harness/mod.rs"]
mod harness;
mod over_wire;
mod report;
