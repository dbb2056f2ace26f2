//! One sequence of numbers for the events of all branches.
//!
//! A log numbers the events of each branch from the point where the branch leaves its parent. A history
//! without branches numbers the events in the order in which they were written.

/// How one branch is numbered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Numbered {
    branch: u32,
    parent: u32,
    cutoff: u64,
    /// Events of the branches before it.
    before: u64,
}

/// The numbers of the events of an execution.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Numbering {
    branches: Vec<Numbered>,
}

impl Numbering {
    /// Of branches in the order they were opened: branch, parent, cutoff, number of events.
    #[must_use]
    pub fn of(branches: impl IntoIterator<Item = (u32, u32, u64, u64)>) -> Self {
        let mut before = 0;
        let numbered = branches
            .into_iter()
            .map(|(branch, parent, cutoff, events)| {
                let numbered = Numbered {
                    branch,
                    parent,
                    cutoff,
                    before,
                };
                before += events;
                numbered
            });
        Self {
            branches: numbered.collect(),
        }
    }

    /// The number in one row of the event that a branch knows by this sequence. The event may belong
    /// to a branch that this one grew from.
    #[must_use]
    pub fn number(&self, branch: u32, sequence: u64) -> Option<u64> {
        let mut at = branch;
        loop {
            let found = self.branches.iter().find(|one| one.branch == at)?;
            if sequence > found.cutoff {
                return Some(found.before + (sequence - found.cutoff));
            }
            if found.parent >= at {
                return None;
            }
            at = found.parent;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_numbered_in_the_order_they_were_written() {
        // Five events, then a branch after the second of them with three of its own.
        let numbering = Numbering::of([(0, 0, 0, 5), (1, 0, 2, 3)]);
        assert_eq!(numbering.number(0, 5), Some(5));
        assert_eq!(numbering.number(1, 3), Some(6));
        assert_eq!(numbering.number(1, 5), Some(8));
        assert_eq!(numbering.number(1, 2), Some(2));
        assert_eq!(numbering.number(2, 1), None);
    }
}
