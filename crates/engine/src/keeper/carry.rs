//! One command through the core: decide, apply the events, carry out what they lead to.

use std::sync::Arc;

use stateway_machine::{
    Command, Event, ExecutionState, Fact, Failure, Obligation, Task, Verb, decide, obligations,
    obligations_of, usage,
};
use stateway_model::ErrorCategory;

use super::withdrawal::Withdrawal;
use super::{Keeper, Work};
use crate::EngineError;
use crate::error::Result;

impl Keeper {
    /// Carries out a command; whether anything happened.
    pub(super) fn carry(&mut self, number: i64, cause: &Arc<str>, verb: Verb) -> Result<bool> {
        self.bring(number)?;
        self.pace.spend();
        self.about(number, |keeper| keeper.carry_out(number, cause, verb))
    }

    fn carry_out(&mut self, number: i64, cause: &Arc<str>, verb: Verb) -> Result<bool> {
        let Some(live) = self.executions.get_mut(number) else {
            return Err(EngineError::no_execution(&number.to_string()));
        };
        self.config.faults.panic_for(&live.origin.id);
        let now = live.time(self.now.wall);
        let events = decide(&live.state, Command::new(Arc::clone(cause), verb), now)?;
        if events.is_empty() {
            return Ok(false);
        }
        let bytes = live.apply(&events)?;
        self.pace.spend_bytes(bytes);
        let owed = obligations_of(&live.state, &events);
        self.executions.weigh(number);
        self.executions.touch(number);
        self.put_away(number, &events);
        owed.into_iter().for_each(|owed| self.owe(number, owed));
        self.follow_up(number, &events);
        Ok(true)
    }

    /// Takes tasks that are over out of the dispatcher's book.
    fn put_away(&mut self, number: i64, events: &[Event]) {
        let (mut everything, mut strays) = (None, false);
        for event in events {
            let why = Withdrawal::after(&event.fact);
            match &event.fact {
                Fact::AttemptFailed { step, .. } => {
                    self.withdraw(number, step, why);
                    strays = true;
                }
                Fact::StepCompleted { step, .. }
                | Fact::StepCompensated { step, .. }
                | Fact::StepCompensationFailed { step, .. } => self.withdraw(number, step, why),
                Fact::TaskReleased { task, .. } => self.withdraw(number, &task.step, why),
                Fact::OutcomeUnknown { step, .. } => self.withdraw(number, step, why),
                Fact::CompensationStarted { .. }
                | Fact::CancellationStarted { .. }
                | Fact::ExecutionCompleted { .. }
                | Fact::ExecutionRolledBack { .. }
                | Fact::ExecutionFailed { .. }
                | Fact::ExecutionCancelled { .. }
                | Fact::RevisionAdopted { .. }
                | Fact::BranchOpened { .. }
                | Fact::ExecutionForked { .. }
                | Fact::ExecutionRecovered { .. } => {
                    everything.get_or_insert(why);
                }
                _ => {}
            }
        }
        if let Some(why) = everything {
            self.sweep(number, why);
        }
        if everything.is_some() || strays {
            self.end_strays(number);
        }
    }

    /// Withdraws the tasks that are no longer obligations of an execution.
    fn sweep(&mut self, number: i64, why: Withdrawal) {
        let Some(live) = self.executions.get(number) else {
            return;
        };
        let branch = live.state.branch();
        let owed: Vec<Task> = obligations(&live.state)
            .into_iter()
            .filter_map(|obligation| match obligation {
                Obligation::Task(order) => Some(order.key.task),
                _ => None,
            })
            .collect();
        for (step, task, on) in self.dispatch.tasks_of(number) {
            if on != branch || !owed.contains(&task) {
                self.withdraw(number, &step, why);
            }
        }
    }

    /// Carries out the obligations, or queues them.
    pub(super) fn owe(&mut self, number: i64, owed: Obligation) {
        match owed {
            Obligation::Slot => {
                self.queue(number);
                self.work.push_back(Work::Grant);
            }
            Obligation::Task(order) => {
                if order.cancel {
                    self.ask_to_cancel(number, &order);
                }
                self.place(number, order);
            }
            Obligation::Child(order) if order.cancel => self.cancel_child(number, &order),
            Obligation::Child(order) => self.work.push_back(Work::StartChild {
                parent: number,
                order,
            }),
            // Timers are looked at when the turn ends.
            Obligation::Timer { .. } => {}
        }
    }

    fn follow_up(&mut self, number: i64, events: &[Event]) {
        let started = events
            .iter()
            .any(|event| matches!(event.fact, Fact::ExecutionStarted { .. }));
        let Some(live) = self.executions.get(number) else {
            return;
        };
        if started {
            self.slots.begin(&live.origin.definition, number);
        }
        let over = live.state.state().is_terminal();
        if started && !over {
            self.executions.count(number, true);
        }
        if over {
            self.executions.forget_tree(number);
            self.ended(number);
        }
    }

    /// An execution has ended: its slot is free, its parent continues.
    fn ended(&mut self, number: i64) {
        let Some(live) = self.executions.get(number) else {
            return;
        };
        let (origin, state) = (Arc::clone(&live.origin), live.state.state());
        let begun = live.state.times().started.is_some();
        if let Some(parent) = &origin.parent {
            let outcome = match state {
                ExecutionState::Completed => Ok(live.state.output().cloned().unwrap_or_default()),
                state => Err(child_failed(live, &origin.id, state)),
            };
            let (parent, usage) = (parent.clone(), usage(&live.state));
            self.work.push_back(Work::FinishChild {
                parent,
                outcome,
                usage,
            });
        }
        self.executions.count(number, false);
        if begun {
            self.slots.end(&origin.definition, number);
        } else {
            self.slots.leave(number);
        }
        self.work.push_back(Work::Grant);
    }
}

pub(super) fn child_failed(live: &super::Live, id: &str, state: ExecutionState) -> Failure {
    let why = stateway_machine::last_error(&live.state)
        .map(|error| format!(": {}", error.message))
        .unwrap_or_default();
    let message = format!("the child execution `{id}` ended as {state}{why}");
    Failure {
        effects_unknown: stateway_machine::leaves_effects(&live.state),
        ..Failure::reported(ErrorCategory::External, message)
    }
}
