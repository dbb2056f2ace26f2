//! Random numbers that can be repeated: a seed decides every number that follows (splitmix64). For tests, checks and
//! benchmarks; the gateway does not use it, and nothing secret may come from it.

/// A source of numbers; the same seed gives the same numbers on every machine.
#[derive(Debug, Clone)]
pub struct Chance(u64);

impl Chance {
    /// A source from a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A source of its own, which does not depend on how often this one is used later.
    #[must_use]
    pub const fn split(&mut self) -> Self {
        Self(self.next())
    }

    /// The next number.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below a bound; 0 when the bound is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound).unwrap_or(u64::MAX);
        usize::try_from(self.below_u64(bound)).unwrap_or(0)
    }

    /// A number below a bound; 0 when the bound is 0.
    pub fn below_u64(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    /// A number from a range, both ends included.
    pub fn between(&mut self, least: i64, most: i64) -> i64 {
        let span = most.abs_diff(least).saturating_add(1);
        least.saturating_add_unsigned(self.next() % span)
    }

    /// True this many times in a hundred.
    pub fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// True this many times in a thousand.
    pub fn permille(&mut self, permille: usize) -> bool {
        self.below(1_000) < permille
    }

    /// One of several.
    pub fn pick<'t, T>(&mut self, of: &'t [T]) -> Option<&'t T> {
        of.get(self.below(of.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_splitmix64() {
        let mut chance = Chance::new(1_234_567);
        let numbers = [chance.next(), chance.next(), chance.next()];
        let expected = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
        ];
        assert_eq!(numbers, expected);
    }

    #[test]
    fn numbers_stay_in_their_range() {
        let mut chance = Chance::new(1);
        for _ in 0..1_000 {
            assert!(chance.below(7) < 7);
            assert!((-3..=3).contains(&chance.between(-3, 3)));
        }
        assert_eq!(chance.below(0), 0);
        assert_eq!(chance.pick::<u8>(&[]), None);
        assert!(!chance.percent(0) && chance.permille(1_000));
    }
}
