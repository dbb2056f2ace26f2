//! What an invocation can wait for.

use crate::lab::Lab;

pub(crate) fn scheduled(lab: &mut Lab) {
    let started = lab.run(&[
        "start",
        "lab/Lab/echo",
        "--input",
        r#""x""#,
        "--delay",
        "1h",
        "-o",
        "json",
    ]);
    let name = crate::lab::name(&started.exits(0).json());
    let shown = lab.sees(&name, "waiting", Some("SCHEDULED"));
    assert_eq!(shown["waits"][0]["kind"], "timer");
    lab.run(&["pause", &name]).exits(4);
    let ended = lab.run(&["cancel", &name, "-o", "json"]).exits(0).json();
    assert_eq!(ended["sub_state"], "failed");
    assert_eq!(ended["reason"], "CANCELLED");
    let gone = lab.run(&["get", &name]).exits(3);
    assert!(gone.err.contains("EXECUTION_FORGOTTEN"), "{gone:?}");
}

pub(crate) fn pending(lab: &mut Lab) {
    lab.tell("keeper", "hold");
    let first = lab.start("Cell/k/keep", r#""keeper""#);
    lab.sees(&first, "running", None);
    let second = lab.start("Cell/k/keep", r#""keeper""#);
    let shown = lab.sees(&second, "waiting", Some("QUEUED"));
    assert_eq!(shown["waits"][0]["name"], "Cell/k");
    lab.tell("keeper", "go");
    lab.sees(&first, "succeeded", None);
    lab.sees(&second, "succeeded", None);
}

pub(crate) fn timer_and_child(lab: &mut Lab) {
    let parent = lab.start("Lab/parent", "3600000");
    let shown = lab.sees(&parent, "waiting", Some("AWAITING_CHILD"));
    let child = format!("lab/{}", shown["waits"][0]["name"].as_str().unwrap());
    let called = &shown["steps"][0];
    assert_eq!(called["name"], "Lab/sleep", "{shown:#}");
    assert_eq!(called["sub_state"], "waiting");
    assert_eq!(called["reason"], "AWAITING_CHILD");
    let shown = lab.sees(&child, "waiting", Some("AWAITING_TIMER"));
    assert!(shown["waits"][0]["expire_time"].is_string(), "{shown:#}");
    // A cancelled parent takes its child along.
    lab.run(&["cancel", &parent]).exits(0);
    lab.sees(&parent, "failed", Some("CANCELLED"));
    lab.sees(&child, "failed", Some("CANCELLED"));
}

pub(crate) fn promise(lab: &mut Lab) {
    let started = lab.run(&[
        "start",
        "lab/Order/run",
        "--id",
        "o-1",
        "--input",
        "5",
        "-o",
        "json",
    ]);
    let order = crate::lab::name(&started.exits(0).json());
    let shown = lab.sees(&order, "waiting", Some("AWAITING_INPUT"));
    assert_eq!(shown["waits"][0]["name"], "approval");
    assert_eq!(shown["labels"]["key"], "o-1");
    lab.run(&["signal", &order, "refund"]).exits(4);
    lab.run(&["signal", &order, "approval", "--input", r#""alice""#])
        .exits(0);
    lab.sees(&order, "succeeded", None);
    assert_eq!(lab.get(&order)["output"], "alice");
}
