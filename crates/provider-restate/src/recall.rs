//! What is worth remembering between two looks at an invocation. Losing it costs a query, or makes
//! an attempt total begin anew; nothing here is the truth of anything.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;

use crate::response::Detail;
use crate::row::Invocation;

/// How many invocations are remembered at least; at most it is twice as many.
const REMEMBERED: usize = 10_000;

#[derive(Debug, Default)]
pub(crate) struct Recall(Mutex<Generations>);

/// The young generation becomes the old one when it is full, and the old one is forgotten.
#[derive(Debug, Default)]
struct Generations {
    young: HashMap<String, Memory>,
    old: HashMap<String, Memory>,
}

#[derive(Debug, Clone, Default)]
struct Memory {
    status: String,
    modified_at: Option<Timestamp>,
    detail: Option<Arc<Detail>>,
    /// Attempts made before the present count began.
    before: u32,
    /// The present count.
    counted: u32,
}

impl Recall {
    /// What was read beside this row, if the row has not changed since.
    pub(crate) fn detail(&self, row: &Invocation) -> Option<Arc<Detail>> {
        self.with(|all| {
            let memory = all.get(&row.id)?;
            let same = memory.status == row.status && memory.modified_at == row.modified_at;
            memory.detail.filter(|_| same)
        })
    }

    /// Takes note of a row and what was read beside it. The attempts made before Restate began
    /// to count anew: it does so when an invocation is suspended, paused or moved.
    pub(crate) fn note(
        &self,
        row: &Invocation,
        detail: Option<&Arc<Detail>>,
        counted: Option<u32>,
    ) -> u32 {
        self.with(|all| {
            let mut memory = all.get(&row.id).unwrap_or_default();
            memory.status.clone_from(&row.status);
            memory.modified_at = row.modified_at;
            memory.detail = detail.cloned();
            if let Some(counted) = counted {
                if counted < memory.counted {
                    memory.before = memory.before.saturating_add(memory.counted);
                }
                memory.counted = counted;
            }
            let before = memory.before;
            all.put(&row.id, memory);
            before
        })
    }

    /// The status that the invocation had when it was last seen.
    pub(crate) fn last_status(&self, id: &str) -> Option<String> {
        self.with(|all| all.get(id).map(|memory| memory.status))
    }

    fn with<T>(&self, look: impl FnOnce(&mut Generations) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Generations {
    fn get(&self, id: &str) -> Option<Memory> {
        self.young.get(id).or_else(|| self.old.get(id)).cloned()
    }

    fn put(&mut self, id: &str, memory: Memory) {
        if self.young.len() >= REMEMBERED && !self.young.contains_key(id) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(id.to_owned(), memory);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: &str, status: &str) -> Invocation {
        Invocation {
            id: id.into(),
            status: status.into(),
            ..Invocation::default()
        }
    }

    #[test]
    fn the_attempt_total_never_runs_backwards() {
        let recall = Recall::default();
        // As recorded: a suspension in the middle, after which Restate counts from 1 again.
        let counts = [Some(1), Some(2), Some(3), None, Some(1), Some(2), None];
        let totals: Vec<u32> = counts
            .into_iter()
            .map(|counted| {
                let before = recall.note(&row("a", "running"), None, counted);
                before + counted.unwrap_or(0)
            })
            .collect();
        assert_eq!(totals, [1, 2, 3, 0, 4, 5, 3]);
    }

    #[test]
    fn a_detail_is_good_until_the_row_changes() {
        let recall = Recall::default();
        let detail = Arc::new(Detail::Waits(Vec::new()));
        recall.note(&row("a", "suspended"), Some(&detail), None);
        assert_eq!(recall.detail(&row("a", "suspended")), Some(detail));
        assert_eq!(recall.detail(&row("a", "running")), None);
        let mut later = row("a", "suspended");
        later.modified_at = Some(Timestamp::UNIX_EPOCH);
        assert_eq!(recall.detail(&later), None);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let recall = Recall::default();
        for number in 0..3 * REMEMBERED {
            recall.note(&row(&number.to_string(), "running"), None, None);
        }
        recall.with(|all| assert!(all.young.len() + all.old.len() <= 2 * REMEMBERED));
    }
}
