//! Asks each provider for its health, and reports it to the standard health service.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use axum::http::StatusCode;
use jiff::Timestamp;
use stateway_provider_api::{Call, ErrorKind, Verb};
use tokio_util::sync::CancellationToken;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

use crate::front::{Forward, Standby};

use super::{BREAKER_OPEN, PROVIDER_BUSY, Upstream, Upstreams};

/// Whether a provider answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Serving {
    #[default]
    NotAskedYet,
    Yes,
    No,
}

/// The words of the log.
impl std::fmt::Display for Serving {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::NotAskedYet => "unknown",
            Self::Yes => "serving",
            Self::No => "not serving",
        })
    }
}

/// What is known of a provider's health.
#[derive(Debug, Clone, Default)]
pub(crate) struct Report {
    pub(crate) serving: Serving,
    pub(crate) engine_version: String,
    pub(crate) detail: String,
    pub(crate) checked: Option<Timestamp>,
}

impl Upstream {
    /// The last health report.
    pub(crate) fn report(&self) -> Report {
        self.report
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The provider's name in the standard health service.
    pub(crate) fn health_name(&self) -> String {
        format!("provider.{}", self.id)
    }

    /// Asks the engine through the guard, so that this call too can close an open breaker.
    async fn ask(&self) -> Report {
        let call = Call::within(self.settings.timeout);
        let answer = self
            .within(&call)
            .call(Verb::Health, |provider, call| provider.health(call))
            .await;
        let checked = Some(Timestamp::now());
        match answer.map_err(|failed| failed.error) {
            Ok(health) => Report {
                serving: Serving::Yes,
                engine_version: health.engine_version,
                detail: health.detail,
                checked,
            },
            // Our own load, or the engine's request to slow down: neither means that it is down.
            Err(error) if error.kind == ErrorKind::Throttled => {
                let last = self.report();
                let serving = match error.reason() {
                    PROVIDER_BUSY => last.serving,
                    _ => Serving::Yes,
                };
                Report {
                    serving,
                    detail: error.into_message(),
                    checked,
                    ..last
                }
            }
            Err(error) => {
                let last = self.report();
                // The outage that opened the breaker says more than the breaker.
                let is_told = error.reason() == BREAKER_OPEN && last.serving == Serving::No;
                Report {
                    serving: Serving::No,
                    engine_version: last.engine_version,
                    detail: if is_told {
                        last.detail
                    } else {
                        error.into_message()
                    },
                    checked,
                }
            }
        }
    }
}

/// The health of the engines that run in this process. The outage of another engine is that
/// provider's alone; without its own engine the process cannot do its work.
pub(crate) struct EngineHealth(Vec<Arc<Upstream>>);

impl EngineHealth {
    pub(crate) fn new(upstreams: &Upstreams) -> Self {
        let own = upstreams.values().filter(|own| own.is_embedded());
        Self(own.cloned().collect())
    }

    /// The engines that do not serve, with the cause.
    fn down(&self) -> Vec<String> {
        self.lines(|report| report.serving == Serving::No)
    }

    /// The engines that serve, with a defect that an operator should know.
    fn impaired(&self) -> Vec<String> {
        self.lines(|report| report.serving != Serving::No && !report.detail.is_empty())
    }

    fn lines(&self, wanted: impl Fn(&Report) -> bool) -> Vec<String> {
        let reports = self.0.iter().map(|own| (own, own.report()));
        let wanted = reports.filter(|(_, report)| wanted(report));
        wanted
            .map(|(own, report)| format!("{}: {}\n", own.id, report.detail))
            .collect()
    }

    /// The answer of `/healthz`.
    pub(crate) fn page(&self) -> (StatusCode, String) {
        let down = self.down();
        if down.is_empty() {
            (StatusCode::OK, format!("ok\n{}", self.impaired().concat()))
        } else {
            let text = format!("not serving\n{}", down.concat());
            (StatusCode::SERVICE_UNAVAILABLE, text)
        }
    }
}

/// Keeps the health of every provider up to date.
pub(crate) struct Prober {
    pub(crate) upstreams: Arc<Upstreams>,
    pub(crate) engines: Arc<EngineHealth>,
    pub(crate) reporter: HealthReporter,
    /// The way to the gateway that owns a shared store.
    pub(crate) forward: Option<Arc<Forward>>,
    pub(crate) stop: CancellationToken,
}

impl Prober {
    /// Asks one provider repeatedly, until it is stopped.
    pub(crate) async fn run(self: Arc<Self>, upstream: Arc<Upstream>) {
        loop {
            let before = upstream.report().serving;
            let report = tokio::select! {
                () = self.stop.cancelled() => return,
                report = upstream.ask() => report,
            };
            let report = self.with_active_gateway(&upstream, report);
            let serving = report.serving;
            if serving != before {
                tracing::info!(
                    provider = %upstream.id, %before, now = %serving, detail = report.detail,
                    "provider health changed"
                );
            }
            *upstream
                .report
                .lock()
                .unwrap_or_else(PoisonError::into_inner) = report;
            let status = match serving {
                Serving::Yes => ServingStatus::Serving,
                Serving::No | Serving::NotAskedYet => ServingStatus::NotServing,
            };
            self.reporter
                .set_service_status(upstream.health_name(), status)
                .await;
            self.report_whole().await;
            let pause = upstream
                .settings
                .health_interval
                .max(Duration::from_millis(10));
            tokio::select! {
                () = self.stop.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
                () = upstream.reconnected() => {}
            }
        }
    }

    /// The report of a provider whose calls another gateway answers: it serves as long as that gateway is reached.
    fn with_active_gateway(&self, upstream: &Upstream, report: Report) -> Report {
        let is_shared = report.serving == Serving::No && upstream.active_gateway().is_some();
        let forward = self.forward.as_ref().filter(|_| is_shared);
        match forward.and_then(|forward| forward.standby()) {
            Some(Standby::Forwards(address)) => Report {
                serving: Serving::Yes,
                detail: format!(
                    "this gateway stands by; the active gateway at {address} answers its calls"
                ),
                engine_version: report.engine_version,
                checked: report.checked,
            },
            Some(Standby::Unreached(address)) => Report {
                detail: format!(
                    "{}; the active gateway at {address} cannot be reached",
                    report.detail
                ),
                ..report
            },
            None => report,
        }
    }

    /// Reports the health of the whole gateway: it serves unless an engine in its process does not.
    async fn report_whole(&self) {
        if self.stop.is_cancelled() {
            return;
        }
        let status = if self.engines.down().is_empty() {
            ServingStatus::Serving
        } else {
            ServingStatus::NotServing
        };
        self.reporter.set_service_status("", status).await;
    }

    /// Reports to the health service that nothing is served any more.
    pub(crate) async fn drain(&self) {
        self.reporter
            .set_service_status("", ServingStatus::NotServing)
            .await;
        for upstream in self.upstreams.values() {
            self.reporter
                .set_service_status(upstream.health_name(), ServingStatus::NotServing)
                .await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_has_words_for_the_health_of_a_provider() {
        let words = [Serving::NotAskedYet, Serving::Yes, Serving::No].map(|it| it.to_string());
        assert_eq!(words, ["unknown", "serving", "not serving"]);
    }
}
