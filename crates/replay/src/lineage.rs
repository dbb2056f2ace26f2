//! The lineage of a branch: the branch and its ancestors, each up to the event at which the next one left it.

/// A part of a lineage: the events of one branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// The branch.
    pub branch: u32,
    /// The last sequence that counts.
    pub up_to: u64,
}

/// The segments of a lineage, the oldest first. `parent` returns the parent of a branch and the last sequence
/// that the two share.
///
/// # Errors
/// A branch whose parent is not older, which is damage.
pub fn lineage(
    branch: u32,
    parent: impl Fn(u32) -> Option<(u32, u64)>,
) -> Result<Vec<Segment>, u32> {
    let mut at = Segment {
        branch,
        up_to: u64::MAX,
    };
    let mut segments = vec![at];
    while let Some((parent, cutoff)) = parent(at.branch) {
        if parent >= at.branch {
            return Err(at.branch);
        }
        at = Segment {
            branch: parent,
            up_to: at.up_to.min(cutoff),
        };
        segments.push(at);
    }
    segments.reverse();
    Ok(segments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ancestor_counts_up_to_the_first_point_at_which_it_was_left() {
        let parent = |branch| match branch {
            // Branch 2 left branch 1 before branch 1 had left branch 0.
            3 => Some((2, 9)),
            2 => Some((1, 4)),
            1 => Some((0, 6)),
            _ => None,
        };
        let found = lineage(3, parent).unwrap();
        let found: Vec<_> = found.iter().map(|part| (part.branch, part.up_to)).collect();
        assert_eq!(found, [(0, 4), (1, 4), (2, 9), (3, u64::MAX)]);
    }

    #[test]
    fn a_parent_that_is_not_older_is_damage() {
        assert_eq!(lineage(2, |branch| Some((branch, 1))), Err(2));
        assert_eq!(lineage(2, |branch| Some((3 - branch, 1))), Err(1));
    }
}
