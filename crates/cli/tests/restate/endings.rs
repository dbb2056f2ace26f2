//! The ways to fail, told apart.

use crate::lab::{Lab, name};

pub(crate) fn refused(lab: &mut Lab) {
    let name = lab.start("Lab/reject", r#""x""#);
    let watch = lab.watch(&name);
    let failed = lab.sees_watched(&watch, &name, "failed", None);
    assert_eq!(failed["last_error"]["message"], "order rejected");
    assert_eq!(failed["last_error"]["native_code"], "422");
}

pub(crate) fn exhausted(lab: &mut Lab) {
    let name = lab.start("Lab/exhaust", r#""x""#);
    let watch = lab.watch(&name);
    lab.sees_watched(&watch, &name, "failed", Some("RETRIES_EXHAUSTED"));
}

pub(crate) fn cancelled(lab: &mut Lab) {
    let name = lab.start("Lab/walk", r#""cancelled""#);
    let watch = lab.watch(&name);
    lab.sees_watched(&watch, &name, "waiting", Some("AWAITING_INPUT"));
    lab.run(&["cancel", &name]).exits(0);
    lab.sees_watched(&watch, &name, "failed", Some("CANCELLED"));
    lab.run(&["cancel", &name]).exits(0);
    lab.run(&["signal", &name, "sign_1x"]).exits(4);
}

pub(crate) fn killed(lab: &mut Lab) {
    lab.tell("killed", "hold");
    let name = lab.start("Lab/walk", r#""killed""#);
    let watch = lab.watch(&name);
    lab.sees_watched(&watch, &name, "running", None);
    lab.run(&["cancel", &name, "--kill"]).exits(0);
    lab.sees_watched(&watch, &name, "failed", Some("KILLED"));
    lab.tell("killed", "go");
    lab.run(&["resume", &name]).exits(4);
}

pub(crate) fn done_again(lab: &mut Lab) {
    lab.tell("steps", "fail");
    let failed = lab.start("Lab/two_steps", r#""steps""#);
    lab.sees(&failed, "failed", None);
    let steps = |execution: &serde_json::Value| -> Vec<String> {
        let steps = execution["steps"].as_array().unwrap().iter();
        let told = steps.map(|it| format!("{} {}", it["name"], it["sub_state"]).replace('"', ""));
        told.collect()
    };
    let expected = ["first succeeded", "second failed"];
    assert_eq!(steps(&lab.get(&failed)), expected);
    let explained = lab.run(&["explain", &failed, "-o", "json"]).exits(0).json();
    assert_eq!(steps(&explained["execution"]), expected);
    lab.tell("steps", "hold");
    lab.run(&["retry-from", &failed, "--step", "third"])
        .exits(3);
    let restart = |request: &str| {
        let arguments = ["retry-from", &failed, "--request-id", request, "-o", "json"];
        name(&lab.run(&arguments).exits(0).json())
    };
    let again = restart("once");
    assert_ne!(again, failed);
    // The same request, and another one that has not heard of it.
    assert_eq!(restart("once"), again);
    assert_eq!(restart("twice"), again);
    lab.tell("steps", "go");
    lab.sees(&again, "succeeded", None);
    // The first step was kept, so its result is older than the new invocation.
    let history = lab.run(&["history", &again, "-o", "json"]).exits(0).json();
    let events = history["events"].as_array().unwrap();
    let ran = |step: &str| {
        let of = events.iter().find(|it| it["step"] == step);
        moment(&of.unwrap_or_else(|| panic!("{step}: {history:#}"))["occur_time"])
    };
    let began = moment(&lab.get(&again)["create_time"]);
    assert!(ran("first") < began, "{history:#}");
    assert!(ran("second") >= began, "{history:#}");
    lab.sees(&failed, "failed", None);
}

pub(crate) fn purged(lab: &mut Lab) {
    lab.tell("kept", "hold");
    let name = lab.start("Lab/charge", r#""kept""#);
    lab.sees(&name, "running", None);
    let open = lab.run(&["purge", &name, "--yes"]).exits(4);
    assert!(open.err.contains("NOT_FINISHED"), "{open:?}");
    lab.tell("kept", "go");
    lab.sees(&name, "succeeded", None);
    let unsaid = lab.run(&["purge", &name]).exits(2);
    assert!(unsaid.err.contains("--yes"), "{unsaid:?}");
    lab.run(&["purge", &name, "--yes"]).exits(0);
    let gone = lab.run(&["get", &name]).exits(3);
    assert!(gone.err.contains("EXECUTION_FORGOTTEN"), "{gone:?}");
    lab.run(&["purge", &name, "--yes"]).exits(3);
}

fn moment(time: &serde_json::Value) -> jiff::Timestamp {
    time.as_str().unwrap().parse().unwrap()
}
