//! What a watch covers and what its stream reports.

use futures::stream::BoxStream;
use stateway_model::ExecutionId;

use crate::filter::Hints;
use crate::{Capabilities, Observation, Result, Verb};

/// What a provider reports to one watch. See [`Provider::watch`](crate::Provider::watch).
pub type WatchStream = BoxStream<'static, Result<Watched>>;

/// One item of a [`WatchStream`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Watched {
    /// An execution as it is now. [`Observation::version`] places it among the other observations
    /// of the same execution.
    Seen(Box<Observation>),
    /// The engine no longer has this execution: it was purged or evicted, or its retention ended.
    Gone(ExecutionId),
    /// Everything that existed when the stream was opened has been reported. Sent once.
    InSync,
}

impl Watched {
    /// [`Watched::Seen`] without the box.
    #[must_use]
    pub fn seen(observation: Observation) -> Self {
        Self::Seen(Box::new(observation))
    }
}

/// Orders the observations of one execution: the greater version is the newer observation.
///
/// - Versions of one execution id never decrease, also not over a restart of the engine or when an
///   id is used again after a purge.
/// - Two observations of the same version may differ only in what is not part of the execution's
///   history, for example whether a worker is connected. Then the one that was read later counts.
/// - The three parts are compared in order; an engine with one counter uses [`Version::new`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version([u64; 3]);

impl Version {
    /// A version of an engine that counts changes.
    #[must_use]
    pub const fn new(count: u64) -> Self {
        Self([count, 0, 0])
    }

    /// A version in up to three parts, the most significant first.
    #[must_use]
    pub const fn of_parts(parts: [u64; 3]) -> Self {
        Self(parts)
    }

    /// The parts, the most significant first.
    #[must_use]
    pub const fn parts(self) -> [u64; 3] {
        self.0
    }
}

/// What a watch covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchScope {
    /// Every execution of the provider. Requires [`Capabilities::watch_all`].
    All,
    /// Executions of the provider that have what these hints say, for example those that have not finished.
    /// The executions that exist at the beginning may be narrowed to them; a change is reported whatever the
    /// execution has afterwards. Reporting more is right: the gateway ignores the rest. Requires
    /// [`Capabilities::watch_all`].
    Within(Box<Hints>),
    /// One execution. Requires [`Capabilities::watch_one`].
    One(ExecutionId),
    /// One execution, of which only the end is of interest: states in between may be left out, and
    /// should be where that costs the engine less. Requires [`Capabilities::watch_end`].
    End(ExecutionId),
}

impl WatchScope {
    /// The verb under which a watch of this scope is offered, measured and refused.
    #[must_use]
    pub const fn verb(&self) -> Verb {
        match self {
            Self::All | Self::Within(_) => Verb::WatchAll,
            Self::One(_) => Verb::WatchOne,
            Self::End(_) => Verb::WatchEnd,
        }
    }

    /// Whether a provider with these capabilities offers watches of this scope.
    #[must_use]
    pub const fn is_offered(&self, by: &Capabilities) -> bool {
        self.verb().is_offered(by)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_part_by_part() {
        let ordered = [[1, 0, 9], [1, 1, 0], [1, 1, 7], [2, 0, 0]].map(Version::of_parts);
        assert!(ordered.is_sorted());
        assert!(Version::new(2) > Version::of_parts([1, 9, 9]));
    }

    #[test]
    fn each_scope_has_its_own_capability() {
        let id = ExecutionId::new("a").unwrap();
        for (scope, name) in [
            (WatchScope::All, "watch_all"),
            (WatchScope::One(id.clone()), "watch_one"),
            (WatchScope::End(id), "watch_end"),
        ] {
            assert!(scope.is_offered(&Capabilities::ALL));
            let without = Capabilities::ALL.without(name).unwrap();
            assert!(!scope.is_offered(&without), "{name}");
        }
    }
}
