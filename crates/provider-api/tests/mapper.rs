//! What the mapper adds to a verdict: which figures are shown, and the noise about unknown states.

#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use metrics::{
    Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit,
    with_local_recorder,
};
use stateway_model::{
    Execution, ExecutionError, ExecutionId, Progress, Reason, Retry, RetryBasis, SubState, Usage,
    Wait, WaitKind,
};
use stateway_provider_api::table::{Qualifier, compiled_in};
use stateway_provider_api::{
    Mapper, NativeState, Observation, ObservedDefinition, RetryEvidence, RetryPhase,
    StepObservation, Table,
};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::with_default;

const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);

/// A mapper with the table of a kind.
struct Mapped {
    mapper: Mapper,
    table: Arc<Table>,
}

impl Mapped {
    fn execution(&self, seen: Observation, now: Timestamp) -> Execution {
        self.mapper.execution(&self.table, seen, now)
    }
}

fn mapper(kind: &str) -> Mapped {
    Mapped {
        mapper: Mapper::new("shop".parse().unwrap()),
        table: compiled_in(kind).unwrap(),
    }
}

fn seen(native: NativeState) -> Observation {
    Observation::new(ExecutionId::new("a").unwrap(), native)
}

fn backing_off(attempt: u32, in_seconds: i64) -> RetryEvidence {
    RetryEvidence {
        phase: RetryPhase::BetweenAttempts,
        next_attempt_time: Some(Timestamp::from_second(NOW.as_second() + in_seconds).unwrap()),
        delay: Some(Duration::from_secs(60)),
        last_error: Some(ExecutionError::message("refused")),
        ..RetryEvidence::reported(attempt)
    }
}

/// Counts every increment of every counter, by name and labels.
#[derive(Default)]
struct Counts(Mutex<Vec<(String, Arc<AtomicU64>)>>);

impl Counts {
    fn of(&self, name: &str) -> u64 {
        let counters = self.0.lock().unwrap();
        let named = counters.iter().filter(|(key, _)| key == name);
        named.map(|(_, count)| count.load(Ordering::Relaxed)).sum()
    }
}

impl Recorder for Counts {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        let count = Arc::new(AtomicU64::new(0));
        let labels: Vec<_> = key.labels().map(|label| label.value()).collect();
        let name = format!("{}/{}", key.name(), labels.join("/"));
        self.0.lock().unwrap().push((name, count.clone()));
        Counter::from_arc(count)
    }
    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }
    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

/// Counts warnings.
#[derive(Clone, Default)]
struct Warnings(Arc<AtomicU64>);

impl tracing::Subscriber for Warnings {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::WARN
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &tracing::Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[test]
fn an_unknown_state_is_warned_of_once_per_provider_and_counted_each_time() {
    let (counts, warnings) = (Counts::default(), Warnings::default());
    with_local_recorder(&counts, || {
        with_default(warnings.clone(), || {
            let mapper = mapper("restate");
            for state in ["odd", "odd", "odder", "odd", "running"] {
                let _ = mapper.execution(seen(NativeState::new(state)), NOW);
            }
            let mut with_step = seen(NativeState::new("running"));
            with_step.steps = vec![StepObservation::new("s", NativeState::new("odd"))];
            let _ = mapper.mapper.explain(&mapper.table, &with_step, NOW);
        });
    });
    assert_eq!(warnings.0.load(Ordering::Relaxed), 3);
    assert_eq!(
        counts.of("stateway_unmapped_states_total/shop/execution"),
        4
    );
    assert_eq!(counts.of("stateway_unmapped_states_total/shop/step"), 1);
}

#[test]
fn an_engine_that_invents_states_without_end_is_warned_of_once_more_in_all() {
    const REMEMBERED: u64 = 1024;
    let (counts, warnings) = (Counts::default(), Warnings::default());
    with_local_recorder(&counts, || {
        with_default(warnings.clone(), || {
            let mapper = mapper("restate");
            for round in 0..2 {
                for number in 0..REMEMBERED + 3 {
                    let _ = mapper.execution(seen(NativeState::new(format!("odd-{number}"))), NOW);
                }
                let warned = warnings.0.load(Ordering::Relaxed);
                assert_eq!(warned, REMEMBERED + 1, "round {round}");
            }
        });
    });
    let counted = counts.of("stateway_unmapped_states_total/shop/execution");
    assert_eq!(counted, 2 * (REMEMBERED + 3), "each sight is counted");
}

#[test]
fn two_providers_are_warned_of_separately() {
    let warnings = Warnings::default();
    with_default(warnings.clone(), || {
        for _ in 0..2 {
            let _ = mapper("restate").execution(seen(NativeState::new("odd")), NOW);
        }
    });
    assert_eq!(warnings.0.load(Ordering::Relaxed), 2);
}

#[test]
fn without_metadata_the_count_is_0_and_the_basis_none() {
    let execution = mapper("restate").execution(seen(NativeState::new("running")), NOW);
    assert_eq!(execution.retry, Retry::UNKNOWN);
    assert_eq!(
        (execution.retry.retry_count, execution.retry.basis),
        (0, RetryBasis::None)
    );
}

#[test]
fn a_stale_next_attempt_of_a_held_or_finished_run_is_not_shown() {
    for native in [
        NativeState::new("paused").with(Qualifier::new("pause_cause"), "hand"),
        NativeState::new("completed").with(Qualifier::new("completion_result"), "failure"),
    ] {
        let mut observation = seen(native);
        observation.retry = Some(backing_off(6, 30));
        let retry = mapper("restate").execution(observation, NOW).retry;
        assert_eq!((retry.next_attempt_time, retry.delay), (None, None));
        assert_eq!((retry.attempt, retry.retry_count), (6, 5));
        assert!(retry.last_error.is_some());
    }
}

#[test]
fn waits_of_what_is_over_are_not_shown() {
    let mut observation = seen(NativeState::new("TERMINATED"));
    observation.waits = vec![Wait::new(WaitKind::Signal, "go")];
    let native = NativeState::new("STARTED").with(Qualifier::new("kind"), "timer");
    let mut timer = StepObservation::new("t", native);
    timer.waits = vec![Wait::new(WaitKind::Timer, "t")];
    observation.steps = vec![timer];
    let execution = mapper("temporal").execution(observation, NOW);
    assert_eq!(execution.waits, []);
    assert_eq!(execution.steps[0].sub_state, SubState::Failed);
    assert_eq!(execution.steps[0].reason, Some(Reason::Cancelled));
}

#[test]
fn of_the_steps_that_decide_the_one_that_moves_next_tells_the_attempts() {
    let mut observation = seen(NativeState::new("RUNNING"));
    for (name, attempt, next) in [("slow", 7, 90), ("soon", 2, 20)] {
        let native = NativeState::new("TaskFailed").with(Qualifier::new("follow_up"), "retry");
        let mut step = StepObservation::new(name, native);
        step.retry = Some(backing_off(attempt, next));
        observation.steps.push(step);
    }
    let execution = mapper("step-functions").execution(observation, NOW);
    assert_eq!(execution.sub_state, SubState::BackingOff);
    assert_eq!(execution.retry.attempt, 2);
    assert_eq!(
        execution.last_error,
        Some(ExecutionError::message("refused"))
    );
}

#[test]
fn a_definition_is_named_by_where_it_lives() {
    let mut observation = seen(NativeState::new("running"));
    observation.definition = Some(ObservedDefinition::Native("Order/run".into()));
    let mapper = mapper("restate");
    let native = mapper.execution(observation.clone(), NOW);
    assert_eq!(native.definition, "providers/shop/definitions/Order%2Frun");
    observation.definition = Some(ObservedDefinition::Portable("order-saga".into()));
    let portable = mapper.execution(observation, NOW);
    assert_eq!(portable.definition, "definitions/order-saga");
}

#[test]
fn usage_and_progress_are_passed_on_and_absent_stays_absent() {
    let usage = Some(Usage {
        cost_micros: 7,
        ..Usage::default()
    });
    let progress = Progress::new(0.5, "reading");
    let step = StepObservation {
        progress: progress.clone(),
        ..StepObservation::new("a", NativeState::new("WORKING"))
    };
    let other = StepObservation::new("b", NativeState::new("WORKING"));
    let observation = Observation {
        steps: vec![step, other],
        usage,
        ..seen(NativeState::new("ACTIVE"))
    };
    let shown = mapper("memory").execution(observation, NOW);
    let told: Vec<_> = shown.steps.into_iter().map(|step| step.progress).collect();
    assert_eq!((shown.usage, told), (usage, vec![progress, None]));
}
