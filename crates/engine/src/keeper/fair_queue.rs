//! A queue that serves tenants in turn, and each tenant in order.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// A fair queue.
#[derive(Debug)]
pub(super) struct FairQueue<T> {
    turns: VecDeque<Arc<str>>,
    lines: HashMap<Arc<str>, VecDeque<T>>,
}

impl<T> Default for FairQueue<T> {
    fn default() -> Self {
        Self {
            turns: VecDeque::new(),
            lines: HashMap::new(),
        }
    }
}

impl<T> FairQueue<T> {
    pub(super) fn push(&mut self, tenant: &str, item: T) {
        if let Some(line) = self.lines.get_mut(tenant) {
            line.push_back(item);
            return;
        }
        let tenant: Arc<str> = tenant.into();
        self.turns.push_back(Arc::clone(&tenant));
        self.lines.insert(tenant, VecDeque::from([item]));
    }

    /// Puts an item that was taken back to where it was.
    pub(super) fn push_front(&mut self, tenant: &str, item: T) {
        if let Some(line) = self.lines.get_mut(tenant) {
            line.push_front(item);
            if let Some(at) = self.turns.iter().position(|of| **of == *tenant)
                && let Some(tenant) = self.turns.remove(at)
            {
                self.turns.push_front(tenant);
            }
            return;
        }
        let tenant: Arc<str> = tenant.into();
        self.turns.push_front(Arc::clone(&tenant));
        self.lines.insert(tenant, VecDeque::from([item]));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// The first of the tenant whose turn it is, or of the next one. What is gone is dropped on the
    /// way.
    pub(super) fn take(&mut self, gone: impl Fn(&T) -> bool) -> Option<T> {
        self.take_of(|_| true, gone)
    }

    /// Likewise, of these tenants only.
    pub(super) fn take_of(
        &mut self,
        serves: impl Fn(&str) -> bool,
        gone: impl Fn(&T) -> bool,
    ) -> Option<T> {
        for _ in 0..self.turns.len() {
            let tenant = self.turns.pop_front()?;
            let Some(line) = self.lines.get_mut(&tenant) else {
                continue;
            };
            let mut found = None;
            if serves(&tenant) {
                while let Some(item) = line.pop_front() {
                    if !gone(&item) {
                        found = Some(item);
                        break;
                    }
                }
            }
            if line.is_empty() {
                self.lines.remove(&tenant);
            } else {
                self.turns.push_back(tenant);
            }
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// Keeps only what is wanted.
    pub(super) fn retain(&mut self, wanted: impl Fn(&T) -> bool) {
        self.lines.retain(|_, line| {
            line.retain(&wanted);
            !line.is_empty()
        });
        self.turns.retain(|tenant| self.lines.contains_key(tenant));
    }

    /// Everything that waits, with whose it is.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &T)> {
        self.lines
            .iter()
            .flat_map(|(tenant, line)| line.iter().map(|item| (&**tenant, item)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(fair: &mut FairQueue<u32>) -> Vec<u32> {
        std::iter::from_fn(|| fair.take(|_| false)).collect()
    }

    #[test]
    fn tenants_take_turns_and_each_keeps_its_order() {
        let mut fair = FairQueue::default();
        for (tenant, item) in [
            ("a", 1),
            ("a", 2),
            ("a", 3),
            ("b", 10),
            ("c", 20),
            ("b", 11),
        ] {
            fair.push(tenant, item);
        }
        assert_eq!(drain(&mut fair), [1, 10, 20, 2, 11, 3]);
        assert!(fair.is_empty());
    }

    #[test]
    fn an_item_that_is_put_back_is_taken_next() {
        let mut fair = FairQueue::default();
        for (tenant, item) in [("a", 1), ("b", 10), ("a", 2)] {
            fair.push(tenant, item);
        }
        assert_eq!(fair.take(|_| false), Some(1));
        fair.push_front("a", 1);
        assert_eq!(drain(&mut fair), [1, 10, 2]);
        fair.push_front("c", 7);
        assert_eq!(drain(&mut fair), [7]);
    }

    #[test]
    fn what_is_gone_is_dropped() {
        let mut fair = FairQueue::default();
        for item in [1, 2, 3, 4] {
            fair.push("a", item);
        }
        assert_eq!(fair.take(|item| *item < 3), Some(3));
        fair.push("b", 5);
        fair.retain(|item| *item == 5);
        assert_eq!(drain(&mut fair), [5]);
    }

    #[test]
    fn a_tenant_that_is_not_served_waits() {
        let mut fair = FairQueue::default();
        fair.push("a", 1);
        fair.push("b", 2);
        assert_eq!(fair.take_of(|tenant| tenant == "b", |_| false), Some(2));
        assert_eq!(fair.take_of(|tenant| tenant == "b", |_| false), None);
        assert_eq!(drain(&mut fair), [1]);
    }
}
