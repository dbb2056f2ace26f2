//! Figures of one provider's calls. Handles are made once: a call must not pay for a look-up.

use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};
use stateway_model::ProviderId;
use stateway_provider_api::{ErrorKind, Verb};

use super::breaker::Position;

pub(super) struct Meter {
    provider: String,
    verbs: Vec<VerbMeter>,
    breaker: Gauge,
}

struct VerbMeter {
    verb: Verb,
    ok: Counter,
    seconds: Histogram,
}

impl Meter {
    pub(super) fn new(provider: &ProviderId) -> Self {
        let provider = provider.to_string();
        let verbs = Verb::ALL.iter().map(|verb| VerbMeter {
            verb: *verb,
            ok: counter!(
                "stateway_upstream_calls_total",
                "provider" => provider.clone(), "verb" => verb.as_str(), "outcome" => "ok"
            ),
            seconds: histogram!(
                "stateway_upstream_seconds",
                "provider" => provider.clone(), "verb" => verb.as_str()
            ),
        });
        let breaker = gauge!("stateway_breaker_open", "provider" => provider.clone());
        breaker.set(0.0);
        Self {
            verbs: verbs.collect(),
            breaker,
            provider,
        }
    }

    /// Counts one call. No kind means that it succeeded.
    pub(super) fn record(&self, verb: Verb, failure: Option<ErrorKind>, took: Duration) {
        let Some(meter) = self.verbs.iter().find(|meter| meter.verb == verb) else {
            return;
        };
        meter.seconds.record(took);
        match failure {
            None => meter.ok.increment(1),
            Some(kind) => counter!(
                "stateway_upstream_calls_total",
                "provider" => self.provider.clone(),
                "verb" => verb.as_str(),
                "outcome" => kind.reason(),
            )
            .increment(1),
        }
    }

    /// Counts one call whose caller went away.
    pub(super) fn cancelled(&self, verb: Verb) {
        counter!(
            "stateway_upstream_calls_total",
            "provider" => self.provider.clone(),
            "verb" => verb.as_str(),
            "outcome" => "CANCELLED",
        )
        .increment(1);
    }

    /// 0 closed, 0.5 half open, 1 open.
    pub(super) fn breaker(&self, position: Position) {
        self.breaker.set(match position {
            Position::Closed => 0.0,
            Position::HalfOpen => 0.5,
            Position::Open => 1.0,
        });
    }
}
