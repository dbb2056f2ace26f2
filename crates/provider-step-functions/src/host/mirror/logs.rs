//! The values of objects that were read from whole histories, as many as fit into a bound.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Key;
use crate::host::gate::Values;

/// The most logs that are kept.
const MOST: usize = 200;
/// The most bytes of the logs that are kept.
const MOST_BYTES: usize = 64 * 1024 * 1024;

/// Logs by object.
#[derive(Default)]
pub(super) struct Logs {
    logs: BTreeMap<Key, Arc<Values>>,
    bytes: usize,
}

impl Logs {
    /// The log of an object, if it is known up to this turn.
    pub(super) fn get(&self, key: &Key, n: u64) -> Option<Arc<Values>> {
        self.logs.get(key).filter(|log| log.n == n).cloned()
    }

    /// Keeps a log. When the bound is reached, the others are forgotten: they can be read again.
    pub(super) fn insert(&mut self, key: &Key, log: Arc<Values>) {
        self.remove(key);
        let bytes = bytes(&log);
        if bytes > MOST_BYTES {
            return;
        }
        if self.logs.len() >= MOST || self.bytes + bytes > MOST_BYTES {
            self.logs.clear();
            self.bytes = 0;
        }
        self.bytes += bytes;
        self.logs.insert(key.clone(), log);
    }

    pub(super) fn remove(&mut self, key: &Key) {
        if let Some(log) = self.logs.remove(key) {
            self.bytes -= bytes(&log);
        }
    }
}

/// The bytes of the texts of a log.
fn bytes(log: &Values) -> usize {
    let values = log.values.iter();
    let values: usize = values.map(|(key, value)| key.len() + value.len()).sum();
    let writers: usize = log.writers.values().map(String::len).sum();
    values + writers
}

#[cfg(test)]
mod tests {
    use super::*;
    use stateway_hosted::provider::ObjectKind;

    fn key(nth: usize) -> Key {
        (ObjectKind::Execution, format!("order-{nth}"))
    }

    fn log(bytes: usize) -> Arc<Values> {
        Arc::new(Values {
            n: 1,
            values: [(String::new(), "x".repeat(bytes))].into(),
            ..Values::default()
        })
    }

    #[test]
    fn logs_are_bounded_by_number_and_by_bytes() {
        let mut logs = Logs::default();
        for nth in 0..=MOST {
            logs.insert(&key(nth), log(1));
            logs.insert(&key(nth), log(10));
            assert_eq!(logs.bytes, 10 * logs.logs.len());
        }
        assert_eq!(logs.logs.len(), 1);
        logs.insert(&key(0), log(MOST_BYTES - 10));
        assert_eq!((logs.logs.len(), logs.bytes), (2, MOST_BYTES));
        logs.insert(&key(1), log(1));
        assert_eq!((logs.logs.len(), logs.bytes), (1, 1));
        logs.insert(&key(2), log(MOST_BYTES + 1));
        assert_eq!((logs.logs.len(), logs.bytes), (1, 1));
        assert!(logs.get(&key(2), 1).is_none());
    }
}
