//! How many calls of one provider may be under way. A call that finds no slot is refused, so nothing
//! ever waits for one: a counter is enough.

use std::sync::atomic::{AtomicUsize, Ordering};

#[derive(Debug)]
pub(super) struct Slots {
    free: AtomicUsize,
}

/// A slot, taken until it is dropped.
#[derive(Debug)]
pub(super) struct Slot<'s>(&'s Slots);

impl Slots {
    pub(super) const fn new(most: usize) -> Self {
        Self {
            free: AtomicUsize::new(most),
        }
    }

    pub(super) fn take(&self) -> Option<Slot<'_>> {
        let one_less = |free: usize| free.checked_sub(1);
        let taken = self
            .free
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less);
        taken.ok().map(|_| Slot(self))
    }

    pub(super) fn free(&self) -> usize {
        self.free.load(Ordering::Relaxed)
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.0.free.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_free_again_when_its_call_ends() {
        let slots = Slots::new(2);
        let (first, second) = (slots.take(), slots.take());
        assert!(first.is_some() && second.is_some() && slots.take().is_none());
        drop(first);
        assert_eq!(slots.free(), 1);
        assert!(slots.take().is_some());
    }
}
