//! What is worth remembering between two looks at an invocation. Losing it costs a query, or makes
//! an attempt total begin anew; nothing here is the truth of anything.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use stateway_model::ExecutionId;
use stateway_provider_api::RequestId;
use tokio::time::Instant;

use crate::response::Detail;
use crate::row::Invocation;

/// How many invocations are remembered at least; at most it is twice as many.
const REMEMBERED: usize = 10_000;
/// The longest a row is relied upon while the in-memory table does not contradict it.
pub(crate) const LONGEST_RELIED: Duration = Duration::from_secs(5);

/// How many restarts are remembered by their request ids.
const REMEMBERED_RESTARTS: usize = 1_000;

#[derive(Debug, Default)]
pub(crate) struct Recall {
    invocations: Mutex<Generations>,
    restarts: Mutex<HashMap<RequestId, Restart>>,
}

/// A restart that was carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Restart {
    pub(crate) of: ExecutionId,
    pub(crate) step: String,
    pub(crate) new: ExecutionId,
}

/// The young generation becomes the old one when it is full, and the old one is forgotten.
#[derive(Debug, Default)]
struct Generations {
    young: HashMap<String, Memory>,
    old: HashMap<String, Memory>,
}

#[derive(Debug, Clone, Default)]
struct Memory {
    row: Invocation,
    /// When the row was read; not known once something was asked of the invocation.
    read_at: Option<Instant>,
    /// When it was first read as it is.
    same_since: Option<Instant>,
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
            memory.detail.filter(|_| is_same(&memory.row, row))
        })
    }

    /// Takes note of a row and what was read beside it. The attempts made before Restate began
    /// to count anew: it does so when an invocation is suspended, paused or moved.
    pub(crate) fn note(
        &self,
        row: &Invocation,
        detail: Option<&Arc<Detail>>,
        counted: Option<u32>,
        now: Instant,
    ) -> u32 {
        self.with(|all| {
            let mut memory = all.get(&row.id).unwrap_or_default();
            if memory.row != *row {
                memory.same_since = Some(now);
            }
            memory.read_at = Some(now);
            memory.row.clone_from(row);
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

    /// The attempts made before the present count began.
    pub(crate) fn before(&self, id: &str) -> u32 {
        self.with(|all| all.get(id).map_or(0, |memory| memory.before))
    }

    /// The rows of all these, if each was read so recently that only what runs can have changed.
    /// What has just changed is read again soon, what has long been the same is relied upon longer.
    pub(crate) fn reliable<'i>(
        &self,
        ids: impl Iterator<Item = &'i str>,
        now: Instant,
    ) -> Option<Vec<Invocation>> {
        self.with(|all| {
            let reliable = |id| {
                let memory = all.get(id)?;
                let (read_at, since) = (memory.read_at?, memory.same_since?);
                let relied = read_at.duration_since(since).min(LONGEST_RELIED);
                (now.duration_since(read_at) < relied).then_some(memory.row)
            };
            ids.map(reliable).collect()
        })
    }

    /// Takes note that something was asked of the invocation: what was read before is old.
    pub(crate) fn stir(&self, id: &str) {
        self.with(|all| {
            if let Some(mut memory) = all.get(id) {
                memory.read_at = None;
                all.put(id, memory);
            }
        });
    }

    /// The status that the invocation had when it was last seen.
    pub(crate) fn last_status(&self, id: &str) -> Option<String> {
        self.with(|all| all.get(id).map(|memory| memory.row.status))
    }

    fn with<T>(&self, look: impl FnOnce(&mut Generations) -> T) -> T {
        look(
            &mut self
                .invocations
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
        )
    }

    /// The restart that was made for this request. Restate keeps no request id of a restart.
    pub(crate) fn restart(&self, request: &RequestId) -> Option<Restart> {
        self.restarts().get(request).cloned()
    }

    pub(crate) fn note_restart(&self, request: RequestId, restart: Restart) {
        let mut restarts = self.restarts();
        if restarts.len() >= REMEMBERED_RESTARTS {
            restarts.clear();
        }
        restarts.insert(request, restart);
    }

    fn restarts(&self) -> std::sync::MutexGuard<'_, HashMap<RequestId, Restart>> {
        self.restarts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether what was read beside the one is right for the other.
fn is_same(one: &Invocation, other: &Invocation) -> bool {
    one.status == other.status && one.modified_at == other.modified_at
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
                let before = recall.note(&row("a", "running"), None, counted, Instant::now());
                before + counted.unwrap_or(0)
            })
            .collect();
        assert_eq!(totals, [1, 2, 3, 0, 4, 5, 3]);
    }

    #[test]
    fn a_detail_is_good_until_the_row_changes() {
        let recall = Recall::default();
        let detail = Arc::new(Detail::Waits(Vec::new()));
        recall.note(&row("a", "suspended"), Some(&detail), None, Instant::now());
        assert_eq!(recall.detail(&row("a", "suspended")), Some(detail));
        assert_eq!(recall.detail(&row("a", "running")), None);
        let mut later = row("a", "suspended");
        later.modified_at = Some(jiff::Timestamp::UNIX_EPOCH);
        assert_eq!(recall.detail(&later), None);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let recall = Recall::default();
        for number in 0..3 * REMEMBERED {
            let row = row(&number.to_string(), "running");
            recall.note(&row, None, None, Instant::now());
        }
        recall.with(|all| assert!(all.young.len() + all.old.len() <= 2 * REMEMBERED));
    }

    #[test]
    fn the_longer_a_row_has_been_the_same_the_longer_it_is_relied_upon() {
        let (recall, start) = (Recall::default(), Instant::now());
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let relied = |now| recall.reliable(["a"].into_iter(), now).is_some();
        let read = |status: &str, now| recall.note(&row("a", status), None, None, now);
        assert!(!relied(at(0)));
        read("suspended", at(0));
        assert!(!relied(at(0)));
        read("suspended", at(2));
        assert!(relied(at(3)) && !relied(at(4)));
        read("suspended", at(60));
        assert!(relied(at(64)) && !relied(at(65)));
        recall.stir("a");
        assert!(!relied(at(61)));
        read("running", at(70));
        assert!(!relied(at(70)));
        assert!(recall.reliable(["a", "b"].into_iter(), at(70)).is_none());
    }
}
