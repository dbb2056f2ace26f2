//! Chance that can be repeated: a seed decides every number that follows (splitmix64).

/// A source of numbers; the same seed gives the same numbers on every machine.
#[derive(Debug, Clone)]
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A source of its own, which does not depend on how often this one is used later.
    pub(crate) const fn split(&mut self) -> Self {
        Self(self.next())
    }

    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below a bound; 0 when the bound is 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound).unwrap_or(u64::MAX).max(1);
        usize::try_from(self.next() % bound).unwrap_or(0)
    }

    /// A number from a range, both ends included.
    pub(crate) fn between(&mut self, least: i64, most: i64) -> i64 {
        let span = most.abs_diff(least).saturating_add(1);
        least.saturating_add_unsigned(self.next() % span)
    }

    /// True this many times in a hundred.
    pub(crate) fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// True this many times in a thousand.
    pub(crate) fn permille(&mut self, permille: usize) -> bool {
        self.below(1_000) < permille
    }

    pub(crate) fn pick<'t, T>(&mut self, of: &'t [T]) -> Option<&'t T> {
        of.get(self.below(of.len()))
    }
}
