//! The scenes of the contract kit as descriptions and histories that the server would give.

#![allow(
    clippy::needless_pass_by_value,
    reason = "`json!` values are written where they are passed"
)]

mod history;

use jiff::{Timestamp, ToSpan};
use serde_json::{Value, json};
use stateway_contract_kit::{Scene, Skip};
use stateway_model::SubState;
use stateway_provider_api::NativeState;
use stateway_provider_api::table::Scope;

use history::History;

/// One run: its description and its history.
pub(crate) struct Staged {
    pub(crate) description: Value,
    pub(crate) history: Value,
}

/// The runs of one workflow, oldest first, and the execution id that shows the scene.
pub(crate) struct Workflow {
    pub(crate) runs: Vec<Staged>,
    pub(crate) execution_id: String,
}

/// The id of a run.
fn run_id(number: u32) -> String {
    format!("0bb1e1af-0fa0-788e-9075-{number:012x}")
}

fn ago(seconds: i64) -> String {
    (Timestamp::now() - seconds.seconds()).to_string()
}

fn ahead() -> String {
    (Timestamp::now() + 1.hour()).to_string()
}

/// A run in this status, with further fields of the description.
fn run(id: &str, number: u32, status: &str, fields: Value, history: History) -> Staged {
    let run_id = run_id(number);
    let length = history.len().to_string();
    let mut description = json!({
        "executionConfig": {"taskQueue": {"name": "lab"}},
        "workflowExecutionInfo": {
            "execution": {"workflowId": id, "runId": run_id},
            "type": {"name": "Script"},
            "startTime": ago(70 - i64::from(number)), "executionTime": ago(70 - i64::from(number)),
            "status": format!("WORKFLOW_EXECUTION_STATUS_{status}"),
            "historyLength": length, "stateTransitionCount": length,
            "taskQueue": "lab", "firstRunId": self::run_id(1),
        },
        "workflowExtendedInfo": {},
    });
    if !["RUNNING", "PAUSED"].contains(&status) {
        description["workflowExecutionInfo"]["closeTime"] = json!(ago(1));
    }
    merge(&mut description, fields);
    Staged {
        description,
        history: history.json(),
    }
}

/// Lays fields over an object, at any depth.
fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

fn one(id: &str, status: &str, fields: Value, history: History) -> Workflow {
    Workflow {
        runs: vec![run(id, 1, status, fields, history)],
        execution_id: id.to_owned(),
    }
}

/// The workflow that shows a scene.
pub(crate) fn staged(id: &str, scene: Scene) -> Result<Workflow, Skip> {
    match scene {
        Scene::Native { native, .. } if native.state == "KIT_NEVER_SEEN" => Err(Skip::because(
            "the server's words are numbers on the wire; servers.rs checks an unknown number",
        )),
        Scene::Native {
            scope: Scope::Execution,
            native,
        } => shows(id, &native),
        Scene::Native {
            scope: Scope::Step,
            native,
        } => shows_step(id, &native),
        Scene::Steps(open) => Ok(steps(id, &open)),
        Scene::NoMetadata => Ok(one(id, "RUNNING", json!({}), History::idle())),
        Scene::BackingOff { attempt } => {
            let activity = pending(
                "SCHEDULED",
                attempt + 1,
                &json!({"nextAttemptScheduleTime": ahead()}),
            );
            let history = History::idle().scheduled("charge");
            Ok(one(
                id,
                "RUNNING",
                json!({"pendingActivities": [activity]}),
                history,
            ))
        }
        Scene::AwaitingSignal { .. } => Err(Skip::because(
            "the server does not know which signals a workflow waits for; live.rs checks signals",
        )),
        Scene::AwaitingApproval => Err(Skip::because("Temporal has no approvals")),
        Scene::Stuck => Ok(one(
            id,
            "RUNNING",
            json!({"pendingActivities": [paused_by_rule("charge")]}),
            History::idle().scheduled("charge"),
        )),
        Scene::CleansUp => {
            let activity = pending("STARTED", 1, &json!({}));
            let history = History::idle().scheduled("charge");
            Ok(one(
                id,
                "RUNNING",
                json!({"pendingActivities": [activity]}),
                history,
            ))
        }
        Scene::Succeeded => Ok(one(
            id,
            "COMPLETED",
            json!({}),
            History::idle()
                .scheduled("first")
                .completed("first")
                .ended("COMPLETED", json!({"result": {"payloads": [{"ok": true}]}})),
        )),
        Scene::Failed => Ok(failed(id)),
    }
}

fn failed(id: &str) -> Workflow {
    let history = History::idle()
        .scheduled("first")
        .completed("first")
        .scheduled("second")
        .failed("second", "MAXIMUM_ATTEMPTS_REACHED");
    let failure = json!({
        "message": "Activity task failed", "activityFailureInfo": {"activityId": "second"},
        "cause": {"message": "card declined", "applicationFailureInfo": {"type": "PaymentError"}},
    });
    let end = json!({"failure": failure, "retryState": "RETRY_STATE_RETRY_POLICY_NOT_SET"});
    one(id, "FAILED", json!({}), history.ended("FAILED", end))
}

/// A pending activity called `charge`.
fn pending(state: &str, attempt: u32, fields: &Value) -> Value {
    let mut activity = json!({
        "activityId": "charge", "activityType": {"name": "fail"},
        "state": format!("PENDING_ACTIVITY_STATE_{state}"),
        "attempt": attempt, "maximumAttempts": 5,
        "scheduledTime": ago(2), "lastStartedTime": ago(1),
        "activityOptions": {"taskQueue": {"name": "lab"}},
    });
    if attempt > 1 {
        activity["lastFailure"] = json!({
            "message": "card declined", "applicationFailureInfo": {"type": "PaymentError"},
        });
    }
    merge(&mut activity, fields.clone());
    activity
}

fn paused_by_rule(name: &str) -> Value {
    let rule = json!({
        "activityId": name, "paused": true,
        "pauseInfo": {"pauseTime": ago(1), "rule": {"ruleId": "pause-failing", "identity": "operator"}},
    });
    pending("PAUSED", 2, &rule)
}

fn steps(id: &str, open: &[SubState]) -> Workflow {
    let (mut activities, mut children) = (Vec::new(), Vec::new());
    let mut history = History::idle();
    for (number, sub_state) in open.iter().enumerate() {
        let name = format!("step-{number}");
        let named = json!({"activityId": name});
        match sub_state {
            SubState::Running => activities.push(pending("STARTED", 1, &named)),
            SubState::BackingOff => {
                let next = json!({"activityId": name, "nextAttemptScheduleTime": ahead()});
                activities.push(pending("SCHEDULED", 2, &next));
            }
            SubState::Error => activities.push(paused_by_rule(&name)),
            _ => {
                children.push(child(&name, history.len() + 1));
                history = history.child(&name);
                continue;
            }
        }
        history = history.scheduled(&name);
    }
    let fields = json!({"pendingActivities": activities, "pendingChildren": children});
    one(id, "RUNNING", fields, history)
}

fn child(name: &str, initiated: usize) -> Value {
    json!({
        "workflowId": name, "runId": run_id(77), "workflowTypeName": "Script",
        "initiatedId": initiated.to_string(),
    })
}

/// A workflow whose execution shows this.
fn shows(id: &str, native: &NativeState) -> Result<Workflow, Skip> {
    let qualifier = |name: &str| native.qualifiers.get(name).map(String::as_str);
    if let Some(cause) = qualifier("next_run") {
        return Ok(superseded(id, &native.state, cause));
    }
    if native.state == "CONTINUED_AS_NEW" {
        return Ok(superseded(id, &native.state, "continued"));
    }
    if qualifier("pending") == Some("unread") {
        return Err(Skip::because(
            "only a list shows it; a get always describes",
        ));
    }
    let later = json!({"workflowExecutionInfo": {"executionTime": ahead()}});
    let cancelled =
        json!({"workflowExtendedInfo": {"cancelRequested": qualifier("cancel").is_some()}});
    Ok(
        match (
            native.state.as_str(),
            qualifier("first_task").filter(|it| *it != "begun"),
        ) {
            ("RUNNING", Some("delay")) => {
                let history = History::begun(json!({"firstWorkflowTaskBackoff": "3600s"}));
                one(id, "RUNNING", later, history)
            }
            ("RUNNING", Some("cron")) => {
                let cron =
                    json!({"firstWorkflowTaskBackoff": "3600s", "cronSchedule": "0 3 * * *"});
                one(id, "RUNNING", later, History::begun(cron))
            }
            ("RUNNING", Some(_)) => superseded_by_retry(id),
            ("RUNNING", None) if qualifier("pending") == Some("nothing") => {
                one(id, "RUNNING", cancelled, History::idle())
            }
            ("RUNNING", None) => {
                let mut fields = json!({"pendingActivities": [pending("STARTED", 1, &json!({}))]});
                merge(&mut fields, cancelled);
                one(id, "RUNNING", fields, History::idle().scheduled("charge"))
            }
            ("PAUSED", _) => {
                let pause = json!({"workflowExtendedInfo": {"pauseInfo": {
                    "identity": "operator", "reason": "held", "pausedTime": ago(1),
                }}});
                one(id, "PAUSED", pause, History::idle())
            }
            ("FAILED", _) => failed(id),
            (status, _) => one(
                id,
                status,
                json!({}),
                History::idle().ended(status, json!({})),
            ),
        },
    )
}

/// The first run ended like this, and a second one follows it for this cause.
fn superseded(id: &str, status: &str, cause: &str) -> Workflow {
    let next = run_id(2);
    let started = match cause {
        "cron" => json!({"cronSchedule": "* * * * *"}),
        "retry" => json!({"retryPolicy": {"maximumAttempts": 5}}),
        _ => json!({}),
    };
    let end = match (status, cause) {
        ("TERMINATED", _) => json!({"reason": "reset"}),
        (_, "retry") => {
            json!({"retryState": "RETRY_STATE_IN_PROGRESS", "newExecutionRunId": next})
        }
        _ => json!({"newExecutionRunId": next}),
    };
    let fields = if cause == "reset" {
        json!({"workflowExtendedInfo": {"resetRunId": next}})
    } else {
        json!({})
    };
    let first = run(
        id,
        1,
        status,
        fields,
        History::idle_with(started).ended(status, end),
    );
    let second = run(id, 2, "RUNNING", json!({}), History::idle());
    Workflow {
        runs: vec![first, second],
        execution_id: format!("{id}~run:{}", run_id(1)),
    }
}

/// The second run waits for the time of the workflow's own retry.
fn superseded_by_retry(id: &str) -> Workflow {
    let mut workflow = superseded(id, "FAILED", "retry");
    let second = History::begun(json!({
        "firstWorkflowTaskBackoff": "3600s", "attempt": 2,
        "initiator": "CONTINUE_AS_NEW_INITIATOR_RETRY",
        "continuedExecutionRunId": run_id(1), "retryPolicy": {"maximumAttempts": 5},
        "continuedFailure": {"message": "order rejected", "applicationFailureInfo": {}},
    }));
    let later = json!({"workflowExecutionInfo": {"executionTime": ahead()}});
    workflow.runs[1] = run(id, 2, "RUNNING", later, second);
    id.clone_into(&mut workflow.execution_id);
    workflow
}

/// A workflow with a step that shows this.
fn shows_step(id: &str, native: &NativeState) -> Result<Workflow, Skip> {
    let qualifier = |name: &str| native.qualifiers.get(name).map(String::as_str);
    let state = native.state.as_str();
    match qualifier("kind") {
        Some("activity") => Ok(activity_step(id, native)),
        Some("local-activity") => Ok(local_activity(id, qualifier("next_attempt") == Some("set"))),
        Some("workflow-task") => {
            let attempt = if qualifier("attempt") == Some("repeated") {
                3
            } else {
                1
            };
            let task = json!({
                "state": format!("PENDING_WORKFLOW_TASK_STATE_{state}"),
                "scheduledTime": ago(2), "startedTime": ago(1), "attempt": attempt,
            });
            let history = match attempt {
                1 => History::begun(json!({})).task_scheduled(),
                _ => History::begun(json!({})).task_failed("the workflow code has a defect"),
            };
            let mut fields = json!({"pendingWorkflowTask": task});
            if qualifier("workers").is_some() {
                merge(&mut fields, without_workers());
            }
            Ok(one(id, "RUNNING", fields, history))
        }
        Some("timer") => {
            let history = History::idle().timer("1", state);
            Ok(one(id, "RUNNING", json!({}), history))
        }
        Some("child") => {
            let initiated = History::idle().len() + 1;
            let history = History::idle().child_in("child-1", state);
            let open = ["INITIATED", "STARTED"].contains(&state);
            let mut pending = child("child-1", initiated);
            if state == "INITIATED" {
                pending["runId"] = json!("");
            }
            let fields = if open {
                json!({"pendingChildren": [pending]})
            } else {
                json!({})
            };
            Ok(one(id, "RUNNING", fields, history))
        }
        other => Err(Skip::because(format!(
            "no step of the kind {other:?} can be staged"
        ))),
    }
}

/// The workflow tasks of the run go to a queue that no worker polls.
fn without_workers() -> Value {
    json!({
        "executionConfig": {"taskQueue": {"name": "nobody"}},
        "workflowExecutionInfo": {"taskQueue": "nobody"},
    })
}

fn activity_step(id: &str, native: &NativeState) -> Workflow {
    let qualifier = |name: &str| native.qualifiers.get(name).map(String::as_str);
    let state = native.state.as_str();
    let history = History::idle().scheduled("charge");
    let closed = match state {
        "COMPLETED" => Some(history.clone().completed("charge")),
        "FAILED" => {
            let retry_state = qualifier("retry_state").unwrap_or("CANCEL_REQUESTED");
            Some(history.clone().failed("charge", retry_state))
        }
        "TIMED_OUT" => Some(history.clone().timed_out("charge")),
        "CANCELED" => Some(history.clone().cancelled("charge")),
        _ => None,
    };
    if let Some(history) = closed {
        return one(id, "RUNNING", json!({}), history);
    }
    let activity = match (qualifier("next_attempt"), qualifier("pause_cause")) {
        _ if qualifier("workers").is_some() => pending(
            state,
            1,
            &json!({"activityOptions": {"taskQueue": {"name": "nobody"}}}),
        ),
        (Some("set"), _) => pending(state, 2, &json!({"nextAttemptScheduleTime": ahead()})),
        (_, Some(_)) => paused_by_rule("charge"),
        _ => pending(state, 1, &json!({})),
    };
    one(
        id,
        "RUNNING",
        json!({"pendingActivities": [activity]}),
        history,
    )
}

/// A local activity is visible only by the workflow task that it holds, or by its marker and timer.
fn local_activity(id: &str, is_backing_off: bool) -> Workflow {
    if is_backing_off {
        let history = History::idle()
            .local_activity_failed()
            .timer("1", "STARTED");
        return one(id, "RUNNING", json!({}), history);
    }
    let task = json!({
        "state": "PENDING_WORKFLOW_TASK_STATE_STARTED", "scheduledTime": ago(9),
        "originalScheduledTime": ago(30), "startedTime": ago(9), "attempt": 1,
    });
    let history = History::idle().task_held();
    one(id, "RUNNING", json!({"pendingWorkflowTask": task}), history)
}
