//! How a provider is, in words.

use maud::{Markup, html};
use stateway_proto::v1::ProviderHealth;
use stateway_proto::v1::provider_health::{Breaker, Status};

use crate::text::{said, said_within};
use crate::time::{Now, ago, moment};

/// A light with its word.
pub(super) fn light(health: &ProviderHealth) -> Markup {
    let (class, sign, word) = match health.status() {
        Status::Serving => ("up", "●", "answers"),
        Status::NotServing => ("down", "✕", "does not answer"),
        Status::Unknown | Status::Unspecified => ("unasked", "○", "not checked yet"),
    };
    html! { span.light.(class) { span aria-hidden="true" { (sign) } " " (word) } }
}

/// Everything that is known of it. When it was checked changes all the time, so lists leave it out.
pub(super) fn facts(health: &ProviderHealth, now: Option<Now>) -> Markup {
    let breaker = match health.breaker() {
        Breaker::Open => "open: calls are refused immediately until the provider answers again",
        Breaker::HalfOpen => "half open: one call is sent to test the provider",
        Breaker::Closed | Breaker::Unspecified => "closed: calls are sent",
    };
    html! {
        dl.known {
            @if !health.detail.is_empty() { dt { "It says" } dd { (said(&health.detail)) } }
            @if !health.engine_version.is_empty() {
                dt { "Version" } dd { (said_within(&health.engine_version, 80)) }
            }
            dt { "Breaker" } dd { (breaker) }
            dt { "Concurrent calls" } dd { (health.open_call_count) " of " (health.max_open_call_count) }
            @if let Some((time, now)) = moment(health.check_time.as_ref()).zip(now) {
                dt { "Checked" } dd { (ago(time, now)) }
            }
        }
    }
}
