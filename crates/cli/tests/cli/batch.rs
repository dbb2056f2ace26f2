//! Commands that change every execution that matches a filter.

use crate::binary::Gateway;
use crate::built_in;
use crate::pty::Seen;
use crate::scripts::{BACKING_OFF, BAD, GOOD, LONG, WAITING};

/// Two executions that run, one that waits and one that has succeeded.
fn gateway() -> Gateway {
    let gateway = Gateway::new();
    gateway.start("a", LONG);
    gateway.start("b", LONG);
    gateway.start("gate", WAITING);
    gateway.start("done", GOOD);
    gateway.run(&["wait", "memory/done"]).exits(0);
    gateway
        .run(&["wait", "memory/gate", "--for", "waiting"])
        .exits(0);
    gateway
}

fn state(gateway: &Gateway, name: &str) -> String {
    let shown = gateway.run(&["get", name, "-o", "json"]).exits(0).json();
    format!("{} {}", shown["sub_state"], shown["reason"]).replace('"', "")
}

#[test]
fn without_a_confirmation_nothing_is_changed() {
    let gateway = gateway();
    let filter = ["cancel", "--filter", "sub_state = RUNNING"];
    let refused = gateway.run(&filter).exits(2);
    for text in ["memory/a", "memory/b", "at crunch", "Add --yes to confirm."] {
        assert!(refused.err.contains(text), "{text} in {}", refused.err);
    }
    assert!(!refused.err.contains("memory/gate"), "{}", refused.err);
    let listed = gateway.run(&[&filter[..], &["--dry-run"]].concat());
    let listed = listed.exits(0).out;
    assert_eq!(listed.lines().count(), 3, "{listed}");
    assert_eq!(state(&gateway, "memory/a"), "running null");
}

#[test]
fn every_open_execution_that_matches_is_cancelled() {
    let gateway = gateway();
    let all = ["cancel", "--filter", "name = providers/memory/*", "--yes"];
    let report = gateway.run(&[&all[..], &["-o", "json"]].concat());
    let report = report.exits(0).json();
    let done = ["a", "b", "gate"].map(|id| format!("providers/memory/executions/{id}"));
    assert_eq!(report["done"], serde_json::json!(done));
    assert_eq!(report["failed"], serde_json::json!([]));
    assert_eq!(state(&gateway, "memory/gate"), "failed CANCELLED");
    assert_eq!(state(&gateway, "memory/done"), "succeeded null");
    let none = gateway.run(&all).exits(0);
    assert!(none.err.contains("no execution matches"), "{}", none.err);
    assert_eq!(none.out, "cancelled 0 executions\n");
}

#[test]
fn each_command_chooses_the_executions_that_it_can_change() {
    let gateway = gateway();
    gateway.start("slow", BACKING_OFF);
    gateway
        .run(&["wait", "memory/slow", "--for", "backing-off"])
        .exits(0);
    gateway.start("bad", BAD);
    gateway.run(&["wait", "memory/bad"]).exits(1);
    let every = ["--filter", "name = providers/memory/*", "--yes"];
    let done = |command: &[&str]| {
        let answer = gateway.run(&[command, &every[..]].concat()).exits(0);
        answer.out.lines().next().unwrap_or_default().to_owned()
    };
    assert_eq!(done(&["pause"]), "paused 4 executions");
    assert_eq!(state(&gateway, "memory/a"), "waiting PAUSED");
    assert_eq!(done(&["resume"]), "resumed 4 executions");
    assert_eq!(state(&gateway, "memory/a"), "running null");
    assert_eq!(done(&["retry-now"]), "retried 1 execution");
    gateway.run(&["wait", "memory/slow"]).exits(0);
    assert_eq!(done(&["retry-from"]), "reopened 1 execution");
    gateway.run(&["wait", "memory/bad"]);
    assert_eq!(
        done(&["purge", "--provider", "memory"]),
        "purged 3 executions"
    );
    gateway.run(&["get", "memory/done"]).exits(3);
}

#[test]
fn a_table_names_the_executions_that_could_not_be_changed() {
    let gateway = built_in::gateway();
    built_in::apply(&gateway, "name: gate\nsteps: [{name: wait, signal: go}]\n");
    built_in::apply(&gateway, "name: plain\nsteps: [{name: a, agent: nobody}]\n");
    built_in::start(&gateway, "gate", "good", "ada");
    built_in::start(&gateway, "plain", "other", "ada");
    let filter = ["signal", "--filter", "create_time:*", "go", "--yes"];
    let answer = gateway.run(&filter).exits(4);
    let lines: Vec<_> = answer.out.lines().collect();
    assert_eq!(lines[0], "sent the signal to 1 execution, 1 failed");
    assert!(lines[2].starts_with("EXECUTION"), "{lines:?}");
    assert!(lines[3].starts_with("builtin/other"), "{lines:?}");
    gateway.run(&["wait", "builtin/good"]).exits(0);
}

#[test]
fn an_execution_that_changed_after_the_preview_is_checked_again() {
    let gateway = gateway();
    let filter = "name = providers/memory/*";
    let arguments = ["cancel", "--filter", filter, "--color", "never"];
    let mut cancel = Seen::begin_with_messages(&mut gateway.command(&arguments));
    cancel.shows("Cancel 3 executions? [y/N]");
    // One has finished before the answer; one has changed and matches still.
    gateway.run(&["signal", "memory/gate", "go"]).exits(0);
    gateway.run(&["wait", "memory/gate"]).exits(0);
    gateway.run(&["pause", "memory/a"]).exits(0);
    cancel.press("y\n");
    assert_eq!(cancel.code(), Some(0));
    cancel.shows("cancelled 2 executions, 1 skipped");
    cancel.shows("it does not match the filter any more");
    assert_eq!(state(&gateway, "memory/a"), "failed CANCELLED");
    assert_eq!(state(&gateway, "memory/gate"), "succeeded null");
}

#[test]
fn any_other_answer_than_yes_changes_nothing() {
    let gateway = gateway();
    let arguments = ["cancel", "--filter", "sub_state = RUNNING"];
    let mut cancel = Seen::begin_with_messages(&mut gateway.command(&arguments));
    cancel.shows("Cancel 2 executions? [y/N]");
    cancel.press("\n");
    assert_eq!(cancel.code(), Some(4));
    cancel.shows("nothing was changed");
    assert_eq!(state(&gateway, "memory/a"), "running null");
}

#[test]
fn wrong_filters_and_arguments_are_refused() {
    let gateway = Gateway::new();
    let wrong = gateway.run(&["cancel", "--filter", "sub_state ="]).exits(2);
    assert!(wrong.err.contains("column 12"), "{}", wrong.err);
    for arguments in [
        &["cancel"][..],
        &["cancel", "memory/a", "--filter", "sub_state = RUNNING"],
        &["cancel", "--filter", "sub_state = RUNNING", "--etag", "x"],
        &["cancel", "memory/a", "--dry-run"],
        &["signal", "--filter", "sub_state = RUNNING"],
        &[
            "signal",
            "memory/a",
            "go",
            "--filter",
            "sub_state = RUNNING",
        ],
    ] {
        gateway.run(arguments).exits(2);
    }
}

/// Words without the widths of columns.
fn words(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_person_sees_what_the_documentation_shows() {
    const NO_STOCK: &str = r#"{"steps": [{"name": "reserve", "fails": 9,
        "error": {"message": "no stock"},
        "retry": {"max_attempts": 4, "delay": "0s"}, "when_exhausted": "stick"}]}"#;
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, shown) = page.split_once("\n$ stateway cancel --filter").unwrap();
    let shown = shown
        .split("```")
        .next()
        .unwrap()
        .replace("builtin/", "memory/");
    let shown: Vec<_> = shown.lines().skip(1).map(words).collect();
    assert_eq!(shown.len(), 5, "{shown:?}");
    let gateway = Gateway::new();
    for id in ["order-17", "order-21"] {
        gateway.start(id, NO_STOCK);
        let name = format!("memory/{id}");
        gateway.run(&["wait", &name, "--for", "error"]).exits(0);
    }
    let cancel = [
        "cancel",
        "--filter",
        "sub_state = ERROR",
        "--color",
        "never",
    ];
    let mut person = Seen::begin_with_messages(&mut gateway.command(&cancel));
    person.shows("[y/N]");
    person.press("y\n");
    assert_eq!(person.code(), Some(0));
    let screen = person.screen();
    let seen: Vec<_> = screen
        .lines()
        .map(words)
        .filter(|it| !it.is_empty())
        .collect();
    assert_eq!(seen, shown);
}
