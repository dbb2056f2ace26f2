//! A run as an observation: the provider's words and evidence, without a verdict.

use jiff::Timestamp;
use stateway_model::{Payload, RetryBasis, Wait, WaitKind};
use stateway_provider_api::{
    NativeState, Observation, ObservedDefinition, RetryEvidence, RetryPhase, StepObservation, View,
};

use crate::qualifier;
use crate::script::{Ending, Phase, Pose, Run, StepRun, StepState, WaitFor};
use crate::store::Record;

pub(crate) fn observation(record: &Record, view: View) -> Observation {
    let run = &record.run;
    let mut seen = Observation::new(record.id.clone(), native(run));
    seen.version = Some(record.version());
    seen.definition = Some(ObservedDefinition::Native(record.definition().to_owned()));
    seen.steps = steps(run);
    seen.last_error = run
        .steps
        .iter()
        .filter_map(|step| step.last_error.as_ref())
        .max_by_key(|error| error.at)
        .cloned();
    seen.waits = start_wait(run);
    seen.create_time = Some(run.created);
    seen.start_time = run.started;
    seen.update_time = Some(run.updated);
    seen.end_time = run.ended;
    seen.labels.clone_from(&record.request.labels);
    if view == View::Full {
        seen.input.clone_from(&record.request.input);
        seen.output = output(run);
    }
    seen
}

fn native(run: &Run) -> NativeState {
    if run.held.is_some() {
        return NativeState::new("HELD");
    }
    match run.phase {
        Phase::Scheduled { .. } => NativeState::new("SCHEDULED"),
        Phase::Active => active(run),
        Phase::Compensating(_) => NativeState::new("COMPENSATING"),
        Phase::Over(Ending::Done) => NativeState::new("DONE"),
        Phase::Over(Ending::Stopped) => NativeState::new("STOPPED"),
        Phase::Over(Ending::Killed) => NativeState::new("KILLED"),
        Phase::Over(Ending::Broken { cause, compensated }) => {
            let state = NativeState::new("BROKEN").with(qualifier::CAUSE, cause.as_str());
            if compensated {
                state.with(qualifier::COMPENSATED, "yes")
            } else {
                state
            }
        }
    }
}

fn active(run: &Run) -> NativeState {
    if let Some(Pose {
        state, qualifiers, ..
    }) = &run.script.pose
    {
        return NativeState {
            state: state.clone(),
            qualifiers: qualifiers.clone(),
        };
    }
    let mut open = run.steps.iter().filter(|step| step.state.is_open());
    if open.all(|step| step.state == StepState::Stuck) {
        NativeState::new("STUCK")
    } else {
        NativeState::new("ACTIVE")
    }
}

fn start_wait(run: &Run) -> Vec<Wait> {
    match run.phase {
        Phase::Scheduled { until } => vec![Wait {
            since: Some(run.created),
            deadline: Some(until),
            ..Wait::new(WaitKind::Timer, "start")
        }],
        Phase::Active | Phase::Compensating(_) | Phase::Over(_) => Vec::new(),
    }
}

fn steps(run: &Run) -> Vec<StepObservation> {
    let posed = run.script.pose.iter().flat_map(|pose| &pose.steps);
    let posed = posed.map(|step| {
        let mut native = NativeState::new(&step.state);
        native.qualifiers = step.qualifiers.clone();
        StepObservation::new(&step.name, native)
    });
    let real = run.steps.iter().enumerate().map(|(index, step)| {
        let script = run.step_script(index);
        StepObservation {
            retry: retry(step, script.retry.max_attempts),
            waits: waits(step, script.waits_for.as_ref()),
            last_error: step.last_error.clone(),
            start_time: Some(step.started),
            end_time: step.ended,
            ..StepObservation::new(&script.name, step_native(step.state))
        }
    });
    posed.chain(real).collect()
}

fn step_native(state: StepState) -> NativeState {
    NativeState::new(match state {
        StepState::Queued { .. } => "QUEUED",
        StepState::Working { .. } => "WORKING",
        StepState::Resting { .. } => "RESTING",
        StepState::Listening { .. } => "LISTENING",
        StepState::Sleeping { .. } => "SLEEPING",
        StepState::Stuck => "STUCK",
        StepState::Done => "DONE",
        StepState::Broken(cause) => {
            return NativeState::new("BROKEN").with(qualifier::CAUSE, cause.as_str());
        }
        StepState::Compensating { .. } => "COMPENSATING",
        StepState::Compensated => "COMPENSATED",
        StepState::Dropped => "DROPPED",
    })
}

fn retry(step: &StepRun, max_attempts: u32) -> Option<RetryEvidence> {
    if step.attempt == 0 {
        return None;
    }
    let (phase, next_attempt_time, delay) = match step.state {
        StepState::Resting { until, delay } => {
            (RetryPhase::BetweenAttempts, Some(until), Some(delay))
        }
        StepState::Stuck | StepState::Broken(_) => (RetryPhase::Exhausted, None, None),
        _ => (RetryPhase::UnderWay, None, None),
    };
    Some(RetryEvidence {
        attempt: step.attempt,
        max_attempts: Some(max_attempts),
        phase,
        next_attempt_time,
        delay,
        jitter: None,
        last_error: step.last_error.clone(),
        basis: RetryBasis::Reported,
    })
}

fn waits(step: &StepRun, waits_for: Option<&WaitFor>) -> Vec<Wait> {
    let wait = |kind, name: &str, since: Timestamp, deadline| {
        vec![Wait {
            since: Some(since),
            deadline,
            ..Wait::new(kind, name)
        }]
    };
    match (step.state, waits_for) {
        (StepState::Listening { since, deadline }, Some(WaitFor::Signal { signal, .. })) => {
            wait(WaitKind::Signal, signal, since, deadline)
        }
        (StepState::Sleeping { since, until }, _) => wait(WaitKind::Timer, "", since, Some(until)),
        (StepState::Queued { since, .. }, _) => wait(WaitKind::Capacity, "", since, None),
        _ => Vec::new(),
    }
}

fn output(run: &Run) -> Option<Payload> {
    let Phase::Over(Ending::Done) = run.phase else {
        return None;
    };
    run.output.clone()
}
