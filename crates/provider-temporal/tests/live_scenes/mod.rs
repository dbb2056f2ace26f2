//! The scenes of the contract kit on the real server: each is a script that the worker runs, and sometimes what an
//! operator does to it.

mod steps;

use std::sync::Arc;

use serde_json::{Value, json};
use stateway_contract_kit::{Scene, Skip};
use stateway_model::SubState;
use stateway_provider_api::NativeState;
use stateway_provider_api::table::Scope;

use crate::lab::{Lab, NOBODY, Namespace, activity};

/// Where a scene is staged.
pub(crate) struct Place {
    pub(crate) lab: Arc<Lab>,
    pub(crate) namespace: Namespace,
}

/// An hour, as the HTTP API takes durations: nothing that waits for it happens during a test.
const HOUR: &str = "3600s";

impl Place {
    /// Stages a scene under this workflow id; the execution id that shows it.
    pub(crate) fn stage(&self, id: &str, scene: Scene) -> Result<String, Skip> {
        let at = &self.namespace;
        match scene {
            Scene::Native { native, .. } if native.state == "KIT_NEVER_SEEN" => {
                return Err(Skip::because(
                    "the real server has only states that it knows",
                ));
            }
            Scene::Native {
                scope: Scope::Execution,
                native,
            } => return self.execution(id, &native),
            Scene::Native {
                scope: Scope::Step,
                native,
            } => steps::stage(self, id, &native)?,
            Scene::Steps(open) => self.open_steps(id, &open),
            Scene::NoMetadata => self.idle(id, &json!({})),
            Scene::BackingOff { attempt } => {
                // 20 ms, then a second, then more than a minute.
                let initial = if attempt == 1 { 3_600.0 } else { 0.02 };
                let retry =
                    json!({"initial": initial, "coefficient": 60.0, "maximum_interval": 3_600});
                at.start(
                    id,
                    json!([activity(json!({"type": "fail", "retry": retry}))]),
                );
                at.until(id, "backing off", |shown| {
                    let charge = &shown["pendingActivities"][0];
                    charge["attempt"] == attempt + 1
                        && charge["nextAttemptScheduleTime"].is_string()
                });
            }
            Scene::AwaitingSignal { .. } => {
                return Err(Skip::because(
                    "the server does not know which signals a workflow waits for; live.rs checks signals",
                ));
            }
            Scene::AwaitingApproval => return Err(Skip::because("Temporal has no approvals")),
            Scene::Stuck => self.paused_by_rule(id),
            Scene::CleansUp => {
                let script = json!({
                    "steps": [{"signal": "go"}],
                    "on_cancel": [{"timer": {"seconds": 3_600}}],
                });
                at.start_with(id, json!([]), &json!({"input": [script]}));
                self.until_idle(id);
            }
            Scene::Succeeded => {
                at.start(
                    id,
                    json!([{"activity": {"id": "first"}}, {"return": {"ok": true}}]),
                );
                at.until_status(id, "COMPLETED");
            }
            Scene::Failed => {
                let told = self.looked_at_by(id);
                self.lab.tell(&told, "fail");
                let second = json!({
                    "id": "second", "type": "obey", "input": {"name": told}, "retry": {"maximum": 1},
                });
                at.start(
                    id,
                    json!([{"activity": {"id": "first"}}, {"activity": second}]),
                );
                at.until_status(id, "FAILED");
                // A step that runs again must not fail before the test has read it.
                self.lab.tell(&told, "hold");
            }
        }
        Ok(id.to_owned())
    }

    /// The name under which activities of a workflow find their instructions. All namespaces share the folder
    /// of the instructions, and their workflows have the same ids.
    fn looked_at_by(&self, id: &str) -> String {
        format!("{}-{id}", self.namespace.name)
    }

    /// A workflow that waits for a signal.
    fn idle(&self, id: &str, fields: &Value) {
        self.namespace
            .start_with(id, json!([{"signal": "go"}]), fields);
        self.until_idle(id);
    }

    fn until_idle(&self, id: &str) {
        self.namespace
            .until(id, "waiting with nothing pending", |shown| {
                shown["pendingWorkflowTask"].is_null()
                    && shown["workflowExecutionInfo"]["historyLength"] != "1"
            });
    }

    /// An activity failed, and a rule paused it. The rule is gone and the next attempt does not fail, so that a
    /// resume lasts.
    fn paused_by_rule(&self, id: &str) {
        let at = &self.namespace;
        at.pause_failing_activities("ruled");
        at.start(id, json!([self.ruled(id)]));
        at.until_activity(id, "PAUSED", 2);
        self.lab.tell(&self.looked_at_by(id), "hold");
        at.call("DELETE", "workflow-rules/pause-failing", &Value::Null);
    }

    /// An activity that fails every half second, until a rule pauses it.
    fn ruled(&self, name: &str) -> Value {
        let told = self.looked_at_by(name);
        self.lab.tell(&told, "fail");
        let retry = json!({"initial": 0.5, "coefficient": 1.0});
        activity(json!({"id": name, "type": "ruled", "input": {"name": told}, "retry": retry}))
    }

    fn open_steps(&self, id: &str, open: &[SubState]) {
        let at = &self.namespace;
        if open.contains(&SubState::Error) {
            at.pause_failing_activities("ruled");
        }
        let step = |(number, sub_state): (usize, &SubState)| {
            let name = format!("{id}-{number}");
            match sub_state {
                SubState::Running => {
                    activity(json!({"id": name, "type": "obey", "input": {"name": name}}))
                }
                SubState::BackingOff => {
                    activity(json!({"id": name, "type": "fail", "retry": {"initial": 3_600}}))
                }
                SubState::Error => self.ruled(&name),
                _ => json!({"child": {"id": name, "queue": NOBODY}}),
            }
        };
        let branches: Vec<Value> = open.iter().enumerate().map(step).collect();
        at.start(id, json!([{"parallel": branches}]));
        let count = |wanted: SubState| open.iter().filter(|it| **it == wanted).count();
        at.until(id, "in the wanted steps", |shown| {
            let activities = shown["pendingActivities"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            // The start of a child causes a workflow task.
            let has_begun =
                |child: &&Value| child["runId"].as_str().is_some_and(|it| !it.is_empty());
            let children = shown["pendingChildren"].as_array();
            let children = children.map_or(0, |all| all.iter().filter(has_begun).count());
            let of = |state: &str| {
                let state = format!("PENDING_ACTIVITY_STATE_{state}");
                activities
                    .iter()
                    .filter(|it| it["state"] == state.as_str())
                    .count()
            };
            let backing_off = |it: &&Value| it["nextAttemptScheduleTime"].is_string();
            of("STARTED") == count(SubState::Running)
                && of("PAUSED") == count(SubState::Error)
                && activities.iter().filter(backing_off).count() == count(SubState::BackingOff)
                && children == count(SubState::Waiting)
                && shown["pendingWorkflowTask"].is_null()
        });
    }

    /// An execution that shows this; its execution id.
    fn execution(&self, id: &str, native: &NativeState) -> Result<String, Skip> {
        let qualifier = |name: &str| native.qualifiers.get(name).map(String::as_str);
        if let Some(cause) = qualifier("next_run") {
            return Ok(self.superseded(id, &native.state, cause));
        }
        if qualifier("pending") == Some("unread") {
            return Err(Skip::because(
                "only a list shows it; a get always describes",
            ));
        }
        let at = &self.namespace;
        match (
            native.state.as_str(),
            qualifier("first_task").filter(|it| *it != "begun"),
        ) {
            ("RUNNING", Some("delay")) => {
                at.start_with(id, json!([]), &json!({"workflowStartDelay": HOUR}));
            }
            ("RUNNING", Some("cron")) => {
                at.start_with(id, json!([]), &json!({"cronSchedule": "0 3 1 1 *"}));
            }
            ("RUNNING", Some(_)) => {
                let retry = json!({"retryPolicy": {"initialInterval": HOUR, "maximumAttempts": 3}});
                let first = at.start_with(id, json!([{"fail": {}}]), &retry);
                self.until_next_run(id, &first);
            }
            ("RUNNING", None) if qualifier("cancel").is_some() => {
                self.cancelling(id, qualifier("pending") == Some("nothing"));
            }
            ("RUNNING", None) if qualifier("pending") == Some("nothing") => {
                self.idle(id, &json!({}));
            }
            ("RUNNING", None) => {
                at.start(
                    id,
                    json!([activity(
                        json!({"type": "obey", "input": {"name": self.looked_at_by(id)}})
                    )]),
                );
                at.until_activity(id, "STARTED", 1);
            }
            ("PAUSED", _) => {
                self.idle(id, &json!({}));
                at.pause(id);
            }
            ("COMPLETED", _) => {
                at.start(id, json!([{"return": 1}]));
            }
            ("FAILED", _) => {
                at.start(id, json!([{"fail": {}}]));
            }
            ("CANCELED", _) => {
                self.idle(id, &json!({}));
                at.cancel(id);
            }
            ("TERMINATED", _) => {
                self.idle(id, &json!({}));
                at.terminate(id);
            }
            ("TIMED_OUT", _) => {
                let fields = json!({"workflowRunTimeout": "1s", "taskQueue": {"name": NOBODY}});
                at.start_with(id, json!([]), &fields);
            }
            ("CONTINUED_AS_NEW", _) => {
                let next = json!({"steps": [{"signal": "go"}]});
                let first = at.start(id, json!([{"continue_as_new": next}]));
                self.until_next_run(id, &first);
                return Ok(format!("{id}~run:{first}"));
            }
            (state, _) => panic!("no script shows {state}"),
        }
        at.until_status(id, &native.state);
        Ok(id.to_owned())
    }

    /// The workflow ignores a request to cancel it, or its activity does.
    fn cancelling(&self, id: &str, is_idle: bool) {
        let at = &self.namespace;
        if is_idle {
            at.start(id, json!([{"ignore_cancel": "go"}]));
            self.until_idle(id);
            at.cancel(id);
            at.until_event(id, "WORKFLOW_EXECUTION_CANCEL_REQUESTED");
            self.until_idle(id);
            return;
        }
        let input = json!({"name": self.looked_at_by(id), "heartbeat": false});
        at.start(
            id,
            json!([activity(json!({"type": "obey", "input": input}))]),
        );
        at.until_activity(id, "STARTED", 1);
        at.cancel(id);
        at.until_activity(id, "CANCEL_REQUESTED", 1);
    }

    fn until_next_run(&self, id: &str, first: &str) {
        self.namespace.until(id, "in its next run", |shown| {
            let run = &shown["workflowExecutionInfo"]["execution"]["runId"];
            run.as_str().is_some_and(|run| run != first)
        });
    }

    /// A first run that ended like this, after which a second one follows for this cause.
    fn superseded(&self, id: &str, status: &str, cause: &str) -> String {
        let at = &self.namespace;
        let mut fields = match cause {
            "cron" => json!({"cronSchedule": "@every 1s"}),
            "retry" => json!({"retryPolicy": {"initialInterval": HOUR, "maximumAttempts": 3}}),
            _ => json!({}),
        };
        let steps = match status {
            "COMPLETED" => json!([{"return": 1}]),
            "FAILED" => json!([{"fail": {}}]),
            _ => json!([{"signal": "go"}]),
        };
        if status == "TIMED_OUT" {
            fields["workflowRunTimeout"] = json!("1s");
            fields["taskQueue"] = json!({"name": NOBODY});
        }
        let first = at.start_with(id, steps, &fields);
        if cause == "reset" {
            self.until_idle(id);
            at.reset(id);
        }
        self.until_next_run(id, &first);
        if cause == "cron" {
            // Otherwise it would run every second until the end of the tests.
            at.terminate(id);
        }
        format!("{id}~run:{first}")
    }
}
