//! The end of a schedule: every fault stops, workers do all their tasks, time passes. What can end
//! has to end; everything else has to wait for something that has a name.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use stateway_engine::View;
use stateway_machine::ExecutionState;

use crate::client::{Wish, kill};
use crate::worker::AnswerKind;
use crate::world::World;

/// The most turns until nothing happens any more.
const MOST_TURNS: usize = 600;
/// Longer than a lease.
const LEASE: Duration = Duration::from_secs(40);
/// Longer than a failed store is left alone.
const SHORT: Duration = Duration::from_millis(600);
/// A timer that is farther away than this is none.
const FAR: Duration = Duration::from_secs(400 * 24 * 3_600);
/// The definition that starts executions for ever.
const SCHEDULED: &str = "scheduled";

impl World {
    pub(crate) fn settle(&mut self) -> Result<(), String> {
        self.trace.note(format_args!("faults stop"));
        self.faults.heal(true);
        self.end_deposed();
        if self.owner.is_none() {
            self.open();
        }
        if self.owner.is_none() {
            return Err("the engine does not open although nothing fails".to_owned());
        }
        // A store that failed is tried again after a while.
        for _ in 0..3 {
            self.turn()?;
            self.clock.pass(SHORT);
        }
        self.ask(Wish::SwitchTrigger {
            definition: SCHEDULED,
            enabled: false,
        });
        self.come_to_rest()?;
        self.audit_memory()?;
        self.faults.heal(true);
        self.waits_have_names()?;
        // Whatever waits is ended: this frees the slots of the executions that are queued.
        for _ in 0..3 {
            for view in self.open_executions()? {
                self.ask(kill(view.id));
            }
            self.come_to_rest()?;
        }
        let left = self.open_executions()?;
        match left.first() {
            Some(view) => Err(format!(
                "{} was cancelled and is still {}",
                view.id, view.state
            )),
            None => Ok(()),
        }
    }

    /// Runs until nothing happens any more.
    fn come_to_rest(&mut self) -> Result<(), String> {
        let (mut quiet, mut last) = (0, None);
        for _ in 0..MOST_TURNS {
            self.work();
            self.turn()?;
            let position = self.disk.last_position().ok();
            if position != last {
                (quiet, last) = (0, position);
                self.clock.pass(Duration::from_millis(10));
                continue;
            }
            quiet += 1;
            let Some(owner) = &self.owner else {
                return Err("the engine crashes although nothing fails".to_owned());
            };
            let idle = owner.idle(self.clock.now());
            match quiet {
                1 => self.clock.pass(SHORT),
                2 => self.clock.pass(LEASE),
                _ if idle > FAR => return Ok(()),
                _ => self.clock.pass(idle.max(Duration::from_millis(1))),
            }
        }
        Err("the engine does not come to rest".to_owned())
    }

    /// Every worker is connected and does every task that it has.
    fn work(&mut self) {
        for which in 0..self.workers.len() {
            let (Some(worker), Some(owner)) = (self.workers.get_mut(which), &self.owner) else {
                continue;
            };
            let offer = worker.offer(&["r1", "r2"], 16);
            match &mut worker.session {
                None => worker.connect(owner.engine(), offer, false),
                // A sign of life, so that no lease ends while time passes quickly.
                Some(session) => session.answers.offer(offer),
            }
            let Some(session) = &mut worker.session else {
                continue;
            };
            let held: Vec<_> = session.held.values().cloned().collect();
            for given in held {
                let place = self.sent.len();
                let sent = session.answer(given, AnswerKind::Completed, place);
                self.sent.push(sent);
            }
        }
    }

    fn open_executions(&self) -> Result<Vec<View>, String> {
        let ended = self.disk.ended().map_err(|error| error.to_string())?;
        let mut found = Vec::new();
        for number in self.numbers()? {
            // The check at the end compares every row with its log.
            if !ended.iter().any(|(ended, _)| *ended == number) {
                found.extend(self.view(number)?);
            }
        }
        Ok(found)
    }

    /// Every open execution waits for something: a person, a signal, a child, or the end of other
    /// executions.
    fn waits_have_names(&self) -> Result<(), String> {
        let open = self.open_executions()?;
        let mut begun: BTreeMap<&str, usize> = BTreeMap::new();
        for view in open.iter().filter(|view| view.times.started.is_some()) {
            *begun.entry(&*view.definition).or_default() += 1;
        }
        for view in &open {
            let child = |id: &Option<Arc<str>>| {
                let id = id.as_ref();
                id.is_some_and(|id| open.iter().any(|other| other.id == *id))
            };
            let limit = match &*view.definition {
                "single" | "selfish" | SCHEDULED => Some(1),
                "pair" => Some(2),
                _ => None,
            };
            let others = begun.get(&*view.definition).copied().unwrap_or(0);
            let queued = view.state == ExecutionState::Queued;
            // A paused execution with an open task keeps its slot.
            let full = begun.values().sum::<usize>() >= self.config.max_active;
            let held_back = queued && (full || limit.is_some_and(|limit| others >= limit));
            let named = !view.awaited.is_empty() || view.children.iter().any(child) || held_back;
            if !named {
                return Err(format!(
                    "{} of {} is {} and waits for nothing",
                    view.id, view.definition, view.state
                ));
            }
        }
        Ok(())
    }
}
