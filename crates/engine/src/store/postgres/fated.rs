//! What tests let become of the writes of a turn.

use crate::store::Turn;
use crate::{Fate, Faults, Write};

/// What is left of a turn, and whether the process dies with it; none if no test decides.
pub(super) fn fated(turn: &Turn, faults: &Faults) -> Option<(Turn, bool)> {
    if !faults.is_armed() {
        return None;
    }
    let mut writing = Writing {
        faults,
        ended: None,
    };
    let left = Turn {
        definitions: writing.left(&turn.definitions, Write::Definition),
        created: writing.left(&turn.created, Write::Execution),
        branches: writing.left(&turn.branches, Write::Branch),
        appends: writing.left(&turn.appends, Write::Events),
        statuses: writing.left(&turn.statuses, Write::Status),
        revisions: writing.left(&turn.revisions, Write::Status),
        snapshots: writing.left(&turn.snapshots, Write::Snapshot),
        summaries: writing.left(&turn.summaries, Write::Snapshot),
        requests: writing.left(&turn.requests, Write::Request),
        schedules: writing.left(&turn.schedules, Write::Schedule),
        sinks: writing.left(&turn.sinks, Write::Sink),
        removed: turn.removed.clone(),
        forgotten: turn.forgotten,
    };
    match writing.ended {
        None => Some((left, false)),
        Some(Ended::Torn) => Some((left, true)),
        Some(Ended::Crashed) => Some((Turn::default(), true)),
    }
}

enum Ended {
    Torn,
    Crashed,
}

struct Writing<'f> {
    faults: &'f Faults,
    ended: Option<Ended>,
}

impl Writing<'_> {
    fn left<T: Clone>(&mut self, rows: &[T], write: Write) -> Vec<T> {
        let mut left = Vec::new();
        for row in rows {
            if self.ended.is_some() {
                break;
            }
            match self.faults.fate(write) {
                Fate::Done => left.push(row.clone()),
                Fate::Lost => {}
                Fate::Torn => self.ended = Some(Ended::Torn),
                Fate::Crash => self.ended = Some(Ended::Crashed),
            }
        }
        left
    }
}
