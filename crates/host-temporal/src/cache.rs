//! Executions in memory, so that a task needs only the events since the one before. Bounded; what is not here is
//! read from the history.

use std::collections::{BTreeMap, HashMap};

use stateway_provider_temporal::host::Record;

/// Records by run. When it is full, the one that was not used for the longest time is forgotten.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    most: usize,
    next: u64,
    records: HashMap<String, (u64, Record)>,
    by_use: BTreeMap<u64, String>,
}

impl Cache {
    /// A cache with a maximum number of records.
    pub(crate) fn of(most: usize) -> Self {
        Self {
            most,
            ..Self::default()
        }
    }

    /// Takes a record out.
    pub(crate) fn take(&mut self, run: &str) -> Option<Record> {
        let (used, record) = self.records.remove(run)?;
        self.by_use.remove(&used);
        Some(record)
    }

    /// Puts a record in.
    pub(crate) fn put(&mut self, run: String, record: Record) {
        self.take(&run);
        if self.most == 0 {
            return;
        }
        while self.records.len() >= self.most {
            let Some((_, oldest)) = self.by_use.pop_first() else {
                break;
            };
            self.records.remove(&oldest);
        }
        self.next += 1;
        self.by_use.insert(self.next, run.clone());
        self.records.insert(run, (self.next, record));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_record_that_was_not_used_for_the_longest_time_is_forgotten() {
        let mut cache = Cache::of(2);
        cache.put("a".to_owned(), Record::default());
        cache.put("b".to_owned(), Record::default());
        let a = cache.take("a").unwrap();
        cache.put("a".to_owned(), a);
        cache.put("c".to_owned(), Record::default());
        assert!(cache.take("b").is_none());
        assert!(cache.take("a").is_some());
        assert!(cache.take("c").is_some());
        assert!(cache.by_use.is_empty());
    }

    #[test]
    fn a_cache_of_nothing_keeps_nothing() {
        let mut cache = Cache::of(0);
        cache.put("a".to_owned(), Record::default());
        assert!(cache.take("a").is_none());
    }
}
