//! The executions in memory: by number, by id, by parent, by the time of their next timer.
//!
//! A book only: it reads no store and writes none. `live` has one execution, `load` brings executions
//! here.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::live::Live;
use super::pace::Cursor;
use crate::in_memory::{Ended, InMemory};
use crate::request::Damaged;

/// The most damaged executions that are listed by name.
const MOST_DAMAGED: usize = 1_000;

/// The executions in memory.
#[derive(Debug, Default)]
pub(super) struct Executions {
    live: HashMap<i64, Live>,
    /// What readers know of all this.
    index: Arc<InMemory>,
    numbers: HashMap<Arc<str>, i64>,
    /// The children in memory of each parent.
    children: HashMap<i64, BTreeSet<i64>>,
    /// The next timer of each execution.
    alarms: BTreeSet<(Timestamp, i64)>,
    /// The executions that the end of the turn writes or unloads.
    touched: Vec<i64>,
    /// The executions that were gathered in this turn.
    gathered: Vec<i64>,
    /// How many of them have begun and not ended.
    active: usize,
    /// The highest number that an execution was given.
    last_number: i64,
    /// When the first execution that is not in memory is due.
    pub(super) next_wake: Option<Timestamp>,
    /// Where loading due executions continues.
    pub(super) due_after: Option<Cursor>,
    /// Executions that could not be loaded.
    damaged: BTreeMap<i64, Damaged>,
    /// How often the engine has repaired an execution unasked.
    repaired: HashMap<i64, u8>,
    /// About how many bytes they have together.
    bytes: usize,
    /// How many executions the trees have that children were started in, by the execution at the top.
    trees: HashMap<i64, usize>,
}

impl Executions {
    pub(super) fn new(index: Arc<InMemory>) -> Self {
        Self {
            index,
            ..Self::default()
        }
    }

    pub(super) fn get(&self, number: i64) -> Option<&Live> {
        self.live.get(&number)
    }

    pub(super) fn get_mut(&mut self, number: i64) -> Option<&mut Live> {
        self.live.get_mut(&number)
    }

    /// How many executions are in memory.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.live.len()
    }

    pub(super) fn contains(&self, number: i64) -> bool {
        self.live.contains_key(&number)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Live> {
        self.live.values()
    }

    /// The number of an execution in memory.
    pub(super) fn number_of(&self, id: &str) -> Option<i64> {
        self.numbers.get(id).copied()
    }

    /// The children in memory of an execution, by number.
    pub(super) fn children_of(&self, parent: i64) -> impl Iterator<Item = &Live> {
        let numbers = self.children.get(&parent).into_iter().flatten();
        numbers.filter_map(|number| self.live.get(number))
    }

    /// Numbers begin after this one, and no number is given twice.
    pub(super) fn begin_after(&mut self, last_number: i64) {
        self.last_number = self.last_number.max(last_number);
    }

    /// A number for a new execution.
    pub(super) const fn next_number(&mut self) -> i64 {
        self.last_number += 1;
        self.last_number
    }

    pub(super) fn keep(&mut self, live: Live) {
        let number = live.origin.number;
        self.numbers.insert(Arc::clone(&live.origin.id), number);
        self.index.taken_up(&live.origin.id);
        if let Some(parent) = &live.origin.parent {
            self.children
                .entry(parent.number)
                .or_default()
                .insert(number);
        }
        self.live.insert(number, live);
        self.weigh(number);
    }

    /// Counts the bytes of an execution as they are now.
    pub(super) fn weigh(&mut self, number: i64) {
        if let Some(live) = self.live.get_mut(&number) {
            self.bytes = self.bytes - live.weighed + live.bytes;
            live.weighed = live.bytes;
        }
    }

    /// About how many bytes the executions in memory have together.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many executions a tree has, where that is known.
    pub(super) fn tree(&mut self, root: i64) -> Option<&mut usize> {
        self.trees.get_mut(&root)
    }

    pub(super) fn set_tree(&mut self, root: i64, executions: usize) {
        self.trees.insert(root, executions);
    }

    /// The execution at the top of a tree has ended.
    pub(super) fn forget_tree(&mut self, root: i64) {
        self.trees.remove(&root);
    }

    /// Drops an execution from memory; its row has the time of its next timer.
    pub(super) fn forget(&mut self, number: i64) {
        if let Some(live) = self.take(number) {
            self.index.dropped(&live.origin.id);
        }
    }

    /// Drops an execution that is on disk as it is here. One that has ended can still be read without
    /// its log for a while.
    pub(super) fn unload(&mut self, number: i64) -> Option<Arc<str>> {
        let live = self.take(number)?;
        if !live.state.state().is_terminal() {
            self.index.dropped(&live.origin.id);
            return None;
        }
        let id = Arc::clone(&live.origin.id);
        self.index.ended(Ended {
            origin: live.origin,
            state: live.state,
            bytes: live.bytes,
        });
        Some(id)
    }

    fn take(&mut self, number: i64) -> Option<Live> {
        self.count(number, false);
        self.set_alarm(number, None);
        let live = self.live.remove(&number)?;
        self.bytes -= live.weighed;
        self.numbers.remove(&live.origin.id);
        if let Some(parent) = &live.origin.parent
            && let Some(children) = self.children.get_mut(&parent.number)
        {
            children.remove(&number);
            if children.is_empty() {
                self.children.remove(&parent.number);
            }
        }
        Some(live)
    }

    /// The store has removed an execution.
    pub(super) fn removed(&self, id: &str) {
        self.index.removed(id);
    }

    /// Drops everything from memory but the last number and the list of damaged executions.
    pub(super) fn clear(&mut self) {
        self.index.clear();
        *self = Self {
            last_number: self.last_number,
            index: Arc::clone(&self.index),
            damaged: std::mem::take(&mut self.damaged),
            ..Self::default()
        };
    }

    /// Notes that the end of the turn has to process an execution.
    pub(super) fn touch(&mut self, number: i64) {
        if let Some(live) = self.live.get_mut(&number)
            && !live.touched
        {
            live.touched = true;
            self.touched.push(number);
        }
    }

    /// The executions that were touched since this was last called.
    pub(super) fn take_touched(&mut self) -> Vec<i64> {
        std::mem::take(&mut self.touched)
    }

    /// Notes that what the turn did to an execution is gathered, and whether it may leave memory by that.
    pub(super) fn set_gathered(&mut self, number: i64, leaves: bool) {
        if let Some(live) = self.live.get_mut(&number) {
            live.leaves = leaves;
            if !live.gathered {
                live.gathered = true;
                self.gathered.push(number);
            }
        }
    }

    /// The turn ends: the executions that were gathered in it and may leave memory. Their timers are found in the
    /// store from now on, and not before: a look at the store earlier in the turn would have missed them.
    pub(super) fn take_leaving(&mut self) -> Vec<i64> {
        let mut leaving = std::mem::take(&mut self.gathered);
        leaving.retain(|number| {
            let Some(live) = self.live.get_mut(number) else {
                return false;
            };
            live.gathered = false;
            if live.leaves && !live.state.state().is_terminal() {
                let wakes = self.next_wake.into_iter().chain(live.alarm);
                self.next_wake = wakes.min();
            }
            live.leaves
        });
        leaving
    }

    /// Counts an execution as active, or no longer.
    pub(super) fn count(&mut self, number: i64, active: bool) {
        if let Some(live) = self.live.get_mut(&number)
            && live.counted != active
        {
            live.counted = active;
            if active {
                self.active += 1;
            } else {
                self.active -= 1;
            }
        }
    }

    /// How many executions have begun and not ended.
    pub(super) const fn active(&self) -> usize {
        self.active
    }

    /// Notifies every execution that the wall clock was moved by this much, forward or back.
    pub(super) fn notice_jump(&mut self, now: Timestamp, by: SignedDuration) {
        let numbers: BTreeSet<i64> = self.live.keys().copied().collect();
        for number in numbers {
            if let Some(live) = self.live.get_mut(&number) {
                live.shrink_shift(by.max(SignedDuration::ZERO));
                live.notice_time(now);
            }
            self.touch(number);
        }
    }

    /// Sets the next timer of an execution, or clears it.
    pub(super) fn set_alarm(&mut self, number: i64, due: Option<Timestamp>) {
        let Some(live) = self.live.get_mut(&number) else {
            return;
        };
        if live.alarm == due {
            return;
        }
        if let Some(before) = live.alarm {
            self.alarms.remove(&(before, number));
        }
        live.alarm = due;
        if let Some(due) = due {
            self.alarms.insert((due, number));
        }
    }

    /// When the first timer in memory is due.
    pub(super) fn next_alarm(&self) -> Option<Timestamp> {
        self.alarms.first().map(|(due, _)| *due)
    }

    /// The execution whose timer is due first, if that is by now. The timer is cleared.
    pub(super) fn take_due(&mut self, now: Timestamp) -> Option<i64> {
        let (due, number) = self.alarms.first().copied()?;
        if due > now {
            return None;
        }
        self.set_alarm(number, None);
        // A process that has lost the store may give a number twice. The timer of the first execution
        // must not ring for ever.
        self.alarms.remove(&(due, number));
        Some(number)
    }

    /// Lists an execution as damaged. False: it is listed already, or the list is full.
    pub(super) fn set_damaged(&mut self, number: i64, damaged: Damaged) -> bool {
        if self.damaged.contains_key(&number) || self.damaged.len() >= MOST_DAMAGED {
            return false;
        }
        self.damaged.insert(number, damaged);
        true
    }

    pub(super) fn damaged(&self, number: i64) -> Option<&Damaged> {
        self.damaged.get(&number)
    }

    pub(super) fn all_damaged(&self) -> impl Iterator<Item = &Damaged> {
        self.damaged.values()
    }

    pub(super) fn clear_damaged(&mut self, number: i64) {
        self.damaged.remove(&number);
    }

    /// How often the engine has repaired an execution unasked.
    pub(super) fn repairs(&self, number: i64) -> u8 {
        self.repaired.get(&number).copied().unwrap_or(0)
    }

    pub(super) fn count_repair(&mut self, number: i64) {
        let repairs = self.repaired.entry(number).or_default();
        *repairs = repairs.saturating_add(1);
    }
}

#[cfg(test)]
mod tests;
