//! From observation to execution: the thin shell around [`classify`](crate::classify).
//!
//! It adds what a pure function may not do: the once-only warning and the counter for native
//! states that are in no table.

use std::collections::BTreeSet;
use std::sync::Mutex;

use jiff::Timestamp;
use stateway_model::{
    DefinitionName, Execution, ExecutionError, ExecutionId, ExecutionName, ProviderId, Retry, Step,
    SubState, Wait,
};

use crate::adapter::lock;
use crate::classify::{Decision, Verdict, classify};
use crate::table::Scope;
use crate::{
    Classified, Explanation, Observation, ObservedDefinition, RetryEvidence, StepObservation, Table,
};

/// How many different unknown states per provider are remembered as warned of. An engine that
/// reports more than this causes one more warning; further states are only counted.
const MOST_WARNED: usize = 1024;

/// Turns one provider's observations into executions, by the table that the provider has at that
/// moment.
#[derive(Debug)]
pub struct Mapper {
    provider: ProviderId,
    warned: Mutex<Warned>,
}

/// Which unknown states were warned of.
#[derive(Debug)]
struct Warned {
    states: BTreeSet<(Scope, String)>,
    /// There were more than are remembered, and that was logged.
    overflowed: bool,
}

/// What is logged about an unknown state that is seen again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Warning {
    Unmapped,
    MoreThanRemembered,
    None,
}

impl Mapper {
    /// A mapper for the provider.
    #[must_use]
    pub const fn new(provider: ProviderId) -> Self {
        Self {
            provider,
            warned: Mutex::new(Warned {
                states: BTreeSet::new(),
                overflowed: false,
            }),
        }
    }

    /// The execution as clients see it.
    #[must_use]
    pub fn execution(&self, table: &Table, observation: Observation, now: Timestamp) -> Execution {
        let classified = classify(table, &observation, now);
        self.note_unmapped(&classified, &observation);
        self.assemble(&classified, observation)
    }

    /// Why the execution shows what it shows.
    #[must_use]
    pub fn explain(&self, table: &Table, observation: &Observation, now: Timestamp) -> Explanation {
        let classified = classify(table, observation, now);
        self.note_unmapped(&classified, observation);
        classified.explain(observation, now)
    }

    fn assemble(&self, classified: &Classified<'_>, mut observation: Observation) -> Execution {
        let verdict = classified.execution;
        let mut own_waits = std::mem::take(&mut observation.waits);
        if verdict.sub_state.is_terminal() {
            own_waits.clear();
        }
        let observed = std::mem::take(&mut observation.steps);
        let steps: Vec<Step> = observed
            .into_iter()
            .zip(&classified.steps)
            .map(|(step, verdict)| self.step(step, *verdict))
            .collect();
        let teller = if verdict.sub_state.is_terminal() && !observation.steps_are_detail {
            last_teller(observation.last_error.as_ref(), &steps)
        } else {
            teller(verdict, &steps)
        };
        let own_error = observation.retry.as_ref();
        let own_error = own_error.and_then(|retry| retry.last_error.clone());
        let retry = match observation.retry {
            None => teller.map_or(Retry::UNKNOWN, |step| step.retry.clone()),
            own => retry(own, verdict.sub_state),
        };
        let of_steps = || {
            let failed = verdict.sub_state != SubState::Succeeded;
            let step = teller.filter(|_| failed)?;
            step.retry
                .last_error
                .as_ref()
                .or(step.last_error.as_ref())
                .cloned()
        };
        let last_error = observation.last_error.or(own_error).or_else(of_steps);
        if !observation.steps_are_detail {
            own_waits.extend(steps.iter().flat_map(|step| step.waits.iter().cloned()));
        }
        Execution {
            name: self.name(observation.id),
            definition: self.definition_name(observation.definition),
            revision: observation.revision,
            sub_state: verdict.sub_state,
            native_state: observation.native.state,
            reason: verdict.reason,
            mapping_basis: verdict.basis,
            retry,
            waits: own_waits,
            steps,
            steps_are_detail: observation.steps_are_detail,
            is_partial: observation.is_partial,
            last_error,
            create_time: observation.create_time,
            start_time: observation.start_time,
            update_time: observation.update_time,
            end_time: observation.end_time,
            input: observation.input,
            output: observation.output,
            labels: observation.labels,
            usage: observation.usage,
            abandoned_usage: observation.abandoned_usage,
            cancellation: observation.cancellation,
            pause: observation.pause,
            reopen: observation.reopen,
            forked_from: observation.forked_from.map(|id| self.name(id)),
            parent_execution: observation.parent_execution.map(|id| self.name(id)),
            forks: observation
                .forks
                .into_iter()
                .map(|id| self.name(id))
                .collect(),
            not_rolled_back: observation.not_rolled_back,
        }
    }

    fn step(&self, step: StepObservation, verdict: Verdict<'_>) -> Step {
        Step {
            retry: retry(step.retry, verdict.sub_state),
            name: step.name,
            sub_state: verdict.sub_state,
            native_state: step.native.state,
            reason: verdict.reason,
            mapping_basis: verdict.basis,
            waits: open_only(step.waits, verdict.sub_state),
            last_error: step.last_error,
            start_time: step.start_time,
            end_time: step.end_time,
            progress: step.progress,
            usage: step.usage,
            child: step.child.map(|id| self.name(id)),
            blocked_by: step.blocked_by,
        }
    }

    fn name(&self, id: ExecutionId) -> ExecutionName {
        ExecutionName::new(self.provider.clone(), id)
    }

    fn definition_name(&self, definition: Option<ObservedDefinition>) -> String {
        let name = match definition {
            None => return String::new(),
            Some(ObservedDefinition::Native(id)) => {
                DefinitionName::native_resource_name(&self.provider, &id)
            }
            Some(ObservedDefinition::Portable(id)) => {
                DefinitionName::portable(&id).map(|name| name.to_string())
            }
        };
        name.unwrap_or_default()
    }

    fn note_unmapped(&self, classified: &Classified<'_>, observation: &Observation) {
        if classified.execution.decision == Decision::Default {
            self.warn_of(Scope::Execution, &observation.native.state);
        }
        for (step, verdict) in observation.steps.iter().zip(&classified.steps) {
            if verdict.row.is_none() {
                self.warn_of(Scope::Step, &step.native.state);
            }
        }
    }

    fn warn_of(&self, scope: Scope, state: &str) {
        let provider = self.provider.as_str();
        metrics::counter!(
            "stateway_unmapped_states_total", "provider" => provider.to_owned(), "scope" => scope.as_str()
        )
        .increment(1);
        let warning = lock(&self.warned).note(scope, state);
        match warning {
            Warning::Unmapped => tracing::warn!(
                provider,
                scope = scope.as_str(),
                native_state = state,
                "native state is in no row of the table, shown as running"
            ),
            Warning::MoreThanRemembered => tracing::warn!(
                provider,
                remembered = MOST_WARNED,
                "too many unknown native states: further ones are counted but not logged"
            ),
            Warning::None => {}
        }
    }
}

impl Warned {
    fn note(&mut self, scope: Scope, state: &str) -> Warning {
        let seen = (scope, state.to_owned());
        if self.states.contains(&seen) {
            return Warning::None;
        }
        if self.states.len() < MOST_WARNED {
            self.states.insert(seen);
            return Warning::Unmapped;
        }
        if std::mem::replace(&mut self.overflowed, true) {
            Warning::None
        } else {
            Warning::MoreThanRemembered
        }
    }
}

/// The open step whose attempts explain the state of the execution: of the steps in the same state, the
/// one whose next attempt comes first, else the one tried most often.
fn teller<'s>(verdict: Verdict<'_>, steps: &'s [Step]) -> Option<&'s Step> {
    let by_steps = matches!(verdict.decision, Decision::Steps { .. });
    if !by_steps && verdict.sub_state != SubState::BackingOff {
        return None;
    }
    let alike = steps
        .iter()
        .filter(|step| step.sub_state == verdict.sub_state);
    alike.min_by_key(|step| {
        let next = step.retry.next_attempt_time;
        (next.is_none(), next, std::cmp::Reverse(step.retry.attempt))
    })
}

/// The step whose attempts a finished execution keeps: the one of its last error, else the one tried
/// most often.
fn last_teller<'s>(error: Option<&ExecutionError>, steps: &'s [Step]) -> Option<&'s Step> {
    let tried = || steps.iter().filter(|step| step.retry.attempt > 0);
    let failed = error.and_then(|error| tried().find(|step| step.name == error.step));
    failed.or_else(|| tried().max_by_key(|step| step.retry.attempt))
}

/// Evidence as clients see it. A next attempt is shown only while backing off: engines leave it
/// left over in runs that are paused or finished.
fn retry(evidence: Option<RetryEvidence>, shown: SubState) -> Retry {
    let Some(evidence) = evidence else {
        return Retry::UNKNOWN;
    };
    let scheduled = shown == SubState::BackingOff;
    Retry {
        attempt: evidence.attempt,
        max_attempts: evidence.max_attempts,
        retry_count: evidence.attempt.saturating_sub(1),
        next_attempt_time: evidence.next_attempt_time.filter(|_| scheduled),
        delay: evidence.delay.filter(|_| scheduled),
        jitter: evidence.jitter.filter(|_| scheduled),
        last_error: evidence.last_error,
        basis: evidence.basis,
    }
}

fn open_only(waits: Vec<Wait>, shown: SubState) -> Vec<Wait> {
    if shown.is_terminal() {
        Vec::new()
    } else {
        waits
    }
}
