//! How far an attempt is, by its worker's own account.

use std::hash::{Hash, Hasher};

use serde::{Deserialize, Serialize};

/// A part of a whole: from 0 to 1, and always a number.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Fraction(f64);

impl Fraction {
    /// The fraction nearest to a number; nothing for what is not finite.
    #[must_use]
    pub fn new(number: f64) -> Option<Self> {
        // Adding zero makes a negative zero positive, so that equal fractions hash equally.
        number
            .is_finite()
            .then(|| Self(number.clamp(0.0, 1.0) + 0.0))
    }

    /// The number, from 0 to 1.
    #[must_use]
    pub const fn get(self) -> f64 {
        self.0
    }
}

// Never NaN, so that equality is reflexive.
impl Eq for Fraction {}

impl Hash for Fraction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.to_bits().hash(state);
    }
}

impl TryFrom<f64> for Fraction {
    type Error = &'static str;

    fn try_from(number: f64) -> Result<Self, Self::Error> {
        Self::new(number).ok_or("a fraction is a finite number")
    }
}

impl From<Fraction> for f64 {
    fn from(fraction: Fraction) -> Self {
        fraction.0
    }
}

/// How far an attempt is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Progress {
    /// How much of it is done.
    pub fraction: Fraction,
    /// The current work, as the worker describes it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

impl Progress {
    /// How many characters of a detail are kept.
    pub const MAX_DETAIL: usize = 512;

    /// Progress from a worker's figures; a longer detail is cut. Nothing without a finite number.
    #[must_use]
    pub fn new(fraction: f64, detail: &str) -> Option<Self> {
        Some(Self {
            fraction: Fraction::new(fraction)?,
            detail: detail.chars().take(Self::MAX_DETAIL).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fraction_is_finite_and_between_0_and_1() {
        for (number, kept) in [
            (0.25, Some(0.25)),
            (-3.0, Some(0.0)),
            (7.0, Some(1.0)),
            (f64::NAN, None),
            (f64::INFINITY, None),
        ] {
            assert_eq!(Fraction::new(number).map(Fraction::get), kept, "{number}");
        }
        assert_eq!(Fraction::new(-0.0).unwrap().get().to_bits(), 0);
    }

    #[test]
    fn a_long_detail_is_cut_between_characters() {
        let progress = Progress::new(0.5, &"ü".repeat(600)).unwrap();
        assert_eq!(progress.detail, "ü".repeat(Progress::MAX_DETAIL));
    }

    #[test]
    fn json_is_a_number_and_a_text() {
        let progress = Progress::new(0.5, "reading").unwrap();
        let json = serde_json::to_string(&progress).unwrap();
        assert_eq!(json, r#"{"fraction":0.5,"detail":"reading"}"#);
        assert_eq!(serde_json::from_str::<Progress>(&json).unwrap(), progress);
    }
}
