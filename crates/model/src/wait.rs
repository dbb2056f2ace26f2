//! What an execution waits for.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::words::words;

words! {
    /// What kind of thing is being waited for.
    pub enum WaitKind as "wait kind" {
        /// A named message sent by `SignalExecution`.
        Signal = "signal",
        /// A person's decision about an approval request.
        Approval = "approval",
        /// A person's decision about an escalated step.
        Escalation = "escalation",
        /// A point in time.
        Timer = "timer",
        /// An answer from a system that was handed a token.
        Callback = "callback",
        /// A free worker, slot or lock.
        Capacity = "capacity",
        /// Another execution.
        Child = "child",
    }
}

words! {
    /// The capacity that a wait of kind `capacity` is for.
    pub enum Blocker as "blocker" {
        /// A worker has to take the task.
        Worker = "worker",
        /// A place among the active executions of the engine.
        Slot = "slot",
        /// The definition allows no more running executions.
        Concurrency = "concurrency",
        /// Memory for active executions.
        Memory = "memory",
        /// A lock or a capacity inside the provider's engine.
        Provider = "provider",
    }
}

/// One thing an execution or a step waits for.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Wait {
    /// What kind of thing.
    pub kind: WaitKind,
    /// Its name: the signal's, the role's, the child's. Empty when the engine does not tell.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Since when, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// When the wait ends by itself: a timer's end, an expiry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// What keeps it, in one line: how many workers are connected, for instance.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// Which capacity is missing, for a wait of kind `capacity`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocker: Option<Blocker>,
}

impl Wait {
    /// A wait of which only kind and name are known. Capacity is taken for one inside the provider's
    /// engine.
    #[must_use]
    pub fn new(kind: WaitKind, name: impl Into<String>) -> Self {
        Self {
            kind,
            name: name.into(),
            since: None,
            deadline: None,
            detail: String::new(),
            blocker: matches!(kind, WaitKind::Capacity).then_some(Blocker::Provider),
        }
    }

    /// A wait for this capacity.
    #[must_use]
    pub fn capacity(blocker: Blocker, name: impl Into<String>) -> Self {
        Self {
            blocker: Some(blocker),
            ..Self::new(WaitKind::Capacity, name)
        }
    }

    /// True when someone or something outside, or the clock, must act. Waiting for capacity is
    /// not such a wait: the work is ready and counts as `running`.
    #[must_use]
    pub const fn is_outside(&self) -> bool {
        !matches!(self.kind, WaitKind::Capacity)
    }
}
