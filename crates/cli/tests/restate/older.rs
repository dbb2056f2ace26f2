//! A server that lacks columns and paths which the newest one has.

use crate::lab::{Lab, name};
use crate::process::eventually;

pub(crate) fn smoke(lab: &mut Lab) {
    let lab = Lab::older(lab.peers());
    let provider = eventually("its health is known", || {
        let told = lab.run(&["providers", "get", "lab", "-o", "json"]).exits(0);
        Some(told.json()).filter(|it| it["health"]["status"] == "SERVING")
    });
    assert_eq!(provider["health"]["engine_version"], "1.5.3");

    let echoed = lab.start("Lab/echo", r#""hello""#);
    lab.sees(&echoed, "succeeded", None);
    assert_eq!(lab.get(&echoed)["output"], "hello");
    let again = |input: &str| {
        let base = ["start", "lab/Lab/echo", "--request-id", "r-1", "-o", "json"];
        lab.run(&[&base[..], &["--input", input]].concat())
    };
    let first = name(&again("1").exits(0).json());
    assert_eq!(name(&again("1").exits(0).json()), first);
    again("2").exits(4);

    lab.tell("elder", "hold");
    let walker = lab.start("Lab/walk", r#""elder""#);
    let watch = lab.watch(&walker);
    lab.sees_watched(&watch, &walker, "running", None);
    lab.tell("elder", "fail");
    let failing = lab.sees_watched(&watch, &walker, "backing-off", None);
    assert_eq!(failing["retry"]["attempt"], 1);
    assert!(failing["retry"]["next_attempt_time"].is_string());
    lab.tell("elder", "go");
    lab.run(&["retry-now", &walker]).exits(0);
    // What it waits for stands in columns that this server does not have.
    let waiting = lab.sees_watched(&watch, &walker, "waiting", None);
    assert_eq!(waiting["native_state"], "suspended");
    // The server accepts a cancel, and the service's SDK, which is newer, never hears of it: it is
    // shown as what it is until it is killed.
    lab.run(&["cancel", &walker]).exits(0);
    lab.sees_watched(&watch, &walker, "waiting", None);
    lab.run(&["cancel", &walker, "--kill"]).exits(0);
    lab.sees_watched(&watch, &walker, "failed", Some("KILLED"));

    let later = [
        "start",
        "lab/Lab/echo",
        "--input",
        "1",
        "--delay",
        "1h",
        "-o",
        "json",
    ];
    let scheduled = name(&lab.run(&later).exits(0).json());
    lab.sees(&scheduled, "waiting", Some("SCHEDULED"));
    let ended = lab.run(&["cancel", &scheduled, "-o", "json"]).exits(0);
    assert_eq!(ended.json()["reason"], "CANCELLED");

    let history = lab.run(&["history", &walker]).exits(0).out;
    assert!(history.contains("[409] killed"), "{history}");
    lab.run(&["purge", &echoed, "--yes"]).exits(0);
    lab.run(&["get", &echoed]).exits(3);
}
