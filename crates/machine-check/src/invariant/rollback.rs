//! Rollback: nothing is compensated while work is in flight, everything that completed is, in reverse
//! order of completion, and what is left is named.

use std::collections::BTreeSet;
use std::sync::Arc;

use stateway_machine::{Event, ExecutionState, Fact, FailureCause, State, StepState, obligations};

use super::live::in_hands;
use super::{Checked, ensure};

/// What completed, and what was compensated.
#[derive(Debug, Default)]
pub(super) struct Rollback {
    /// Steps that completed, or may have, in that order.
    done: Vec<Done>,
    compensated: Vec<Arc<str>>,
    turned: bool,
    /// Steps that a worker has.
    in_hands: BTreeSet<Arc<str>>,
    /// Steps that a worker had and did not answer for, and that did not complete since.
    unanswered: BTreeSet<Arc<str>>,
}

#[derive(Debug)]
struct Done {
    step: Arc<str>,
    /// Whether a rollback must compensate the step. False if the outcome of the step is unknown and the
    /// definition does not ask for a compensation then.
    owed: bool,
}

impl Rollback {
    pub(super) fn event(&mut self, before: &State, event: &Event, after: &State) -> Checked {
        self.count_unanswered(&event.fact);
        match &event.fact {
            Fact::StepCompleted { step, .. } => self.add(before, step, true),
            Fact::OutcomeUnknown {
                step, compensate, ..
            } => {
                self.add(before, step, *compensate);
                let marked = compensates_unknown(before, step);
                return ensure(!compensate || marked, || {
                    format!("{step} is compensated although its outcome is unknown")
                });
            }
            Fact::CompensationStarted { .. } => self.turned = true,
            Fact::StepCompensationStarted { step, .. } => return self.compensates(before, step),
            // A person resumes after a rollback: what was compensated runs again.
            Fact::EscalationResolved { .. } if self.turned && after.state().is_active() => {
                self.turned = false;
                self.compensated.clear();
                let stays =
                    |done: &Done| after.step_state(&done.step) == Some(StepState::Completed);
                self.done.retain(stays);
            }
            _ => {}
        }
        Ok(())
    }

    fn count_unanswered(&mut self, fact: &Fact) {
        match fact {
            Fact::TaskAssigned { task, .. } if !task.undo => {
                self.in_hands.insert(Arc::clone(&task.step));
            }
            Fact::TaskReleased { task, lost, .. } if !task.undo => {
                let had = self.in_hands.remove(&task.step);
                if *lost && had {
                    self.unanswered.insert(Arc::clone(&task.step));
                }
            }
            Fact::AttemptFailed { step, failure, .. } => {
                let had = self.in_hands.remove(step);
                if had && failure.cause == FailureCause::TimedOut {
                    self.unanswered.insert(Arc::clone(step));
                }
            }
            Fact::StepCompleted { step, .. } | Fact::StepCompensated { step, .. } => {
                self.in_hands.remove(step);
                self.unanswered.remove(step);
            }
            _ => {}
        }
    }

    fn add(&mut self, state: &State, step: &Arc<str>, owed: bool) {
        self.done.push(Done {
            step: Arc::clone(step),
            owed: owed && has_compensation(state, step),
        });
    }

    fn compensates(&mut self, before: &State, step: &Arc<str>) -> Checked {
        let owed = obligations(before);
        let busy: Vec<_> = in_hands(&owed).collect();
        ensure(busy.is_empty(), || {
            format!("{step} is compensated while {busy:?} is in hands")
        })?;
        if self.compensated.last() != Some(step) {
            self.compensated.push(Arc::clone(step));
        }
        let owed = self.done.iter().rev().filter(|done| done.owed);
        let expected: Vec<&Arc<str>> = owed.map(|done| &done.step).collect();
        let actual: Vec<&Arc<str>> = self.compensated.iter().collect();
        ensure(expected.starts_with(&actual), || {
            format!("compensated {actual:?}; {expected:?} is the reverse order of completion")
        })
    }

    /// A rollback compensates everything; one that is not complete names what is left.
    pub(super) fn finish(&self, live: &State) -> Checked {
        if !self.turned {
            return Ok(());
        }
        let whole = live.state() == ExecutionState::RolledBack;
        for done in &self.done {
            let compensated = live.step_state(&done.step) == Some(StepState::Compensated);
            let named = live.left_behind().contains(&done.step);
            ensure(
                compensated != named || !has_effects(live, &done.step),
                || {
                    format!(
                        "{} is compensated: {compensated}, named: {named}",
                        done.step
                    )
                },
            )?;
            ensure(compensated || !whole || !done.owed, || {
                format!("rolled back without compensating {}", done.step)
            })?;
        }
        for step in &self.unanswered {
            let named = live.left_behind().contains(step);
            ensure(named || !has_effects(live, step), || {
                format!("{step} was never answered, and is neither compensated nor named")
            })?;
        }
        Ok(())
    }
}

fn has_compensation(state: &State, step: &str) -> bool {
    state.plan().undo_of(step).is_some()
}

/// Whether the step leaves something behind when it completes and is not compensated.
fn has_effects(state: &State, step: &str) -> bool {
    let define = state.plan().step_definition(step);
    let answers = define.is_some_and(|step| step.kind.answers() && !step.read_only);
    answers || has_compensation(state, step)
}

fn compensates_unknown(state: &State, step: &str) -> bool {
    let compensation = state.plan().undo_of(step);
    compensation.is_some_and(|compensation| compensation.compensate_unknown)
}
