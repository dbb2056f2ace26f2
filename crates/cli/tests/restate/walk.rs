//! One invocation through the open states, seen on Get, List, Watch and ExplainExecution.

use crate::lab::{Lab, told};

pub(crate) fn through_every_open_state(lab: &mut Lab) {
    lab.tell("walker", "hold");
    let name = lab.start("Lab/walk", r#""walker""#);
    let watch = lab.watch(&name);
    let see = |sub_state, reason| lab.sees_watched(&watch, &name, sub_state, reason);

    see("running", None);
    lab.tell("walker", "fail");
    let first = see("backing-off", None);
    assert_eq!(first["retry"]["attempt"], 1);
    assert_eq!(first["retry"]["max_attempt_count"], 3);

    // The rest between attempts is an hour: nothing happens but what is asked for.
    let retried = lab.run(&["retry-now", &name]);
    retried.exits(0);
    let second = crate::process::eventually("the second attempt fails", || {
        let shown = lab.get(&name);
        (shown["sub_state"] == "backing-off" && shown["retry"]["attempt"] == 2).then_some(shown)
    });
    assert!(
        second["retry"]["last_error"]["message"]
            .as_str()
            .unwrap()
            .contains("told to fail")
    );
    lab.run(&["retry-now", &name]).exits(0);
    let stuck = see("error", Some("RETRIES_EXHAUSTED"));
    assert_eq!(stuck["native_state"], "paused");
    assert!(
        stuck["last_error"]["message"]
            .as_str()
            .unwrap()
            .contains("told to fail")
    );

    lab.tell("walker", "hold");
    lab.run(&["resume", &name]).exits(0);
    // Restate counts from 1 again. Its own count is shown: it is the same on every replica.
    let resumed = see("running", None);
    assert_eq!(resumed["retry"]["attempt"], 1, "{resumed:#}");

    lab.tell("walker", "go");
    let suspended = see("waiting", Some("AWAITING_INPUT"));
    assert_eq!(suspended["native_state"], "suspended");
    let awakeable = suspended["waits"][0]["name"].as_str().unwrap();
    lab.run(&["signal", &name, awakeable, "--input", r#""well done""#])
        .exits(0);
    see("succeeded", None);
    assert_eq!(lab.get(&name)["output"], "well done");

    let mut path: Vec<String> = told(&watch)
        .iter()
        .map(|it| it["sub_state"].as_str().unwrap().to_owned())
        .collect();
    path.dedup();
    let expected = [
        "running",
        "backing-off",
        "error",
        "running",
        "waiting",
        "succeeded",
    ];
    let mut left = expected.iter().peekable();
    for state in &path {
        left.next_if(|next| *next == state);
    }
    assert!(
        left.peek().is_none(),
        "{path:?} does not pass through {expected:?}"
    );
}

pub(crate) fn back_off_in_words(lab: &mut Lab) {
    lab.tell("words", "fail");
    let name = lab.start("Lab/charge", r#""words""#);
    let shown = lab.sees(&name, "backing-off", None);
    assert_eq!(shown["retry"]["attempt"], 1);
    assert_eq!(shown["retry"]["max_attempt_count"], 1000);
    assert!(shown["retry"]["next_attempt_time"].is_string(), "{shown:#}");
    assert_eq!(shown["steps"][0]["name"], "charge-card");
    assert_eq!(shown["steps"][0]["sub_state"], "backing-off");
    let words = lab.run(&["get", &name]).exits(0).out;
    for part in [
        "attempt 1 of 1000 failed",
        // The server spreads its pauses, so only the unit is sure.
        "next attempt in ",
        " min",
        "charge-card: words was told to fail",
    ] {
        assert!(words.contains(part), "{part} is missing in\n{words}");
    }
    let history = lab.run(&["history", &name]).exits(0).out;
    for part in [
        "Command: Input",
        "Command: Run",
        "TransientError",
        "charge-card",
    ] {
        assert!(history.contains(part), "{part} is missing in\n{history}");
    }
    lab.run(&["cancel", &name, "--kill"]).exits(0);
}

pub(crate) fn paused_by_hand(lab: &mut Lab) {
    lab.tell("held", "fail");
    let name = lab.start("Lab/charge", r#""held""#);
    let watch = lab.watch(&name);
    lab.sees_watched(&watch, &name, "backing-off", None);
    lab.run(&["resume", &name]).exits(4);
    lab.run(&["pause", &name]).exits(0);
    let paused = lab.sees_watched(&watch, &name, "waiting", Some("PAUSED"));
    // Restate leaves the next attempt standing; it will not come.
    assert!(paused["retry"]["next_attempt_time"].is_null(), "{paused:#}");
    lab.run(&["pause", &name]).exits(0);
    lab.tell("held", "go");
    lab.run(&["resume", &name]).exits(0);
    lab.sees_watched(&watch, &name, "succeeded", None);
    lab.run(&["pause", &name]).exits(4);
}
