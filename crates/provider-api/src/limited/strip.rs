//! What is left of an observation without the capabilities that were turned off. Pure.

use crate::{
    Approval, Capabilities, Escalation, Observation, RetryPhase, StepObservation, Watched,
};

/// What an adapter shows beyond its own capabilities stays, for example a label of the engine's.
pub(super) fn observation(mut seen: Observation, allowed: &Capabilities) -> Observation {
    if !allowed.payloads {
        (seen.input, seen.output) = (None, None);
    }
    if !allowed.labels {
        seen.labels.clear();
    }
    if !allowed.steps {
        steps(&mut seen);
    }
    if !allowed.retries {
        seen.retry = None;
        for step in &mut seen.steps {
            step.retry = None;
            // Notes of a step are about its attempts.
            step.notes.clear();
        }
    }
    seen
}

/// An item of a watch, without what was turned off.
pub(super) fn watched(item: Watched, allowed: &Capabilities) -> Watched {
    match item {
        Watched::Seen(seen) => Watched::seen(observation(*seen, allowed)),
        Watched::Gone(_) | Watched::InSync => item,
    }
}

/// An approval, without what was turned off.
pub(super) fn approval(shown: &mut Approval, allowed: &Capabilities) {
    if !allowed.payloads {
        shown.input = None;
    }
    if !allowed.labels {
        shown.labels.clear();
    }
}

/// An escalation, without what was turned off.
pub(super) fn escalation(shown: &mut Escalation, allowed: &Capabilities) {
    if !allowed.labels {
        shown.labels.clear();
    }
}

/// Without steps the execution shows what decides its state: the attempt of a step that backs off or
/// has no attempt left, and the waits of all steps. Steps that are only a detail decide nothing.
fn steps(seen: &mut Observation) {
    let steps = std::mem::take(&mut seen.steps);
    if std::mem::take(&mut seen.steps_are_detail) {
        return;
    }
    let resting = |step: &StepObservation| {
        let retry = step.retry.clone()?;
        (retry.phase != RetryPhase::UnderWay).then_some(retry)
    };
    seen.retry = seen.retry.take().or_else(|| steps.iter().find_map(resting));
    seen.waits
        .extend(steps.into_iter().flat_map(|step| step.waits));
}

#[cfg(test)]
mod tests {
    use stateway_model::{ExecutionId, Payload, Wait, WaitKind};

    use super::*;
    use crate::{NativeState, RetryEvidence};

    fn whole() -> Observation {
        let native = NativeState::new("ACTIVE");
        let mut seen = Observation::new(ExecutionId::new("e").unwrap(), native.clone());
        seen.input = Some(Payload::json("1"));
        seen.output = Some(Payload::json("2"));
        seen.labels.insert("team".into(), "shop".into());
        let mut step = StepObservation::new("pay", native);
        step.retry = Some(RetryEvidence {
            phase: RetryPhase::BetweenAttempts,
            ..RetryEvidence::reported(2)
        });
        step.waits = vec![Wait::new(WaitKind::Signal, "go")];
        seen.steps = vec![step];
        seen
    }

    #[test]
    fn each_capability_takes_its_part_and_nothing_else() {
        let shown = |name: &str| observation(whole(), &Capabilities::ALL.without(name).unwrap());
        assert_eq!(observation(whole(), &Capabilities::ALL), whole());
        let mut expected = whole();
        (expected.input, expected.output) = (None, None);
        assert_eq!(shown("payloads"), expected);
        let mut expected = whole();
        expected.labels.clear();
        assert_eq!(shown("labels"), expected);
        let mut expected = whole();
        expected.steps[0].retry = None;
        assert_eq!(shown("retries"), expected);
        let mut expected = whole();
        let step = expected.steps.remove(0);
        (expected.retry, expected.waits) = (step.retry, step.waits);
        assert_eq!(shown("steps"), expected);
    }

    #[test]
    fn without_steps_and_attempts_only_the_waits_are_left() {
        let can = Capabilities::ALL.without("steps").unwrap();
        let shown = observation(whole(), &can.without("retries").unwrap());
        assert_eq!((shown.retry, shown.steps.len()), (None, 0));
        assert_eq!(shown.waits.len(), 1);
    }

    #[test]
    fn steps_that_are_a_detail_leave_nothing_behind() {
        let mut seen = whole();
        seen.steps_are_detail = true;
        let shown = observation(seen, &Capabilities::ALL.without("steps").unwrap());
        assert_eq!((shown.retry, shown.waits.len()), (None, 0));
    }
}
