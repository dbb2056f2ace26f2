//! The subscriber that log lines and spans go to.

use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, fmt};

use super::trace::Traces;
use crate::config::{Log, LogFormat, Otlp};
use crate::exit::Exit;
use crate::failure::Failure;

/// Must be ended in order, so that the last lines and spans are written.
#[must_use]
pub struct Telemetry {
    traces: Option<Traces>,
}

impl Telemetry {
    /// Sends the lines and spans that are still buffered. Blocks for a few seconds at most.
    pub fn finish(self) {
        if let Some(traces) = self.traces {
            traces.finish();
        }
    }
}

/// Sets logs and traces up for the whole process. Lines go to standard error.
///
/// # Errors
/// A filter or an endpoint that cannot be used, or being called twice.
pub fn install(log: &Log, otlp: &Otlp, color: bool) -> Result<Telemetry, Failure> {
    let filter = EnvFilter::try_new(quiet(&log.filter))
        .map_err(|error| Failure::usage(format!("log filter `{}`: {error}", log.filter)))?;
    let lines = fmt::layer().with_writer(std::io::stderr).with_ansi(color);
    let lines = match log.format {
        LogFormat::Text => lines.with_target(false).boxed(),
        LogFormat::Json => lines
            .json()
            .flatten_event(true)
            .with_current_span(true)
            .with_span_list(false)
            .boxed(),
    };
    let traces = otlp.enabled.then(|| Traces::to(otlp)).transpose()?;
    let spans = traces.as_ref().map(Traces::layer);
    tracing_subscriber::registry()
        .with(spans)
        .with(lines.with_filter(filter))
        .try_init()
        .map_err(|error| Failure::new(Exit::Internal, format!("logs cannot be set up: {error}")))?;
    Ok(Telemetry { traces })
}

/// Targets that stay at `info` if the filter is only `debug` or `trace`: they log a line per frame.
const PLUMBING: [&str; 7] = [
    "h2",
    "hyper",
    "hyper_util",
    "opentelemetry",
    "opentelemetry_sdk",
    "tonic",
    "tower",
];

/// The filter `debug` or `trace` without the lines of the libraries. Any other filter is used unchanged.
fn quiet(filter: &str) -> String {
    if !matches!(filter, "debug" | "trace") {
        return filter.to_owned();
    }
    let plumbing = PLUMBING.iter().map(|target| format!(",{target}=info"));
    std::iter::once(filter.to_owned()).chain(plumbing).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_level_leaves_the_plumbing_out() {
        assert!(quiet("debug").starts_with("debug,h2=info,"));
        assert!(EnvFilter::try_new(quiet("trace")).is_ok());
        for exact in ["info", "warn", "debug,h2=trace", "stateway_gateway=debug"] {
            assert_eq!(quiet(exact), exact);
        }
    }
}
