//! Every recording of the real server, in the place where an adapter meets it: rows become the
//! right sub-state with the right evidence, and refusals the right error.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde_json::Value;
use stateway_model::{Execution, MappingBasis, Reason, RetryBasis, SubState, WaitKind};
use stateway_provider_api::Mapper;
use stateway_provider_api::table::compiled_in;
use stateway_provider_restate::wire::recorded;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings")
}

fn recording(name: &str) -> Option<Value> {
    let text = std::fs::read_to_string(folder().join(format!("{name}.json"))).ok()?;
    Some(serde_json::from_str(&text).unwrap())
}

fn rows(name: &str) -> Vec<Value> {
    let rows = recording(name).map(|it| it["response"]["body"]["rows"].clone());
    let rows = rows.and_then(|rows| rows.as_array().cloned());
    rows.unwrap_or_default()
}

/// The scenario as a client sees it, as long as there was an invocation.
fn shown(scenario: &str) -> Option<Execution> {
    shown_with(
        scenario,
        rows(&format!("{scenario}.sys_vqueue_entry_status")).first(),
    )
}

fn shown_with(scenario: &str, queue: Option<&Value>) -> Option<Execution> {
    let of = |table: &str| rows(&format!("{scenario}.{table}"));
    let row = of("sys_invocation").first()?.clone();
    let (journal, events) = (of("sys_journal"), of("sys_journal_events"));
    let seen = recorded(&row, &journal, &events, queue, Some(70));
    let table = compiled_in("restate").unwrap();
    let mapper = Mapper::new("restate".parse().unwrap());
    Some(mapper.execution(&table, seen, Timestamp::constant(1_794_785_000, 0)))
}

use SubState::{BackingOff, Error, Failed, Running, Succeeded, Waiting};

/// What a client is shown of an invocation.
type Shows = (SubState, Option<Reason>);

/// What each recorded scenario shows. Those without an invocation show nothing; of
/// `vqueues_flaky_slow_20s` the queue's own row was not recorded, so its back-off stays hidden.
const SCENARIOS: &[(&str, Option<Shows>)] = &[
    ("backing_off", Some((BackingOff, None))),
    ("backing_off_endpoint_unreachable", Some((BackingOff, None))),
    ("backing_off_in_run", Some((BackingOff, None))),
    ("backing_off_retry_after", Some((BackingOff, None))),
    ("cancelled", Some((Failed, Some(Reason::Cancelled)))),
    ("failed", Some((Failed, None))),
    ("failed_default_code", Some((Failed, None))),
    (
        "failed_max_attempts_kill",
        Some((Failed, Some(Reason::RetriesExhausted))),
    ),
    ("garbage_id", None),
    ("idempotency", Some((Succeeded, None))),
    ("killed", Some((Failed, Some(Reason::Killed)))),
    (
        "paused_manual_from_backing_off",
        Some((Waiting, Some(Reason::Paused))),
    ),
    (
        "paused_manual_from_running",
        Some((Waiting, Some(Reason::Paused))),
    ),
    (
        "paused_max_attempts",
        Some((Error, Some(Reason::RetriesExhausted))),
    ),
    ("pending_inboxed", Some((Waiting, Some(Reason::Queued)))),
    ("purged", None),
    (
        "ready_invoker_concurrency_limited",
        Some((Running, Some(Reason::Queued))),
    ),
    ("restarted_as_new", Some((Succeeded, None))),
    ("resumed_after_manual_pause", Some((Running, None))),
    ("running", Some((Running, None))),
    ("running_in_flight_awaiting", Some((Running, None))),
    ("scheduled", Some((Waiting, Some(Reason::Scheduled)))),
    ("scheduled_cancelled", None),
    ("succeeded", Some((Succeeded, None))),
    (
        "suspended_awakeable",
        Some((Waiting, Some(Reason::AwaitingInput))),
    ),
    (
        "suspended_on_child_call",
        Some((Waiting, Some(Reason::AwaitingChild))),
    ),
    (
        "suspended_sleep",
        Some((Waiting, Some(Reason::AwaitingTimer))),
    ),
    ("unknown", None),
    ("vqueues_flaky", Some((BackingOff, None))),
    (
        "vqueues_flaky_slow_20s",
        Some((Running, Some(Reason::Queued))),
    ),
    (
        "vqueues_scheduled",
        Some((Waiting, Some(Reason::Scheduled))),
    ),
    ("workflow_succeeded", Some((Succeeded, None))),
    (
        "workflow_suspended_promise",
        Some((Waiting, Some(Reason::AwaitingInput))),
    ),
];

#[test]
fn every_recorded_invocation_is_classified_right() {
    for (scenario, expected) in SCENARIOS {
        let shown = shown(scenario);
        let shows = shown.as_ref().map(|it| (it.sub_state, it.reason));
        assert_eq!(shows, *expected, "{scenario}");
        if let Some(shown) = shown {
            assert_ne!(shown.mapping_basis, MappingBasis::Defaulted, "{scenario}");
        }
    }
}

#[test]
fn no_recorded_invocation_is_left_out() {
    let files = std::fs::read_dir(folder()).unwrap();
    let recorded: BTreeSet<String> = files
        .filter_map(|file| {
            let name = file.unwrap().file_name().into_string().unwrap();
            name.strip_suffix(".sys_invocation.json").map(str::to_owned)
        })
        .collect();
    let named: BTreeSet<String> = SCENARIOS
        .iter()
        .map(|(name, _)| (*name).to_owned())
        .collect();
    assert_eq!(named, recorded);
}

#[test]
fn a_back_off_tells_attempt_most_next_time_and_the_first_line_of_its_error() {
    let retry = shown("backing_off").unwrap().retry;
    assert_eq!((retry.attempt, retry.retry_count), (5, 4));
    assert_eq!(
        (retry.max_attempts, retry.basis),
        (Some(70), RetryBasis::Reported)
    );
    let next = retry.next_attempt_time.map(|time| time.to_string());
    assert_eq!(next.as_deref(), Some("2026-11-15T23:34:28.074Z"));
    let error = retry.last_error.unwrap();
    assert_eq!(error.message, "transient failure #5");
    assert_eq!((error.native_code.as_str(), error.attempt), ("RT0007", 5));
}

#[test]
fn a_failing_command_is_named_as_the_step() {
    let error = shown("backing_off_in_run")
        .unwrap()
        .retry
        .last_error
        .unwrap();
    assert_eq!(
        (error.step.as_str(), error.message.as_str()),
        ("boom", "boom inside run")
    );
}

#[test]
fn a_first_attempt_that_runs_is_no_retry() {
    let retry = shown("running").unwrap().retry;
    assert_eq!((retry.attempt, retry.retry_count), (1, 0));
    assert_eq!(retry.last_error, None);
}

#[test]
fn the_next_attempt_of_a_paused_back_off_is_stale_and_not_shown() {
    let retry = shown("paused_manual_from_backing_off").unwrap().retry;
    assert_eq!((retry.attempt, retry.next_attempt_time), (6, None));
}

#[test]
fn an_exhausted_invocation_tells_its_last_error_and_makes_up_no_attempts() {
    let shown = shown("paused_max_attempts").unwrap();
    assert_eq!(shown.last_error.unwrap().message, "pausing failure #3");
    assert_eq!(shown.retry.basis, RetryBasis::None);
}

#[test]
fn with_vqueues_the_queue_tells_of_the_back_off_that_the_row_hides() {
    let shown = shown("vqueues_flaky").unwrap();
    assert_eq!(
        (shown.native_state.as_str(), shown.mapping_basis),
        ("ready", MappingBasis::Derived)
    );
    assert_eq!(shown.retry.attempt, 5);
    let next = shown.retry.next_attempt_time.map(|time| time.to_string());
    assert_eq!(next.as_deref(), Some("2026-11-15T23:52:09Z"));
    let message = shown.retry.last_error.unwrap().message;
    assert!(message.starts_with("transient failure #"), "{message}");
}

#[test]
fn what_a_suspended_invocation_waits_for_is_named() {
    let waits = |scenario| shown(scenario).unwrap().waits;
    let awakeable = &waits("suspended_awakeable")[0];
    assert_eq!(
        (awakeable.kind, awakeable.name.as_str()),
        (
            WaitKind::Callback,
            "sign_12weFGzMDoGDN-pFjVqF6BO2KPHbg_nOXAAAAEQ"
        )
    );
    let timer = &waits("suspended_sleep")[0];
    assert_eq!(timer.kind, WaitKind::Timer);
    let until = timer.deadline.map(|time| time.to_string());
    assert_eq!(until.as_deref(), Some("2026-11-15T23:35:28.776Z"));
    let child = &waits("suspended_on_child_call")[0];
    assert_eq!(
        (child.kind, child.name.as_str()),
        (WaitKind::Child, "inv_1hFGbct4dWtA01ctHTwayQu9WjcpPY7sK5")
    );
    let promise = &waits("workflow_suspended_promise")[0];
    assert_eq!(
        (promise.kind, promise.name.as_str()),
        (WaitKind::Signal, "approval")
    );
    let lock = &waits("pending_inboxed")[0];
    assert_eq!(
        (lock.kind, lock.name.as_str()),
        (WaitKind::Capacity, "Obj/k1")
    );
    let start = &waits("scheduled")[0];
    let until = start.deadline.map(|time| time.to_string());
    assert_eq!(
        (start.kind, until.as_deref()),
        (WaitKind::Timer, Some("2026-11-15T23:36:32.513Z"))
    );
}

#[test]
fn no_stack_trace_gets_out() {
    for (scenario, _) in SCENARIOS {
        let Some(shown) = shown(scenario) else {
            continue;
        };
        let json = serde_json::to_string(&shown).unwrap();
        assert!(!json.contains("/app/"), "{scenario}: {json}");
    }
}
