//! `stateway workers`, `queue`, `admin` and `events`: what operators do with the built-in engine.

use crate::built_in;

const GREET: &str = "\
name: greet
trigger: {event: visitor.came}
steps:
  - name: hello
    agent: greeter
    timeout: 5m
";

#[test]
fn who_works_and_what_waits_can_be_seen() {
    let gateway = built_in::gateway();
    built_in::apply(&gateway, GREET);
    built_in::start(&gateway, "greet", "g1", "ada");
    let queue = ["queue", "-o", "json"];
    let waits = |answer: &crate::binary::Answer| answer.json()["tasks"][0]["role"] == "greeter";
    let waiting = built_in::until(&gateway, &queue, waits).json();
    assert_eq!(waiting["tasks"][0]["task_count"], 1);
    assert_eq!(waiting["tasks"][0]["worker_count"], 0);
    assert!(gateway.run(&["queue"]).exits(0).out.contains("greeter"));
    let _worker = built_in::worker(&gateway, "greeter", "echo '\"hello\"'");
    gateway
        .run(&["wait", "builtin/g1", "--timeout", "10s"])
        .exits(0);
    let workers = gateway
        .run(&["workers", "list", "-o", "json"])
        .exits(0)
        .json();
    assert_eq!(workers["workers"][0]["roles"][0], "greeter");
    assert_eq!(workers["workers"][0]["connected"], true);
    let worker = &workers["workers"][0];
    assert_eq!(worker["recent_tasks"]["completed_count"], 1);
    assert_eq!(worker["recent_tasks"]["failed_count"], 0);
    assert_eq!(worker["last_failure"], serde_json::Value::Null);
    let sdk = format!("stateway-rust/{}", env!("CARGO_PKG_VERSION"));
    assert_eq!(worker["sdk"], sdk);
    let table = gateway.run(&["workers", "list"]).exits(0).out;
    for shown in ["greeter", "DONE/MIN", "1.0", "0.0", &sdk] {
        assert!(table.contains(shown), "{shown}: {table}");
    }
}

#[test]
fn a_worker_without_a_program_or_a_role_does_not_start() {
    let gateway = built_in::gateway();
    for arguments in [
        ["--role", "x", "--exec", ""],
        ["--role", "", "--exec", "true"],
    ] {
        let refused = gateway.run(&[&["worker"][..], &arguments].concat());
        let refused = refused.exits(2);
        assert!(refused.err.contains("it is empty"), "{}", refused.err);
    }
}

#[test]
fn a_filter_may_begin_with_a_minus() {
    let gateway = built_in::gateway();
    let filter = "-(sub_state = SUCCEEDED OR sub_state = FAILED)";
    gateway.run(&["list", "--filter", filter]).exits(0);
}

#[test]
fn an_event_starts_what_it_triggers_once() {
    let gateway = built_in::gateway();
    built_in::apply(&gateway, GREET);
    let publish = || {
        let event = ["events", "publish", "visitor.came", "--id", "v-1"];
        let data = ["--data", r#"{"name":"Eve"}"#, "-o", "json"];
        gateway
            .run(&[&event[..], &data[..]].concat())
            .exits(0)
            .json()
    };
    let first = publish();
    let name = first["executions"][0].as_str().unwrap();
    assert!(name.starts_with("providers/builtin/executions/"), "{name}");
    assert_eq!(publish(), first);
    let shown = gateway.run(&["get", name, "-o", "json"]).exits(0).json();
    assert_eq!(shown["input"]["name"], "Eve");
    let none = gateway.run(&["events", "publish", "nobody.came"]).exits(0);
    assert_eq!(none.out.trim(), "");
}

#[test]
fn what_is_over_is_purged_only_when_asked_for_and_a_backup_never_overwrites() {
    let gateway = built_in::gateway();
    built_in::apply(&gateway, GREET);
    built_in::start(&gateway, "greet", "g2", "ada");
    let _worker = built_in::worker(&gateway, "greeter", "echo 1");
    gateway
        .run(&["wait", "builtin/g2", "--timeout", "10s"])
        .exits(0);
    let purge = |more: &[&str]| {
        let arguments = ["admin", "purge", "-o", "json", "--older-than"];
        gateway.run(&[&arguments[..], more].concat())
    };
    assert_eq!(purge(&["1h", "--yes"]).exits(0).json()["purge_count"], 0);
    assert_eq!(purge(&["0s"]).exits(0).json()["purge_count"], 1);
    gateway.run(&["get", "builtin/g2"]).exits(0);
    assert_eq!(purge(&["0s", "--yes"]).exits(0).json()["purge_count"], 1);
    gateway.run(&["get", "builtin/g2"]).exits(3);
    purge(&[]).exits(2);

    let written = gateway.run(&["admin", "backup", "monday.db", "-o", "json"]);
    assert!(written.exits(0).json()["size_bytes"].as_u64().unwrap() > 0);
    gateway.run(&["admin", "backup", "monday.db"]).exits(4);
    gateway.run(&["admin", "backup", "../monday.db"]).exits(2);
}

#[test]
fn an_execution_is_told_in_another_systems_words() {
    let gateway = built_in::gateway();
    built_in::apply(&gateway, GREET);
    built_in::start(&gateway, "greet", "g3", "ada");
    let told = gateway.run(&["get", "builtin/g3", "--vocabulary", "buquet", "-o", "json"]);
    let told = told.exits(0).json();
    assert_eq!(told["status"], "running");
    assert_eq!(told["current_steps"][0], "hello");
    assert!(told["last_error"].is_null());
    let text = gateway
        .run(&["get", "builtin/g3", "--vocabulary", "ioa"])
        .exits(0)
        .out;
    assert!(text.contains("moves"), "{text}");
    gateway
        .run(&["get", "builtin/g3", "--vocabulary", "klingon"])
        .exits(2);
}
