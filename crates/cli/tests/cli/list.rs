//! `stateway list`.

use crate::binary::Gateway;
use crate::scripts::{BAD, GOOD, LONG, STUCK, WAITING};

#[test]
fn a_filter_chooses_and_the_json_says_what_is_missing() {
    let gateway = Gateway::new();
    gateway.start("a", LONG);
    gateway.start("b", WAITING);
    let listed = gateway
        .run(&["list", "--filter", "sub_state = \"waiting\"", "-o", "json"])
        .exits(0)
        .json();
    assert_eq!(listed["executions"].as_array().unwrap().len(), 1);
    assert_eq!(
        listed["executions"][0]["name"],
        "providers/memory/executions/b"
    );
    assert_eq!(listed["next_page_token"], "");
    assert_eq!(listed["unreachable"], serde_json::json!([]));
}

#[test]
fn pages_follow_each_other_and_all_of_them_can_be_had_at_once() {
    let gateway = Gateway::new();
    for id in ["a", "b", "c"] {
        gateway.start(id, GOOD);
    }
    let first = gateway
        .run(&[
            "list",
            "--provider",
            "memory",
            "--page-size",
            "2",
            "-o",
            "json",
        ])
        .exits(0)
        .json();
    assert_eq!(first["executions"].as_array().unwrap().len(), 2);
    let token = first["next_page_token"].as_str().unwrap();
    let second = gateway
        .run(&[
            "list",
            "--provider",
            "memory",
            "--page-size",
            "2",
            "--page-token",
            token,
            "-o",
            "json",
        ])
        .exits(0)
        .json();
    assert_eq!(second["executions"].as_array().unwrap().len(), 1);
    let all = gateway
        .run(&["list", "--page-size", "1", "--all", "-o", "json"])
        .exits(0)
        .json();
    assert_eq!(all["executions"].as_array().unwrap().len(), 3);
}

#[test]
fn people_see_short_names() {
    let gateway = Gateway::new();
    gateway.start("a", WAITING);
    let listed = gateway.run(&["list"]).exits(0);
    assert!(listed.out.starts_with("NAME "), "{}", listed.out);
    assert!(listed.out.contains("memory/a  waiting"), "{}", listed.out);
    assert!(
        listed.out.contains("waits for signal `go`"),
        "{}",
        listed.out
    );
}

#[test]
fn people_see_what_went_wrong() {
    let gateway = Gateway::new();
    gateway.start("stuck", STUCK);
    gateway.start("bad", BAD);
    gateway
        .run(&["wait", "memory/stuck", "--for", "error", "--timeout", "5s"])
        .exits(0);
    gateway.run(&["wait", "memory/bad"]).exits(1);
    let listed = gateway.run(&["list"]).exits(0).out;
    let row = |name: &str| listed.lines().find(|line| line.starts_with(name)).unwrap();
    assert!(
        row("memory/stuck").contains("import: row 17 has no customer"),
        "{listed}"
    );
    assert!(
        row("memory/bad").contains("pay: card is blocked"),
        "{listed}"
    );
}

#[test]
fn a_wrong_filter_is_refused_with_the_column_and_the_fields() {
    let gateway = Gateway::new();
    let answer = gateway
        .run(&["list", "--filter", "sub_stat = \"x\""])
        .exits(2);
    assert!(
        answer.err.contains("column 1") && answer.err.contains("sub_state"),
        "{}",
        answer.err
    );
}

#[test]
fn a_token_of_another_filter_is_refused() {
    let gateway = Gateway::new();
    for id in ["a", "b"] {
        gateway.start(id, LONG);
    }
    let first = gateway
        .run(&["list", "--page-size", "1", "-o", "json"])
        .exits(0)
        .json();
    let token = first["next_page_token"].as_str().unwrap();
    gateway
        .run(&[
            "list",
            "--page-token",
            token,
            "--filter",
            "sub_state = \"failed\"",
        ])
        .exits(2);
}

#[test]
fn a_filtered_list_says_how_many_executions_were_compared() {
    let gateway = Gateway::new();
    for (id, team) in [("a", "shop"), ("b", "bank"), ("c", "bank"), ("d", "shop")] {
        let label = format!("team={team}");
        let start = ["start", "memory/script", "--id", id, "--input", LONG];
        gateway
            .run(&[&start[..], &["--label", &label]].concat())
            .exits(0);
    }
    let filter = ["list", "--filter", "labels.team = \"shop\""];
    let listed = gateway.run(&[&filter[..], &["-o", "json"]].concat());
    let listed = listed.exits(0).json();
    assert_eq!(listed["executions"].as_array().unwrap().len(), 2);
    assert_eq!(listed["examined_count"], 4);
    // The page is filled however few executions the gateway compares for one answer.
    let one = gateway.run(&[&filter[..], &["--page-size", "1"]].concat());
    let one = one.exits(0);
    assert_eq!(one.out.lines().count(), 2, "{}", one.out);
    assert!(one.err.contains("--page-token"), "{}", one.err);
    assert!(!one.err.contains("so far"), "{}", one.err);
}
