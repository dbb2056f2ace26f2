//! What workers report beside their results: usage and progress.

use crate::kit::Run;
use serde_json::json;
use stateway_machine::{Failure, StepTimer, Task, Verb, step_usage, step_views, usage};
use stateway_model::ErrorCategory::Transient;
use stateway_model::{Progress, Usage};

const RETRY: &str =
    "steps: [{name: a, timeout: 5m, retryPolicy: {maxRetries: 2}}, {name: b, timeout: 5m}]";

fn cost(figure: u64) -> Usage {
    Usage {
        input_tokens: figure,
        output_tokens: 2 * figure,
        cost_micros: 3 * figure,
    }
}

fn beat(step: &str, attempt: u32, progress: Option<Progress>) -> Verb {
    Verb::RecordHeartbeat {
        step: step.into(),
        attempt,
        progress,
    }
}

/// A worker has step `a`.
fn taken() -> Run {
    let mut run = Run::started(RETRY);
    run.assign("a", "w");
    run
}

fn shown(run: &Run, step: &str) -> Option<Progress> {
    let views = step_views(&run.state);
    let view = views.into_iter().find(|view| view.name == step);
    view.unwrap().progress
}

#[test]
fn usage_is_recorded_before_the_result_and_summed_over_attempts() {
    let mut run = Run::started(RETRY);
    let failed = run.ok(Verb::FailTask {
        task: Task::of("a", 1),
        failure: Failure::reported(Transient, "broke"),
        usage: Some(cost(5)),
    });
    assert_eq!(failed, ["UsageReported", "AttemptFailed", "RetryScheduled"]);
    run.fire("a", StepTimer::Retry);
    let done = run.ok(Verb::CompleteTask {
        task: Task::of("a", 2),
        output: json!({}).into(),
        usage: Some(cost(7)),
    });
    assert_eq!(done, ["UsageReported", "StepCompleted"]);
    assert_eq!(usage(&run.state), cost(12));
    assert_eq!(step_usage(&run.state, "a"), cost(12));
    assert_eq!(step_usage(&run.state, "b"), Usage::default());
}

#[test]
fn a_childs_usage_is_its_parents_too() {
    let mut run =
        Run::started("steps: [{name: kid, workflow: child, retryPolicy: {maxRetries: 1}}]");
    let finish = |attempt, outcome, usage| Verb::FinishChild {
        step: "kid".into(),
        attempt,
        outcome,
        usage,
    };
    let failed = Err(Failure::reported(Transient, "the child failed"));
    let events = run.ok(finish(1, failed, cost(5)));
    assert_eq!(events, ["UsageReported", "AttemptFailed", "RetryScheduled"]);
    run.fire("kid", StepTimer::Retry);
    run.ok(finish(2, Ok(json!({}).into()), cost(7)));
    assert_eq!(usage(&run.state), cost(12));
    assert_eq!(step_usage(&run.state, "kid"), cost(12));
}

#[test]
fn usage_of_nothing_is_not_written() {
    for given in [None, Some(Usage::default())] {
        let mut run = Run::started(RETRY);
        let events = run.ok(Verb::CompleteTask {
            task: Task::of("a", 1),
            output: json!({}).into(),
            usage: given,
        });
        assert_eq!(events, ["StepCompleted"]);
        assert!(usage(&run.state).is_zero());
    }
}

#[test]
fn a_result_that_is_refused_costs_nothing() {
    let mut run = Run::started(RETRY);
    run.refused(Verb::CompleteTask {
        task: Task::of("a", 9),
        output: json!({}).into(),
        usage: Some(cost(5)),
    });
    assert!(usage(&run.state).is_zero());
}

#[test]
fn a_compensations_usage_counts_too() {
    let mut run = Run::started(
        "failurePolicy: compensate\nsteps: [{name: a}, {name: b, dependsOn: [a]}]\ncompensation: [{step: a}]",
    );
    run.done("a");
    run.fail("b", stateway_model::ErrorCategory::AgentError);
    let task = run.task("a");
    assert!(task.undo);
    let events = run.ok(Verb::CompleteTask {
        task,
        output: json!({}).into(),
        usage: Some(cost(4)),
    });
    assert_eq!(
        events,
        ["UsageReported", "StepCompensated", "ExecutionRolledBack"]
    );
    assert_eq!(usage(&run.state), cost(4));
    assert_eq!(step_usage(&run.state, "a"), cost(4));
}

#[test]
fn progress_is_written_when_it_changes_and_shown() {
    let mut run = taken();
    let given = Progress::new(0.25, "reading");
    assert_eq!(run.ok(beat("a", 1, given.clone())), ["ProgressReported"]);
    assert_eq!(run.ok(beat("a", 1, given.clone())), [""; 0]);
    assert_eq!(run.ok(beat("a", 1, None)), [""; 0]);
    assert_eq!(shown(&run, "a"), given);
    let more = Progress::new(0.25, "writing");
    assert_eq!(run.ok(beat("a", 1, more.clone())), ["ProgressReported"]);
    assert_eq!(shown(&run, "a"), more);
    assert_eq!(shown(&run, "b"), None);
}

#[test]
fn progress_belongs_to_an_attempt_and_ends_with_the_step() {
    let mut run = taken();
    run.ok(beat("a", 1, Progress::new(0.5, "")));
    run.fail("a", Transient);
    assert_eq!(shown(&run, "a"), Progress::new(0.5, ""));
    run.fire("a", StepTimer::Retry);
    run.assign("a", "w");
    assert_eq!(shown(&run, "a"), None);
    run.refused(beat("a", 1, Progress::new(0.6, "")));
    run.ok(beat("a", 2, Progress::new(0.9, "")));
    run.done("a");
    assert_eq!(shown(&run, "a"), None);
}

#[test]
fn a_detail_is_bounded() {
    let mut run = taken();
    let mut given = Progress::new(0.5, "").unwrap();
    given.detail = "x".repeat(10_000);
    run.ok(beat("a", 1, Some(given)));
    let kept = shown(&run, "a").unwrap().detail;
    assert_eq!(kept.len(), Progress::MAX_DETAIL);
}

#[test]
fn a_heartbeat_with_progress_is_a_heartbeat() {
    let mut run = Run::started("steps: [{name: a, heartbeatTimeout: 30s}]");
    run.assign("a", "w");
    run.wait(std::time::Duration::from_secs(20));
    let events = run.ok(beat("a", 1, Progress::new(0.5, "")));
    assert_eq!(events, ["HeartbeatRecorded", "ProgressReported"]);
}
