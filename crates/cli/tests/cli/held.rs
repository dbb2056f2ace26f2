//! Why an execution does not continue, in `get` and `explain`.

use crate::built_in::{apply, gateway, start, until, worker};

const ONE: &str = "name: hello\nconcurrency: 1\nsteps: [{name: greet, agent: etl}]\n";

#[test]
fn concurrency_is_named_as_what_an_execution_waits_behind() {
    let gateway = gateway();
    apply(&gateway, ONE);
    start(&gateway, "hello", "first", "ann");
    start(&gateway, "hello", "second", "ann");
    let why = "waits for its turn: 1 of 1 executions of `hello` are running";
    let get = gateway.run(&["get", "builtin/second"]).exits(0).out;
    assert!(get.contains(&format!("now         {why}")), "{get}");
    let explain = gateway.run(&["explain", "builtin/second"]).exits(0).out;
    assert!(explain.contains(why), "{explain}");
    let list = gateway.run(&["list"]).exits(0).out;
    assert!(list.contains("waits for its turn"), "{list}");
    assert!(!list.contains("slot"), "{list}");
    let first = gateway.run(&["get", "builtin/first"]).exits(0).out;
    assert!(!first.contains("its turn"), "{first}");
}

#[test]
fn a_pause_says_who_and_why() {
    let gateway = gateway();
    apply(&gateway, ONE);
    start(&gateway, "hello", "a", "ann");
    let pause = [
        "pause",
        "builtin/a",
        "--as",
        "eve",
        "--comment",
        "month end",
    ];
    gateway.run(&pause).exits(0);
    let get = gateway.run(&["get", "builtin/a"]).exits(0).out;
    assert!(
        get.contains("because     paused by eve: month end"),
        "{get}"
    );
    let explain = gateway.run(&["explain", "builtin/a"]).exits(0).out;
    assert!(explain.contains("paused by eve: month end"), "{explain}");
    gateway.run(&["resume", "builtin/a"]).exits(0);
    let get = gateway.run(&["get", "builtin/a"]).exits(0).out;
    assert!(!get.contains("paused"), "{get}");
}

#[test]
fn nothing_of_what_has_finished_is_under_way() {
    let gateway = gateway();
    apply(&gateway, ONE);
    let _worker = worker(&gateway, "etl", "echo 1");
    start(&gateway, "hello", "a", "ann");
    until(&gateway, &["wait", "builtin/a"], |answer| answer.code == 0);
    let explain = gateway.run(&["explain", "builtin/a"]).exits(0).out;
    assert!(explain.contains("attempt 1"), "{explain}");
    assert!(explain.contains(" succeeded ("), "{explain}");
    assert!(!explain.contains("under way"), "{explain}");
}
