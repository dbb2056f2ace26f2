//! Sign-ins that have ended: an answer of the provider counts once.

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, PoisonError};

/// The most sign-ins that are remembered. Beyond it the oldest one is forgotten; the provider still
/// refuses its code.
const MOST: usize = 10_000;

#[derive(Debug, Default)]
pub(super) struct UsedStates(Mutex<Used>);

#[derive(Debug, Default)]
struct Used {
    known: HashSet<String>,
    order: VecDeque<String>,
}

impl UsedStates {
    /// Whether this is the first use of a state.
    pub(super) fn is_first(&self, state: &str) -> bool {
        let mut used = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !used.known.insert(state.to_owned()) {
            return false;
        }
        used.order.push_back(state.to_owned());
        if used.order.len() > MOST
            && let Some(oldest) = used.order.pop_front()
        {
            used.known.remove(&oldest);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_counts_once_and_their_number_is_bounded() {
        let used = UsedStates::default();
        assert!(used.is_first("a"));
        assert!(!used.is_first("a"));
        for number in 0..MOST {
            assert!(used.is_first(&number.to_string()));
        }
        assert_eq!(used.0.lock().unwrap().known.len(), MOST);
    }
}
