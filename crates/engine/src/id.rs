//! Ids the engine gives: sortable by time, unique by chance.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use jiff::Timestamp;

/// Crockford's letters: no two of them look alike.
const LETTERS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
/// Ten letters of time, ten of chance.
const LENGTH: usize = 20;

/// The source of new ids: random, or a sequence that a simulation can repeat. Clones share the
/// sequence.
#[derive(Debug, Clone, Default)]
pub struct Ids {
    sequence: Option<Arc<AtomicU64>>,
}

impl Ids {
    /// Ids that follow from a number.
    #[cfg(feature = "simulation")]
    #[must_use]
    pub fn after(seed: u64) -> Self {
        Self {
            sequence: Some(Arc::new(AtomicU64::new(seed))),
        }
    }

    pub(crate) fn next(&self, now: Timestamp) -> Arc<str> {
        let time = u64::try_from(now.as_millisecond()).unwrap_or(0);
        let mut text = [0_u8; LENGTH];
        write(&mut text[..10], time);
        write(&mut text[10..], self.unique());
        text.iter()
            .map(|byte| char::from(*byte))
            .collect::<String>()
            .into()
    }

    fn unique(&self) -> u64 {
        if let Some(sequence) = &self.sequence {
            return sequence.fetch_add(1, Ordering::Relaxed);
        }
        let mut chance = [0_u8; 8];
        // Without the system's randomness ids stay unique by the store's own check.
        let _ = getrandom::fill(&mut chance);
        u64::from_le_bytes(chance)
    }
}

fn write(place: &mut [u8], mut value: u64) {
    for letter in place.iter_mut().rev() {
        *letter = LETTERS[(value % 32) as usize];
        value /= 32;
    }
}
