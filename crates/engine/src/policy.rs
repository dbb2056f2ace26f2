//! Policy: rules that decide before a task is handed out or an HTTP step is called. The host of the
//! engine configures the rules; the engine evaluates them and records the decision.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use stateway_model::Usage;

/// The task that is about to be handed out.
#[derive(Debug)]
pub struct PolicyQuestion<'q> {
    /// The execution's id.
    pub execution: &'q str,
    /// The name of its definition.
    pub definition: &'q str,
    /// The step.
    pub step: &'q str,
    /// `task` or `http`.
    pub kind: &'static str,
    /// The role a worker must have.
    pub role: &'q str,
    /// The skill a worker must have.
    pub skill: &'q str,
    /// The action of the step; for an HTTP step, the method and the URL.
    pub action: String,
    /// The labels of the execution.
    pub labels: &'q BTreeMap<String, String>,
    /// The tenant of the execution: its label `tenant`.
    pub tenant: &'q str,
    /// The person who started the execution.
    pub initiator: &'q str,
    /// The attempt, from 1.
    pub attempt: u32,
    /// What the execution has cost so far.
    pub usage: Usage,
}

/// What a rule decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ruling {
    /// The name of the rule.
    pub rule: Arc<str>,
    /// Its decision.
    pub verdict: PolicyVerdict,
}

/// The decision of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PolicyVerdict {
    /// The task is handed out.
    Allow,
    /// The attempt fails as a governance failure.
    Deny {
        /// Why, in one line.
        message: Arc<str>,
    },
    /// A person has to approve first.
    RequireApproval {
        /// The role that may decide.
        role: Arc<str>,
        /// How long the request is open; `None`: until the execution ends.
        expires_after: Option<Duration>,
    },
}

/// The rules. The first rule that applies decides; none means that the task is handed out.
pub trait Policy: Debug + Send + Sync {
    /// The ruling on a task.
    fn decide(&self, question: &PolicyQuestion<'_>) -> Option<Ruling>;
}
