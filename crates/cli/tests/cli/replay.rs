//! `stateway replay`, `branches` and `history export`, with the built-in engine.

use crate::binary::{Gateway, finish, run};
use crate::built_in::{apply, gateway, start, worker};

const ORDER: &str = "\
name: order
failurePolicy: compensate
steps:
  - {name: reserve, agent: x, timeout: 5m}
  - name: charge
    agent: x
    timeout: 5m
    dependsOn: [reserve]
    retryPolicy: {maxRetries: 1, backoff: constant, initialDelay: 20ms, maxDelay: 20ms}
compensation: [{step: reserve, agent: x}]
";
/// Fails the first attempt to charge.
const FLAKY: &str =
    "test $STATEWAY_STEP$STATEWAY_ATTEMPT != charge1 || exit 75; echo '{\"ok\":true}'";

/// A gateway with an order that was charged at the second attempt.
fn ordered() -> Gateway {
    let gateway = gateway();
    apply(&gateway, ORDER);
    let worker = worker(&gateway, "x", FLAKY);
    start(&gateway, "order", "o1", "ada");
    gateway.run(&["wait", "builtin/o1"]).exits(0);
    drop(worker);
    gateway
}

/// Writes a file where the gateway's commands run.
fn write(gateway: &Gateway, name: &str, text: &str) {
    std::fs::write(gateway.path(name), text).unwrap();
}

#[test]
fn an_execution_is_shown_at_any_of_its_events() {
    let gateway = ordered();
    let shown = gateway
        .run(&["replay", "builtin/o1", "--at", "10", "-o", "json"])
        .exits(0)
        .json();
    assert_eq!(shown["execution"]["sub_state"], "backing-off");
    assert_eq!(shown["source_hash_before"], shown["source_hash_after"]);
    let shown = gateway
        .run(&["replay", "builtin/o1", "--at", "10"])
        .exits(0);
    assert!(
        shown.out.starts_with("after event 10 of branch 0, at "),
        "{}",
        shown.out
    );
    assert!(shown.out.contains("next attempt in"), "{}", shown.out);
    let listed = gateway.run(&["replay", "builtin/o1", "--step"]).exits(0);
    let lines: Vec<_> = listed.out.lines().collect();
    assert_eq!(lines.len(), 15, "{}", listed.out);
    assert!(
        lines[10].contains("RetryScheduled") && lines[10].contains("backing-off"),
        "{}",
        lines[10]
    );
    let lines = gateway
        .run(&["replay", "builtin/o1", "--step", "-o", "json"])
        .exits(0)
        .out;
    let last: serde_json::Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    assert_eq!(last["execution"]["sub_state"], "succeeded");
    let none = gateway
        .run(&["replay", "builtin/o1", "--at", "99"])
        .exits(4);
    assert!(none.err.contains("the last one is 14"), "{}", none.err);
    gateway.run(&["replay", "builtin/o1", "--at", "0"]).exits(2);
    gateway
        .run(&["replay", "builtin/nope", "--at", "1"])
        .exits(3);
}

#[test]
fn another_definition_is_compared_in_columns_with_a_summary_and_an_exit_code() {
    let gateway = ordered();
    let same = gateway
        .run(&["replay", "builtin/o1", "--revision", "latest"])
        .exits(0);
    assert!(
        same.out.ends_with("14 events replayed: no difference\n"),
        "{}",
        same.out
    );
    write(
        &gateway,
        "v2.yaml",
        &ORDER.replace("maxRetries: 1", "maxRetries: 0"),
    );
    let found = gateway
        .run(&["replay", "builtin/o1", "--definition", "v2.yaml"])
        .exits(8);
    let expected = [
        "recorded providers/builtin/executions/o1, branch 0, 14 events: completed with ",
        "STEP        RECORDED",
        "reserve  ≠  attempt 1, completed",
        "charge   ≠  attempt 1, failed (transient), again after 20ms, attempt 2, completed  attempt 1, failed (transient)",
        "first difference: event 10, retries of charge",
        "10     retries  charge   again after 20ms, attempt 2, completed",
        "no result recorded: reserve, compensation, attempt 1: no answer is recorded",
        "source unchanged: ",
        "14 events replayed: 3 differences, 1 step without a recorded result",
    ];
    let mut rest = found.out.as_str();
    for text in expected {
        let at = rest
            .find(text)
            .unwrap_or_else(|| panic!("no `{text}` in\n{}", found.out));
        rest = &rest[at..];
    }
    let json = gateway
        .run(&[
            "replay",
            "builtin/o1",
            "--definition",
            "v2.yaml",
            "-o",
            "json",
        ])
        .exits(8)
        .json();
    assert_eq!(json["divergences"][0]["kind"], "retries");
    assert_eq!(json["unrecorded_steps"][0]["step"], "reserve");
    write(&gateway, "bad.yaml", "steps: 3\n");
    gateway
        .run(&["replay", "builtin/o1", "--definition", "bad.yaml"])
        .exits(2);
    gateway
        .run(&["replay", "builtin/o1", "--definition", "none.yaml"])
        .exits(2);
    gateway
        .run(&["replay", "builtin/o1", "--at", "3", "--revision", "latest"])
        .exits(2);
}

#[test]
fn a_history_is_exported_and_replayed_without_a_gateway() {
    let gateway = ordered();
    let written = gateway
        .run(&["history", "export", "builtin/o1", "o1.jsonl"])
        .exits(0);
    assert!(
        written.out.is_empty() && written.err.contains("o1.jsonl ("),
        "{written:?}"
    );
    let again = gateway
        .run(&["history", "export", "builtin/o1", "o1.jsonl"])
        .exits(2);
    assert!(again.err.contains("exists"), "{}", again.err);
    let file = std::fs::read_to_string(gateway.path("o1.jsonl")).unwrap();
    let printed = gateway
        .run(&["history", "export", "builtin/o1"])
        .exits(0)
        .out;
    assert_eq!(printed, file);
    let redacted = gateway
        .run(&["history", "export", "builtin/o1", "--redact"])
        .exits(0)
        .out;
    assert!(
        !redacted.contains("\"ok\":true") && !redacted.contains("\"ada\""),
        "{redacted}"
    );
    gateway.run(&["history", "export", "builtin/nope"]).exits(3);

    // Elsewhere, where no gateway is.
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(at("o1.jsonl"), &file).unwrap();
    std::fs::write(at("v2.yaml"), ORDER.replace("20ms", "40ms")).unwrap();
    std::fs::write(
        at("broken.jsonl"),
        file.replace("\"ok\":true", "\"ok\":null"),
    )
    .unwrap();
    std::fs::write(at("redacted.jsonl"), &redacted).unwrap();
    drop(gateway);
    let shown = run(&[
        "replay",
        "--file",
        &at("o1.jsonl"),
        "--at",
        "10",
        "-o",
        "json",
    ])
    .exits(0);
    assert_eq!(shown.json()["execution"]["sub_state"], "backing-off");
    let found = run(&[
        "replay",
        "--file",
        &at("o1.jsonl"),
        "--definition",
        &at("v2.yaml"),
    ])
    .exits(8);
    assert!(
        found
            .out
            .contains("first difference: event 10, back_off of charge"),
        "{}",
        found.out
    );
    let stepped = run(&["replay", "--file", &at("redacted.jsonl"), "--step"]).exits(0);
    assert_eq!(stepped.out.lines().count(), 15);
    let broken = run(&["replay", "--file", &at("broken.jsonl"), "--at", "1"]).exits(2);
    assert!(broken.err.contains("broken.jsonl: line "), "{}", broken.err);
    assert!(broken.err.contains("changed after"), "{}", broken.err);
    let refused = run(&[
        "replay",
        "--file",
        &at("redacted.jsonl"),
        "--definition",
        &at("v2.yaml"),
    ]);
    assert!(refused.exits(4).err.contains("payloads were redacted"));
    run(&["replay", "--file", &at("nothing.jsonl")]).exits(2);
    run(&["replay"]).exits(2);
}

#[test]
fn a_succeeded_execution_is_forked_and_stays_as_it_is() {
    let gateway = ordered();
    let before = gateway.run(&["get", "builtin/o1", "-o", "json"]).exits(0);
    let before = before.json();
    let fork = gateway.run(&[
        "retry-from",
        "builtin/o1",
        "--step",
        "charge",
        "--feedback",
        "gently",
        "-o",
        "json",
    ]);
    let fork = fork.exits(0).json();
    let name = fork["name"].as_str().unwrap();
    assert_ne!(fork["name"], before["name"]);
    let worker = worker(
        &gateway,
        "x",
        "echo \"{\\\"said\\\": \\\"$STATEWAY_FEEDBACK\\\"}\"",
    );
    let done = gateway.run(&["wait", name, "-o", "json"]).exits(0).json();
    assert_eq!(done["output"]["charge"]["said"], "gently");
    drop(worker);
    let after = gateway.run(&["get", "builtin/o1", "-o", "json"]).exits(0);
    assert_eq!(after.json()["etag"], before["etag"]);
    let events = gateway.run(&["history", name, "--all", "-o", "json"]);
    let events = events.exits(0).json();
    assert_eq!(events["events"][6]["native_type"], "ExecutionForked");
}

#[test]
fn branches_are_listed_and_each_has_its_history() {
    let gateway = gateway();
    apply(&gateway, ORDER);
    start(&gateway, "order", "o1", "ada");
    gateway.run(&["cancel", "builtin/o1", "--kill"]).exits(0);
    let again = gateway.run(&["retry-from", "builtin/o1", "--from-start"]);
    again.exits(0);
    let table = gateway.run(&["branches", "builtin/o1"]).exits(0).out;
    let lines: Vec<_> = table.lines().collect();
    assert!(
        lines[0].starts_with("BRANCH       FROM  AFTER EVENT  OPENED"),
        "{table}"
    );
    assert!(
        lines[1].starts_with("0 ") && lines[1].contains("started"),
        "{table}"
    );
    assert!(lines[2].starts_with("1 (current)  0     3"), "{table}");
    let json = gateway
        .run(&["branches", "builtin/o1", "-o", "json"])
        .exits(0)
        .json();
    assert_eq!(json["branches"][1]["cutoff_sequence"], 3);

    let events = |flags: &[&str]| {
        let mut command = vec!["history", "builtin/o1", "--all", "-o", "json"];
        command.extend(flags);
        let listed = gateway.run(&command).exits(0).json();
        listed["events"].as_array().unwrap().clone()
    };
    let (old, new) = (events(&["--branch", "0"]), events(&["--branch", "current"]));
    assert_eq!(&old[..3], &new[..3]);
    assert_eq!(new[3]["native_type"], "BranchOpened");
    assert_eq!(new[4]["native_type"], "ExecutionReopened");
    let branch = "providers/builtin/executions/o1/branches/1";
    assert_eq!(
        (&new[3]["branch"], &new[3]["sequence"]),
        (&branch.into(), &4.into())
    );
    assert_eq!(events(&["--branch", branch]), new);
    assert_eq!(events(&["--all-branches"]).len(), old.len() + new.len() - 3);
    assert_eq!(events(&[]).len(), old.len() + new.len() - 3);
    gateway
        .run(&["history", "builtin/o1", "--branch", "7"])
        .exits(3);
    gateway
        .run(&["replay", "builtin/o1", "--branch", "0", "--at", "4"])
        .exits(0);
    gateway
        .run(&[
            "retry-from",
            "builtin/o1",
            "--from-start",
            "--step",
            "charge",
        ])
        .exits(2);
}

#[test]
fn what_has_no_branches_says_so() {
    let gateway = Gateway::new();
    gateway.start("a", crate::scripts::GOOD);
    for arguments in [
        &["branches", "memory/a"][..],
        &["replay", "memory/a", "--at", "1"],
        &["history", "memory/a", "--branch", "0"],
        &["history", "export", "memory/a"],
        &["verify", "memory/a"],
        &["recover", "memory/a"],
    ] {
        let answer = finish(&mut gateway.command(arguments), "").exits(5);
        assert!(
            answer.err.contains("CAPABILITY_NOT_SUPPORTED"),
            "{}",
            answer.err
        );
    }
}
