//! What of a definition a host does differently or cannot do, computed from the definition.
//!
//! - `sentence`: every sentence of the report. `limits`: the numbers of an engine.
//! - `outputs`: the sizes of outputs by their schemas.

mod limits;
mod outputs;
mod sentence;

use stateway_definition::{Definition, StepKind};
use stateway_provider_api::{Portability, PortabilityVerdict};

use crate::provider::Pace;
pub use limits::{EngineLimits, RunLimits};
use sentence::Sentence;

/// What depends on the engine and on the settings of the provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HostAbilities {
    /// Whether the gateway makes HTTP calls.
    pub http: bool,
    /// Whether schedules start executions.
    pub schedules: bool,
    /// The limits of the engine.
    pub limits: EngineLimits,
    /// How long leases last, and how often they are renewed.
    pub pace: Pace,
}

/// Why a host cannot run a definition at all, on any engine; empty when it can.
#[must_use]
pub fn impossible(definition: &Definition) -> Vec<String> {
    words(concurrency(definition))
}

/// Why a provider cannot run a definition at all; empty when it can. A start is refused with the first of them.
#[must_use]
pub fn obstacles((definition, source): (&Definition, &str), can: &HostAbilities) -> Vec<String> {
    words(found_obstacles((definition, source), can))
}

/// The report about a definition.
#[must_use]
pub fn report((definition, source): (&Definition, &str), can: &HostAbilities) -> Portability {
    let sentences = sentences((definition, source), can);
    let verdicts = sentences.iter().map(Sentence::verdict);
    let verdict = verdicts.max_by_key(|verdict| match verdict {
        PortabilityVerdict::Exact => 0,
        PortabilityVerdict::Emulated => 1,
        PortabilityVerdict::Impossible => 2,
    });
    Portability {
        verdict: verdict.unwrap_or(PortabilityVerdict::Exact),
        reasons: words(sentences),
    }
}

fn words(sentences: impl IntoIterator<Item = Sentence>) -> Vec<String> {
    sentences.into_iter().map(|it| it.to_string()).collect()
}

/// Every sentence of the report, the obstacles first.
fn sentences((definition, source): (&Definition, &str), can: &HostAbilities) -> Vec<Sentence> {
    let mut found = found_obstacles((definition, source), can);
    let trigger = definition.trigger.as_ref();
    let schedule = trigger.and_then(|trigger| trigger.schedule.as_ref());
    if schedule.is_some() && !can.schedules {
        found.push(Sentence::Schedule {});
    }
    found.extend(can.limits.possible(definition, can.pace));
    found
}

fn found_obstacles(
    (definition, source): (&Definition, &str),
    can: &HostAbilities,
) -> Vec<Sentence> {
    let mut found: Vec<_> = concurrency(definition).into_iter().collect();
    found.extend(can.limits.exceeded(definition, source));
    if !can.http {
        let steps = definition.steps.iter();
        let http = steps.filter(|step| matches!(step.kind, StepKind::Http { .. }));
        found.extend(http.map(|step| Sentence::HttpStep {
            step: step.name.clone(),
        }));
    }
    found
}

fn concurrency(definition: &Definition) -> Option<Sentence> {
    definition.concurrency.map(|_| Sentence::Concurrency {})
}

#[cfg(test)]
mod tests;
