//! Steps on the real server: one script for each row of the table.

use serde_json::{Value, json};
use stateway_contract_kit::Skip;
use stateway_provider_api::NativeState;

use super::Place;
use crate::lab::{NOBODY, activity, eventually};

/// Stages a workflow with a step that shows this.
pub(crate) fn stage(place: &Place, id: &str, native: &NativeState) -> Result<(), Skip> {
    let qualifier = |name: &str| native.qualifiers.get(name).map(String::as_str);
    let state = native.state.as_str();
    match qualifier("kind") {
        Some("activity") => match qualifier("retry_state") {
            Some(retry_state) => closed_by(place, id, retry_state),
            None => activity_in(place, id, native),
        },
        Some("local-activity") => {
            local_activity(place, id, qualifier("next_attempt") == Some("set"));
        }
        Some("workflow-task") => {
            let is_repeated = qualifier("attempt") == Some("repeated");
            let has_worker = qualifier("workers") != Some("none");
            workflow_task(place, id, (state, is_repeated, has_worker));
        }
        Some("timer") => timer(place, id, state),
        Some("child") if state == "INITIATED" => initiated_child(place, id),
        Some("child") => child(place, id, state),
        other => {
            return Err(Skip::because(format!(
                "no script for a step of the kind {other:?}"
            )));
        }
    }
    Ok(())
}

/// An activity `charge` that follows the instructions of the test.
fn obey(place: &Place, id: &str, heartbeat: bool) -> Value {
    let input = json!({"name": place.looked_at_by(id), "heartbeat": heartbeat});
    let mut charge = json!({"type": "obey", "input": input});
    if heartbeat {
        // Longer than a busy machine holds up the worker: a missed heartbeat would end the activity in another state.
        charge["heartbeat"] = json!(60);
    }
    activity(charge)
}

/// After the step under test the workflow stays open.
fn then_wait(step: Value) -> Value {
    json!([{"catch": step}, {"signal": "go"}])
}

fn activity_in(place: &Place, id: &str, native: &NativeState) {
    let at = &place.namespace;
    match native.state.as_str() {
        "SCHEDULED" if native.qualifiers.contains_key("workers") => {
            at.start(id, json!([activity(json!({"queue": NOBODY}))]));
            at.until_activity(id, "SCHEDULED", 1);
        }
        "SCHEDULED" if native.qualifiers.contains_key("next_attempt") => {
            at.start(
                id,
                json!([activity(
                    json!({"type": "fail", "retry": {"initial": 3_600}})
                )]),
            );
            at.until_activity(id, "SCHEDULED", 2);
        }
        "SCHEDULED" => {
            // The only worker of the queue can do one activity at a time, and is busy.
            place.lab.worker.end(&at.name);
            place.lab.worker.begin_busy(&at.name);
            let other = format!("{id}-other");
            at.start(&other, json!([obey(place, &other, true)]));
            at.until_activity(&other, "STARTED", 1);
            at.start(id, json!([activity(json!({}))]));
            at.until_activity(id, "SCHEDULED", 1);
        }
        "STARTED" => {
            at.start(id, json!([obey(place, id, true)]));
            at.until_activity(id, "STARTED", 1);
        }
        "CANCEL_REQUESTED" => cancel_requested(place, id),
        "PAUSED" if native.qualifiers.contains_key("pause_cause") => place.paused_by_rule(id),
        "PAUSED" => {
            at.start(
                id,
                json!([activity(
                    json!({"type": "fail", "retry": {"initial": 3_600}})
                )]),
            );
            at.until_activity(id, "SCHEDULED", 2);
            at.pause_activity(id, "charge");
            at.until_activity(id, "PAUSED", 2);
        }
        "PAUSE_REQUESTED" => {
            at.start(id, json!([obey(place, id, false)]));
            at.until_activity(id, "STARTED", 1);
            at.pause_activity(id, "charge");
            at.until_activity(id, "PAUSE_REQUESTED", 1);
        }
        "COMPLETED" => {
            at.start(id, then_wait(activity(json!({}))));
            at.until_event(id, "ACTIVITY_TASK_COMPLETED");
        }
        // Failed after its cancellation was requested: none of the reasons that have rows of their own.
        "FAILED" => {
            cancel_requested(place, id);
            place.lab.tell(&place.looked_at_by(id), "fail");
            at.until_event(id, "ACTIVITY_TASK_FAILED");
        }
        "TIMED_OUT" => {
            let charge = json!({"queue": NOBODY, "schedule_to_start": 1});
            at.start(id, then_wait(activity(charge)));
            at.until_event(id, "ACTIVITY_TASK_TIMED_OUT");
        }
        "CANCELED" => {
            at.start(id, json!([obey(place, id, true)]));
            at.until_activity(id, "STARTED", 1);
            at.cancel(id);
            at.until_event(id, "ACTIVITY_TASK_CANCELED");
        }
        state => panic!("no script shows an activity in {state}"),
    }
}

/// The activity does not heartbeat, so it never learns of the cancellation.
fn cancel_requested(place: &Place, id: &str) {
    let at = &place.namespace;
    at.start(id, json!([obey(place, id, false)]));
    at.until_activity(id, "STARTED", 1);
    at.cancel(id);
    at.until_activity(id, "CANCEL_REQUESTED", 1);
}

fn closed_by(place: &Place, id: &str, retry_state: &str) {
    let charge = match retry_state {
        "MAXIMUM_ATTEMPTS_REACHED" => {
            json!({"type": "fail", "retry": {"initial": 0.02, "maximum": 2}})
        }
        "NON_RETRYABLE_FAILURE" => json!({"type": "fail", "input": {"non_retryable": true}}),
        _ => json!({"type": "fail", "retry": {"initial": 3_600}, "schedule_to_close": 60}),
    };
    place.namespace.start(id, then_wait(activity(charge)));
    place.namespace.until_event(id, "ACTIVITY_TASK_FAILED");
}

fn local_activity(place: &Place, id: &str, is_backing_off: bool) {
    let at = &place.namespace;
    if is_backing_off {
        let step = json!({
            "id": "charge", "type": "fail", "retry": {"initial": 3_600}, "threshold": 1,
        });
        at.start(id, json!([{"local_activity": step}]));
        at.until_event(id, "TIMER_STARTED");
        return;
    }
    let input = json!({"name": place.looked_at_by(id), "heartbeat": false});
    let step = json!({"id": "charge", "type": "obey", "input": input});
    // A short task timeout: the worker shows the activity by the next workflow task. A worker that a busy machine
    // holds up for longer misses the timeout, and the task after that shows the activity.
    at.start_with(
        id,
        json!([{"local_activity": step}]),
        &json!({"workflowTaskTimeout": "5s"}),
    );
    eventually(
        "the worker holds the workflow task for the local activity",
        || {
            let shown = at.describe(id);
            let is_first = shown["pendingWorkflowTask"]["attempt"] == 1;
            let events = at.events(id);
            let kinds: Vec<_> = events.iter().map(|event| &event["eventType"]).collect();
            let completed = kinds
                .iter()
                .rposition(|kind| *kind == "EVENT_TYPE_WORKFLOW_TASK_COMPLETED")?;
            let next = kinds.get(completed + 1);
            let is_next = next.is_some_and(|kind| *kind == "EVENT_TYPE_WORKFLOW_TASK_SCHEDULED");
            (is_first && is_next).then_some(())
        },
    );
}

fn workflow_task(place: &Place, id: &str, (state, is_repeated, has_worker): (&str, bool, bool)) {
    let at = &place.namespace;
    let wanted = format!("PENDING_WORKFLOW_TASK_STATE_{state}");
    match (state, is_repeated) {
        ("SCHEDULED", false) if !has_worker => {
            at.start_with(id, json!([]), &json!({"taskQueue": {"name": NOBODY}}));
        }
        ("SCHEDULED", false) => {
            // The server lists a worker for some minutes after its last poll.
            let other = format!("{id}-other");
            at.start(&other, json!([{"signal": "go"}]));
            place.until_idle(&other);
            place.lab.worker.end(&at.name);
            at.start(id, json!([]));
        }
        (_, false) => {
            at.start_with(
                id,
                json!([{"spin": {"seconds": 30}}]),
                &json!({"workflowTaskTimeout": "120s"}),
            );
        }
        (_, true) => {
            // The worker does not answer the second attempt: the task stays started until its timeout.
            let timeout = if state == "STARTED" { "120s" } else { "1s" };
            at.start_with(
                id,
                json!([{"break": id}]),
                &json!({"workflowTaskTimeout": timeout}),
            );
        }
    }
    let shows = |shown: &Value| {
        let task = &shown["pendingWorkflowTask"];
        task["attempt"]
            .as_u64()
            .is_some_and(|it| (it > 1) == is_repeated)
    };
    at.until(id, "at the wanted attempt", shows);
    if is_repeated && state == "SCHEDULED" {
        // Without its worker the next attempt is not taken.
        place.lab.worker.end(&at.name);
    }
    at.until(id, state, |shown| {
        shows(shown) && shown["pendingWorkflowTask"]["state"] == wanted.as_str()
    });
}

fn timer(place: &Place, id: &str, state: &str) {
    let at = &place.namespace;
    match state {
        "STARTED" => {
            at.start(
                id,
                json!([{"timer": {"seconds": 3_600, "summary": "cool down"}}]),
            );
        }
        "FIRED" => {
            at.start(id, then_wait(json!({"timer": {"seconds": 0.05}})));
        }
        _ => {
            at.start(
                id,
                then_wait(json!({"cancelled_timer": {"seconds": 3_600}})),
            );
        }
    }
    at.until_event(id, &format!("TIMER_{state}"));
    place.until_idle(id);
}

/// How many children a workflow begins at a time, so that the server needs a second or more to start all of them.
const CHILDREN: usize = 300;

/// One child is started within milliseconds. Of many, the last ones stay initiated for a moment.
fn initiated_child(place: &Place, id: &str) {
    let child = |number| json!({"child": {"id": format!("{id}-{number}"), "queue": NOBODY}});
    let children: Vec<Value> = (0..CHILDREN).map(child).collect();
    let at = &place.namespace;
    at.start(id, json!([{"parallel": children}]));
    at.until(id, "with a child that is initiated", |shown| {
        let pending = shown["pendingChildren"].as_array();
        pending.is_some_and(|it| it.iter().any(|child| child["runId"].is_null()))
    });
}

fn child(place: &Place, id: &str, state: &str) {
    let at = &place.namespace;
    let name = format!("{id}-child");
    let child = match state {
        "COMPLETED" => json!({"id": name, "steps": [{"return": 1}]}),
        "FAILED" => json!({"id": name, "steps": [{"fail": {}}]}),
        "TIMED_OUT" => json!({"id": name, "queue": NOBODY, "run_timeout": 1}),
        _ => json!({"id": name, "steps": [{"signal": "go"}]}),
    };
    at.start(id, then_wait(json!({"child": child})));
    at.until_event(id, "CHILD_WORKFLOW_EXECUTION_STARTED");
    match state {
        "CANCELED" => at.cancel(&name),
        "TERMINATED" => at.terminate(&name),
        _ => {}
    }
    at.until_event(id, &format!("CHILD_WORKFLOW_EXECUTION_{state}"));
    place.until_idle(id);
}
