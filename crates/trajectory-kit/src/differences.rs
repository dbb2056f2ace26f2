//! Where an engine does not show the golden trajectory. The tests on the real engines compare with this list, and
//! docs/reference/trajectories.md is rendered from it.

use std::fmt::Write as _;

use stateway_provider_api::Provider;

use crate::{SCENARIOS, compare_some_at_a_time};

/// An engine that runs the scenarios.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// The built-in engine, whose trajectories are the golden files.
    BuiltIn,
    /// Objects inside Restate.
    Restate,
    /// Workflows inside Temporal.
    Temporal,
    /// Executions of a generic state machine, on the emulator.
    StepFunctions,
}

impl Engine {
    /// Every engine, in the order of the table.
    pub const ALL: [Self; 4] = [
        Self::BuiltIn,
        Self::Restate,
        Self::Temporal,
        Self::StepFunctions,
    ];

    /// The name of the engine, for people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::BuiltIn => "built-in",
            Self::Restate => "Restate",
            Self::Temporal => "Temporal",
            Self::StepFunctions => "Step Functions",
        }
    }
}

/// A scenario that some engines refuse.
#[derive(Debug)]
pub struct Difference {
    /// The name of the scenario.
    pub scenario: &'static str,
    /// The engines that refuse it.
    pub engines: &'static [Engine],
    /// The words of the portability report, and of the refusal.
    pub words: &'static str,
}

const HOSTS: &[Engine] = &[Engine::Restate, Engine::Temporal, Engine::StepFunctions];

/// Every difference, in the order of the scenarios.
pub const DIFFERENCES: &[Difference] = &[
    Difference {
        scenario: "concurrency",
        engines: HOSTS,
        words: "`concurrency` is set: a host has no limit of concurrent executions yet",
    },
    Difference {
        scenario: "http",
        engines: HOSTS,
        words: "step `a` is of kind `http`: the provider may call no address (`http.allow` is empty)",
    },
];

/// The scenarios that an engine refuses, each with the words of the report.
#[must_use]
pub fn differences(engine: Engine) -> Vec<(&'static str, String)> {
    let found = DIFFERENCES.iter().filter(|it| it.engines.contains(&engine));
    found.map(|it| (it.scenario, it.words.to_owned())).collect()
}

/// Plays every scenario on an engine, at most so many at the same time. Its trajectories are the golden ones,
/// except where [`DIFFERENCES`] has another entry.
///
/// # Panics
/// A trajectory differs, a scenario is stuck, or another scenario than the listed ones was refused.
pub async fn conform(engine: Engine, provider: &dyn Provider, most: usize) {
    let refused = compare_some_at_a_time(provider, most).await;
    assert_eq!(refused, differences(engine), "{}", engine.name());
}

/// The rows of the table in docs/reference/trajectories.md.
#[must_use]
pub fn table() -> String {
    let mut table = String::from("| scenario |");
    for engine in Engine::ALL {
        let _ = write!(table, " {} |", engine.name());
    }
    table.push_str("\n|---|");
    table.push_str(&"---|".repeat(Engine::ALL.len()));
    table.push('\n');
    for scenario in SCENARIOS {
        let name = scenario.name;
        let _ = write!(
            table,
            "| [{name}](../../crates/trajectory-kit/golden/{name}.txt) |"
        );
        for engine in Engine::ALL {
            let found = DIFFERENCES
                .iter()
                .position(|it| it.scenario == name && it.engines.contains(&engine));
            match found {
                None => table.push_str(" equal |"),
                Some(nth) => {
                    let _ = write!(table, " refused ({}) |", nth + 1);
                }
            }
        }
        table.push('\n');
    }
    table.push('\n');
    for (nth, difference) in DIFFERENCES.iter().enumerate() {
        let _ = writeln!(table, "{}. {}", nth + 1, difference.words);
    }
    table
}
