//! The commands that steer an execution: signal, cancel, pause, resume, retry-now, retry-from,
//! purge.

use crate::binary::Gateway;
use crate::scripts::{BACKING_OFF, BAD, GOOD, LONG, WAITING};

/// What can still be done with a finished execution.
const AGAIN: &str = "hint: Start a new execution, or run this one again from a step with \
                     `stateway retry-from NAME`.\n";

#[test]
fn a_finished_execution_of_the_built_in_engine_names_what_can_still_be_done() {
    let gateway = crate::built_in::gateway();
    crate::built_in::apply(&gateway, "name: one\nsteps: [{name: a, agent: nobody}]\n");
    crate::built_in::start(&gateway, "one", "a", "ada");
    gateway.run(&["cancel", "builtin/a"]).exits(0);
    for command in ["retry-now", "pause"] {
        let refused = gateway.run(&[command, "builtin/a"]).exits(4);
        assert!(refused.err.contains("ALREADY_FINISHED"), "{}", refused.err);
        assert!(refused.err.contains(AGAIN), "{}", refused.err);
    }
}

#[test]
fn a_signal_is_delivered_and_too_late_is_refused() {
    let gateway = Gateway::new();
    gateway.start("a", WAITING);
    gateway
        .run(&["signal", "memory/a", "go", "--input", r#"{"by":"ada"}"#])
        .exits(0);
    gateway
        .run(&["wait", "memory/a", "--timeout", "5s"])
        .exits(0);
    let late = gateway.run(&["signal", "memory/a", "go"]).exits(4);
    assert!(late.err.contains("ALREADY_FINISHED"), "{}", late.err);
    assert!(late.err.contains(AGAIN), "{}", late.err);
    gateway.run(&["signal", "memory/nope", "go"]).exits(3);
    gateway.run(&["signal", "memory/a"]).exits(2);
}

#[test]
fn cancelling_ends_it_and_cancelling_twice_is_the_same() {
    let gateway = Gateway::new();
    gateway.start("a", LONG);
    for _ in 0..2 {
        let shown = gateway
            .run(&[
                "cancel",
                "memory/a",
                "--comment",
                "ordered twice",
                "-o",
                "json",
            ])
            .exits(0)
            .json();
        assert_eq!(shown["reason"], "CANCELLED");
    }
    gateway.start("b", LONG);
    let killed = gateway
        .run(&["cancel", "memory/b", "--kill", "-o", "json"])
        .exits(0)
        .json();
    assert_eq!(
        (&killed["sub_state"], &killed["reason"]),
        (&"failed".into(), &"KILLED".into())
    );
    gateway.start("c", GOOD);
    gateway.run(&["wait", "memory/c"]).exits(0);
    gateway.run(&["cancel", "memory/c"]).exits(4);
}

#[test]
fn what_is_paused_can_go_on() {
    let gateway = Gateway::new();
    gateway.start("a", LONG);
    let paused = gateway
        .run(&["pause", "memory/a", "-o", "json"])
        .exits(0)
        .json();
    assert_eq!(
        (&paused["sub_state"], &paused["reason"]),
        (&"waiting".into(), &"PAUSED".into())
    );
    let resumed = gateway
        .run(&["resume", "memory/a", "-o", "json"])
        .exits(0)
        .json();
    assert_eq!(resumed["sub_state"], "running");
    gateway.run(&["resume", "memory/a"]).exits(4);
    gateway.run(&["pause", "memory/nope"]).exits(3);
}

#[test]
fn the_next_attempt_can_be_made_now() {
    let gateway = Gateway::new();
    gateway.start("a", BACKING_OFF);
    gateway
        .run(&[
            "wait",
            "memory/a",
            "--for",
            "backing-off",
            "--timeout",
            "5s",
        ])
        .exits(0);
    gateway
        .run(&["retry-now", "memory/a", "--step", "charge"])
        .exits(0);
    let done = gateway
        .run(&["wait", "memory/a", "--timeout", "5s", "-o", "json"])
        .exits(0)
        .json();
    assert_eq!(done["output"], serde_json::json!({ "charged": true }));
    gateway.run(&["retry-now", "memory/a"]).exits(4);
}

#[test]
fn a_failure_can_be_done_again_from_a_step() {
    let gateway = Gateway::new();
    gateway.start("a", BAD);
    gateway.run(&["wait", "memory/a"]).exits(1);
    gateway
        .run(&["retry-from", "memory/a", "--step", "pay"])
        .exits(0);
    gateway
        .run(&["retry-from", "memory/a", "--step", "no-such-step"])
        .exits(3);
    gateway.run(&["retry-from", "memory/nope"]).exits(3);
}

#[test]
fn a_finished_execution_is_purged_by_whoever_says_yes() {
    let gateway = Gateway::new();
    gateway.start("a", GOOD);
    gateway.start("b", LONG);
    gateway.run(&["wait", "memory/a"]).exits(0);
    let unsaid = gateway.run(&["purge", "memory/a"]).exits(2);
    assert!(unsaid.err.contains("--yes"), "{}", unsaid.err);
    gateway.run(&["get", "memory/a"]).exits(0);
    let purged = gateway
        .run(&["purge", "memory/a", "--yes", "-o", "json"])
        .exits(0)
        .json();
    let expected = serde_json::json!({ "purged": "providers/memory/executions/a" });
    assert_eq!(purged, expected);
    gateway.run(&["get", "memory/a"]).exits(3);
    gateway.run(&["purge", "memory/a", "--yes"]).exits(3);
    let open = gateway.run(&["purge", "memory/b", "--yes"]).exits(4);
    assert!(open.err.contains("NOT_FINISHED"), "{}", open.err);
}

#[test]
fn an_etag_that_is_old_is_refused() {
    let gateway = Gateway::new();
    gateway.start("a", LONG);
    let old = gateway
        .run(&["get", "memory/a", "-o", "json"])
        .exits(0)
        .json();
    gateway
        .run(&["pause", "memory/a", "--etag", old["etag"].as_str().unwrap()])
        .exits(0);
    let answer = gateway
        .run(&[
            "resume",
            "memory/a",
            "--etag",
            old["etag"].as_str().unwrap(),
        ])
        .exits(4);
    assert!(answer.err.contains("ETAG_MISMATCH"), "{}", answer.err);
}

#[test]
fn what_a_provider_cannot_do_has_its_own_exit_code() {
    let gateway = Gateway::with(
        "[providers.memory]\nkind = \"memory\"\ndisable = [\"pause\"]\n",
        &[],
    );
    gateway.start("a", LONG);
    let answer = gateway.run(&["pause", "memory/a"]).exits(5);
    assert!(
        answer.err.contains("CAPABILITY_NOT_SUPPORTED"),
        "{}",
        answer.err
    );
}

/// An unset variable in a script must not lose idempotency, or a precondition, in silence.
#[test]
fn an_empty_value_is_refused_and_not_taken_as_none() {
    let gateway = Gateway::new();
    gateway.start("a", LONG);
    for arguments in [
        &["start", "memory/hello", "--request-id", ""][..],
        &["start", "memory/hello", "--id", ""],
        &["start", "memory/hello", "--id="],
        &["signal", "memory/a", ""],
        &["signal", "memory/a", "go", "--request-id", ""],
        &["cancel", "memory/a", "--request-id", ""],
        &["cancel", "memory/a", "--etag", ""],
        &["pause", "memory/a", "--request-id", ""],
        &["resume", "memory/a", "--request-id", ""],
        &["retry-now", "memory/a", "--request-id", ""],
        &["retry-now", "memory/a", "--step", ""],
        &["retry-from", "memory/a", "--request-id", ""],
        &["purge", "memory/a", "--yes", "--request-id", ""],
    ] {
        let answer = gateway.run(arguments).exits(2);
        assert!(answer.err.contains("it is empty"), "{}", answer.err);
    }
    let listed = gateway.run(&["list", "-o", "json"]).exits(0).json();
    assert_eq!(listed["executions"].as_array().unwrap().len(), 1);
    assert_eq!(listed["executions"][0]["sub_state"], "running");
}
