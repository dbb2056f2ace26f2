//! The methods of a provider, one verb each.

use std::fmt;

use crate::Capabilities;

/// A method of [`Provider`](crate::Provider) or of one of its extensions, as errors, metrics and breakers name it.
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
    /// `cancel` with mode kill
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
    /// reading portable definitions
    PortableDefinitions,
    /// `apply_portable`
    ApplyPortable,
    /// `delete_portable`
    DeletePortable,
    /// `adopt`
    AdoptDefinition,
    /// `publish`
    PublishEvent,
    /// `switch`
    SwitchTrigger,
    /// `list_approvals`
    ListApprovals,
    /// `watch_approvals`
    WatchApprovals,
    /// `get_approval`
    GetApproval,
    /// `decide`
    DecideApproval,
    /// `list_escalations`
    ListEscalations,
    /// `get_escalation`
    GetEscalation,
    /// `resolve`
    ResolveEscalation,
    /// `connect`
    Work,
    /// `queue`
    Queue,
    /// `branches`
    Branches,
    /// `branch_events`
    BranchEvents,
    /// `step`
    Step,
    /// `export`
    Export,
    /// `replay`
    Replay,
    /// `project`
    Project,
    /// `verify`, `verify_page`, `total`
    Verify,
    /// `recover`
    Recover,
    /// `purge_executions`
    PurgeExecutions,
    /// `backup`
    Backup,
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
        Self::PortableDefinitions,
        Self::ApplyPortable,
        Self::DeletePortable,
        Self::AdoptDefinition,
        Self::PublishEvent,
        Self::SwitchTrigger,
        Self::ListApprovals,
        Self::WatchApprovals,
        Self::GetApproval,
        Self::DecideApproval,
        Self::ListEscalations,
        Self::GetEscalation,
        Self::ResolveEscalation,
        Self::Work,
        Self::Queue,
        Self::Branches,
        Self::BranchEvents,
        Self::Step,
        Self::Export,
        Self::Replay,
        Self::Project,
        Self::Verify,
        Self::Recover,
        Self::PurgeExecutions,
        Self::Backup,
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
            Self::PortableDefinitions => "portable-definitions",
            Self::ApplyPortable => "apply-portable-definition",
            Self::DeletePortable => "delete-portable-definition",
            Self::AdoptDefinition => "adopt-definition",
            Self::PublishEvent => "publish-event",
            Self::SwitchTrigger => "switch-trigger",
            Self::ListApprovals => "list-approvals",
            Self::WatchApprovals => "watch-approvals",
            Self::GetApproval => "get-approval",
            Self::DecideApproval => "decide-approval",
            Self::ListEscalations => "list-escalations",
            Self::GetEscalation => "get-escalation",
            Self::ResolveEscalation => "resolve-escalation",
            Self::Work => "work",
            Self::Queue => "queue",
            Self::Branches => "branches",
            Self::BranchEvents => "branch-events",
            Self::Step => "step",
            Self::Export => "export",
            Self::Replay => "replay",
            Self::Project => "project",
            Self::Verify => "verify",
            Self::Recover => "recover",
            Self::PurgeExecutions => "purge-executions",
            Self::Backup => "backup",
        }
    }

    /// Whether the verb changes something in the engine.
    #[must_use]
    pub const fn is_write(self) -> bool {
        match self {
            Self::Start
            | Self::Signal
            | Self::Cancel
            | Self::Kill
            | Self::Pause
            | Self::Resume
            | Self::RetryNow
            | Self::RetryFrom
            | Self::Purge
            | Self::ApplyDefinition
            | Self::ApplyPortable
            | Self::DeletePortable
            | Self::AdoptDefinition
            | Self::PublishEvent
            | Self::SwitchTrigger
            | Self::DecideApproval
            | Self::ResolveEscalation
            | Self::Recover
            | Self::PurgeExecutions => true,
            Self::Get
            | Self::Observe
            | Self::List
            | Self::Count
            | Self::History
            | Self::WatchOne
            | Self::WatchEnd
            | Self::WatchAll
            | Self::Definitions
            | Self::Health
            | Self::PortableDefinitions
            | Self::ListApprovals
            | Self::WatchApprovals
            | Self::GetApproval
            | Self::ListEscalations
            | Self::GetEscalation
            | Self::Work
            | Self::Queue
            | Self::Branches
            | Self::BranchEvents
            | Self::Step
            | Self::Export
            | Self::Replay
            | Self::Project
            | Self::Verify
            | Self::Backup => false,
        }
    }

    /// The verb of this word, as [`as_str`](Self::as_str) writes it.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|verb| verb.as_str() == word)
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
            Self::PortableDefinitions
            | Self::ApplyPortable
            | Self::DeletePortable
            | Self::AdoptDefinition => by.portable_definitions,
            Self::PublishEvent | Self::SwitchTrigger => by.triggers,
            Self::ListApprovals
            | Self::GetApproval
            | Self::DecideApproval
            | Self::ListEscalations
            | Self::GetEscalation
            | Self::ResolveEscalation => by.approvals,
            Self::WatchApprovals => by.watch_approvals,
            Self::Work | Self::Queue => by.workers,
            Self::Branches
            | Self::BranchEvents
            | Self::Step
            | Self::Export
            | Self::Replay
            | Self::Project => by.event_log,
            Self::Verify | Self::Recover => by.recovery,
            Self::PurgeExecutions | Self::Backup => by.store,
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
