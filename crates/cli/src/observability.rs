//! Logs, traces and metrics: how the gateway can be watched.

mod log;
mod metrics;
mod trace;

pub use log::{Telemetry, install};
pub use metrics::Metrics;
