//! How many calls this gateway makes: lists and counts are far scarcer than reads of one execution.

use stateway_provider_api::adapter::{Quotas, SkippingClock};

use crate::config::RequestQuotas;

/// What a server limits on its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Api {
    /// Lists and counts.
    Visibility = 0,
    /// Descriptions, histories and task queues.
    Reads = 1,
}

/// The part of each quota that watches leave to people who ask for something.
pub(crate) const RESERVE: f64 = 0.25;

pub(crate) fn quotas(config: &RequestQuotas, clock: &SkippingClock) -> Quotas<Api> {
    let sizes = [
        (Api::Visibility, config.visibility),
        (Api::Reads, config.reads),
    ];
    Quotas::new(sizes, clock)
}
