//! Activities: tasks that are handed out, kept alive and answered.

use std::time::Duration;

use serde_json::{Value, json};

use super::script::{begun, entered, exited, push};
use super::{Answer, Execution, HERE, World, script};

/// For how long a poll that finds nothing is held here.
pub(super) const POLL: Duration = Duration::from_millis(200);
/// How tokens of activities begin here.
const TOKEN: &str = "activity-token";

/// The activity that people answer.
pub(crate) fn people() -> String {
    format!("{HERE}:activity:people")
}

/// A state at that activity that says whose its tasks are, and of which iteration if wanted.
pub(crate) fn people_state(with_index: bool) -> Value {
    let mut told = json!({"execution.$": "$$.Execution.Id", "state.$": "$$.State.Name"});
    if with_index {
        told["index.$"] = json!("$$.Map.Item.Index");
    }
    json!({"Type": "Task", "Resource": people(), "Parameters": {"stateway": told}})
}

pub(super) fn is_activity_token(body: &Value) -> bool {
    let token = body["taskToken"].as_str().unwrap_or_default();
    token.starts_with(TOKEN)
}

/// A task at that activity, scheduled after the event `previous`.
pub(crate) fn schedule(events: &mut Vec<Value>, previous: usize, state: &str, input: &Value) {
    let id = push(events, previous, "TaskStateEntered", entered(state));
    let detail = json!({"resource": people(), "input": input.to_string()});
    push(
        events,
        id,
        "ActivityScheduled",
        ("activityScheduled", detail),
    );
}

/// An execution that waits at that activity.
pub(crate) fn waiting(machine: &str, name: &str, addressed: bool) -> Execution {
    let mut execution = script::execution(machine, name, begun());
    let told = json!({"execution": execution.arn(), "state": "Approve"});
    let input = if addressed {
        json!({"amount": 7, "stateway": told})
    } else {
        json!({"amount": 7})
    };
    schedule(&mut execution.events, 0, "Approve", &input);
    execution
}

impl World {
    /// The oldest task that nobody has.
    pub(super) fn next_task(&mut self, body: &Value) -> Value {
        let wanted = body["activityArn"].clone();
        let is_free = |events: &[Value], event: &Value| {
            let resource = &event["activityScheduledEventDetails"]["resource"];
            let taken = events
                .iter()
                .any(|next| next["previousEventId"] == event["id"]);
            event["type"] == "ActivityScheduled" && *resource == wanted && !taken
        };
        self.polled_empty = false;
        for execution in self
            .executions
            .iter_mut()
            .filter(|one| one.status == "RUNNING")
        {
            let events = &execution.events;
            let Some(found) = events.iter().find(|event| is_free(events, event)) else {
                continue;
            };
            let id = usize::try_from(found["id"].as_u64().unwrap_or_default()).unwrap_or_default();
            let input = found["activityScheduledEventDetails"]["input"].clone();
            let detail = ("activityStarted", json!({"workerName": body["workerName"]}));
            push(&mut execution.events, id, "ActivityStarted", detail);
            let token = format!("{TOKEN} {} {id}", execution.arn());
            return json!({"taskToken": token, "input": input});
        }
        self.polled_empty = true;
        json!({})
    }

    /// The execution and the event of a token whose task is open.
    fn open_task(
        &mut self,
        body: &Value,
    ) -> Result<(&mut Execution, usize), (&'static str, String)> {
        let over = || ("TaskTimedOut", "Task Timed Out".to_owned());
        let token = body["taskToken"].as_str().unwrap_or_default();
        let mut parts = token.split(' ').skip(1);
        let arn = parts.next().unwrap_or_default();
        let scheduled: usize = parts
            .next()
            .and_then(|id| id.parse().ok())
            .unwrap_or_default();
        let execution = self.executions.iter_mut().find(|one| one.arn() == arn);
        let execution = execution.ok_or_else(over)?;
        let started = |event: &&Value| {
            event["type"] == "ActivityStarted" && event["previousEventId"] == scheduled
        };
        let started = execution.events.iter().find(started).ok_or_else(over)?;
        let started = usize::try_from(started["id"].as_u64().unwrap_or_default());
        let started = started.unwrap_or_default();
        let followed = |event: &Value| event["previousEventId"] == started;
        if execution.status == "RUNNING" && !execution.events.iter().any(followed) {
            Ok((execution, started))
        } else {
            Err(over())
        }
    }

    pub(super) fn task_heartbeat(&mut self, body: &Value) -> Answer {
        self.open_task(body).map(|_| json!({}))
    }

    /// The task ends, and with it the execution unless other tasks are open.
    pub(super) fn end_task(&mut self, body: &Value, failure: Option<(String, String)>) -> Answer {
        if !is_activity_token(body) {
            return self.fail_token(body, failure);
        }
        let (execution, started) = self.open_task(body)?;
        let events = &mut execution.events;
        match failure {
            None => {
                let detail = ("activitySucceeded", json!({"output": body["output"]}));
                let id = push(events, started, "ActivitySucceeded", detail);
                push(events, id, "TaskStateExited", exited("Approve"));
                "SUCCEEDED".clone_into(&mut execution.status);
            }
            Some(failure) => {
                let detail = json!({"error": failure.0, "cause": failure.1});
                push(
                    events,
                    started,
                    "ActivityFailed",
                    ("activityFailed", detail),
                );
                execution.failure = Some(failure);
                "FAILED".clone_into(&mut execution.status);
            }
        }
        Ok(json!({}))
    }

    /// Lets the task fail that waits for this token.
    fn fail_token(&mut self, body: &Value, failure: Option<(String, String)>) -> Answer {
        let token = body["taskToken"].as_str();
        let waits =
            |execution: &&mut Execution| script::open_token(&execution.events).as_deref() == token;
        let execution = self.executions.iter_mut().find(waits);
        let over = || ("TaskTimedOut", "Task Timed Out".to_owned());
        let execution = execution.ok_or_else(over)?;
        "FAILED".clone_into(&mut execution.status);
        execution.failure = failure;
        Ok(json!({}))
    }
}
