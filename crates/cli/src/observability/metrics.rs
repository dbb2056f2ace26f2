//! Metrics, kept in memory and rendered for Prometheus when asked.

use std::sync::Arc;
use std::time::Duration;

use metrics_exporter_prometheus::{BuildError, PrometheusBuilder, PrometheusHandle};
use tokio::task::JoinHandle;

use crate::exit::Exit;
use crate::failure::Failure;

/// Histograms keep their samples until they are drained. Without scrapes, memory must not grow.
const UPKEEP: Duration = Duration::from_secs(5);

/// From a millisecond to the longest upstream timeout people set.
const SECONDS: [f64; 12] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0,
];

/// The process's metrics.
pub struct Metrics {
    handle: PrometheusHandle,
    upkeep: JoinHandle<()>,
}

impl Metrics {
    /// Sets metrics up for the whole process. Needs a runtime.
    ///
    /// # Errors
    /// Being called twice.
    pub fn install() -> Result<Self, Failure> {
        let internal = |error: String| {
            Failure::new(Exit::Internal, format!("metrics cannot be set up: {error}"))
        };
        let built = builder().map_err(|error| internal(error.to_string()))?;
        let recorder = built.build_recorder();
        let handle = recorder.handle();
        metrics::set_global_recorder(recorder).map_err(|error| internal(error.to_string()))?;
        let drained = handle.clone();
        let upkeep = tokio::spawn(async move {
            let mut ticks = tokio::time::interval(UPKEEP);
            loop {
                ticks.tick().await;
                drained.run_upkeep();
            }
        });
        Ok(Self { handle, upkeep })
    }

    /// Renders `/metrics`.
    #[must_use]
    pub fn page(&self) -> Arc<dyn Fn() -> String + Send + Sync> {
        let handle = self.handle.clone();
        Arc::new(move || handle.render())
    }
}

impl Drop for Metrics {
    fn drop(&mut self) {
        self.upkeep.abort();
    }
}

fn builder() -> Result<PrometheusBuilder, BuildError> {
    PrometheusBuilder::new().set_buckets(&SECONDS)
}
