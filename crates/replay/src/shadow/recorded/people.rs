//! What people and other systems did: signals, decisions, pauses, cancellations, and running a part of
//! the execution again.

use std::collections::BTreeMap;
use std::sync::Arc;

use stateway_definition::FailurePolicy;
use stateway_model::{Reason, Usage};

use super::reader::{Reader, reply};
use super::{Act, Deed, Late, Resolved, Vote};
use crate::shadow::straight::opens_early;
use stateway_machine::{
    CancelMode, Event, Fact, PauseCause, Resolution, StepTimer, Task, Timer, TurnCause, Verb,
    WaitFor,
};

impl Reader<'_> {
    pub(super) fn read_person(&mut self, event: &Event) {
        match &event.fact {
            Fact::SignalReceived { name, id, payload } => self.act(
                event,
                Verb::SendSignal {
                    name: Arc::clone(name),
                    id: Arc::clone(id),
                    payload: Arc::clone(payload),
                    by: Arc::clone(&event.actor),
                },
            ),
            Fact::ApprovalGranted {
                step, by, comment, ..
            } => self.voted(event, step, (true, by, comment)),
            Fact::ApprovalRejected {
                step, by, comment, ..
            } => self.voted(event, step, (false, by, comment)),
            Fact::ApprovalExpired { step, attempt } => {
                self.fired(event, step, StepTimer::Expiry, |run| run.due);
                self.unanswered(event, Task::of(Arc::clone(step), *attempt));
            }
            Fact::ExecutionPaused { cause } => {
                self.paused = Some(event.at);
                if let PauseCause::ByHand { by, comment } = cause {
                    let (by, comment) = (Arc::clone(by), Arc::clone(comment));
                    self.act(event, Verb::Pause { by, comment });
                }
            }
            Fact::ExecutionResumed { by } => self.resumed(event, by),
            Fact::ExecutionEscalated { step, .. } => {
                self.escalated.insert(Arc::clone(step), event.at);
            }
            Fact::EscalationResolved {
                step,
                attempt: _,
                resolution,
                by,
                comment,
            } => {
                let since = self.escalated.remove(step);
                let resolved = Resolved {
                    resolution: resolution.clone(),
                    by: Arc::clone(by),
                    comment: Arc::clone(comment),
                    compensate: self.chose_compensation(resolution),
                };
                let reply = reply(event, since, resolved);
                let queue = self.found.resolutions.entry(Arc::clone(step)).or_default();
                queue.push_back(reply);
            }
            _ => self.read_end(event),
        }
    }

    /// Whether a person who cancelled an escalation chose another way than the failure policy.
    fn chose_compensation(&self, resolution: &Resolution) -> Option<bool> {
        let next = self.next.filter(|_| *resolution == Resolution::Cancel)?;
        let compensated = matches!(next.fact, Fact::CompensationStarted { .. });
        let policy = self.state.plan().definition().failure_policy;
        (compensated != (policy == FailurePolicy::Compensate)).then_some(compensated)
    }

    /// What ended the execution or turned it back, and where its log continues as another branch.
    fn read_end(&mut self, event: &Event) {
        let ends = matches!(
            event.fact,
            Fact::CompensationStarted { .. }
                | Fact::CancellationStarted { .. }
                | Fact::ExecutionFailed { .. }
                | Fact::ExecutionCancelled { .. }
        );
        if ends {
            self.given_up(event);
        }
        match &event.fact {
            Fact::CompensationStarted {
                cause:
                    TurnCause::Cancelled {
                        by,
                        comment,
                        reason: None,
                    },
                ..
            } if !self.follows() => self.cancelled(event, CancelMode::Compensate, by, comment),
            Fact::CompensationStarted {
                cause: TurnCause::TimedOut,
                ..
            }
            | Fact::ExecutionFailed {
                step: None,
                reason: Reason::TimedOut,
                ..
            } => {
                if let Some(due) = self.state.deadline() {
                    let late = Late {
                        by: event.at.duration_since(due),
                        fired_at: Some(event.sequence),
                    };
                    let window = self.windows.of(Timer::Execution);
                    self.found.late.insert(window, late);
                }
            }
            Fact::ExecutionCancelled {
                by,
                reason: Reason::Killed,
                comment,
                ..
            } => self.cancelled(event, CancelMode::Kill, by, comment),
            Fact::ExecutionCancelled {
                by,
                reason: Reason::Cancelled,
                comment,
                ..
            }
            | Fact::CancellationStarted {
                by,
                reason: Reason::Cancelled,
                comment,
                ..
            } if !self.follows() => self.cancelled(event, CancelMode::Stop, by, comment),
            Fact::BranchOpened {
                branch,
                cutoff,
                by,
                redo,
                spent,
                spent_by_step,
                ..
            } => {
                let reopened = self.next.and_then(|next| match &next.fact {
                    Fact::ExecutionReopened { from, .. } => Some(*from),
                    _ => None,
                });
                let verb = Verb::OpenBranch {
                    branch: *branch,
                    cutoff: *cutoff,
                    by: Arc::clone(by),
                    redo: redo.clone(),
                    reopened,
                    spent: *spent,
                    spent_by_step: spent_by_step.clone(),
                };
                self.branched(event, verb);
            }
            Fact::ExecutionForked {
                from,
                branch,
                cutoff,
                by,
                redo: Some(redo),
                ..
            } => {
                let verb = Verb::Fork {
                    from: Arc::clone(from),
                    branch: *branch,
                    cutoff: *cutoff,
                    by: Arc::clone(by),
                    redo: redo.clone(),
                };
                self.branched(event, verb);
            }
            Fact::ExecutionForked { redo: None, .. } => self.deed(
                event,
                Deed::Continue {
                    by: None,
                    spent: Usage::default(),
                    spent_by_step: BTreeMap::new(),
                    forked: true,
                },
            ),
            _ => {}
        }
    }

    /// Whether a cancellation is the consequence of something else.
    fn follows(&self) -> bool {
        let resolved = self.last.is_some_and(|last| {
            let fact = &last.fact;
            matches!(fact, Fact::EscalationResolved { resolution, .. } if *resolution == Resolution::Cancel)
        });
        resolved || self.state.state().is_ending()
    }

    fn cancelled(&mut self, event: &Event, mode: CancelMode, by: &Arc<str>, comment: &Arc<str>) {
        let (by, comment) = (Arc::clone(by), Arc::clone(comment));
        self.act(event, Verb::Cancel { mode, by, comment });
    }

    /// Time stood still between the event before and this one, as `evolve` has it.
    fn branched(&mut self, event: &Event, verb: Verb) {
        let last = self.last.map_or(event.at, |last| last.at);
        let still = event.at.duration_since(last);
        let times = self.opened.values_mut();
        let times = times.chain(self.escalated.values_mut());
        for at in times.chain(self.paused.as_mut()) {
            *at = at.checked_add(still).unwrap_or(*at);
        }
        if opens_early(&event.fact, &self.begun) {
            self.open_early(event, verb);
        } else {
            self.deed(event, Deed::Branch(verb, still));
        }
    }

    /// What a step is given counts from its first attempt on, which the shadow may start before the
    /// time of this event. The person who opened the branch counts from this event on. So does the
    /// cost of the branch that was left, unless no step has begun: then the first step to start is
    /// limited by that cost.
    fn open_early(&mut self, event: &Event, mut verb: Verb) {
        let none = || (Usage::default(), BTreeMap::new());
        let deferred = !self.begun.is_empty();
        let (by, redo, (spent, spent_by_step), forked) = match &mut verb {
            Verb::OpenBranch {
                by,
                redo,
                spent,
                spent_by_step,
                ..
            } => {
                let spent = if deferred {
                    (std::mem::take(spent), std::mem::take(spent_by_step))
                } else {
                    none()
                };
                (by, redo.as_ref(), spent, false)
            }
            Verb::Fork { by, redo, .. } => (by, Some(&*redo), none(), true),
            _ => return,
        };
        let by = redo.map(|_| Arc::clone(by));
        let Some(created) = self.found.acts.front() else {
            return;
        };
        let early = Act {
            at: created.at,
            sequence: created.sequence,
            cause: Arc::clone(&event.causation),
            deed: Deed::Early(verb),
        };
        self.early += 1;
        self.found.acts.insert(self.early, early);
        let place = Deed::Continue {
            by,
            spent,
            spent_by_step,
            forked,
        };
        self.deed(event, place);
    }

    fn voted(
        &mut self,
        event: &Event,
        step: &Arc<str>,
        (grant, by, comment): (bool, &Arc<str>, &Arc<str>),
    ) {
        let Some(run) = self.state.step(step) else {
            return;
        };
        let Some(WaitFor::Approval(role)) = run.wait else {
            return;
        };
        let vote = Vote {
            grant,
            role: Arc::clone(role),
            by: Arc::clone(by),
            comment: Arc::clone(comment),
        };
        let task = Task::of(Arc::clone(step), run.attempt);
        let reply = reply(event, self.opened.get(&task).copied(), vote);
        let queue = self.found.decisions.entry(task).or_default();
        queue.push_back(reply);
    }

    fn resumed(&mut self, event: &Event, by: &Arc<str>) {
        let since = self.paused.take();
        // Paused for another revision, which no shadow is ever offered.
        if !matches!(
            self.state.pause_cause(),
            Some(PauseCause::RevisionMismatch { .. })
        ) {
            let reply = reply(event, since, Arc::clone(by));
            self.found.resumes.push_back(reply);
        }
    }
}
