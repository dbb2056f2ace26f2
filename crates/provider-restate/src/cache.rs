//! The data that is cached between two reads of an invocation. A cache: losing it costs a query and
//! changes no observation.

mod running;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use stateway_model::ExecutionId;
use stateway_provider_api::RequestId;
use stateway_provider_api::adapter::lock;
use tokio::time::Instant;

pub(crate) use running::{MOST_RUNNING, RunningTable};

use crate::response::Detail;
use crate::row::Invocation;

/// How many invocations are remembered at least; at most it is twice as many.
const REMEMBERED: usize = 10_000;
/// The longest a row is relied upon while the in-memory table does not contradict it.
pub(crate) const LONGEST_RELIED: Duration = Duration::from_secs(5);

/// How many restarts are remembered by their request ids.
const REMEMBERED_RESTARTS: usize = 1_000;

#[derive(Debug, Default)]
pub(crate) struct Cache {
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
}

impl Cache {
    /// What was read beside this row, if the row has not changed since.
    pub(crate) fn detail(&self, row: &Invocation) -> Option<Arc<Detail>> {
        self.with(|all| {
            let memory = all.get(&row.id)?;
            memory.detail.filter(|_| is_same(&memory.row, row))
        })
    }

    /// Remembers a row and what was read beside it.
    pub(crate) fn note(&self, row: &Invocation, detail: Option<&Arc<Detail>>, now: Instant) {
        self.with(|all| {
            let mut memory = all.get(&row.id).unwrap_or_default();
            if memory.row != *row {
                memory.same_since = Some(now);
            }
            memory.read_at = Some(now);
            memory.row.clone_from(row);
            memory.detail = detail.cloned();
            all.put(&row.id, memory);
        });
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

    /// Notes that a write was sent to the invocation: what was read before it is old.
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
        look(&mut lock(&self.invocations))
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
        lock(&self.restarts)
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
    fn a_detail_is_good_until_the_row_changes() {
        let cache = Cache::default();
        let detail = Arc::new(Detail::Waits(Vec::new()));
        cache.note(&row("a", "suspended"), Some(&detail), Instant::now());
        assert_eq!(cache.detail(&row("a", "suspended")), Some(detail));
        assert_eq!(cache.detail(&row("a", "running")), None);
        let mut later = row("a", "suspended");
        later.modified_at = Some(jiff::Timestamp::UNIX_EPOCH);
        assert_eq!(cache.detail(&later), None);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let cache = Cache::default();
        for number in 0..3 * REMEMBERED {
            let row = row(&number.to_string(), "running");
            cache.note(&row, None, Instant::now());
        }
        cache.with(|all| assert!(all.young.len() + all.old.len() <= 2 * REMEMBERED));
    }

    #[test]
    fn the_longer_a_row_has_been_the_same_the_longer_it_is_relied_upon() {
        let (cache, start) = (Cache::default(), Instant::now());
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let relied = |now| cache.reliable(["a"].into_iter(), now).is_some();
        let read = |status: &str, now| cache.note(&row("a", status), None, now);
        assert!(!relied(at(0)));
        read("suspended", at(0));
        assert!(!relied(at(0)));
        read("suspended", at(2));
        assert!(relied(at(3)) && !relied(at(4)));
        read("suspended", at(60));
        assert!(relied(at(64)) && !relied(at(65)));
        cache.stir("a");
        assert!(!relied(at(61)));
        read("running", at(70));
        assert!(!relied(at(70)));
        assert!(cache.reliable(["a", "b"].into_iter(), at(70)).is_none());
    }
}
