//! `stateway definitions`.

use crate::binary::{command, finish, run};
use crate::built_in;

const ORDER: &str = "\
name: order
description: Takes an order.
steps:
  - name: reserve
    agent: stock
    timeout: 5m
  - name: charge
    agent: billing
    timeout: 5m
    dependsOn: [reserve]
";

#[test]
fn a_definition_is_applied_listed_shown_and_drawn() {
    let gateway = built_in::gateway();
    let applied = built_in::apply(&gateway, ORDER).json();
    assert_eq!(applied[0]["definition"]["name"], "definitions/order");
    assert_eq!(applied[0]["changed"], true);
    let revision = applied[0]["definition"]["revision"]
        .as_str()
        .unwrap()
        .to_owned();
    let again = built_in::apply(&gateway, ORDER).json();
    assert_eq!(again[0]["changed"], false);

    let listed = gateway.run(&["definitions", "list"]).exits(0).out;
    assert!(listed.contains("definitions/order") && listed.contains("Takes an order."));
    let shown = gateway.run(&["definitions", "get", "order", "-o", "json"]);
    assert_eq!(shown.exits(0).json()["revision"], revision);
    let digits = &revision[..8];
    let source = gateway.run(&[
        "definitions",
        "get",
        "order",
        "--revision",
        digits,
        "--source",
    ]);
    assert_eq!(source.exits(0).out, ORDER);
    let graph = gateway.run(&["definitions", "graph", "order"]).exits(0).out;
    assert!(
        graph.starts_with("flowchart TD") && graph.contains("s0 --> s1"),
        "{graph}"
    );
    gateway.run(&["definitions", "get", "nobody"]).exits(3);
    gateway
        .run(&["definitions", "get", "order", "--revision", "12"])
        .exits(2);
}

#[test]
fn what_is_not_valid_is_told_with_its_places() {
    let gateway = built_in::gateway();
    let wrong = ORDER.replace("[reserve]", "[nobody]");
    let mut apply = gateway.command(&["definitions", "apply", "-"]);
    let refused = finish(&mut apply, &wrong).exits(2);
    assert!(
        refused.err.contains("INVALID_DEFINITION"),
        "{}",
        refused.err
    );
    assert!(refused.err.contains("-:10:"), "{}", refused.err);
    let mut dry = gateway.command(&["definitions", "apply", "--dry-run", "-"]);
    assert!(finish(&mut dry, ORDER).exits(0).out.contains("valid"));
    gateway.run(&["definitions", "get", "order"]).exits(3);
}

#[test]
fn files_are_checked_and_drawn_without_a_gateway() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    std::fs::write(path("good.yaml"), ORDER).unwrap();
    std::fs::write(path("bad.yaml"), ORDER.replace("5m", "soon")).unwrap();
    let in_it = |arguments: &[&str]| finish(command(directory.path()).args(arguments), "");
    let good = in_it(&["definitions", "validate", "good.yaml"]).exits(0);
    assert!(
        good.out.contains("good.yaml: order is valid, revision "),
        "{}",
        good.out
    );
    let both = in_it(&["definitions", "validate", "good.yaml", "bad.yaml"]).exits(2);
    assert!(both.out.contains("bad.yaml:6:14: error["), "{}", both.out);
    assert!(both.out.contains("\n  hint: "), "{}", both.out);
    let json = in_it(&["definitions", "validate", "bad.yaml", "-o", "json"]).exits(2);
    assert_eq!(json.json()[0]["valid"], false);
    assert_eq!(json.json()[0]["diagnostics"][1]["line"], 6);
    let dot = in_it(&["definitions", "graph", "good.yaml", "--format", "dot"]).exits(0);
    assert!(dot.out.starts_with("digraph \"order\""), "{}", dot.out);
    in_it(&["definitions", "graph", "bad.yaml"]).exits(2);
    in_it(&["definitions", "validate", "none.yaml"]).exits(2);
    run(&["definitions", "validate"]).exits(2);
}

#[test]
fn a_terminal_is_safe_from_what_a_file_says() {
    let directory = tempfile::tempdir().unwrap();
    let text = "name: x\nsteps:\n  - name: \"a\\e[31m\"\n";
    std::fs::write(directory.path().join("x.yaml"), text).unwrap();
    let mut check = command(directory.path());
    let answer = finish(check.args(["definitions", "validate", "x.yaml"]), "").exits(2);
    assert!(!answer.out.contains('\u{1b}'), "{:?}", answer.out);
}

#[test]
fn a_drawing_of_what_is_wrong_says_what_on_lines_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("bad.yaml"), "name: x\nsteps: []\n").unwrap();
    let mut graph = crate::binary::command(folder.path());
    let answer = finish(graph.args(["definitions", "graph", "bad.yaml"]), "").exits(2);
    assert!(
        answer.err.contains("\n  hint: Add at least one step"),
        "{}",
        answer.err
    );
    assert!(!answer.err.contains("\\n"), "{}", answer.err);
}

const GATE: &str = "name: gate\nsteps:\n  - {name: wait, signal: go, timeout: 1h}\n";
const NIGHTLY: &str =
    "name: nightly\ntrigger: {schedule: '0 2 * * *'}\nsteps:\n  - {name: rest, sleep: 1h}\n";

#[test]
fn a_definition_is_deleted_by_whoever_says_yes() {
    let gateway = built_in::gateway();
    built_in::apply(&gateway, GATE);
    built_in::start(&gateway, "gate", "g1", "ada");
    let unsaid = gateway.run(&["definitions", "delete", "gate"]).exits(2);
    assert!(unsaid.err.contains("--yes"), "{}", unsaid.err);
    let refused = gateway.run(&["definitions", "delete", "gate", "--yes"]);
    let refused = refused.exits(4);
    assert!(refused.err.contains("DEFINITION_IN_USE"), "{}", refused.err);
    assert!(refused.err.contains("--keep-running"), "{}", refused.err);
    let delete = [
        "definitions",
        "delete",
        "gate",
        "--keep-running",
        "--yes",
        "-o",
        "json",
    ];
    let deleted = gateway.run(&delete).exits(0).json();
    assert_eq!(deleted["deleted"], "definitions/gate");
    assert_eq!(deleted["open_execution_count"], 1);
    gateway.run(&["definitions", "get", "gate"]).exits(3);
    gateway.run(&delete).exits(3);
}

#[test]
fn a_trigger_is_disabled_and_enabled() {
    let gateway = built_in::gateway();
    built_in::apply(&gateway, NIGHTLY);
    let shown = gateway.run(&["definitions", "get", "nightly"]).exits(0).out;
    assert!(shown.contains("next start"), "{shown}");
    let disable = [
        "triggers",
        "disable",
        "nightly",
        "--as",
        "ada",
        "--comment",
        "repair",
    ];
    let disabled = gateway.run(&disable).exits(0).out;
    assert!(
        disabled.starts_with("definitions/nightly: disabled by ada at "),
        "{disabled}"
    );
    let shown = gateway.run(&["definitions", "get", "nightly"]).exits(0).out;
    let words: Vec<_> = shown.split_whitespace().collect();
    assert!(words.join(" ").contains(" disabled by ada at "), "{shown}");
    let listed = gateway.run(&["definitions", "list"]).exits(0).out;
    assert!(listed.contains("disabled"), "{listed}");
    let queue = gateway.run(&["queue"]).exits(0);
    let schedules = "\nSCHEDULE             NEXT START\ndefinitions/nightly  disabled by ada at ";
    assert!(queue.out.contains(schedules), "{}", queue.out);
    assert_eq!(queue.err, "no task and no execution waits\n");
    let enabled = gateway.run(&["triggers", "enable", "nightly", "-o", "json"]);
    let enabled = enabled.exits(0).json();
    assert!(enabled["disabled"].is_null() && enabled["next_start_time"].is_string());
    built_in::apply(&gateway, GATE);
    let refused = gateway.run(&["triggers", "disable", "gate"]).exits(4);
    assert!(refused.err.contains("NO_TRIGGER"), "{}", refused.err);
}

#[test]
fn one_execution_adopts_a_revision_or_pauses_with_the_reason() {
    let gateway = built_in::gateway();
    built_in::apply(&gateway, GATE);
    built_in::start(&gateway, "gate", "g1", "ada");
    let adopt = |more: &[&str]| {
        let arguments = ["definitions", "adopt", "builtin/g1", "-o", "json"];
        gateway.run(&[&arguments, more].concat())
    };
    assert_eq!(adopt(&[]).exits(0).json()[0]["result"], "unchanged");
    let longer = format!("{GATE}  - {{name: rest, sleep: 1h, dependsOn: [wait]}}\n");
    let longer = built_in::apply(&gateway, &longer).json();
    let adopted = adopt(&[]).exits(0).json();
    assert_eq!(adopted[0]["result"], "adopted");
    assert_eq!(adopted[0]["revision"], longer[0]["definition"]["revision"]);
    built_in::apply(&gateway, &GATE.replace("1h", "2h"));
    let paused = adopt(&[]).exits(4).json();
    assert_eq!(paused[0]["result"], "paused");
    let difference = "`timeout` was 1h and is now 2h";
    assert!(paused[0]["reason"].as_str().unwrap().contains(difference));
    for command in ["get", "explain"] {
        let shown = gateway.run(&[command, "builtin/g1"]).exits(0).out;
        assert!(shown.contains(difference), "{shown}");
    }
    gateway.run(&["definitions", "adopt"]).exits(2);
    let unknown = adopt(&["--revision", "00000000"]).exits(3).err;
    assert!(
        unknown.contains("the definition `gate` has no revision 00000000")
            && unknown.contains("lists the revisions"),
        "{unknown}"
    );
    gateway
        .run(&["definitions", "adopt", "builtin/nobody"])
        .exits(3);
}

#[test]
fn executions_that_pass_a_filter_adopt_a_revision_after_a_preview() {
    let gateway = built_in::gateway();
    built_in::apply(&gateway, GATE);
    for id in ["g1", "g2", "g3"] {
        built_in::start(&gateway, "gate", id, "ada");
    }
    gateway.run(&["pause", "builtin/g3"]).exits(0);
    let first = built_in::apply(&gateway, &GATE.replace("go", "went")).json();
    let filter = "definition = \"definitions/gate\"";
    let adopt = |more: &[&str]| {
        gateway.run(&[&["definitions", "adopt", "--filter", filter], more].concat())
    };
    let preview = adopt(&["--dry-run"]).exits(0).out;
    let offered = &first[0]["definition"]["revision"].as_str().unwrap()[..12];
    assert!(
        preview.contains("builtin/g1") && preview.contains(offered),
        "{preview}"
    );
    let unsaid = adopt(&[]).exits(2);
    assert!(
        unsaid.err.contains("standard input is not a terminal") && unsaid.err.contains("--yes"),
        "{}",
        unsaid.err
    );
    let wrong = gateway.run(&["definitions", "adopt", "--filter", "bad =", "--yes"]);
    let bare = gateway.run(&["list", "--filter", "bad ="]);
    assert_eq!(wrong.exits(2).err, bare.exits(2).err);
    let missing = gateway.run(&["definitions", "delete", "nosuch", "--yes"]);
    let missing = missing.exits(3).err;
    assert!(
        missing.contains("definitions list") && !missing.contains("Apply"),
        "{missing}"
    );
    let branch = gateway.run(&["history", "builtin/g1", "--branch", "q"]);
    let branch = branch.exits(2).err;
    assert!(branch.contains("stateway branches"), "{branch}");
    let done = adopt(&["--yes"]).exits(4);
    assert!(
        done.err
            .contains("0 adopted, 0 unchanged, 2 paused, 1 refused"),
        "{}",
        done.err
    );
    for result in [
        "builtin/g1",
        "paused",
        "refused",
        "`signal` was go and is now went",
    ] {
        assert!(done.out.contains(result), "{}", done.out);
    }
    let nothing = gateway.run(&[
        "definitions",
        "adopt",
        "--filter",
        "definition = \"definitions/other\"",
        "--yes",
        "-o",
        "json",
    ]);
    assert_eq!(nothing.exits(0).json(), serde_json::json!([]));
}
