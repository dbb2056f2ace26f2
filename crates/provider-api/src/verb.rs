//! What can be asked of a provider, one word per method.

use std::fmt;

use crate::Capabilities;

/// A method of [`Provider`](crate::Provider), as errors, metrics and breakers name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    /// `start`
    Start,
    /// `get`
    Get,
    /// `observe`
    Observe,
    /// `list`
    List,
    /// `count`
    Count,
    /// `history`
    History,
    /// `watch` of one execution
    WatchOne,
    /// `watch` of one execution's end
    WatchEnd,
    /// `watch` of all executions
    WatchAll,
    /// `signal`
    Signal,
    /// `cancel`, gracefully
    Cancel,
    /// `cancel`, by force
    Kill,
    /// `pause`
    Pause,
    /// `resume`
    Resume,
    /// `retry_now`
    RetryNow,
    /// `retry_from`
    RetryFrom,
    /// `purge`
    Purge,
    /// `definitions`, `definition`
    Definitions,
    /// `apply_definition`, `validate_definition`
    ApplyDefinition,
    /// `health`
    Health,
}

impl Verb {
    /// Every verb.
    pub const ALL: &'static [Self] = &[
        Self::Start,
        Self::Get,
        Self::Observe,
        Self::List,
        Self::Count,
        Self::History,
        Self::WatchOne,
        Self::WatchEnd,
        Self::WatchAll,
        Self::Signal,
        Self::Cancel,
        Self::Kill,
        Self::Pause,
        Self::Resume,
        Self::RetryNow,
        Self::RetryFrom,
        Self::Purge,
        Self::Definitions,
        Self::ApplyDefinition,
        Self::Health,
    ];

    /// The word, as in metrics and messages.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Get => "get",
            Self::Observe => "observe",
            Self::List => "list",
            Self::Count => "count",
            Self::History => "history",
            Self::WatchOne => "watch-one",
            Self::WatchEnd => "watch-end",
            Self::WatchAll => "watch-all",
            Self::Signal => "signal",
            Self::Cancel => "cancel",
            Self::Kill => "kill",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::RetryNow => "retry-now",
            Self::RetryFrom => "retry-from",
            Self::Purge => "purge",
            Self::Definitions => "definitions",
            Self::ApplyDefinition => "apply-definition",
            Self::Health => "health",
        }
    }

    /// Whether a provider with these capabilities offers the verb. Getting, observing and
    /// health are asked of every provider.
    #[must_use]
    pub const fn is_offered(self, by: &Capabilities) -> bool {
        match self {
            Self::Start => by.start,
            Self::Get | Self::Observe | Self::Health => true,
            Self::List => by.list,
            Self::Count => by.count,
            Self::History => by.history,
            Self::WatchOne => by.watch_one,
            Self::WatchEnd => by.watch_end,
            Self::WatchAll => by.watch_all,
            Self::Signal => by.signal,
            Self::Cancel => by.cancel,
            Self::Kill => by.kill,
            Self::Pause => by.pause,
            Self::Resume => by.resume,
            Self::RetryNow => by.retry_now,
            Self::RetryFrom => by.retry_from,
            Self::Purge => by.purge,
            Self::Definitions => by.definitions,
            Self::ApplyDefinition => by.apply_definition,
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
