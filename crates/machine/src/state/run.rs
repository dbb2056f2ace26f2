//! What is known of one step: its slot.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use stateway_model::{Progress, Usage};

use super::{is_default, present};
use crate::event::{Data, WaitFor, moment};
use crate::plan::StepIx;
use crate::{ExecutionState, Failure, StepState, StepTimer};

/// What is known of one step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct StepRun {
    pub(crate) state: StepState,
    /// Dependencies that are not settled.
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) unmet: u32,
    /// The branch of the log that the present attempt or wait belongs to.
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) branch: u32,
    /// The newest event about the step.
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) last_event: u64,
    /// The attempt that was opened last; 0 before the first.
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) attempt: u32,
    /// Attempts that failed since the step was last begun afresh.
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) failures: u32,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) corrections: u32,
    /// The attempt to compensate it that was opened last; 0 before the first.
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) undo_attempt: u32,
    /// Attempts to compensate it that failed since the execution began to roll back.
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) undo_failures: u32,
    /// Its compensation succeeded; a person may still have to decide about the step.
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) compensated: bool,
    /// Its compensation has begun.
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) undoing: bool,
    #[serde(skip_serializing_if = "Option::is_none", with = "moment")]
    pub(crate) since: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none", with = "moment")]
    pub(crate) first_started: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none", with = "moment")]
    pub(crate) ended: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none", with = "moment")]
    pub(crate) failed_at: Option<Timestamp>,
    /// The attempt that `failure` is about.
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) failed_attempt: u32,
    /// When the attempt or the wait times out.
    #[serde(skip_serializing_if = "Option::is_none", with = "moment")]
    pub(crate) due: Option<Timestamp>,
    /// Whether `due` was set when a worker took the attempt, so that it ends when the worker does.
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) timed: bool,
    /// When the attempt fails if no worker takes it.
    #[serde(skip_serializing_if = "Option::is_none", with = "moment")]
    pub(crate) queue_due: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none", with = "moment")]
    pub(crate) heartbeat_due: Option<Timestamp>,
    /// When the next attempt starts, or a sleep ends.
    #[serde(skip_serializing_if = "Option::is_none", with = "moment")]
    pub(crate) resume_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) worker: Option<Arc<str>>,
    /// In whose name `worker` has the attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) identity: Option<Arc<str>>,
    /// Every worker that had an attempt of it, compensations included, and in whose name; they may not
    /// decide about it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) worked_on_by: Vec<Arc<str>>,
    /// How often an attempt of it was handed to a worker, compensations included: with the branch,
    /// the number of the present hand-out.
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) hand_outs: u32,
    /// The worker of the last hand-out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) handed_to: Option<Arc<str>>,
    /// Workers that were lost with this attempt in a row.
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) lost: u32,
    /// Its worker or child was asked to cancel, because the execution ends.
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) cancelling: bool,
    /// Its outcome is unknown, and the rollback has recorded that.
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) unknown: bool,
    /// An attempt without an answer may have had effects. A rollback takes this into account.
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) effects_unknown: bool,
    /// The request of a policy rule that the attempt waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) policy: Option<PolicyRequest>,
    /// The request of a policy rule that expired. The next attempt asks for the approval again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ask_again: Option<PolicyRequest>,
    /// The policy rules that a person approved for this step.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) approved_rules: Vec<Arc<str>>,
    /// The role that decides while the step is escalated; nothing where the definition names none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) escalation_role: Option<Arc<str>>,
    /// The step was escalated, and no person with the right to do so has resolved the escalation. The end
    /// of the execution does not change that.
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) unresolved: bool,
    /// The attempt that a person lets run although the budget is used up; 0: none.
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) over_budget: u32,
    /// The usage of its attempts so far.
    #[serde(skip_serializing_if = "Usage::is_zero")]
    pub(crate) usage: Usage,
    /// What its attempts cost on abandoned branches.
    #[serde(skip_serializing_if = "Usage::is_zero")]
    pub(crate) spent: Usage,
    /// The role that a person reassigned the step to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) role: Option<Arc<str>>,
    /// People who gave it to another role; they may not decide about a request of it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) reassigned_by: Vec<Arc<str>>,
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
    /// A person's message for the worker that runs it again; a validator's feedback comes first.
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

/// A policy rule's request for an approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PolicyRequest {
    pub(crate) rule: Arc<str>,
    /// The role that may decide.
    pub(crate) role: Arc<str>,
    /// How long the request is open; none: until the execution ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) lasts: Option<Duration>,
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
            branch: 0,
            last_event: 0,
            attempt: 0,
            failures: 0,
            corrections: 0,
            undo_attempt: 0,
            undo_failures: 0,
            undoing: false,
            compensated: false,
            since: None,
            first_started: None,
            ended: None,
            failed_at: None,
            failed_attempt: 0,
            due: None,
            timed: false,
            queue_due: None,
            heartbeat_due: None,
            resume_at: None,
            worker: None,
            identity: None,
            worked_on_by: Vec::new(),
            hand_outs: 0,
            handed_to: None,
            lost: 0,
            cancelling: false,
            unknown: false,
            effects_unknown: false,
            policy: None,
            ask_again: None,
            approved_rules: Vec::new(),
            escalation_role: None,
            unresolved: false,
            over_budget: 0,
            usage: Usage {
                input_tokens: 0,
                output_tokens: 0,
                cost_micros: 0,
            },
            spent: Usage {
                input_tokens: 0,
                output_tokens: 0,
                cost_micros: 0,
            },
            role: None,
            reassigned_by: Vec::new(),
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

    /// True when a worker or a child is busy with it, so that it can only be asked to stop.
    pub(crate) const fn is_in_hands(&self) -> bool {
        match self.state {
            StepState::Running | StepState::Correcting => self.worker.is_some(),
            StepState::Waiting => matches!(self.wait, Some(WaitFor::Child(_))),
            _ => false,
        }
    }

    /// The step runs again after a rollback. Effects that the rollback did not compensate stay unknown.
    pub(crate) const fn forget_rollback(&mut self) {
        self.effects_unknown |= self.unknown && !self.undoing;
        (self.unknown, self.undoing, self.undo_failures) = (false, false, 0);
        self.compensated = false;
    }

    /// When its compensation is tried again, while it waits for that.
    pub(crate) fn undo_retry_at(&self) -> Option<Timestamp> {
        self.resume_at
            .filter(|_| self.state == StepState::Compensating)
    }

    /// True when the newest attempt is one to compensate it that has not succeeded.
    pub(crate) const fn is_undo_under_way_or_failed(&self) -> bool {
        match self.state {
            StepState::Compensating => true,
            StepState::Failed => self.undoing,
            _ => false,
        }
    }

    /// The attempt that its timers belong to: the newest one, or the newest one to compensate it.
    pub(crate) const fn timed_attempt(&self) -> u32 {
        match self.state {
            StepState::Compensating => self.undo_attempt,
            _ => self.attempt,
        }
    }

    /// The timers of the step and the times they are set for, whether or not the execution lets them
    /// fire now.
    pub(crate) fn timers(&self) -> [(StepTimer, Option<Timestamp>); 4] {
        let undo = self.state == StepState::Compensating;
        let (limit, queue) = match (&self.wait, undo) {
            (Some(WaitFor::Approval(_)), _) => (StepTimer::Expiry, StepTimer::Queue),
            (_, true) => (StepTimer::UndoTimeout, StepTimer::UndoQueue),
            _ => (StepTimer::Timeout, StepTimer::Queue),
        };
        let again = match self.state {
            StepState::Compensating => StepTimer::UndoRetry,
            StepState::BackingOff => StepTimer::Retry,
            _ => StepTimer::Sleep,
        };
        // Only a worker can be silent; logs of version 1 set the time before one had the task.
        let silent = self.heartbeat_due.filter(|_| self.worker.is_some());
        [
            (limit, self.due),
            (queue, self.queue_due),
            (StepTimer::Heartbeat, silent),
            (again, self.resume_at),
        ]
    }

    /// The timers that can fire while the execution is in this state, and when they are due.
    pub(crate) fn set_timers(
        &self,
        at: ExecutionState,
    ) -> impl Iterator<Item = (StepTimer, Timestamp)> {
        let sleeps = self.wait == Some(WaitFor::Timer);
        let counts = move |kind: StepTimer| match kind {
            // Timeouts stand still while the execution is paused or escalated.
            StepTimer::Timeout
            | StepTimer::Queue
            | StepTimer::Expiry
            | StepTimer::UndoTimeout
            | StepTimer::UndoQueue => !at.is_held(),
            // Nothing is started while the execution is paused; the time is checked again afterwards.
            StepTimer::Retry => at.is_active(),
            StepTimer::Sleep => sleeps,
            StepTimer::Heartbeat | StepTimer::UndoRetry => true,
        };
        let set = self.timers().into_iter();
        set.filter(move |(kind, _)| counts(*kind))
            .filter_map(|(kind, due)| due.map(|due| (kind, due)))
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
