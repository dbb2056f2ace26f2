//! Every recording of the real server (1.32.0) as the adapter sees it: descriptions and histories become the right
//! sub-state with the right evidence, and so does every prefix of a history.

#![allow(clippy::unwrap_used)]

use crate::support;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde_json::{Value, json};
use stateway_model::{Execution, MappingBasis, Reason, RetryBasis, SubState, WaitKind};
use stateway_provider_api::table::compiled_in;
use stateway_provider_api::{Mapper, Observation};
use stateway_provider_temporal::api::workflow::v1::WorkflowExecutionInfo;
use stateway_provider_temporal::wire;
use support::message::{described, events, message};

use Reason::{
    AwaitingChild, AwaitingTimer, Cancelled, Cancelling, Killed, Paused, Queued, Scheduled, Stuck,
    Superseded, TimedOut,
};
use SubState::{BackingOff, Error, Failed, Running, Succeeded, Waiting};

/// What a client is shown of a recording.
type Shows = (SubState, Option<Reason>);

/// Recordings without a suffix are of the current run; `.run1` is the first run of a chain.
const RECORDINGS: &[(&str, Shows)] = &[
    ("act-async-completion", (Running, None)),
    ("act-backoff-default-policy", (BackingOff, None)),
    ("act-backoff-heartbeat-timeout", (BackingOff, None)),
    ("act-backoff-max5", (BackingOff, None)),
    ("act-backoff-nextretrydelay", (BackingOff, None)),
    ("act-backoff-nomax", (BackingOff, None)),
    ("act-backoff-with-deadline", (BackingOff, None)),
    ("act-deadline-exhausted", (Failed, None)),
    ("act-exhausted", (Failed, None)),
    ("act-heartbeat", (Running, None)),
    ("act-nonretryable", (Failed, None)),
    ("act-nonretryable-bytype", (Failed, None)),
    ("act-noretry-max1", (Failed, None)),
    ("act-noworker", (Running, Some(Queued))),
    ("act-noworker-sts-timeout", (Failed, None)),
    ("act-paused-backoff", (Waiting, Some(Paused))),
    ("act-paused-running", (Running, None)),
    ("act-paused-scheduled", (Waiting, Some(Paused))),
    ("act-reset.after", (BackingOff, None)),
    ("act-reset.before", (BackingOff, None)),
    ("act-running", (Running, None)),
    ("act-timeout-exhausted", (Failed, None)),
    ("act-unregistered-type", (BackingOff, None)),
    ("cancel-requested-activity", (Running, Some(Cancelling))),
    ("cancel-requested-ignored", (Waiting, Some(Cancelling))),
    ("cancel-requested-noworker", (Running, Some(Cancelling))),
    ("cancelled", (Failed, Some(Cancelled))),
    ("child-completed", (Succeeded, None)),
    ("child-noworker", (Waiting, Some(AwaitingChild))),
    ("child-noworker.child", (Running, Some(Queued))),
    ("child-running", (Waiting, Some(AwaitingChild))),
    ("child-running.child", (Waiting, None)),
    ("completed", (Succeeded, None)),
    ("continued-as-new", (Waiting, None)),
    ("continued-as-new.run1", (Running, Some(Superseded))),
    ("cron", (Waiting, Some(Scheduled))),
    ("failed", (Failed, None)),
    ("local-activity-running", (Running, None)),
    ("running-with-timeout", (Waiting, Some(AwaitingTimer))),
    ("signal-unhandled-name", (Waiting, None)),
    ("signalled", (Succeeded, None)),
    ("start-delay", (Waiting, Some(Scheduled))),
    ("terminated", (Failed, Some(Killed))),
    ("terminated-act-running", (Failed, Some(Killed))),
    ("timed-out-execution", (Failed, Some(TimedOut))),
    ("timed-out-run", (Failed, Some(TimedOut))),
    ("update", (Waiting, None)),
    ("wait-signal", (Waiting, None)),
    ("wait-signal-memo", (Waiting, Some(AwaitingTimer))),
    ("wait-timer", (Waiting, Some(AwaitingTimer))),
    ("wf-noworker", (Running, Some(Queued))),
    ("wf-paused", (Waiting, Some(Paused))),
    ("wf-paused-act-running", (Waiting, Some(Paused))),
    ("wf-paused-act-running.later", (Waiting, Some(Paused))),
    ("wf-paused-signalled", (Waiting, Some(Paused))),
    ("wf-paused-terminated", (Failed, Some(Killed))),
    ("wf-reset-running.run1", (Running, Some(Superseded))),
    ("wf-reset-running.run2", (Waiting, None)),
    ("wf-reset.run1", (Succeeded, None)),
    ("wf-reset.run2", (Succeeded, None)),
    ("wf-retry-backoff", (BackingOff, None)),
    ("wf-retry-backoff.run1", (Running, Some(Superseded))),
    ("wf-unpaused", (Succeeded, None)),
    ("wf-unpaused-act-running", (Succeeded, None)),
    ("wf-unpaused-timer", (Succeeded, None)),
    ("wf-unregistered-type", (Error, Some(Stuck))),
    ("wf-unregistered-type.reported", (Error, Some(Stuck))),
    ("wf-worker-gone-signalled", (Running, Some(Queued))),
    ("wf-worker-gone-signalled.sticky", (Running, Some(Queued))),
    ("wft-failing", (Error, Some(Stuck))),
    ("wft-failing.reported", (Error, Some(Stuck))),
    ("wft-recovered-worker-thawed", (Waiting, None)),
    ("wft-started-worker-frozen", (Running, None)),
];

/// Which recording a description in the wire form was taken with, where its name alone does not say so.
const WIRE: &[(&str, &str)] = &[
    ("act-reset", "act-reset.after"),
    ("continued-as-new", "continued-as-new.run1"),
    ("wf-paused-act-running", "wf-paused-act-running.later"),
    ("wf-reset", "wf-reset.run2"),
    ("wf-reset-running", "wf-reset-running.run2"),
    ("wf-retry-backoff", "wf-retry-backoff.run1"),
    ("wf-unregistered-type", "wf-unregistered-type.reported"),
    (
        "wf-worker-gone-signalled",
        "wf-worker-gone-signalled.sticky",
    ),
    ("wft-failing", "wft-failing.reported"),
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings")
}

fn recording(file: &str) -> Value {
    let path = folder().join(format!("{file}.json"));
    let text = std::fs::read_to_string(&path);
    let text = text.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap()
}

/// The names of the files with this ending.
fn names(ending: &str) -> BTreeSet<String> {
    let files = std::fs::read_dir(folder()).unwrap();
    let name = |file: std::io::Result<std::fs::DirEntry>| {
        let name = file.unwrap().file_name().into_string().unwrap();
        name.strip_suffix(ending).map(str::to_owned)
    };
    files.filter_map(name).collect()
}

/// Times that may lie in the future of a recording.
const AHEAD: [&str; 7] = [
    "nextAttemptScheduleTime",
    "scheduledTime",
    "executionTime",
    "runExpirationTime",
    "executionExpirationTime",
    "expirationTime",
    "expireTime",
];

/// The moment of a recording: its newest time that cannot lie in the future.
fn moment(json: &Value) -> Timestamp {
    match json {
        Value::Object(fields) => {
            let past = fields
                .iter()
                .filter(|(key, _)| !AHEAD.contains(&key.as_str()));
            past.map(|(_, value)| moment(value))
                .max()
                .unwrap_or(Timestamp::MIN)
        }
        Value::Array(items) => items.iter().map(moment).max().unwrap_or(Timestamp::MIN),
        Value::String(text) => text.parse().unwrap_or(Timestamp::MIN),
        _ => Timestamp::MIN,
    }
}

fn shown(seen: Observation, now: Timestamp) -> Execution {
    let table = compiled_in("temporal").unwrap();
    Mapper::new("temporal".parse().unwrap()).execution(&table, seen, now)
}

/// What a description and a history show.
fn observed(description: &Value, history: &Value) -> Observation {
    wire::observation(&described(description), &events(history), &[]).unwrap()
}

fn execution(name: &str) -> Execution {
    let (description, history) = of(name);
    let now = moment(&description).max(moment(&history));
    shown(observed(&description, &history), now)
}

/// The description and the history of a recording.
fn of(name: &str) -> (Value, Value) {
    (
        recording(&format!("{name}.describe")),
        recording(&format!("{name}.history")),
    )
}

#[test]
fn every_recording_is_classified_as_the_server_meant_it() {
    let mut wrong = Vec::new();
    for (name, expected) in RECORDINGS {
        let shown = execution(name);
        let shows = (shown.sub_state, shown.reason);
        if shows != *expected {
            wrong.push(format!("{name}: {shows:?} instead of {expected:?}"));
        }
        if shown.mapping_basis == MappingBasis::Defaulted {
            wrong.push(format!("{name}: no row of the table matches"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    println!(
        "summary: temporal recordings: {} classified as recorded",
        RECORDINGS.len()
    );
}

#[test]
fn every_description_in_the_wire_form_is_classified_the_same() {
    let expected: BTreeMap<&str, Shows> = RECORDINGS.iter().copied().collect();
    let twin: BTreeMap<&str, &str> = WIRE.iter().copied().collect();
    let mut names = names(".describe.wire.json");
    names.remove("deleted");
    let mut wrong = Vec::new();
    for name in &names {
        let twin = twin.get(name.as_str()).copied().unwrap_or(name);
        let description = recording(&format!("{name}.describe.wire"));
        let history = recording(&format!("{twin}.history"));
        let now = moment(&description).max(moment(&history));
        let shown = shown(observed(&description, &history), now);
        let shows = (shown.sub_state, shown.reason);
        if Some(&shows) != expected.get(twin) {
            wrong.push(format!(
                "{name}: {shows:?} instead of {:?}",
                expected.get(twin)
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    println!(
        "summary: temporal recordings: {} in the wire form too",
        names.len()
    );
}

/// Recordings that show nothing of an execution, and why.
const OTHERS: &[(&str, &str)] = &[
    (
        "deleted.describe.json",
        "an error text, which the CLI wrote",
    ),
    ("deleted.describe.wire.json", "an error text"),
    ("deleted.history.json", "an error text, which the CLI wrote"),
    ("deleted.list.json", "an empty list"),
    ("taskqueue-nobody.json", "a task queue"),
    ("taskqueue-q.json", "a task queue"),
    (
        "update.metadata.json",
        "needs a query that only a worker answers",
    ),
    (
        "wait-signal.metadata.json",
        "needs a query that only a worker answers",
    ),
];

#[test]
fn no_recording_is_left_out() {
    let twins: BTreeSet<&str> = WIRE.iter().map(|(name, _)| *name).collect();
    let mut left = names("");
    for (file, why) in OTHERS {
        assert!(left.remove(*file), "{file} ({why}) is missing");
    }
    for (name, _) in RECORDINGS {
        for kind in ["describe", "history", "list"] {
            let file = format!("{name}.{kind}.json");
            assert!(left.remove(&file), "{file} is missing");
        }
        left.remove(&format!("{name}.describe.wire.json"));
    }
    left.retain(|file| {
        let name = file.strip_suffix(".describe.wire.json");
        name.is_none_or(|name| !twins.contains(name))
    });
    assert_eq!(left, BTreeSet::new());
}

/// The row of a recorded list that shows the same run as the description.
fn listed(name: &str, run: &Value) -> WorkflowExecutionInfo {
    let rows = recording(&format!("{name}.list"));
    let row = rows.as_array().unwrap().iter();
    let row = row
        .filter(|row| row["execution"]["runId"] == *run)
        .collect::<Vec<_>>();
    assert_eq!(row.len(), 1, "{name}: the run is listed once");
    message("workflow.v1.WorkflowExecutionInfo", row[0])
}

#[test]
fn every_recorded_row_of_a_list_agrees_with_the_description() {
    for (name, (sub_state, reason)) in RECORDINGS {
        let (description, history) = of(name);
        let info = &description["workflowExecutionInfo"];
        let row = wire::row(&listed(name, &info["execution"]["runId"])).unwrap();
        let described = observed(&description, &history);
        assert!(row.is_partial, "{name}");
        assert_eq!(
            (&row.id, &row.definition, &row.labels),
            (&described.id, &described.definition, &described.labels),
            "{name}"
        );
        assert_eq!(row.native.state, described.native.state, "{name}");
        // Databases keep less exact times.
        let rounded = |time: Option<Timestamp>| time.map(Timestamp::as_millisecond);
        assert_eq!(rounded(row.end_time), rounded(described.end_time), "{name}");
        let is_open = row.end_time.is_none();
        let unread = row.native.qualifiers.get("pending").map(String::as_str);
        let is_running = row.native.state == "RUNNING";
        assert_eq!(unread, is_running.then_some("unread"), "{name}");
        let shown = shown(row, moment(&description));
        let expected = match (is_open, reason) {
            // What is pending is not in a list.
            (true, Some(Paused)) if !is_running => (*sub_state, *reason),
            (true, _) => (Running, None),
            // Why another run follows is in the history. Lists show only current runs.
            (false, Some(Superseded)) if shown.sub_state != Running => continue,
            (false, _) => (*sub_state, *reason),
        };
        assert_eq!((shown.sub_state, shown.reason), expected, "{name}");
    }
    assert_eq!(recording("deleted.list"), json!([]));
}

/// The description as it was while the history had only these events: open, nothing known to be pending.
fn opened(description: &Value, length: usize) -> Value {
    let mut open = description.clone();
    let info = &mut open["workflowExecutionInfo"];
    info["status"] = json!("WORKFLOW_EXECUTION_STATUS_RUNNING");
    info["historyLength"] = json!(length.to_string());
    info["closeTime"] = Value::Null;
    for pending in [
        "pendingActivities",
        "pendingChildren",
        "pendingWorkflowTask",
    ] {
        open[pending] = Value::Null;
    }
    open["workflowExtendedInfo"]["resetRunId"] = Value::Null;
    open
}

#[test]
fn every_prefix_of_a_history_is_observed() {
    let mut prefixes = 0;
    for (name, _) in RECORDINGS {
        let (description, history) = of(name);
        let all = history["events"].as_array().unwrap();
        let mut closed = BTreeSet::new();
        for length in 0..=all.len() {
            let prefix = json!({"events": all[..length]});
            let now = moment(&prefix);
            // A read of the history may be older or shorter than the description.
            shown(observed(&description, &prefix), now);
            let seen = shown(observed(&opened(&description, length), &prefix), now);
            prefixes += 1;
            assert!(
                !seen.sub_state.is_terminal(),
                "{name} at {length}: {seen:#?}"
            );
            assert_sane(name, length, &seen);
            let ended = seen
                .steps
                .iter()
                .filter(|step| step.sub_state.is_terminal());
            let ended: BTreeSet<String> = ended.map(|step| step.name.clone()).collect();
            assert!(
                closed.is_subset(&ended),
                "{name} at {length}: {closed:?} had ended, now {ended:?}"
            );
            closed = ended;
        }
    }
    println!("summary: temporal recordings: {prefixes} prefixes of histories observed");
}

/// Events that clients cause, as the server records them also before the first workflow task.
const REQUESTS: [(&str, &str); 3] = [
    ("WORKFLOW_EXECUTION_SIGNALED", "workflowExecutionSignaled"),
    (
        "WORKFLOW_EXECUTION_OPTIONS_UPDATED",
        "workflowExecutionOptionsUpdated",
    ),
    (
        "WORKFLOW_EXECUTION_CANCEL_REQUESTED",
        "workflowExecutionCancelRequested",
    ),
];

#[test]
fn requests_before_the_first_workflow_task_do_not_hide_why_it_waits() {
    for name in ["start-delay", "cron", "wf-retry-backoff"] {
        let expected = execution(name);
        for (kind, attributes) in REQUESTS {
            let (mut description, mut history) = of(name);
            let now = moment(&description).max(moment(&history));
            description["workflowExecutionInfo"]["historyLength"] = json!("2");
            let event = json!({
                "eventId": "2", "eventTime": now.to_string(),
                "eventType": format!("EVENT_TYPE_{kind}"),
                format!("{attributes}EventAttributes"): {},
            });
            history["events"].as_array_mut().unwrap().push(event);
            let shown = shown(observed(&description, &history), now);
            assert_eq!(
                (shown.sub_state, shown.reason, &shown.waits, &shown.retry),
                (
                    expected.sub_state,
                    expected.reason,
                    &expected.waits,
                    &expected.retry
                ),
                "{name} after {kind}"
            );
        }
    }
}

#[test]
fn a_delayed_run_that_has_begun_is_not_delayed() {
    let (mut description, mut history) = of("start-delay");
    let now = moment(&description);
    for (number, kind) in ["SCHEDULED", "STARTED", "COMPLETED"].iter().enumerate() {
        let event = json!({
            "eventId": (number + 2).to_string(), "eventTime": now.to_string(),
            "eventType": format!("EVENT_TYPE_WORKFLOW_TASK_{kind}"),
        });
        history["events"].as_array_mut().unwrap().push(event);
    }
    description["workflowExecutionInfo"]["historyLength"] = json!("4");
    let shown = shown(observed(&description, &history), now);
    assert_eq!((shown.sub_state, shown.reason), (Waiting, None));
}

fn assert_sane(name: &str, length: usize, seen: &Execution) {
    let mut names = BTreeSet::new();
    for step in &seen.steps {
        assert!(
            !step.name.is_empty(),
            "{name} at {length}: a step without a name"
        );
        assert!(
            names.insert(&step.name),
            "{name} at {length}: two steps are called `{}`",
            step.name
        );
        assert!(
            step.end_time.is_none()
                || step.start_time.is_none()
                || step.start_time <= step.end_time,
            "{name} at {length}: {step:#?}"
        );
    }
}

#[test]
fn a_back_off_has_its_attempt_its_maximum_its_time_and_its_error() {
    let retry = execution("act-backoff-max5").retry;
    assert_eq!((retry.attempt, retry.retry_count), (2, 1));
    assert_eq!(
        (retry.max_attempts, retry.basis),
        (Some(5), RetryBasis::Reported)
    );
    let next = retry.next_attempt_time.map(|time| time.to_string());
    assert_eq!(next.as_deref(), Some("2026-11-16T00:09:31.351586602Z"));
    let error = retry.last_error.unwrap();
    assert_eq!(error.step, "charge");
    assert!(error.message.contains("card declined"), "{}", error.message);
}

#[test]
fn unlimited_attempts_are_reported_as_unlimited() {
    assert_eq!(execution("act-backoff-nomax").retry.max_attempts, Some(0));
}

#[test]
fn the_garbage_interval_after_a_timeout_is_not_shown() {
    let retry = execution("act-backoff-heartbeat-timeout").retry;
    let day = std::time::Duration::from_secs(86_400);
    assert!(
        retry.delay.is_none_or(|delay| delay < day),
        "{:?}",
        retry.delay
    );
}

#[test]
fn stale_pending_entries_of_closed_runs_are_not_open_steps() {
    for name in ["terminated-act-running", "wf-paused-terminated"] {
        let shown = execution(name);
        let open = shown
            .steps
            .iter()
            .filter(|step| !step.sub_state.is_terminal());
        assert_eq!(open.count(), 0, "{name}");
        assert_eq!(shown.retry.next_attempt_time, None, "{name}");
    }
}

#[test]
fn a_failing_workflow_task_shows_its_message() {
    let error = execution("wft-failing").last_error.unwrap();
    assert!(!error.message.is_empty());
    let history = recording("wft-failing.history");
    let failed = history["events"]
        .as_array()
        .unwrap()
        .iter()
        .find_map(|event| {
            event["workflowTaskFailedEventAttributes"]["failure"]["message"].as_str()
        });
    assert!(error.message.contains(failed.unwrap()), "{}", error.message);
}

#[test]
fn the_failure_of_a_run_shows_its_cause() {
    let error = execution("act-exhausted").last_error.unwrap();
    assert_ne!(error.message, "Activity task failed");
    assert!(!error.message.is_empty());
}

#[test]
fn the_step_of_an_error_is_the_name_of_a_step() {
    let mut found = 0;
    for (name, _) in RECORDINGS {
        let seen = execution(name);
        let steps: BTreeSet<_> = seen.steps.iter().map(|step| step.name.as_str()).collect();
        let of_steps = seen.steps.iter();
        let of_steps = of_steps.flat_map(|step| [&step.last_error, &step.retry.last_error]);
        let errors = of_steps.chain([&seen.last_error, &seen.retry.last_error]);
        for error in errors.flatten().filter(|error| !error.step.is_empty()) {
            assert!(steps.contains(&*error.step), "{name}: {error:?} {steps:?}");
            found += 1;
        }
    }
    assert!(found > 20, "{found} errors");
}

#[test]
fn the_error_of_the_step_in_the_worst_trouble_counts() {
    let (mut description, history) = of("act-backoff-max5");
    let mut running = description["pendingActivities"][0].clone();
    running["activityId"] = json!("other");
    running["state"] = json!("PENDING_ACTIVITY_STATE_STARTED");
    running["nextAttemptScheduleTime"] = Value::Null;
    running["lastFailure"]["message"] = json!("too slow");
    let pending = description["pendingActivities"].as_array_mut().unwrap();
    pending.push(running);
    let seen = shown(observed(&description, &history), moment(&description));
    assert_eq!(seen.last_error.unwrap().step, "charge");
}

#[test]
fn a_task_of_a_paused_workflow_does_not_wait_for_a_worker() {
    let (mut description, history) = of("wf-paused-act-running");
    description["pendingActivities"][0]["state"] = json!("PENDING_ACTIVITY_STATE_SCHEDULED");
    description["pendingActivities"][0]["nextAttemptScheduleTime"] = Value::Null;
    let seen = shown(observed(&description, &history), moment(&description));
    assert_eq!((seen.sub_state, seen.reason), (Waiting, Some(Paused)));
    let waits = seen.steps.iter().flat_map(|step| &step.waits);
    assert_eq!(waits.count(), 0);
}

#[test]
fn a_task_that_was_interrupted_is_not_an_error() {
    let (mut description, mut history) = of("wft-failing");
    let events = history["events"].as_array_mut().unwrap();
    let failed = events.iter_mut().find_map(|event| {
        let attributes = event.get_mut("workflowTaskFailedEventAttributes");
        attributes.filter(|it| !it.is_null())
    });
    failed.unwrap()["cause"] = json!("WORKFLOW_TASK_FAILED_CAUSE_UNHANDLED_COMMAND");
    description["pendingWorkflowTask"]["attempt"] = json!(2);
    let seen = shown(observed(&description, &history), moment(&description));
    assert_eq!((seen.sub_state, seen.last_error), (Running, None));
}

#[test]
fn a_heartbeat_alone_is_no_change() {
    let (mut description, history) = of("act-heartbeat");
    let notes = |description: &Value| observed(description, &history).steps[0].notes.clone();
    for time in ["2026-11-16T00:10:01Z", "2026-11-16T00:10:31Z"] {
        description["pendingActivities"][0]["lastHeartbeatTime"] = json!(time);
        let notes = notes(&description);
        let expected = "last heartbeat: 2026-11-16T00:10:00Z";
        assert!(notes.iter().any(|note| note == expected), "{notes:?}");
    }
}

#[test]
fn a_timer_is_a_wait_with_its_deadline() {
    let waits = execution("wait-timer").waits;
    let timer = waits
        .iter()
        .find(|wait| wait.kind == WaitKind::Timer)
        .unwrap();
    assert!(timer.deadline.is_some(), "{timer:?}");
}

#[test]
fn a_child_is_a_wait_for_another_execution() {
    let waits = execution("child-running").waits;
    assert!(
        waits.iter().any(|wait| wait.kind == WaitKind::Child),
        "{waits:?}"
    );
}

/// The recorded task queues that no worker polls for activities (`true`) or workflow tasks (`false`).
fn queues_without_workers() -> Vec<(&'static str, bool)> {
    let mut without = Vec::new();
    for queue in ["nobody", "q"] {
        let shown = recording(&format!("taskqueue-{queue}"));
        let pollers = shown["pollers"].as_array().cloned().unwrap_or_default();
        for (kind, is_activity) in [("activity", true), ("workflow", false)] {
            if !pollers.iter().any(|poller| poller["taskQueueType"] == kind) {
                without.push((queue, is_activity));
            }
        }
    }
    without
}

#[test]
fn without_a_worker_a_step_waits_for_capacity() {
    let without = queues_without_workers();
    assert_eq!(without, [("nobody", true), ("nobody", false)]);
    for name in ["act-noworker", "wf-noworker"] {
        let (description, history) = of(name);
        let seen = wire::observation(&described(&description), &events(&history), &without);
        let shown = shown(seen.unwrap(), moment(&description));
        let mut waits = shown.waits.iter();
        let capacity = waits.find(|wait| wait.kind == WaitKind::Capacity);
        let capacity = capacity.map(|wait| (&*wait.name, &*wait.detail));
        let expected = ("", "no worker polls task queue `nobody`");
        assert_eq!(capacity, Some(expected), "{name}: {:?}", shown.waits);
    }
}

#[test]
fn no_stack_trace_is_shown() {
    for (name, _) in RECORDINGS {
        let json = serde_json::to_string(&execution(name)).unwrap();
        assert!(!json.contains("site-packages"), "{name}: {json}");
    }
}
