//! The figures of one or many schedules.

use std::collections::BTreeMap;
use std::fmt;

/// Counts by name. Adding two sums the counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Totals {
    counts: BTreeMap<&'static str, u64>,
}

impl Totals {
    pub(crate) fn count(&mut self, name: &'static str) {
        self.add_to(name, 1);
    }

    pub(crate) fn add_to(&mut self, name: &'static str, more: u64) {
        *self.counts.entry(name).or_default() += more;
    }

    /// The count of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> u64 {
        self.counts.get(name).copied().unwrap_or(0)
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (name, count) in &other.counts {
            self.add_to(name, *count);
        }
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.counts.keys().map(|name| name.len()).max().unwrap_or(0);
        for (name, count) in &self.counts {
            writeln!(f, "{name:width$}  {count}")?;
        }
        Ok(())
    }
}
