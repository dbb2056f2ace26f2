//! Observations and their steps.

use stateway_model::{ExecutionId, Wait};
use stateway_provider_api::{Observation, ObservedDefinition, StepObservation, Version};

use crate::parts::{
    cancellation, execution_error, pause, payload, progress, read_cancellation, read_last_error,
    read_pause, read_payload, read_progress, read_reopen, read_retry, read_usage, read_wait,
    reopen, retry, usage, wait,
};
use crate::request::{optional_id, read_id};
use crate::state::{native_state, read_native_state};
use crate::time::{read_time, timestamp};
use crate::{Misfit, v1};

/// The parts of a version.
const VERSION_PARTS: usize = 3;

/// An observation for the wire. A sub-state that an engine computed itself is not part of the contract,
/// and neither are portable definitions.
#[must_use]
pub fn observation(seen: &Observation) -> v1::Observation {
    v1::Observation {
        id: seen.id.as_str().to_owned(),
        version: seen.version.map(|version| v1::Version {
            parts: version.parts().to_vec(),
        }),
        definition: match &seen.definition {
            Some(ObservedDefinition::Native(name)) => name.clone(),
            Some(ObservedDefinition::Portable(_)) | None => String::new(),
        },
        revision: seen.revision.clone(),
        native_state: Some(native_state(&seen.native)),
        retry: seen.retry.as_ref().map(retry),
        waits: seen.waits.iter().map(wait).collect(),
        steps: seen.steps.iter().map(step).collect(),
        steps_are_detail: seen.steps_are_detail,
        is_partial: seen.is_partial,
        last_error: seen.last_error.as_ref().map(execution_error),
        create_time: seen.create_time.map(timestamp),
        start_time: seen.start_time.map(timestamp),
        update_time: seen.update_time.map(timestamp),
        end_time: seen.end_time.map(timestamp),
        input: seen.input.as_ref().map(payload),
        output: seen.output.as_ref().map(payload),
        labels: seen.labels.clone().into_iter().collect(),
        usage: seen.usage.map(usage),
        abandoned_usage: seen.abandoned_usage.map(usage),
        cancellation: seen.cancellation.as_ref().map(cancellation),
        pause: seen.pause.as_ref().map(pause),
        reopen: seen.reopen.as_ref().map(reopen),
        forked_from: text(seen.forked_from.as_ref()),
        parent_execution: text(seen.parent_execution.as_ref()),
        forks: seen.forks.iter().map(ToString::to_string).collect(),
        not_rolled_back: seen.not_rolled_back.clone(),
        notes: seen.notes.clone(),
    }
}

/// An observation of the wire.
///
/// # Errors
/// A field is missing or breaks its rule.
pub fn read_observation(seen: v1::Observation) -> Result<Observation, Misfit> {
    let steps = seen.steps.into_iter().map(read_step);
    let steps: Result<Vec<_>, _> = steps.collect();
    let forks: Result<Vec<_>, _> = seen.forks.iter().map(|id| read_id("forks", id)).collect();
    let retry = seen.retry.map(read_retry).transpose();
    Ok(Observation {
        id: read_id("id", &seen.id)?,
        version: seen.version.map(|of| version(&of)).transpose()?,
        definition: if seen.definition.is_empty() {
            None
        } else {
            Some(ObservedDefinition::Native(seen.definition))
        },
        revision: seen.revision,
        native: read_native_state(seen.native_state)?,
        reported: None,
        retry: retry.map_err(|misfit| misfit.inside("retry"))?,
        waits: waits(seen.waits)?,
        steps: steps.map_err(|misfit| misfit.inside("steps"))?,
        steps_are_detail: seen.steps_are_detail,
        is_partial: seen.is_partial,
        last_error: read_last_error(seen.last_error)?,
        create_time: read_time("create_time", seen.create_time)?,
        start_time: read_time("start_time", seen.start_time)?,
        update_time: read_time("update_time", seen.update_time)?,
        end_time: read_time("end_time", seen.end_time)?,
        input: seen.input.map(read_payload),
        output: seen.output.map(read_payload),
        labels: seen.labels.into_iter().collect(),
        usage: seen.usage.map(read_usage).transpose()?,
        abandoned_usage: seen.abandoned_usage.map(read_usage).transpose()?,
        cancellation: seen.cancellation.map(read_cancellation).transpose()?,
        pause: seen.pause.map(read_pause),
        reopen: seen.reopen.map(read_reopen).transpose()?,
        forked_from: optional_id("forked_from", &seen.forked_from)?,
        parent_execution: optional_id("parent_execution", &seen.parent_execution)?,
        forks: forks?,
        not_rolled_back: seen.not_rolled_back,
        notes: seen.notes,
    })
}

fn step(seen: &StepObservation) -> v1::StepObservation {
    v1::StepObservation {
        name: seen.name.clone(),
        native_state: Some(native_state(&seen.native)),
        retry: seen.retry.as_ref().map(retry),
        waits: seen.waits.iter().map(wait).collect(),
        last_error: seen.last_error.as_ref().map(execution_error),
        start_time: seen.start_time.map(timestamp),
        end_time: seen.end_time.map(timestamp),
        progress: seen.progress.as_ref().map(progress),
        usage: seen.usage.map(usage),
        child: text(seen.child.as_ref()),
        blocked_by: seen.blocked_by.clone(),
        notes: seen.notes.clone(),
    }
}

fn read_step(seen: v1::StepObservation) -> Result<StepObservation, Misfit> {
    if seen.name.is_empty() {
        return Err(Misfit::new("name", "is empty"));
    }
    let retry = seen.retry.map(read_retry).transpose();
    Ok(StepObservation {
        name: seen.name,
        native: read_native_state(seen.native_state)?,
        reported: None,
        retry: retry.map_err(|misfit| misfit.inside("retry"))?,
        waits: waits(seen.waits)?,
        last_error: read_last_error(seen.last_error)?,
        start_time: read_time("start_time", seen.start_time)?,
        end_time: read_time("end_time", seen.end_time)?,
        progress: seen.progress.as_ref().map(read_progress).transpose()?,
        usage: seen.usage.map(read_usage).transpose()?,
        child: optional_id("child", &seen.child)?,
        blocked_by: seen.blocked_by,
        notes: seen.notes,
    })
}

fn version(of: &v1::Version) -> Result<Version, Misfit> {
    let mut parts = [0; VERSION_PARTS];
    if of.parts.is_empty() || of.parts.len() > VERSION_PARTS {
        return Err(Misfit::new("version.parts", "must have one to three parts"));
    }
    parts[..of.parts.len()].copy_from_slice(&of.parts);
    Ok(Version::of_parts(parts))
}

fn waits(waits: Vec<v1::Wait>) -> Result<Vec<Wait>, Misfit> {
    waits.into_iter().map(read_wait).collect()
}

fn text(id: Option<&ExecutionId>) -> String {
    id.map(ToString::to_string).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use prost::Message;
    use stateway_model::{
        Blocker, CancelInfo, ErrorCategory, ExecutionError, PauseInfo, Payload, Progress,
        ReopenInfo, RetryBasis, Usage, WaitKind,
    };
    use stateway_provider_api::{NativeState, RetryEvidence, RetryPhase};

    use super::*;

    fn id(text: &str) -> ExecutionId {
        ExecutionId::new(text).unwrap()
    }

    /// An observation with every field.
    fn whole() -> Observation {
        let now: jiff::Timestamp = "2026-11-17T12:00:00.5Z".parse().unwrap();
        let error = ExecutionError {
            step: "charge".into(),
            message: "no route".into(),
            native_code: "E42".into(),
            category: Some(ErrorCategory::Transient),
            attempt: 2,
            at: Some(now),
        };
        let retry = RetryEvidence {
            attempt: 2,
            max_attempts: Some(0),
            phase: RetryPhase::BetweenAttempts,
            next_attempt_time: Some(now),
            delay: Some(Duration::from_millis(1_500)),
            jitter: Some(Duration::from_millis(20)),
            last_error: Some(error.clone()),
            basis: RetryBasis::Inferred,
        };
        let waits = vec![
            Wait::capacity(Blocker::Slot, "etl"),
            Wait {
                since: Some(now),
                deadline: Some(now),
                detail: "soon".into(),
                ..Wait::new(WaitKind::Signal, "go")
            },
        ];
        let usage = Usage {
            input_tokens: 1,
            output_tokens: 2,
            cost_micros: 3,
        };
        let native = NativeState {
            state: "ACTIVE".into(),
            qualifiers: [("cause".to_owned(), "x".to_owned())].into(),
        };
        let step = StepObservation {
            retry: Some(retry.clone()),
            waits: waits.clone(),
            last_error: Some(error.clone()),
            start_time: Some(now),
            end_time: Some(now),
            progress: Progress::new(0.5, "half"),
            usage: Some(usage),
            child: Some(id("child")),
            blocked_by: vec!["a".into()],
            notes: vec!["n".into()],
            ..StepObservation::new("charge", native.clone())
        };
        Observation {
            version: Some(Version::of_parts([1, u64::MAX, 3])),
            definition: Some(ObservedDefinition::Native("order".into())),
            revision: "r1".into(),
            retry: Some(retry),
            waits,
            steps: vec![step],
            steps_are_detail: true,
            is_partial: true,
            last_error: Some(error),
            create_time: Some(now),
            start_time: Some(now),
            update_time: Some(now),
            end_time: Some(now),
            input: Some(Payload::json("1")),
            output: Some(Payload::json("2")),
            labels: [("a".to_owned(), "b".to_owned())].into(),
            usage: Some(usage),
            abandoned_usage: Some(usage),
            cancellation: Some(CancelInfo {
                by: "ann".into(),
                comment: "c".into(),
                time: Some(now),
            }),
            pause: Some(PauseInfo {
                by: "bob".into(),
                comment: "c".into(),
                step: "s".into(),
                offered_revision: "r2".into(),
                conflicts: vec!["d".into()],
            }),
            reopen: Some(ReopenInfo {
                count: 3,
                by: "eve".into(),
                time: Some(now),
                from: "DONE".into(),
            }),
            forked_from: Some(id("before")),
            parent_execution: Some(id("above")),
            forks: vec![id("after")],
            not_rolled_back: vec!["s".into()],
            notes: vec!["n".into()],
            ..Observation::new(id("one"), native)
        }
    }

    #[test]
    fn an_observation_comes_back_as_it_was() {
        let whole = whole();
        assert_eq!(read_observation(observation(&whole)), Ok(whole));
        let bare = Observation::new(id("bare"), NativeState::new("DONE"));
        assert_eq!(read_observation(observation(&bare)), Ok(bare));
    }

    /// The message as version 1 of the contract writes it, recorded once and never again: later builds read
    /// what today's providers send, and today's gateways read what later providers send.
    const RECORDED: &[u8] = include_bytes!("../recorded/observation.binpb");

    #[test]
    fn what_was_recorded_is_read_for_ever() {
        let recorded = v1::Observation::decode(RECORDED).unwrap();
        // The field of the parent was added after the recording.
        let expected = Observation {
            parent_execution: None,
            ..whole()
        };
        assert_eq!(read_observation(recorded), Ok(expected.clone()));
        // A field that a later version adds.
        let mut newer = RECORDED.to_vec();
        newer.extend([0xfa, 0x3e, 3, b'n', b'e', b'w']);
        let newer = v1::Observation::decode(newer.as_slice()).unwrap();
        assert_eq!(read_observation(newer), Ok(expected));
    }

    #[test]
    fn a_sub_state_does_not_cross_the_wire() {
        let reported = Observation {
            reported: Some((stateway_model::SubState::Failed, None)),
            ..whole()
        };
        assert_eq!(read_observation(observation(&reported)), Ok(whole()));
    }

    #[test]
    fn a_field_that_breaks_its_rule_is_named() {
        let broken = |change: fn(&mut v1::Observation)| {
            let mut message = observation(&whole());
            change(&mut message);
            read_observation(message).unwrap_err().to_string()
        };
        assert_eq!(
            broken(|seen| seen.native_state = None),
            "`native_state` is missing"
        );
        assert_eq!(
            broken(|seen| seen.id.clear()),
            "`id` an id must not be empty"
        );
        let nested = broken(|seen| seen.steps[0].native_state = None);
        assert_eq!(nested, "`steps.native_state` is missing");
        let attempt = broken(|seen| seen.retry.as_mut().unwrap().attempt = 0);
        assert_eq!(attempt, "`retry.attempt` must be 1 or more");
        let parts = broken(|seen| seen.version.as_mut().unwrap().parts = vec![1; 4]);
        assert_eq!(parts, "`version.parts` must have one to three parts");
    }

    #[test]
    fn a_value_of_a_newer_contract_is_no_error() {
        let mut message = observation(&whole());
        message.waits[1].kind = 99;
        message.retry.as_mut().unwrap().phase = 99;
        message.last_error.as_mut().unwrap().category = 99;
        let read = read_observation(message).unwrap();
        assert_eq!(read.waits[1].kind, WaitKind::Callback);
        assert_eq!(read.retry.unwrap().phase, RetryPhase::UnderWay);
        assert_eq!(read.last_error.unwrap().category, None);
    }
}
