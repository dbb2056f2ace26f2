//! How much one turn does: the rest continues in the next turn, and other clients are served in between.
//!
//! A book only. What may wait for the next turn is on disk or in the rows anyway: queued executions, children
//! of executions that have ended, due timers. `startup` finds all of it again after a restart.

use std::collections::VecDeque;

use jiff::Timestamp;

use super::Work;
use crate::limits::{BYTES_PER_TURN, WORK_PER_TURN};

/// The work of a turn, and the work that continues in the next turn.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// Commands and loaded executions of this turn.
    spent: usize,
    /// Bytes of the events of this turn.
    bytes: usize,
    later: VecDeque<Work>,
    /// Where taking up executions after a start continues.
    waking: Option<Cursor>,
    /// The number after which writing rows of an older form again continues.
    renewing: Option<i64>,
}

/// A place in the order in which executions are due.
pub(super) type Cursor = (Option<Timestamp>, i64);

impl Pace {
    /// A turn begins.
    pub(super) const fn begin(&mut self) {
        (self.spent, self.bytes) = (0, 0);
    }

    /// Counts a command or a loaded execution.
    pub(super) const fn spend(&mut self) {
        self.spent += 1;
    }

    /// Counts bytes that the turn writes.
    pub(super) const fn spend_bytes(&mut self, bytes: usize) {
        self.bytes += bytes;
    }

    /// Whether the turn has done enough.
    pub(super) const fn is_full(&self) -> bool {
        self.spent >= WORK_PER_TURN || self.bytes >= BYTES_PER_TURN
    }

    /// Whether the turn has done three quarters of what it may; the last quarter is for timers and
    /// schedules.
    pub(super) const fn is_nearly_full(&self) -> bool {
        self.spent >= WORK_PER_TURN / 4 * 3 || self.bytes >= BYTES_PER_TURN / 4 * 3
    }

    /// Whether the turn has done half of what it may; the other half is for new messages.
    pub(super) const fn is_half_full(&self) -> bool {
        self.spent >= WORK_PER_TURN / 2 || self.bytes >= BYTES_PER_TURN / 2
    }

    /// Puts work off to the next turn.
    pub(super) fn put_off(&mut self, work: Work) {
        self.later.push_back(work);
    }

    /// The next work that was put off, while the turn has room for it.
    pub(super) fn resume(&mut self) -> Option<Work> {
        if self.is_half_full() {
            return None;
        }
        self.later.pop_front()
    }

    /// Whether anything waits for the next turn.
    pub(super) fn has_more(&self) -> bool {
        !self.later.is_empty() || self.waking.is_some() || self.renewing.is_some()
    }

    /// Whether executions are still being taken up after a start.
    pub(super) const fn is_waking(&self) -> bool {
        self.waking.is_some()
    }

    /// Where taking up executions continues; none when all are taken up.
    pub(super) const fn waking(&self) -> Option<Cursor> {
        self.waking
    }

    pub(super) const fn set_waking(&mut self, at: Option<Cursor>) {
        self.waking = at;
    }

    /// The number after which writing rows of an older form again continues; none when all are written.
    pub(super) const fn renewing(&self) -> Option<i64> {
        self.renewing
    }

    pub(super) const fn set_renewing(&mut self, after: Option<i64>) {
        self.renewing = after;
    }

    /// Forgets everything that was put off; it is found again.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(number: i64) -> Work {
        Work::EndChild { number, kill: true }
    }

    #[test]
    fn a_turn_is_full_by_commands_or_by_bytes() {
        let mut pace = Pace::default();
        for _ in 0..WORK_PER_TURN {
            assert!(!pace.is_full());
            pace.spend();
        }
        assert!(pace.is_full());
        pace.begin();
        assert!(!pace.is_full());
        pace.spend_bytes(BYTES_PER_TURN);
        assert!(pace.is_full());
    }

    #[test]
    fn work_that_was_put_off_leaves_half_of_the_turn_to_messages() {
        let mut pace = Pace::default();
        for number in 0..i64::try_from(WORK_PER_TURN).unwrap() {
            pace.put_off(end(number));
        }
        let mut resumed = 0;
        while let Some(Work::EndChild { number, .. }) = pace.resume() {
            assert_eq!(number, i64::try_from(resumed).unwrap(), "in order");
            pace.spend();
            resumed += 1;
        }
        assert_eq!(resumed, WORK_PER_TURN / 2);
        assert!(!pace.is_full() && pace.has_more());
    }
}
