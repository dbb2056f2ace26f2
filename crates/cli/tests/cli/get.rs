//! `stateway get`.

use std::collections::BTreeSet;

use crate::binary::{Gateway, run};
use crate::scripts::{BACKING_OFF, GOOD, TRACE};

#[test]
fn the_json_has_every_key_of_the_api() {
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
    let shown = gateway
        .run(&["get", "memory/a", "-o", "json"])
        .exits(0)
        .json();
    let keys: BTreeSet<_> = shown
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    let expected = [
        "name",
        "definition",
        "revision",
        "sub_state",
        "native_state",
        "reason",
        "mapping_basis",
        "retry",
        "waits",
        "steps",
        "current_steps",
        "last_error",
        "create_time",
        "start_time",
        "update_time",
        "end_time",
        "input",
        "output",
        "labels",
        "etag",
        "usage",
        "abandoned_usage",
        "cancellation",
        "forked_from",
        "forks",
        "not_rolled_back",
        "payloads_redacted",
        "pause",
        "reopen",
    ];
    assert_eq!(keys, BTreeSet::from(expected));
    assert_eq!(shown["sub_state"], "backing-off");
    assert_eq!(shown["retry"]["attempt"], 1);
    assert_eq!(shown["retry"]["max_attempt_count"], 5);
    assert_eq!(shown["retry"]["delay"], "3600s");
    assert_eq!(shown["retry"]["last_error"]["message"], "gateway timed out");
    assert_eq!(shown["current_steps"], serde_json::json!(["charge"]));
    let next = shown["retry"]["next_attempt_time"].as_str().unwrap();
    assert!(next.parse::<jiff::Timestamp>().is_ok(), "{next}");
}

#[test]
fn people_see_the_attempt_the_error_and_the_countdown() {
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
    let shown = gateway
        .run(&["get", "providers/memory/executions/a"])
        .exits(0);
    for part in [
        "attempt 1 of 5 failed; next attempt in",
        ": gateway timed out",
    ] {
        assert!(shown.out.contains(part), "{}", shown.out);
    }
    assert!(!shown.out.contains('\u{1b}'), "a pipe gets no colours");
}

#[test]
fn colours_are_for_terminals_unless_asked_for() {
    let gateway = Gateway::new();
    gateway.start("a", GOOD);
    let coloured = gateway
        .run(&["get", "memory/a", "--color", "always"])
        .exits(0);
    assert!(coloured.out.contains("\u{1b}["));
}

#[test]
fn an_execution_that_is_not_there_is_not_found() {
    let gateway = Gateway::new();
    let answer = gateway.run(&["get", "memory/nope"]).exits(3);
    assert!(answer.err.starts_with("error: ") && answer.err.contains("EXECUTION_NOT_FOUND"));
    assert!(answer.out.is_empty());
}

#[test]
fn a_definition_is_not_an_execution() {
    let answer = run(&["get", "providers/memory/definitions/hello"]).exits(2);
    assert!(
        answer.err.contains("names a definition, not an execution"),
        "{}",
        answer.err
    );
}

#[test]
fn an_unreachable_gateway_is_told_from_everything_else() {
    let answer = run(&["get", "memory/a", "--server", "http://127.0.0.1:1"]).exits(6);
    assert!(answer.err.contains("GATEWAY_UNREACHABLE"), "{}", answer.err);
    assert!(
        answer
            .err
            .contains("hint: Is it running (`stateway serve`)"),
        "{}",
        answer.err
    );
}

#[test]
fn a_server_that_is_no_address_is_a_mistake() {
    let answer = run(&["get", "memory/a", "--server", "localhost:7380"]).exits(2);
    assert!(
        answer.err.contains("http://127.0.0.1:7380"),
        "{}",
        answer.err
    );
}

#[test]
fn steps_that_have_not_started_are_shown() {
    let gateway = crate::built_in::gateway();
    let two = "name: two\nsteps: [{name: a, agent: x}, {name: b, dependsOn: [a], agent: x}]\n";
    crate::built_in::apply(&gateway, two);
    crate::built_in::start(&gateway, "two", "t", "ann");
    let text = gateway.run(&["get", "builtin/t"]).exits(0).out;
    let line = text.lines().find(|line| line.starts_with("b "));
    let line: Vec<_> = line.unwrap().split_whitespace().collect();
    assert_eq!(line, ["b", "waiting", "NOT_STARTED", "after", "a"]);
    let json = gateway
        .run(&["get", "builtin/t", "-o", "json"])
        .exits(0)
        .json();
    let step = &json["steps"][1];
    assert_eq!(step["reason"], "NOT_STARTED");
    assert_eq!(step["blocked_by"], serde_json::json!(["a"]));
    let cancel = [
        "cancel",
        "builtin/t",
        "--as",
        "eve",
        "--comment",
        "too late",
    ];
    gateway.run(&cancel).exits(0);
    let text = gateway.run(&["get", "builtin/t"]).exits(0).out;
    let line = text.lines().find(|line| line.starts_with("b "));
    let line: Vec<_> = line.unwrap().split_whitespace().collect();
    assert_eq!(line, ["b", "failed", "NOT_STARTED"]);
    let by = "cancelled   cancelled by eve: too late";
    assert!(text.contains(by), "{text}");
    let list = gateway.run(&["list"]).exits(0).out;
    assert!(list.contains("cancelled by eve: too late"), "{list}");
}

#[test]
fn a_task_that_no_worker_can_take_says_so_everywhere() {
    let gateway = crate::built_in::gateway();
    crate::built_in::apply(&gateway, "name: one\nsteps: [{name: a, agent: x}]\n");
    crate::built_in::start(&gateway, "one", "t", "ann");
    let why = "waits for a worker of role `x`: no worker of role `x` is connected";
    for command in [&["get", "builtin/t"][..], &["list"], &["top", "--once"]] {
        let text = gateway.run(command).exits(0).out;
        assert!(text.contains("NO_WORKER"), "{command:?}: {text}");
        assert!(text.contains(why), "{command:?}: {text}");
    }
    let explain = gateway.run(&["explain", "builtin/t"]).exits(0).out;
    assert!(
        explain.contains("no worker of role `x` is connected"),
        "{explain}"
    );
}

#[test]
fn one_step_is_shown_with_its_payloads_and_attempts() {
    let gateway = crate::built_in::gateway();
    let one = "name: one\nsteps: [{name: a, agent: x, timeout: 1m, input: {n: 1}}]\n";
    crate::built_in::apply(&gateway, one);
    let _worker = crate::built_in::worker(&gateway, "x", "echo 7");
    crate::built_in::start(&gateway, "one", "t", "ann");
    crate::built_in::until(&gateway, &["wait", "builtin/t"], |answer| answer.code == 0);
    let step = ["get", "builtin/t", "--step", "a"];
    let text = gateway.run(&step).exits(0).out;
    for line in [
        "input       {\"n\":1}",
        "output      7",
        "1        succeeded",
    ] {
        assert!(text.contains(line), "{text}");
    }
    let json = gateway
        .run(&["get", "builtin/t", "--step", "a", "-o", "json"])
        .exits(0)
        .json();
    assert_eq!(json["name"], "providers/builtin/executions/t/steps/a");
    assert_eq!(json["output"], 7);
    assert_eq!(json["attempts"][0]["outcome"], "SUCCEEDED");
    gateway
        .run(&["get", "builtin/t", "--step", "none"])
        .exits(3);
}

#[test]
fn an_error_of_several_lines_is_shown_by_its_last_line_and_whole_below() {
    let gateway = Gateway::new();
    gateway.start("a", TRACE);
    gateway.run(&["wait", "memory/a"]).exits(1);
    let headline = "KeyError: 'items'";
    let trace = "error trace of pay, attempt 1\n  Traceback (most recent call last):\n    \
                 File \"pay.py\", line 3, in <module>\n      charge()\n  KeyError: 'items'\n";
    for (command, has_trace) in [
        (&["list"][..], false),
        (&["history", "memory/a"], false),
        (&["get", "memory/a"], true),
        (&["explain", "memory/a"], true),
    ] {
        let shown = gateway.run(command).exits(0);
        // The input is the script, which holds the error as JSON.
        let lines = shown.out.lines().filter(|line| !line.starts_with("input "));
        let out: String = lines.map(|line| format!("{line}\n")).collect();
        assert!(out.contains(headline), "{out}");
        assert!(!out.contains("\\n"), "{command:?}: {out}");
        assert_eq!(out.contains(trace), has_trace, "{out}");
        assert_eq!(out.contains("Traceback"), has_trace, "{out}");
    }
    let shown = gateway.run(&["get", "memory/a", "-o", "json"]).exits(0);
    let error = &shown.json()["last_error"];
    assert_eq!(error["message"], headline);
    let detail = error["detail"].as_str().unwrap();
    assert!(detail.starts_with("Traceback (most recent call last):\n  File"));
    gateway.start("b", crate::scripts::BAD);
    gateway.run(&["wait", "memory/b"]).exits(1);
    let shown = gateway.run(&["get", "memory/b", "-o", "json"]).exits(0);
    assert_eq!(
        shown.json()["last_error"]["detail"],
        serde_json::Value::Null
    );
}
