//! One command through the core: decide, apply the events, carry out the step of the driver.

use std::sync::Arc;

use stateway_driver::{Outcome, Step, open_keys};
use stateway_machine::{Command, Verb, Withdrawal, decide};

use super::{Keeper, Work};
use crate::EngineError;
use crate::error::Result;

impl Keeper {
    /// Carries out a command; whether anything happened.
    pub(super) fn command(&mut self, number: i64, cause: &Arc<str>, verb: Verb) -> Result<bool> {
        self.load_number(number)?;
        self.pace.spend();
        self.about(number, |keeper| {
            keeper.decide_and_apply(number, cause, verb)
        })
    }

    fn decide_and_apply(&mut self, number: i64, cause: &Arc<str>, verb: Verb) -> Result<bool> {
        let Some(live) = self.executions.get_mut(number) else {
            return Err(EngineError::no_execution(&number.to_string()));
        };
        self.config.faults.panic_for(&live.origin.id);
        let now = live.time(self.now.wall);
        let events = decide(&live.state, Command::new(Arc::clone(cause), verb), now)?;
        if events.is_empty() {
            return Ok(false);
        }
        let (step, bytes) = live.apply(events)?;
        self.pace.spend_bytes(bytes);
        self.executions.weigh(number);
        self.executions.touch(number);
        self.end_work(number, &step);
        let (started, ended) = (step.started, step.ended.clone());
        self.begin_work(number, step);
        self.follow_up(number, started, ended);
        Ok(true)
    }

    /// Takes back the tasks and ends the children that the execution does not wait for any more.
    fn end_work(&mut self, number: i64, step: &Step) {
        for withdrawn in &step.withdraw {
            self.withdraw(number, &withdrawn.key.task.step, withdrawn.why);
        }
        for child in &step.end_children {
            // A child that was never started needs no ending.
            if let Ok(number) = self.number_of(&child.id) {
                let kill = child.kill;
                self.work.push_back(Work::EndChild { number, kill });
            }
        }
        if step.reconcile {
            self.withdraw_strays(number);
            self.end_strays(number);
        }
    }

    /// Withdraws the tasks in the dispatcher's book that are not open.
    fn withdraw_strays(&mut self, number: i64) {
        let Some(live) = self.executions.get(number) else {
            return;
        };
        let open = open_keys(&live.state);
        for (step, task, branch) in self.dispatch.tasks_of(number) {
            if !open
                .iter()
                .any(|key| key.branch == branch && key.task == task)
            {
                self.withdraw(number, &step, Withdrawal::NotNeeded);
            }
        }
    }

    /// Begins the work of a step, or queues it. Timers are set when the turn ends.
    pub(super) fn begin_work(&mut self, number: i64, step: Step) {
        if step.slot {
            self.queue(number);
            self.slots_due = true;
        }
        for order in step.start {
            if order.cancel {
                self.ask_to_cancel(number, &order);
            }
            self.place(number, order);
        }
        for order in step.start_children {
            let parent = number;
            self.work.push_back(Work::StartChild { parent, order });
        }
        for order in step.cancel_children {
            self.cancel_child(number, &order);
        }
    }

    fn follow_up(&mut self, number: i64, started: bool, ended: Option<Outcome>) {
        let Some(live) = self.executions.get(number) else {
            return;
        };
        if started {
            self.slots.begin(&live.origin.definition, number);
        }
        if let Some(outcome) = ended {
            self.executions.forget_tree(number);
            self.ended(number, outcome);
        } else if started {
            self.executions.count(number, true);
        }
    }

    /// An execution has ended: its slot is free, its parent continues.
    fn ended(&mut self, number: i64, outcome: Outcome) {
        let Some(live) = self.executions.get(number) else {
            return;
        };
        let origin = Arc::clone(&live.origin);
        let begun = live.state.times().started.is_some();
        if let Some(parent) = origin.parent.clone() {
            let Outcome { result, usage } = outcome;
            self.work.push_back(Work::FinishChild {
                parent,
                outcome: result,
                usage,
            });
        }
        self.executions.count(number, false);
        if begun {
            self.slots.end(&origin.definition, number);
        } else {
            self.slots.leave(number);
        }
        self.slots_due = true;
    }
}
