//! Views of executions, with what only this engine knows: its rows, its workers.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::coverage::Coverage;
use crate::store::ExecutionRow;
use jiff::Timestamp;
pub use stateway_driver::{Parent, PauseKind, QueueCause, View};
use stateway_driver::{TaskCoverage, ViewOrigin};
use stateway_machine::{Data, Seeking, State, Times};
use stateway_model::{ExecutionError, Reason, SubState, Usage};

/// The facts about an execution beside its log; they never change.
#[derive(Debug, Clone)]
pub(crate) struct Origin {
    pub(crate) number: i64,
    pub(crate) id: Arc<str>,
    pub(crate) definition: Arc<str>,
    pub(crate) labels: Arc<BTreeMap<String, String>>,
    pub(crate) parent: Option<Parent>,
    /// How many executions it is a child of.
    pub(crate) depth: u32,
    pub(crate) not_before: Option<Timestamp>,
    /// The execution it was forked from.
    pub(crate) forked_from: Option<Arc<str>>,
}

impl Origin {
    /// The owner; empty if none was given.
    pub(crate) fn tenant(&self) -> &str {
        self.labels.get("tenant").map_or("", String::as_str)
    }
}

/// The connected workers, as far as they take tasks of one tenant.
struct ForTenant<'c> {
    coverage: &'c Coverage,
    tenant: &'c str,
}

impl TaskCoverage for ForTenant<'_> {
    fn serves(&self, task: &Seeking) -> bool {
        self.coverage.serves(task, self.tenant)
    }

    fn words(&self, task: &Seeking) -> String {
        self.coverage.words(task, self.tenant)
    }
}

/// Views of what the engine has.
pub(crate) trait EngineView {
    fn with_coverage(origin: &Origin, state: &State, coverage: &Coverage) -> Self;
    fn unreadable(kept: &ExecutionRow, why: &str) -> Self;
    fn set_aside(self, why: &str) -> Self;
}

impl EngineView for View {
    fn with_coverage(origin: &Origin, state: &State, coverage: &Coverage) -> Self {
        let tenant = origin.tenant();
        let shown = ViewOrigin {
            number: origin.number,
            id: Arc::clone(&origin.id),
            definition: Arc::clone(&origin.definition),
            labels: Arc::clone(&origin.labels),
            parent: origin.parent.clone(),
            not_before: origin.not_before,
        };
        Self::of(&shown, state, &ForTenant { coverage, tenant })
    }

    /// An execution whose log cannot be read, as its row has it.
    fn unreadable(kept: &ExecutionRow, why: &str) -> Self {
        let (origin, status) = (&kept.origin, &kept.status);
        Self {
            number: origin.number,
            id: Arc::clone(&origin.id),
            definition: Arc::clone(&origin.definition),
            revision: Arc::clone(&kept.revision),
            labels: Arc::clone(&origin.labels),
            parent: origin.parent.clone(),
            state: status.state,
            sub_state: SubState::Error,
            reason: Some(Reason::Stuck),
            pause: None,
            pause_cause: None,
            cancellation: None,
            reopened: None,
            forked_from: None,
            not_rolled_back: Vec::new(),
            unserved: Vec::new(),
            cause: Some(Reason::Stuck),
            queued: None,
            waits: Vec::new(),
            awaited: Vec::new(),
            steps: Vec::new(),
            step_states: Vec::new(),
            not_retried: Vec::new(),
            children: Vec::new(),
            last_error: Some(ExecutionError::message(format!(
                "the stored execution cannot be read: {why}"
            ))),
            times: Times {
                ended: status.ended,
                ..Times::default()
            },
            not_before: None,
            input: Data::default(),
            output: None,
            sequence: 0,
            branch: status.branch,
            initiator: "".into(),
            usage: Usage::default(),
            abandoned_usage: Usage::default(),
        }
    }

    /// The same of an execution that the engine does not process after a panic.
    fn set_aside(mut self, why: &str) -> Self {
        if !self.state.is_terminal() {
            (self.sub_state, self.reason) = (SubState::Error, Some(Reason::Stuck));
            self.last_error = Some(ExecutionError::message(why));
        }
        self
    }
}
