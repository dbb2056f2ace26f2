//! `stateway watch`, where standard output is not a terminal.

use serde_json::Value;

use crate::binary::{Gateway, Running, run, silent};
use crate::scripts::{BAD, GOOD, WAITING};

#[test]
fn each_change_is_a_line_and_the_end_is_the_end() {
    let gateway = Gateway::new();
    gateway.start("a", WAITING);
    let mut watch = Running::begin(&mut gateway.command(&["watch", "memory/a"]));
    assert!(
        watch
            .line("memory/a  waiting")
            .contains("at gate: waits for signal `go`")
    );
    gateway.run(&["signal", "memory/a", "go"]).exits(0);
    watch.line("memory/a  succeeded");
    assert_eq!(watch.code(), 0);
}

#[test]
fn json_lines_hold_the_whole_execution() {
    let gateway = Gateway::new();
    gateway.start("a", WAITING);
    let mut watch = Running::begin(&mut gateway.command(&["watch", "memory/a", "-o", "json"]));
    watch.line("\"ADDED\"");
    gateway.run(&["signal", "memory/a", "go"]).exits(0);
    assert_eq!(watch.code(), 0);
    let lines: Vec<Value> = watch
        .said()
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines[0]["execution"]["sub_state"], "waiting");
    let last = lines.last().unwrap();
    assert_eq!(last["kind"], "MODIFIED");
    assert_eq!(last["execution"]["sub_state"], "succeeded");
    assert!(lines.iter().all(|line| line["unreachable"].is_array()));
}

#[test]
fn a_failure_is_the_exit_code() {
    let gateway = Gateway::new();
    gateway.start("a", BAD);
    let answer = gateway.run(&["watch", "memory/a"]).exits(1);
    assert!(
        answer.out.contains("failed") && answer.out.contains("pay: card is blocked"),
        "{}",
        answer.out
    );
}

#[test]
fn a_collection_is_followed_through_its_filter() {
    let gateway = Gateway::new();
    let arguments = [
        "watch",
        "--provider",
        "memory",
        "--filter",
        "sub_state = \"waiting\"",
    ];
    let watch = Running::begin(&mut gateway.command(&arguments));
    gateway.start("done", GOOD);
    gateway.start("a", WAITING);
    watch.line("memory/a  waiting");
    gateway.run(&["cancel", "memory/a"]).exits(0);
    watch.line("(gone)");
    assert!(
        !watch.said().iter().any(|line| line.contains("memory/done")),
        "{:?}",
        watch.said()
    );
}

#[test]
fn a_restart_of_the_gateway_is_told_and_what_is_gone_is_not_found() {
    let gateway = Gateway::new();
    gateway.start("a", WAITING);
    let mut watch = Running::begin(&mut gateway.command(&["watch", "memory/a"]));
    watch.line("memory/a  waiting");
    let address = gateway.url.trim_start_matches("http://").to_owned();
    drop(gateway);
    watch.line("connection lost");
    let nowhere = tempfile::tempdir().unwrap();
    std::fs::write(nowhere.path().join("stateway.toml"), crate::binary::MEMORY).unwrap();
    let mut serve = crate::binary::command(nowhere.path());
    let again = Running::begin(serve.args(["serve", "--listen", &address]));
    again.line("stateway is listening");
    // The in-memory provider keeps nothing beyond the process.
    assert_eq!(watch.code(), 3);
    watch.line("EXECUTION_NOT_FOUND");
}

#[test]
fn an_outage_is_told_once_and_so_is_its_end() {
    let gateway = Gateway::new();
    let watch = Running::begin(&mut gateway.command(&["watch", "--provider", "memory"]));
    gateway.start("a", WAITING);
    watch.line("memory/a  waiting");
    let address = gateway.url.trim_start_matches("http://").to_owned();
    drop(gateway);
    watch.line("connection lost");
    // Long enough for several tries.
    std::thread::sleep(std::time::Duration::from_secs(1));
    let nowhere = tempfile::tempdir().unwrap();
    std::fs::write(nowhere.path().join("stateway.toml"), crate::binary::MEMORY).unwrap();
    let mut serve = crate::binary::command(nowhere.path());
    let again = Running::begin(serve.args(["serve", "--listen", &address]));
    again.line("stateway is listening");
    watch.line("connected again");
    let count = |text: &str| {
        let said = watch.said();
        said.iter().filter(|line| line.contains(text)).count()
    };
    assert_eq!(
        (count("connection lost"), count("connected again")),
        (1, 1),
        "{:#?}",
        watch.said()
    );
}

#[test]
fn a_gateway_that_was_never_reached_is_unreachable() {
    for name in [&["watch", "memory/a"][..], &["watch"]] {
        let arguments = [name, &["--server", "http://127.0.0.1:1"]].concat();
        let answer = run(&arguments).exits(6);
        assert!(answer.err.contains("GATEWAY_UNREACHABLE"), "{}", answer.err);
        assert!(!answer.err.contains("connection lost"), "{}", answer.err);
    }
    let (_silent, url) = silent();
    run(&["watch", "memory/a", "--timeout", "300ms", "--server", &url]).exits(6);
}

#[test]
fn what_cannot_be_watched_is_refused() {
    let gateway = Gateway::new();
    gateway.run(&["watch", "memory/nope"]).exits(3);
    gateway.run(&["watch", "--filter", "x ="]).exits(2);
    gateway
        .run(&["watch", "memory/a", "--provider", "memory"])
        .exits(2);
}

#[test]
fn a_deadline_ends_a_watch() {
    let gateway = Gateway::new();
    gateway.start("a", WAITING);
    gateway
        .run(&["watch", "memory/a", "--timeout", "300ms"])
        .exits(7);
    let collection = gateway.run(&["watch", "--timeout", "300ms"]).exits(7);
    assert!(!collection.err.contains("execution"), "{}", collection.err);
}

#[test]
fn several_executions_are_watched_by_their_names() {
    let gateway = Gateway::new();
    for id in ["a", "b", "c"] {
        gateway.start(id, WAITING);
    }
    let arguments = ["watch", "memory/a", "memory/b", "--timeout", "500ms"];
    let shown = gateway.run(&arguments).exits(7).out;
    assert!(shown.contains("memory/a") && shown.contains("memory/b"));
    assert!(!shown.contains("memory/c"), "{shown}");
}
