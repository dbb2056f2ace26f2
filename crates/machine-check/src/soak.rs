//! Runs many random worlds.

use std::time::{Duration, Instant};

use stateway_replay::{Vocabulary, vocabularies};

use crate::coverage::Coverage;
use crate::definitions::MOST_STEPS;
use crate::world::run;

/// What a soak found.
#[derive(Debug)]
pub struct Soak {
    /// How many worlds were run.
    pub cases: u64,
    /// How many events they made.
    pub events: u64,
    /// How many commands were sent.
    pub commands: u64,
    /// How many of them were refused.
    pub refused: u64,
    /// What they reached.
    pub coverage: Coverage,
    /// What they should have reached.
    pub vocabularies: Vec<Vocabulary>,
    /// How long it took.
    pub took: Duration,
}

/// Runs worlds from a first seed on; small definitions first, so that a failure is a small one.
///
/// # Errors
/// The first broken invariant, with its seed and its log.
pub fn soak(first: u64, cases: u64, progress: &dyn Fn(u64)) -> Result<Soak, String> {
    let began = Instant::now();
    let vocabularies = vocabularies().map_err(|error| error.to_string())?;
    let mut soak = Soak {
        cases,
        events: 0,
        commands: 0,
        refused: 0,
        coverage: Coverage::default(),
        vocabularies,
        took: Duration::ZERO,
    };
    for case in 0..cases {
        let share = usize::try_from(case * 100 / cases.max(1)).unwrap_or(100);
        let most = (1 + share / 10).min(MOST_STEPS);
        let story = run(first + case, most)?;
        let (sent, accepted) = story.commands;
        soak.events += u64::try_from(story.events.len()).unwrap_or(0);
        soak.commands += u64::try_from(sent).unwrap_or(0);
        soak.refused += u64::try_from(sent - accepted).unwrap_or(0);
        soak.coverage
            .add(&story, &soak.vocabularies)
            .map_err(|broken| format!("seed {}: {broken}", first + case))?;
        progress(case + 1);
    }
    soak.took = began.elapsed();
    Ok(soak)
}

impl Soak {
    /// Everything that is listed somewhere and was never reached.
    #[must_use]
    pub fn missing(&self) -> Vec<String> {
        let words = self
            .vocabularies
            .iter()
            .flat_map(|v| self.coverage.missing_words(v));
        self.coverage
            .missing_moves()
            .into_iter()
            .chain(words)
            .collect()
    }
}
