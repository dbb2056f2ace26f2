//! The executions that the keeper does not process after a panic, for the keeper and for readers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Executions by number, with the cause.
#[derive(Debug, Default)]
pub(crate) struct SetAside(Mutex<BTreeMap<i64, Arc<str>>>);

impl SetAside {
    /// Why an execution was set aside; none: it was not.
    pub(crate) fn get(&self, number: i64) -> Option<Arc<str>> {
        self.lock().get(&number).cloned()
    }

    pub(crate) fn insert(&self, number: i64, why: Arc<str>) {
        self.lock().insert(number, why);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<i64, Arc<str>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
