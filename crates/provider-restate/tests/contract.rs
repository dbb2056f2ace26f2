//! The Restate provider against the contract, in front of a stand-in for the server.

#![allow(clippy::unwrap_used)]

mod fake;

use std::sync::Arc;

use async_trait::async_trait;
use jiff::{Timestamp, ToSpan};
use serde_json::{Value, json};
use stateway_contract_kit::{Fault, Harness, Scene, Skip, Subject, Workload};
use stateway_model::{ExecutionId, Payload};
use stateway_provider_api::table::{Qualifier, Scope, compiled_in};
use stateway_provider_api::{Capabilities, NativeState, Provider, Table};
use stateway_provider_restate::{CAPABILITIES, Config, RestateProvider};

use fake::{Fake, Invocation, entry};

fn main() -> std::process::ExitCode {
    stateway_contract_kit::main("restate", Restate)
}

pub(crate) struct Restate;

struct Staged {
    fake: Fake,
    config: Config,
    table: Arc<Table>,
    provider: Arc<RestateProvider>,
}

fn provider(config: &Config, table: &Arc<Table>) -> Arc<RestateProvider> {
    Arc::new(RestateProvider::new("kit".parse().unwrap(), config, table.clone()).unwrap())
}

#[async_trait]
impl Harness for Restate {
    fn table(&self) -> Arc<Table> {
        compiled_in("restate").unwrap()
    }

    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    async fn fresh(&self, table: Arc<Table>) -> Result<Box<dyn Subject>, Skip> {
        let fake = Fake::new().await;
        let config = fake.config();
        Ok(Box::new(Staged {
            provider: provider(&config, &table),
            table,
            fake,
            config,
        }))
    }
}

#[async_trait]
impl Subject for Staged {
    fn provider(&self) -> Arc<dyn Provider> {
        self.provider.clone()
    }

    fn workload(&self) -> Workload {
        Workload {
            definition: "Lab/long".to_owned(),
            input: Payload::json(r#"{"n":1}"#),
            other_input: Payload::json(r#"{"n":2}"#),
            step_input: None,
            takes_feedback: false,
            takes_from_start: false,
        }
    }

    async fn stage(&self, scene: Scene) -> Result<ExecutionId, Skip> {
        let id = self.fake.put(staged(scene)?);
        Ok(ExecutionId::new(id).unwrap())
    }

    async fn inject(&self, fault: Fault) -> Result<(), Skip> {
        let fault = match fault {
            Fault::Hang => fake::Fault::Hang,
            Fault::Slow(pause) => fake::Fault::Slow(pause),
            Fault::Throttle(pause) => fake::Fault::Throttle(pause),
            Fault::Unavailable => fake::Fault::Unavailable,
            Fault::Malformed => fake::Fault::Malformed,
            Fault::Denied => fake::Fault::Denied,
        };
        self.fake.world.lock().unwrap().fault = Some(fault);
        Ok(())
    }

    async fn restart(&self) -> Result<Arc<dyn Provider>, Skip> {
        Ok(provider(&self.config, &self.table))
    }
}

fn staged(scene: Scene) -> Result<Invocation, Skip> {
    let row = |row: Value| Invocation {
        row,
        ..Invocation::default()
    };
    match scene {
        Scene::Native {
            scope: Scope::Step,
            native,
        } => shows_step(&native),
        Scene::Steps(_) => Err(Skip::because("the status decides and the steps are detail")),
        Scene::Native { native, .. } => Ok(shows(&native)),
        Scene::NoMetadata => Ok(row(json!({"status": "running"}))),
        Scene::BackingOff { attempt } => Ok(Invocation {
            journal: vec![entry(0, "Command: Input", "", json!({}))],
            ..row(json!({
                "status": "backing-off", "retry_count": attempt,
                "next_retry_at": (Timestamp::now() + 1.hour()).to_string(),
                "last_failure": "[500 Internal] boom\n    at somewhere",
                "last_failure_error_code": "RT0007",
            }))
        }),
        Scene::AwaitingSignal { .. } => Err(Skip::because(
            "an awakeable has Restate's name, not the kit's; see steering.rs",
        )),
        Scene::AwaitingApproval => Err(Skip::because("Restate asks nobody for approvals")),
        Scene::Stuck => Ok(shows(
            &NativeState::new("paused").with(Qualifier::new("pause_cause"), "failures"),
        )),
        Scene::CleansUp => Ok(Invocation {
            cleans_up: true,
            ..row(json!({"status": "running", "retry_count": 1}))
        }),
        Scene::Succeeded => Ok(Invocation {
            journal: vec![
                entry(0, "Command: Input", "", json!({"Command": {"Input": {}}})),
                output("Success"),
            ],
            output: Some(json!({"ok": true})),
            ..shows(
                &NativeState::new("completed").with(Qualifier::new("completion_result"), "success"),
            )
        }),
        Scene::Failed => Ok(Invocation {
            journal: two_steps(),
            ..row(json!({
                "status": "completed", "completion_result": "failure",
                "completion_failure": "[500] second failed",
            }))
        }),
    }
}

/// A journal with this step in it.
fn shows_step(native: &NativeState) -> Result<Invocation, Skip> {
    let is_status = native
        .state
        .chars()
        .all(|it| it.is_lowercase() || it == '-');
    if is_status {
        return Err(Skip::because("a child is read as an execution of its own"));
    }
    let is_awakeable = native.state == "Awakeable";
    let (kind, result) = (&native.state, native.qualifiers.get("result"));
    let mut it = Invocation {
        row: json!({"status": "suspended", "suspended_waiting_for_signals": [1, 17]}),
        journal: vec![entry(
            0,
            "Command: Input",
            "",
            json!({"Command": {"Input": {}}}),
        )],
        ..Invocation::default()
    };
    if !is_awakeable {
        it.row = json!({"status": "running"});
        let command = json!({"Command": {kind: {"completion_id": 1}}});
        it.journal
            .push(entry(1, &format!("Command: {kind}"), "", command));
    }
    if let Some(result) = result {
        let result = match result.as_str() {
            "failure" => "Failure",
            _ => "Success",
        };
        let (ty, id) = if is_awakeable {
            ("Signal", json!({"SignalIndex": 17}))
        } else {
            ("Completion", json!({"CompletionId": 1}))
        };
        let told = json!({"Notification": {"ty": ty, "id": id, "result": result}});
        it.journal
            .push(entry(2, &format!("Notification: {ty}"), "", told));
    }
    Ok(it)
}

/// An invocation whose tables say this.
fn shows(native: &NativeState) -> Invocation {
    let qualifier = |name: &str| native.qualifiers.get(name).map(String::as_str);
    let mut row = json!({"status": native.state});
    if let Some(result) = qualifier("completion_result") {
        row["completion_result"] = json!(result);
    }
    let input = entry(0, "Command: Input", "", json!({"Command": {"Input": {}}}));
    let mut journal = vec![input];
    let failed = qualifier("completion_result") == Some("failure");
    match (failed, qualifier("failure_kind")) {
        (true, Some("killed")) => row["completion_failure"] = json!("[409] killed"),
        (true, Some("exhausted")) => row["completion_failure"] = json!("[500] boom"),
        (true, Some("cancelled")) => {
            row["completion_failure"] = json!("[409] Cancelled");
            let signal = json!({"Notification": {"ty": "Signal", "id": {"SignalIndex": 1}}});
            journal.push(entry(1, "Notification: Signal", "", signal));
            journal.push(output("Failure"));
        }
        (true, _) => {
            row["completion_failure"] = json!("[422] order rejected");
            journal.push(output("Failure"));
        }
        (false, _) => {}
    }
    let paused = qualifier("pause_cause").map(|cause| match cause {
        "failures" => json!({"ty": "Paused", "last_failure": {"error_message": "boom"}}),
        _ => json!({"ty": "Paused"}),
    });
    let events = paused.map(|event| {
        json!({
            "event_type": "Paused", "event_json": event.to_string(),
            "appended_at": "2026-11-15T23:33:28.191Z", "after_journal_entry_index": 0,
        })
    });
    let entry_id = fake::id(1);
    Invocation {
        row,
        journal,
        events: events.into_iter().collect(),
        queue: qualifier("vqueue_status").map(|status| {
            json!({
                "entry_id": entry_id, "status": status, "retry_attempts": 2,
                "next_at": (Timestamp::now() + 1.hour()).to_string(),
            })
        }),
        ..Invocation::default()
    }
}

fn output(result: &str) -> Value {
    let brief = json!({"Command": {"Output": {"result": result}}});
    entry(9, "Command: Output", "", brief)
}

/// `first` succeeded, `second` failed.
fn two_steps() -> Vec<Value> {
    let run = |index: u32, name: &str, completion: u32| {
        let brief = json!({"Command": {"Run": {"completion_id": completion, "name": name}}});
        entry(index, "Command: Run", name, brief)
    };
    let done = |index: u32, completion: u32, result: &str| {
        let brief = json!({"Notification": {
            "ty": {"Completion": "Run"}, "id": {"CompletionId": completion}, "result": result,
        }});
        entry(index, "Notification: Run", "", brief)
    };
    vec![
        entry(0, "Command: Input", "", json!({"Command": {"Input": {}}})),
        run(1, "first", 1),
        done(2, 1, "Success"),
        run(3, "second", 2),
        done(4, 2, "Failure"),
        output("Failure"),
    ]
}
