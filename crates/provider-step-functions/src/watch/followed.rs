//! What a watch remembers of one state machine: how far its executions are known, which are open,
//! and which of the newest were reported as finished. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use jiff::{SignedDuration, Timestamp};

use crate::response::{Basics, RUNNING};

/// A list may show an execution this much later than one that started after it.
const LAG: SignedDuration = SignedDuration::from_secs(60);

#[derive(Debug, Default)]
pub(super) struct Followed {
    /// The ARNs of the executions that are open.
    pub(super) open: BTreeSet<String>,
    /// When the open ones were listed last.
    pub(super) open_listed: Option<Instant>,
    /// When the newest known execution started.
    newest: Option<Timestamp>,
    /// Executions near the newest one that were reported as finished, with their start. A row of a
    /// list says less than was reported, so they are not reported again.
    finished: BTreeMap<String, Option<Timestamp>>,
}

impl Followed {
    /// Every execution that started before this time is known; none before the first list.
    pub(super) fn known_before(&self) -> Option<Timestamp> {
        self.newest.and_then(|newest| newest.checked_sub(LAG).ok())
    }

    /// Takes note of rows of a list that began when everything before `known_before` was known;
    /// those that are to be reported.
    pub(super) fn take(
        &mut self,
        rows: Vec<Basics>,
        known_before: Option<Timestamp>,
    ) -> Vec<Basics> {
        let mut fresh = Vec::new();
        for row in rows {
            self.newest = self.newest.max(row.started);
            if row.status == RUNNING {
                self.finished.remove(&row.arn);
                if self.open.insert(row.arn.clone()) {
                    fresh.push(row);
                }
                continue;
            }
            let was_open = self.open.remove(&row.arn);
            let is_known = row.started < known_before || self.finished.contains_key(&row.arn);
            if row.started >= self.known_before() {
                self.finished.insert(row.arn.clone(), row.started);
            }
            if was_open || !is_known {
                fresh.push(row);
            }
        }
        fresh
    }

    /// Takes note that an open execution has ended.
    pub(super) fn ended(&mut self, arn: &str, started: Option<Timestamp>) {
        self.open.remove(arn);
        self.finished.insert(arn.to_owned(), started);
    }

    /// Forgets the endings of executions that lists of new ones do not reach any more.
    pub(super) fn forget_old_endings(&mut self) {
        let known_before = self.known_before();
        self.finished.retain(|_, started| *started >= known_before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, status: &str, second: i64) -> Basics {
        Basics {
            arn: name.to_owned(),
            machine: "m".to_owned(),
            version: None,
            status: status.to_owned(),
            started: Timestamp::from_second(second).ok(),
            stopped: None,
            redrive_status: None,
            redrives: 0,
            failure: None,
        }
    }

    /// The names of the rows that are to be reported, of a list that begins now.
    fn take(followed: &mut Followed, rows: Vec<Basics>) -> Vec<String> {
        let known_before = followed.known_before();
        let fresh = followed.take(rows, known_before);
        fresh.into_iter().map(|row| row.arn).collect()
    }

    #[test]
    fn a_finished_row_is_reported_once_and_an_open_one_until_it_ends() {
        let mut followed = Followed::default();
        let rows = vec![row("b", RUNNING, 1_001), row("a", "SUCCEEDED", 1_000)];
        assert_eq!(take(&mut followed, rows.clone()), ["b", "a"]);
        assert_eq!(take(&mut followed, rows), [""; 0]);
        let rows = vec![row("b", "FAILED", 1_001), row("a", "SUCCEEDED", 1_000)];
        assert_eq!(take(&mut followed, rows.clone()), ["b"]);
        assert_eq!(take(&mut followed, rows), [""; 0]);
        assert!(followed.open.is_empty());
    }

    #[test]
    fn a_redriven_execution_is_open_again() {
        let mut followed = Followed::default();
        take(&mut followed, vec![row("a", "FAILED", 1_000)]);
        assert_eq!(take(&mut followed, vec![row("a", RUNNING, 1_000)]), ["a"]);
        followed.ended("a", Timestamp::from_second(1_000).ok());
        assert_eq!(
            take(&mut followed, vec![row("a", "FAILED", 1_000)]),
            [""; 0]
        );
    }

    #[test]
    fn the_first_list_reports_everything_and_remembers_only_the_newest_endings() {
        let mut followed = Followed::default();
        let rows = vec![row("b", "FAILED", 2_000), row("a", "FAILED", 1_000)];
        assert_eq!(take(&mut followed, rows), ["b", "a"]);
        assert_eq!(followed.finished.len(), 1);
        // An older ending is known although it is not remembered.
        let rows = vec![row("b", "FAILED", 2_000), row("a", "FAILED", 1_000)];
        assert_eq!(take(&mut followed, rows), [""; 0]);
        take(&mut followed, vec![row("c", "FAILED", 3_000)]);
        followed.forget_old_endings();
        assert_eq!(followed.finished.len(), 1);
    }

    #[test]
    fn a_row_that_a_lagging_list_shows_late_is_reported() {
        let mut followed = Followed::default();
        take(&mut followed, vec![row("b", RUNNING, 2_000)]);
        let late = vec![row("b", RUNNING, 2_000), row("a", "SUCCEEDED", 1_950)];
        assert_eq!(take(&mut followed, late), ["a"]);
    }
}
