//! Limits the records of refusals, so that refused callers can neither fill the disk nor make
//! rotation remove other records. Refusals beyond the limit are counted, and the count is recorded.

use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use stateway_audit::Record;

#[derive(Debug)]
pub(super) struct Refusals {
    most: u32,
    window: Mutex<Window>,
}

/// One second.
#[derive(Debug, Default)]
struct Window {
    second: i64,
    used: u32,
    suppressed: u64,
}

impl Refusals {
    pub(super) fn new(most: u32) -> Self {
        Self {
            most,
            window: Mutex::default(),
        }
    }

    /// Whether a refusal gets a record; with the record about those before it that got none.
    pub(super) fn admit(&self, now: Timestamp) -> Option<Option<Record>> {
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        if window.second != now.as_second() {
            window.second = now.as_second();
            window.used = 0;
        }
        if window.used >= self.most {
            window.suppressed += 1;
            return None;
        }
        window.used += 1;
        let before = std::mem::take(&mut window.suppressed);
        Some((before > 0).then(|| super::suppressed(now, before)))
    }

    /// The record about refusals that got none, at the end.
    pub(super) fn rest(&self) -> Option<Record> {
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        let count = std::mem::take(&mut window.suppressed);
        (count > 0).then(|| super::suppressed(Timestamp::now(), count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_beyond_the_limit_are_counted_and_the_count_is_recorded() {
        let refusals = Refusals::new(2);
        let at = |second| Timestamp::from_second(second).unwrap();
        assert_eq!(refusals.admit(at(1)), Some(None));
        assert_eq!(refusals.admit(at(1)), Some(None));
        for _ in 0..5 {
            assert_eq!(refusals.admit(at(1)), None);
        }
        let summary = refusals.admit(at(2)).unwrap().unwrap();
        assert_eq!(summary.count, 5);
        assert_eq!(refusals.admit(at(2)), Some(None));
        assert_eq!(refusals.admit(at(2)), None);
        assert_eq!(refusals.rest().unwrap().count, 1);
        assert_eq!(refusals.rest(), None);
    }
}
