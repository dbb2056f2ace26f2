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
    assert_eq!(applied[0]["name"], "definitions/order");
    assert_eq!(applied[0]["changed"], true);
    let revision = applied[0]["revision"].as_str().unwrap().to_owned();
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
