//! What a host keeps in memory, by run, so that a task needs only the events since the one before. Bounded; what is
//! not here is read from the history.

use std::collections::{BTreeMap, HashMap};

/// Values by run. When it is full, the one that was not used for the longest time is forgotten.
#[derive(Debug)]
pub(crate) struct Cache<T> {
    most: usize,
    most_bytes: usize,
    bytes: usize,
    next: u64,
    entries: HashMap<String, Entry<T>>,
    by_use: BTreeMap<u64, String>,
}

#[derive(Debug)]
struct Entry<T> {
    used: u64,
    bytes: usize,
    value: T,
}

impl<T> Cache<T> {
    /// A cache with a maximum number of values, and of bytes of all values together.
    pub(crate) fn of(most: usize, most_bytes: usize) -> Self {
        Self {
            most,
            most_bytes,
            bytes: 0,
            next: 0,
            entries: HashMap::new(),
            by_use: BTreeMap::new(),
        }
    }

    /// Takes a value out.
    pub(crate) fn take(&mut self, run: &str) -> Option<T> {
        let entry = self.entries.remove(run)?;
        self.by_use.remove(&entry.used);
        self.bytes -= entry.bytes;
        Some(entry.value)
    }

    /// Puts a value of so many bytes in.
    pub(crate) fn put(&mut self, run: String, value: T, bytes: usize) {
        self.take(&run);
        if self.most == 0 || bytes > self.most_bytes {
            return;
        }
        while self.entries.len() >= self.most || self.bytes + bytes > self.most_bytes {
            let Some((_, oldest)) = self.by_use.first_key_value() else {
                break;
            };
            let oldest = oldest.clone();
            self.take(&oldest);
        }
        self.next += 1;
        self.bytes += bytes;
        self.by_use.insert(self.next, run.clone());
        let used = self.next;
        self.entries.insert(run, Entry { used, bytes, value });
    }
}

impl<T: Clone> Cache<T> {
    /// A value, which stays in and counts as used.
    pub(crate) fn get(&mut self, run: &str) -> Option<T> {
        let bytes = self.entries.get(run)?.bytes;
        let value = self.take(run)?;
        self.put(run.to_owned(), value.clone(), bytes);
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(cache: &mut Cache<u32>, run: &str, bytes: usize) {
        cache.put(run.to_owned(), 1, bytes);
    }

    #[test]
    fn the_value_that_was_not_used_for_the_longest_time_is_forgotten() {
        let mut cache = Cache::of(2, 1_000);
        put(&mut cache, "a", 1);
        put(&mut cache, "b", 1);
        assert!(cache.get("a").is_some());
        put(&mut cache, "c", 1);
        assert!(cache.take("b").is_none());
        assert!(cache.take("a").is_some());
        assert!(cache.take("c").is_some());
        assert!(cache.by_use.is_empty());
        assert_eq!(cache.bytes, 0);
    }

    #[test]
    fn large_values_leave_room_for_fewer() {
        let mut cache = Cache::of(10, 1_000);
        for run in ["a", "b", "c"] {
            put(&mut cache, run, 300);
        }
        put(&mut cache, "d", 500);
        assert_eq!(cache.bytes, 800);
        assert!(cache.get("a").is_none() && cache.get("b").is_none());
        assert!(cache.get("c").is_some() && cache.get("d").is_some());
        // One that has no room at all does not push the others out.
        put(&mut cache, "e", 1_001);
        assert!(cache.get("e").is_none() && cache.get("d").is_some());
        // A value that has grown counts once.
        put(&mut cache, "c", 400);
        assert_eq!(cache.bytes, 900);
    }

    #[test]
    fn a_cache_of_nothing_keeps_nothing() {
        let mut cache = Cache::of(0, 1_000);
        put(&mut cache, "a", 1);
        assert!(cache.take("a").is_none());
    }
}
