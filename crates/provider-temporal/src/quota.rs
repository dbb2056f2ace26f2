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
    /// Long polls under way. Each counts as a read too.
    LongPolls = 2,
}

impl Api {
    pub(crate) const ALL: [Self; 3] = [Self::Visibility, Self::Reads, Self::LongPolls];
}

/// What a refusal is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limit {
    /// One workflow is busy; others are not.
    OneWorkflow,
    /// Calls of one kind that are under way at a time.
    Concurrent,
    /// Calls per second. Reads and long polls share such a limit; lists have their own.
    Rate,
    /// The server as a whole.
    Server,
}

impl Limit {
    /// Whether background calls of another kind pause if a call of this kind was refused.
    pub(crate) fn concerns(self, refused: Option<Api>, other: Api) -> bool {
        let Some(refused) = refused else {
            return self == Self::Server;
        };
        match self {
            Self::OneWorkflow => false,
            Self::Concurrent => refused == other,
            Self::Rate => (refused == Api::Visibility) == (other == Api::Visibility),
            Self::Server => true,
        }
    }
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
