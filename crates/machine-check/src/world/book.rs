//! What a host knows of one execution: only what the steps of the driver told it. The book must always
//! agree with the obligations of the state, or a host would lose work or do too much.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use stateway_driver::{Step, TimerOrder, open_keys, resume};
use stateway_machine::{ChildOrder, Obligation, State, Task, TaskKey, TaskOrder, Timer, Verb};

/// The work that a host has in hand.
#[derive(Debug, Default)]
pub(super) struct Book {
    slot: bool,
    tasks: BTreeMap<TaskKey, TaskOrder>,
    children: BTreeMap<TaskKey, ChildOrder>,
    timers: BTreeMap<Timer, Timestamp>,
}

impl Book {
    /// Carries a step out; the state is the one after it.
    ///
    /// # Errors
    /// The step withdraws what the host does not have, or the book differs from the state.
    pub(super) fn take(&mut self, verb: &Verb, step: &Step, state: &State) -> Result<(), String> {
        if let Verb::FinishChild { step, attempt, .. } = verb {
            let finished = Task::of(Arc::clone(step), *attempt);
            self.children.retain(|key, _| key.task != finished);
        }
        self.slot = self.slot && !step.started && step.ended.is_none() || step.slot;
        for withdrawn in &step.withdraw {
            let had = self.tasks.remove(&withdrawn.key);
            let fits = had.is_some_and(|order| order.worker == withdrawn.worker);
            if !fits && !step.reconcile {
                return Err(format!("{withdrawn:?} is withdrawn, but no worker has it"));
            }
        }
        for child in &step.end_children {
            if self.children.remove(&child.key).is_none() && !step.reconcile {
                return Err(format!("{child:?} is ended, and does not run"));
            }
        }
        if step.reconcile {
            let open = open_keys(state);
            self.tasks.retain(|key, _| open.contains(key));
            self.children.retain(|key, _| open.contains(key));
        }
        for order in &step.start {
            self.tasks.insert(order.key.clone(), order.clone());
        }
        for order in step.start_children.iter().chain(&step.cancel_children) {
            self.children.insert(order.key.clone(), order.clone());
        }
        for TimerOrder { timer, due } in &step.timers {
            self.timers.insert(timer.clone(), *due);
        }
        self.agrees(state)
    }

    /// Compares the book with the state, and forgets timers that are not set any more.
    fn agrees(&mut self, state: &State) -> Result<(), String> {
        let owed = resume(state);
        let same_task = |order: &TaskOrder| {
            let known = self.tasks.get(&order.key);
            known.is_some_and(|known| {
                (&known.worker, &known.role, known.cancel)
                    == (&order.worker, &order.role, order.cancel)
            })
        };
        let children = || owed.start_children.iter().chain(&owed.cancel_children);
        let same_child = |order: &ChildOrder| self.children.get(&order.key) == Some(order);
        let same_timer = |set: &TimerOrder| self.timers.get(&set.timer) == Some(&set.due);
        let agrees = self.slot == owed.slot
            && self.tasks.len() == owed.start.len()
            && owed.start.iter().all(same_task)
            && self.children.len() == children().count()
            && children().all(same_child)
            && owed.timers.iter().all(same_timer);
        if !agrees {
            return Err(format!("a host has {self:?} in hand, and owes {owed:?}"));
        }
        let set = |timer: &Timer| owed.timers.iter().any(|set| set.timer == *timer);
        self.timers.retain(|timer, _| set(timer));
        Ok(())
    }

    /// Everything that the host can act on.
    pub(super) fn owed(&self) -> Vec<Obligation> {
        let slot = self.slot.then_some(Obligation::Slot).into_iter();
        let tasks = self.tasks.values().cloned().map(Obligation::Task);
        let children = self.children.values().cloned().map(Obligation::Child);
        let timers = self.timers.iter().map(|(timer, due)| Obligation::Timer {
            timer: timer.clone(),
            due: *due,
        });
        slot.chain(tasks).chain(children).chain(timers).collect()
    }
}
