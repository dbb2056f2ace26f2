//! Bounds what has begun and not ended: TLS handshakes, and connections whose client is not
//! authenticated.
//!
//! A client that opens connections and never finishes a handshake must not keep others out. Beyond
//! the limit the oldest handshake is cut off: a client that means it is done within milliseconds, and
//! one that stalls is always among the oldest.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

/// The handshakes under way.
#[derive(Debug)]
pub(super) struct Handshakes {
    most: usize,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    next: u64,
    /// By age, the oldest first.
    tokens: BTreeMap<u64, CancellationToken>,
}

/// One handshake under way.
#[derive(Debug)]
pub(super) struct Handshake {
    number: u64,
    cut: CancellationToken,
    all: Arc<Handshakes>,
}

impl Handshakes {
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self {
            most: most.max(1),
            open: Mutex::default(),
        })
    }

    /// Begins a handshake, and cuts off the oldest one if there are too many.
    pub(super) fn begin(self: &Arc<Self>) -> Handshake {
        let cut = CancellationToken::new();
        let mut open = self.lock();
        let number = open.next;
        open.next += 1;
        open.tokens.insert(number, cut.clone());
        let oldest = if open.tokens.len() > self.most {
            open.tokens.pop_first()
        } else {
            None
        };
        drop(open);
        if let Some((_, oldest)) = oldest {
            oldest.cancel();
        }
        Handshake {
            number,
            cut,
            all: self.clone(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Handshake {
    /// Is cancelled when this handshake has to make room for newer ones.
    pub(super) fn cut(&self) -> CancellationToken {
        self.cut.clone()
    }

    /// Resolves when this handshake has to make room for newer ones.
    pub(super) async fn cut_off(&self) {
        self.cut.cancelled().await;
    }
}

impl Drop for Handshake {
    fn drop(&mut self) {
        self.all.lock().tokens.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_the_limit_the_oldest_handshake_is_cut_off() {
        let handshakes = Handshakes::new(2);
        let (first, second) = (handshakes.begin(), handshakes.begin());
        assert!(!first.cut.is_cancelled());
        let third = handshakes.begin();
        assert!(first.cut.is_cancelled());
        assert!(!second.cut.is_cancelled() && !third.cut.is_cancelled());
    }

    #[test]
    fn a_handshake_that_ended_makes_room() {
        let handshakes = Handshakes::new(2);
        let first = handshakes.begin();
        drop(handshakes.begin());
        let _third = handshakes.begin();
        assert!(!first.cut.is_cancelled());
        assert_eq!(handshakes.lock().tokens.len(), 2);
    }
}
