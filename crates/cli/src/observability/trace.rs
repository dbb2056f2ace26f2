//! Traces to an OTLP collector. Off by default.

use std::time::Duration;

use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::Subscriber;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Layer, layer};

use crate::config::Otlp;
use crate::failure::Failure;

/// The maximum time that an export may delay the gateway.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(3);

pub(super) struct Traces {
    provider: SdkTracerProvider,
}

impl Traces {
    /// Must be called inside the runtime that the exporter's connection is to live in.
    pub(super) fn to(otlp: &Otlp) -> Result<Self, Failure> {
        let exporter = SpanExporter::builder()
            .with_tonic()
            .with_endpoint(&otlp.endpoint)
            .with_timeout(EXPORT_TIMEOUT)
            .build()
            .map_err(|error| {
                Failure::usage(format!("otlp endpoint `{}`: {error}", otlp.endpoint))
                    .hint("Use the collector's gRPC address, for example http://127.0.0.1:4317.")
            })?;
        let resource = Resource::builder()
            .with_service_name(otlp.service_name.clone())
            .build();
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_resource(resource)
            .build();
        Ok(Self { provider })
    }

    pub(super) fn layer<S>(&self) -> impl layer::Layer<S> + use<S>
    where
        S: Subscriber + for<'span> LookupSpan<'span>,
    {
        // The exporter's own connection makes spans too; exporting those would never end.
        let ours = Targets::new().with_target("stateway", LevelFilter::INFO);
        tracing_opentelemetry::layer()
            .with_tracer(self.provider.tracer("stateway"))
            .with_filter(ours)
    }

    pub(super) fn finish(self) {
        if let Err(error) = self.provider.shutdown_with_timeout(EXPORT_TIMEOUT) {
            tracing::warn!(%error, "the last spans were not exported");
        }
    }
}
