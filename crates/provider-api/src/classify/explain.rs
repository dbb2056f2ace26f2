//! Explains the state that is shown: the row of the table, the evidence and the rule that decide.

use jiff::Timestamp;
use stateway_model::{MappingBasis, SubState, Wait, WaitKind, headline};

use super::{Classified, Decision, Verdict};
use crate::table::Row;
use crate::{NativeState, Observation, RetryEvidence, RetryPhase};

const NO_RETRY: &str = "no retry metadata";

/// Why an execution has the sub-state that is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// The sub-state that is shown.
    pub sub_state: SubState,
    /// How the sub-state was determined.
    pub basis: MappingBasis,
    /// One sentence for a person.
    pub summary: String,
    /// The table row that applies.
    pub row: Option<Row>,
    /// The evidence, one line each, the most important first.
    pub evidence: Vec<String>,
    /// The same for each step.
    pub steps: Vec<StepExplanation>,
}

/// Why a step has the sub-state that is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepExplanation {
    /// The step.
    pub step: String,
    /// The sub-state that is shown.
    pub sub_state: SubState,
    /// One sentence for a person.
    pub summary: String,
    /// The table row that applies.
    pub row: Option<Row>,
    /// The evidence, one line each.
    pub evidence: Vec<String>,
}

impl Classified<'_> {
    /// Explains the verdict on `observation`.
    #[must_use]
    pub fn explain(&self, observation: &Observation, now: Timestamp) -> Explanation {
        let mut seen = evidence(
            &observation.native,
            observation.retry.as_ref(),
            &observation.waits,
            self.execution.sub_state,
            now,
        );
        let deciding = match self.execution.decision {
            Decision::Steps { deciding } => observation.steps.get(deciding),
            _ => None,
        };
        let name = deciding.map(|step| step.name.as_str());
        if observation.retry.is_none()
            && let Some(line) = attempts_of_steps(observation, &self.steps, name, now)
            && let Some(none) = seen.iter_mut().find(|line| *line == NO_RETRY)
        {
            *none = line;
        }
        seen.extend(observation.notes.iter().cloned());
        // An error without a step belongs to the execution itself.
        if self.execution.sub_state == SubState::Error
            && let Some(error) = &observation.last_error
            && error.step.is_empty()
        {
            seen.push(format!("error: {}", error.message));
        }
        let steps = observation
            .steps
            .iter()
            .zip(&self.steps)
            .map(|(step, verdict)| StepExplanation {
                step: step.name.clone(),
                sub_state: verdict.sub_state,
                summary: summary(verdict, &step.native, None),
                row: verdict.row.cloned(),
                evidence: {
                    let mut seen = evidence(
                        &step.native,
                        step.retry.as_ref(),
                        &step.waits,
                        verdict.sub_state,
                        now,
                    );
                    seen.extend(step.notes.iter().cloned());
                    seen
                },
            });
        Explanation {
            sub_state: self.execution.sub_state,
            basis: self.execution.basis,
            summary: summary(&self.execution, &observation.native, name),
            row: self.execution.row.cloned(),
            evidence: seen,
            steps: steps.collect(),
        }
    }
}

fn summary(verdict: &Verdict<'_>, native: &NativeState, deciding: Option<&str>) -> String {
    let (shown, state) = (verdict.sub_state, &native.state);
    let because = match verdict.decision {
        Decision::Row => {
            let label = verdict.row.map_or_else(|| state.clone(), Row::label);
            format!("the state table maps native state `{label}` to {shown}.")
        }
        Decision::Steps { .. } => format!(
            "step `{}` is {shown}{}. The engine reports `{state}`.",
            deciding.unwrap_or("?"),
            no_higher(shown),
        ),
        Decision::Attempts => {
            format!("this follows from the attempts. The engine reports `{state}`.")
        }
        Decision::Waits => format!("this follows from the waits. The engine reports `{state}`."),
        Decision::Default => format!(
            "native state `{state}` is in no table, so `running` is assumed and may be wrong."
        ),
        Decision::Reported => "the engine itself reports this state.".to_owned(),
        Decision::ExecutionFinished => "the execution has finished, so the step is over, whatever \
                                        the engine reports about it."
            .to_owned(),
    };
    let overdue = if verdict.overdue {
        " The next attempt is overdue."
    } else {
        ""
    };
    format!("{shown}: {because}{overdue}")
}

/// The rule for several open steps: running > backing-off > error > waiting.
const fn no_higher(shown: SubState) -> &'static str {
    match shown {
        SubState::BackingOff => ", and no other open step is running",
        SubState::Error => ", and no other open step is running or backing-off",
        SubState::Waiting => ", and no other open step is running, backing-off or in error",
        SubState::Running | SubState::Succeeded | SubState::Failed => "",
    }
}

fn evidence(
    native: &NativeState,
    retry: Option<&RetryEvidence>,
    waits: &[Wait],
    shown: SubState,
    now: Timestamp,
) -> Vec<String> {
    let mut lines = vec![format!("native state `{}`", native.state)];
    lines.extend(
        native
            .qualifiers
            .iter()
            .map(|(name, value)| format!("qualifier {name} = `{value}`")),
    );
    lines.push(retry.map_or_else(
        || NO_RETRY.to_owned(),
        |retry| attempt_line(retry, waits, shown, now),
    ));
    lines.extend(waits.iter().map(wait_line));
    lines
}

/// The attempts of the step that decides, or, once the execution has ended, of the step that was tried
/// most: the figures that the execution itself shows.
fn attempts_of_steps(
    observation: &Observation,
    verdicts: &[Verdict<'_>],
    deciding: Option<&str>,
    now: Timestamp,
) -> Option<String> {
    let steps = observation.steps.iter().zip(verdicts);
    let tried = steps.filter_map(|(step, verdict)| Some((step, verdict, step.retry.as_ref()?)));
    let tried: Vec<_> = tried.collect();
    let named = tried
        .iter()
        .find(|(step, ..)| Some(step.name.as_str()) == deciding);
    let most = || {
        tried.iter().max_by_key(|(_, verdict, retry)| {
            (verdict.sub_state == SubState::Failed, retry.attempt)
        })
    };
    let (step, verdict, retry) = named.or_else(most)?;
    let line = attempt_line(retry, &step.waits, verdict.sub_state, now);
    Some(format!("step `{}`: {line}", step.name))
}

fn attempt_line(retry: &RetryEvidence, waits: &[Wait], shown: SubState, now: Timestamp) -> String {
    let limit = match retry.max_attempts {
        None => String::new(),
        Some(0) => " of unlimited".to_owned(),
        Some(most) => format!(" of {most}"),
    };
    let for_worker = waits.iter().any(|wait| wait.kind == WaitKind::Capacity);
    // A finished execution has no attempt in progress, even if the engine still reports one.
    let phase = match (retry.phase, shown) {
        (RetryPhase::Exhausted, _) => "failed, no retry follows",
        (RetryPhase::UnderWay, SubState::Succeeded) => "succeeded",
        (_, SubState::Succeeded | SubState::Failed) => "is over",
        (RetryPhase::UnderWay, _) if for_worker => "waits for a worker",
        (RetryPhase::UnderWay, _) => "under way",
        (RetryPhase::BetweenAttempts, _) => "failed, a retry is scheduled",
    };
    let next = retry.next_attempt_time.map_or_else(String::new, |next| {
        let seconds = next.duration_since(now).as_secs_f64();
        if seconds >= 0.0 {
            format!("; next attempt at {next}, in {seconds:.0} s")
        } else {
            format!("; next attempt was due at {next}, {:.0} s ago", -seconds)
        }
    });
    let error = retry.last_error.as_ref();
    let error = error.map_or_else(String::new, |error| {
        format!("; last error: {}", headline(&error.message))
    });
    format!(
        "attempt {}{limit} {phase}{next}{error} ({})",
        retry.attempt, retry.basis
    )
}

fn wait_line(wait: &Wait) -> String {
    let name = if wait.name.is_empty() {
        String::new()
    } else {
        format!(" `{}`", wait.name)
    };
    let since = wait
        .since
        .map_or_else(String::new, |since| format!(" since {since}"));
    let until = wait
        .deadline
        .map_or_else(String::new, |until| format!(" until {until}"));
    let detail = match wait.detail.as_str() {
        "" => String::new(),
        detail => format!(": {detail}"),
    };
    format!("waits for {}{name}{since}{until}{detail}", wait.kind)
}
