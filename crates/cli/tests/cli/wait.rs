//! `stateway wait`.

use crate::binary::{Gateway, run, silent};
use crate::scripts::{BAD, GOOD, LONG, STUCK, WAITING};

#[test]
fn the_end_decides_the_exit_code() {
    let gateway = Gateway::new();
    gateway.start("good", GOOD);
    gateway.start("bad", BAD);
    let good = gateway
        .run(&["wait", "memory/good", "-o", "json"])
        .exits(0)
        .json();
    assert_eq!(good["output"], serde_json::json!({ "done": true }));
    let bad = gateway
        .run(&["wait", "memory/bad", "-o", "json"])
        .exits(1)
        .json();
    assert_eq!(bad["reason"], "NOT_RETRYABLE");
}

#[test]
fn a_deadline_that_comes_first_has_its_own_exit_code() {
    let gateway = Gateway::new();
    gateway.start("a", LONG);
    let answer = gateway
        .run(&["wait", "memory/a", "--timeout", "500ms"])
        .exits(7);
    assert!(answer.err.contains("is still running"), "{}", answer.err);
    assert!(
        answer.err.contains("hint: The execution continues; wait"),
        "{}",
        answer.err
    );
    assert!(answer.out.is_empty());
}

#[test]
fn a_deadline_too_short_for_an_answer_is_still_the_deadline() {
    let gateway = Gateway::new();
    gateway.start("a", LONG);
    gateway
        .run(&["wait", "memory/a", "--timeout", "1ms"])
        .exits(7);
}

#[test]
fn what_is_stuck_does_not_go_on_by_itself() {
    let gateway = Gateway::new();
    gateway.start("a", STUCK);
    gateway
        .run(&["wait", "memory/a", "--for", "error", "--timeout", "5s"])
        .exits(0);
    for command in ["wait", "watch"] {
        let answer = gateway
            .run(&[command, "memory/a", "--timeout", "500ms"])
            .exits(7);
        assert!(
            answer.err.contains(
                "hint: The execution needs an action: `stateway resume memory/a`, or `stateway cancel memory/a`."
            ),
            "{}",
            answer.err
        );
    }
}

#[test]
fn a_gateway_that_never_answers_is_unreachable_and_not_late() {
    let (_silent, url) = silent();
    run(&["wait", "memory/a", "--timeout", "300ms", "--server", &url]).exits(6);
}

#[test]
fn a_sub_state_can_be_waited_for() {
    let gateway = Gateway::new();
    gateway.start("a", WAITING);
    gateway
        .run(&["wait", "memory/a", "--for", "waiting", "--timeout", "5s"])
        .exits(0);
    let wrong = gateway
        .run(&["wait", "memory/a", "--for", "sleeping"])
        .exits(2);
    assert!(wrong.err.contains("backing-off"), "{}", wrong.err);
}

#[test]
fn an_end_that_was_not_wanted_is_not_a_success() {
    let gateway = Gateway::new();
    gateway.start("good", GOOD);
    gateway.start("bad", BAD);
    gateway
        .run(&["wait", "memory/good", "--for", "waiting"])
        .exits(4);
    gateway
        .run(&["wait", "memory/bad", "--for", "succeeded"])
        .exits(1);
    gateway
        .run(&["wait", "memory/bad", "--for", "failed"])
        .exits(0);
}

#[test]
fn nothing_to_wait_for_is_not_found() {
    Gateway::new().run(&["wait", "memory/nope"]).exits(3);
}
