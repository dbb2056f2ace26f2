//! The invocations of the stand-in and what its verbs do to them.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{Timestamp, ToSpan};
use serde_json::{Value, json};
use wiremock::{Request, ResponseTemplate};

use super::{Fault, ok, refuse};

/// When the stand-in's time begins.
const BEGIN: Timestamp = Timestamp::constant(1_794_785_000, 0);

pub(crate) struct World {
    pub(crate) invocations: BTreeMap<String, Invocation>,
    pub(crate) services: BTreeMap<String, Value>,
    /// Idempotency keys and workflow keys that are taken, with their target.
    keys: BTreeMap<String, String>,
    pub(crate) fault: Option<Fault>,
    pub(crate) vqueues: bool,
    pub(crate) version: String,
    /// Columns that this version does not have, as `table.column`.
    pub(crate) missing: BTreeSet<String>,
    /// The server is starting: it answers all requests except queries.
    pub(crate) starting: bool,
    /// Awakeables that were answered.
    pub(crate) answered: Vec<String>,
    count: u32,
}

/// One invocation and what the tables say of it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Invocation {
    pub(crate) row: Value,
    pub(crate) journal: Vec<Value>,
    pub(crate) events: Vec<Value>,
    pub(crate) queue: Option<Value>,
    pub(crate) output: Option<Value>,
    /// Stays open when it is cancelled.
    pub(crate) cleans_up: bool,
}

/// The id of the n-th invocation.
pub(crate) fn id(number: u32) -> String {
    format!("inv_1{:011}{number:022}", 7)
}

/// A journal entry.
pub(crate) fn entry(index: u32, entry_type: &str, name: &str, brief: Value) -> Value {
    let at = BEGIN + i64::from(index).seconds();
    json!({
        "index": index, "entry_type": entry_type, "name": name, "entry_json": brief.to_string(),
        "entry_lite_json": brief.to_string(), "appended_at": at.to_string(),
    })
}

impl Default for World {
    fn default() -> Self {
        let handlers = |names: &[&str]| -> Vec<Value> {
            let of = |name: &&str| json!({"name": name, "retry_policy": {"max_attempts": null}});
            names.iter().map(of).collect()
        };
        let policy = json!({"max_attempts": 70, "on_max_attempts": "Pause"});
        let service = |ty: &str, names: &[&str]| json!({"ty": ty, "handlers": handlers(names), "retry_policy": policy});
        Self {
            invocations: BTreeMap::new(),
            services: BTreeMap::from([
                ("Lab".to_owned(), service("Service", &["long", "flaky"])),
                ("Cell".to_owned(), service("VirtualObject", &["add"])),
                ("Order".to_owned(), service("Workflow", &["run", "approve"])),
            ]),
            keys: BTreeMap::new(),
            fault: None,
            vqueues: true,
            version: "1.7.12".to_owned(),
            missing: BTreeSet::new(),
            starting: false,
            answered: Vec::new(),
            count: 0,
        }
    }
}

impl World {
    /// Adds an invocation of `Lab/long`, with what its row says beside that.
    pub(crate) fn put(&mut self, mut invocation: Invocation) -> String {
        self.count += 1;
        let id = id(self.count);
        let now = (BEGIN + i64::from(self.count).milliseconds()).to_string();
        let mut row = json!({
            "id": id, "target_service_name": "Lab", "target_handler_name": "long",
            "target_service_ty": "service", "created_at": now, "modified_at": now,
        });
        if let Value::Object(own) = &invocation.row {
            row.as_object_mut().unwrap().extend(own.clone());
        }
        if row["status"] == "completed" {
            row["completed_at"] = json!((BEGIN + 1.hour()).to_string());
        }
        invocation.row = row;
        self.invocations.insert(id.clone(), invocation);
        id
    }

    pub(super) fn patch(&mut self, id: &str, verb: &str, request: &Request) -> ResponseTemplate {
        let Some(invocation) = self.invocations.get_mut(id) else {
            return refuse(
                404,
                &format!("The requested invocation '{id}' does not exist"),
            );
        };
        let status = invocation.row["status"].as_str().unwrap().to_owned();
        let completed = status == "completed";
        let waits_to_begin = ["scheduled", "pending"].contains(&status.as_str());
        match verb {
            "cancel" | "kill" if completed => refuse(409, "was already completed."),
            "cancel" | "kill" if waits_to_begin => {
                self.invocations.remove(id);
                ResponseTemplate::new(200)
            }
            "cancel" if invocation.cleans_up || status == "paused" => ResponseTemplate::new(202),
            "cancel" => {
                invocation.finish("[409] cancelled", true);
                ResponseTemplate::new(202)
            }
            "kill" => {
                invocation.finish("[409] killed", false);
                ResponseTemplate::new(200)
            }
            "pause" if completed || waits_to_begin => refuse(409, "is not running"),
            "pause" => {
                invocation.set("status", json!("paused"));
                let at = BEGIN.to_string();
                let event = json!({"ty": "Paused"}).to_string();
                invocation.events.push(json!({
                    "event_type": "Paused", "event_json": event, "appended_at": at,
                    "after_journal_entry_index": 0,
                }));
                ResponseTemplate::new(202)
            }
            "resume" if completed => refuse(409, "was already completed."),
            "resume" if waits_to_begin => refuse(425, "cannot be resumed."),
            "resume" => {
                invocation.set("status", json!("running"));
                ResponseTemplate::new(200)
            }
            "purge" if !completed => refuse(409, "is still running"),
            "purge" => {
                self.invocations.remove(id);
                ResponseTemplate::new(200)
            }
            "restart-as-new" if !completed => refuse(409, "is still running."),
            "restart-as-new" => {
                let from = request.url.query().unwrap_or("from=0").to_owned();
                let row = json!({"status": "running", "restarted_from": id, "asked": from});
                let new = self.put(Invocation {
                    row,
                    ..Invocation::default()
                });
                ok(json!({"new_invocation_id": new}))
            }
            verb => refuse(405, verb),
        }
    }

    pub(super) fn send(&mut self, target: &[&str], request: &Request) -> ResponseTemplate {
        let header = |name: &str| {
            let value = request.headers.get(name);
            value.map(|value| value.to_str().unwrap().to_owned())
        };
        let (service, handler) = (target[0], target[target.len() - 1]);
        let is_workflow = service == "Order";
        let key = match (is_workflow, header("idempotency-key")) {
            (true, Some(_)) => {
                return refuse(400, "cannot use the idempotency key with workflow handlers");
            }
            (true, None) => Some(String::new()),
            (false, key) => key,
        };
        let key = key.map(|key| format!("{} {key}", target.join("/")));
        if let Some(id) = key.as_ref().and_then(|key| self.keys.get(key)) {
            return accepted(id, "PreviouslyAccepted");
        }
        let headers: Vec<Value> = ["content-type", "x-stateway-request-id", "x-stateway-actor"]
            .iter()
            .filter_map(|name| Some(json!({"name": name, "value": header(name)?})))
            .collect();
        let input = json!({"Command": {"Input": {"headers": headers, "payload": request.body}}});
        let delayed = request.url.query().is_some_and(|it| it.contains("delay="));
        let mut row = if delayed {
            json!({"status": "scheduled"})
        } else {
            json!({"status": "running", "retry_count": 1})
        };
        row["target_service_name"] = json!(service);
        row["target_handler_name"] = json!(handler);
        if let [_, key, _] = target {
            row["target_service_key"] = json!(key);
        }
        let id = self.put(Invocation {
            row,
            journal: vec![entry(0, "Command: Input", "", input)],
            ..Invocation::default()
        });
        if let Some(key) = key {
            self.keys.insert(key, id.clone());
        }
        accepted(&id, "Accepted")
    }

    pub(super) fn output(&self, id: &str) -> ResponseTemplate {
        match self.invocations.get(id).map(|it| &it.output) {
            Some(Some(output)) => ok(output.clone()),
            Some(None) => refuse(470, "the invocation exists but has not completed yet"),
            None => refuse(404, "invocation not found"),
        }
    }
}

fn accepted(id: &str, status: &str) -> ResponseTemplate {
    let body = json!({"invocationId": id, "status": status});
    ResponseTemplate::new(202).set_body_json(body)
}

impl Invocation {
    pub(crate) fn set(&mut self, column: &str, value: Value) {
        self.row[column] = value;
        let modified: Timestamp = self.row["modified_at"].as_str().unwrap().parse().unwrap();
        self.row["modified_at"] = json!((modified + 1.millisecond()).to_string());
    }

    fn finish(&mut self, failure: &str, by_handler: bool) {
        self.set("status", json!("completed"));
        self.set("completion_result", json!("failure"));
        self.set("completion_failure", json!(failure));
        self.row["completed_at"] = json!((BEGIN + 1.hour()).to_string());
        if by_handler {
            let index = self.journal.len() as u32;
            let signal = json!({"Notification": {"ty": "Signal", "id": {"SignalIndex": 1}}});
            self.journal
                .push(entry(index, "Notification: Signal", "", signal));
            let output = json!({"Command": {"Output": {"result": "Failure"}}});
            self.journal
                .push(entry(index + 1, "Command: Output", "", output));
        }
    }
}
