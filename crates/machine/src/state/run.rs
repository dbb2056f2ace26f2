//! What is known of one step: its slot.

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use stateway_model::Progress;

use super::{is_default, present};
use crate::event::{Data, WaitFor, moment};
use crate::plan::StepIx;
use crate::{Failure, StepState};

/// What is known of one step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct StepRun {
    pub(crate) state: StepState,
    /// Dependencies that are not settled.
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) unmet: u32,
    /// The attempt that was opened last; 0 before the first.
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) attempt: u32,
    /// Attempts that failed since the step was last begun afresh.
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) failures: u32,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) corrections: u32,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) undo_attempt: u32,
    #[serde(skip_serializing_if = "Option::is_none", with = "moment")]
    pub(crate) since: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none", with = "moment")]
    pub(crate) first_started: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none", with = "moment")]
    pub(crate) ended: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none", with = "moment")]
    pub(crate) failed_at: Option<Timestamp>,
    /// When the attempt or the wait times out.
    #[serde(skip_serializing_if = "Option::is_none", with = "moment")]
    pub(crate) due: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none", with = "moment")]
    pub(crate) heartbeat_due: Option<Timestamp>,
    /// When the next attempt starts, or a sleep ends.
    #[serde(skip_serializing_if = "Option::is_none", with = "moment")]
    pub(crate) resume_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) worker: Option<Arc<str>>,
    /// The role a person gave it to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) role: Option<Arc<str>>,
    /// How far the present attempt is; nothing once the step is done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) progress: Option<Arc<Progress>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) wait: Option<WaitFor>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) feedback: Option<Arc<str>>,
    /// What a person gave it instead of what its definition says.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub(crate) given: Option<Data>,
    /// What a person said when it was to be done again; a validator's words come first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) advice: Option<Arc<str>>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub(crate) output: Option<Data>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) failure: Option<Arc<Failure>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) decision: Option<Decision>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) completed_before: Option<StepIx>,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) skipped_by_failure: bool,
}

/// How an approval was decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Decision {
    pub(crate) attempt: u32,
    pub(crate) grant: bool,
    pub(crate) by: Arc<str>,
}

impl StepRun {
    pub(crate) const fn new(unmet: u32) -> Self {
        Self {
            state: StepState::Pending,
            unmet,
            attempt: 0,
            failures: 0,
            corrections: 0,
            undo_attempt: 0,
            since: None,
            first_started: None,
            ended: None,
            failed_at: None,
            due: None,
            heartbeat_due: None,
            resume_at: None,
            worker: None,
            role: None,
            progress: None,
            wait: None,
            feedback: None,
            given: None,
            advice: None,
            output: None,
            failure: None,
            decision: None,
            completed_before: None,
            skipped_by_failure: false,
        }
    }

    /// True when an attempt is out with a worker, or ready for one.
    pub(crate) const fn has_open_attempt(&self) -> bool {
        matches!(self.state, StepState::Running | StepState::Correcting)
            || matches!(self.state, StepState::Compensating) && self.resume_at.is_none()
    }
}

impl Default for StepRun {
    fn default() -> Self {
        Self::new(0)
    }
}
