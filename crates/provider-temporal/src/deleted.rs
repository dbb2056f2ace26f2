//! Runs whose deletion the server has accepted. The server deletes a run that ended a moment ago only
//! after half a minute; until then it is hidden here, because a purge that was answered is done.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use stateway_provider_api::adapter::lock;

/// For how long a run is hidden.
const HIDDEN: Duration = Duration::from_secs(300);
/// The most runs that are hidden.
const MOST: usize = 10_000;

/// The runs, by their id.
#[derive(Debug, Default)]
pub(crate) struct Deleted {
    runs: Mutex<HashMap<String, Instant>>,
}

impl Deleted {
    pub(crate) fn add(&self, run: &str) {
        let mut runs = lock(&self.runs);
        if runs.len() >= MOST {
            runs.retain(|_, at| at.elapsed() < HIDDEN);
        }
        if runs.len() >= MOST {
            runs.clear();
        }
        runs.insert(run.to_owned(), Instant::now());
    }

    pub(crate) fn contains(&self, run: &str) -> bool {
        let runs = lock(&self.runs);
        runs.get(run).is_some_and(|at| at.elapsed() < HIDDEN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_deleted_is_hidden_and_memory_is_bounded() {
        let deleted = Deleted::default();
        for number in 0..=MOST {
            deleted.add(&number.to_string());
        }
        assert!(deleted.contains(&MOST.to_string()));
        assert!(!deleted.contains("other"));
        assert!(lock(&deleted.runs).len() <= MOST);
    }
}
