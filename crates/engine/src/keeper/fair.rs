//! A queue that serves tenants in turn, and each tenant in order.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// The most of one tenant's queue that is looked at for one that fits, so that a long queue of
/// those that do not fit costs a bounded look.
const LOOK: usize = 64;

/// A fair queue.
#[derive(Debug)]
pub(super) struct Fair<T> {
    turns: VecDeque<Arc<str>>,
    lines: HashMap<Arc<str>, VecDeque<T>>,
}

impl<T> Default for Fair<T> {
    fn default() -> Self {
        Self {
            turns: VecDeque::new(),
            lines: HashMap::new(),
        }
    }
}

impl<T> Fair<T> {
    pub(super) fn push(&mut self, tenant: &str, item: T) {
        if let Some(line) = self.lines.get_mut(tenant) {
            line.push_back(item);
            return;
        }
        let tenant: Arc<str> = tenant.into();
        self.turns.push_back(Arc::clone(&tenant));
        self.lines.insert(tenant, VecDeque::from([item]));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// The first that fits of the tenant whose turn it is, or of the next one. What is gone is
    /// dropped on the way.
    pub(super) fn take(
        &mut self,
        fits: impl Fn(&T) -> bool,
        gone: impl Fn(&T) -> bool,
    ) -> Option<T> {
        self.take_of(|_| true, fits, gone)
    }

    /// Likewise, of these tenants only.
    pub(super) fn take_of(
        &mut self,
        serves: impl Fn(&str) -> bool,
        fits: impl Fn(&T) -> bool,
        gone: impl Fn(&T) -> bool,
    ) -> Option<T> {
        for _ in 0..self.turns.len() {
            let tenant = self.turns.pop_front()?;
            let Some(line) = self.lines.get_mut(&tenant) else {
                continue;
            };
            let found = if serves(&tenant) {
                first(line, &fits, &gone)
            } else {
                None
            };
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

    /// How many each tenant has waiting, and the first of them; some may be gone already.
    pub(super) fn lengths(&self) -> impl Iterator<Item = (&str, usize, Option<&T>)> {
        self.lines
            .iter()
            .map(|(tenant, line)| (&**tenant, line.len(), line.front()))
    }
}

fn first<T>(
    line: &mut VecDeque<T>,
    fits: &impl Fn(&T) -> bool,
    gone: &impl Fn(&T) -> bool,
) -> Option<T> {
    let mut at = 0;
    while at < line.len().min(LOOK) {
        if gone(&line[at]) {
            line.remove(at);
        } else if fits(&line[at]) {
            return line.remove(at);
        } else {
            at += 1;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(fair: &mut Fair<u32>) -> Vec<u32> {
        std::iter::from_fn(|| fair.take(|_| true, |_| false)).collect()
    }

    #[test]
    fn tenants_take_turns_and_each_keeps_its_order() {
        let mut fair = Fair::default();
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
    fn what_does_not_fit_keeps_its_place_and_what_is_gone_is_dropped() {
        let mut fair = Fair::default();
        for item in [1, 2, 3, 4] {
            fair.push("a", item);
        }
        assert_eq!(fair.take(|item| *item > 1, |item| *item == 2), Some(3));
        assert_eq!(drain(&mut fair), [1, 4]);
    }

    #[test]
    fn a_tenant_that_is_not_served_waits() {
        let mut fair = Fair::default();
        fair.push("a", 1);
        fair.push("b", 2);
        assert_eq!(
            fair.take_of(|tenant| tenant == "b", |_| true, |_| false),
            Some(2)
        );
        assert_eq!(
            fair.take_of(|tenant| tenant == "b", |_| true, |_| false),
            None
        );
        assert_eq!(drain(&mut fair), [1]);
    }
}
