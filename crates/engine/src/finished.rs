//! Finished executions as lists show them, so that a list does not replay their logs each time.
//!
//! A cache in memory: an entry counts only while it agrees with the row of the execution. A finished
//! execution that is run again has another branch or has no end.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::View;
use crate::store::ExecutionRow;

/// The most steps of all executions in the cache. A step takes about one kilobyte.
const MOST_STEPS: usize = 50_000;

/// Finished executions by number.
#[derive(Debug, Default)]
pub(crate) struct Finished {
    cache: Mutex<Cache>,
    /// How many logs were replayed for lists.
    replays: AtomicU64,
}

#[derive(Debug, Default)]
struct Cache {
    views: HashMap<i64, Arc<View>>,
    /// The numbers in the order of their entry.
    order: VecDeque<i64>,
    steps: usize,
}

impl Finished {
    /// The execution of a row, without input and output.
    pub(crate) fn get(&self, kept: &ExecutionRow) -> Option<View> {
        kept.status.ended?;
        let view = self.lock().views.get(&kept.origin.number).cloned()?;
        let same = view.branch == kept.status.branch
            && view.state == kept.status.state
            && view.times.ended == kept.status.ended
            && view.revision == kept.revision;
        same.then(|| (*view).clone())
    }

    /// Keeps an execution if it has finished.
    pub(crate) fn insert(&self, view: &View) {
        if !view.state.is_terminal() {
            return;
        }
        let view = View {
            input: Arc::default(),
            output: None,
            ..view.clone()
        };
        let mut cache = self.lock();
        if cache.views.contains_key(&view.number) {
            cache.remove(view.number);
            cache.order.retain(|number| *number != view.number);
        }
        cache.steps += weight(&view);
        cache.order.push_back(view.number);
        cache.views.insert(view.number, Arc::new(view));
        while cache.steps > MOST_STEPS
            && let Some(oldest) = cache.order.pop_front()
        {
            cache.remove(oldest);
        }
    }

    pub(crate) fn count_replay(&self) {
        self.replays.fetch_add(1, Ordering::Relaxed);
        metrics::counter!("stateway_engine_list_replays_total").increment(1);
    }

    pub(crate) fn replays(&self) -> u64 {
        self.replays.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Cache {
    fn remove(&mut self, number: i64) {
        if let Some(view) = self.views.remove(&number) {
            self.steps -= weight(&view);
        }
    }
}

fn weight(view: &View) -> usize {
    view.steps.len() + 1
}
