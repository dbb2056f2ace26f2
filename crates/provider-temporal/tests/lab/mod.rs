//! The real Temporal server, a worker that runs scripts, and short ways to stage workflows on them. Staging uses
//! the server's HTTP API, so that nothing of the adapter is needed for it.

#![allow(dead_code, clippy::unwrap_used, reason = "each test uses a part of it")]

mod http;
mod process;
mod server;
mod worker;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) use process::{PATIENCE, eventually};
pub(crate) use server::{Server, Settings};
pub(crate) use worker::Worker;

/// The task queue of the worker.
pub(crate) const QUEUE: &str = "lab";
/// A task queue that no worker polls.
pub(crate) const NOBODY: &str = "nobody";

/// Where the peers are.
#[derive(Debug, Clone)]
pub(crate) struct Peers {
    pub(crate) server: PathBuf,
    pub(crate) python: PathBuf,
}

impl Peers {
    /// As `cargo xtask test` names them.
    pub(crate) fn named() -> Result<Self, String> {
        let named = |name: &str| {
            std::env::var_os(name).map(PathBuf::from).ok_or_else(|| {
                format!("{name} is not set: `cargo xtask test` installs the peer and sets it")
            })
        };
        Ok(Self {
            server: named("STATEWAY_TEMPORAL_SERVER")?,
            python: named("STATEWAY_TEMPORAL_PYTHON")?,
        })
    }
}

/// A server with its worker. Both end with it.
pub(crate) struct Lab {
    pub(crate) server: Server,
    pub(crate) worker: Worker,
    folder: TempDir,
}

impl Lab {
    /// A new server with these namespaces, and a worker that serves none of them yet.
    pub(crate) fn start(peers: &Peers, namespaces: &[String]) -> Self {
        Self::start_with(peers, namespaces, Settings::Tests)
    }

    /// The same with settings of the server.
    pub(crate) fn start_with(peers: &Peers, namespaces: &[String], settings: Settings) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server = Server::start(&peers.server, folder.path(), namespaces, settings);
        let told = folder.path().join("told");
        std::fs::create_dir(&told).unwrap();
        let worker = Worker::start(&peers.python, &server.target(), &told);
        Self {
            server,
            worker,
            folder,
        }
    }

    /// Tells every activity and workflow that looks at this name what to do: `hold`, `go` or `fail`.
    pub(crate) fn tell(&self, name: &str, what: &str) {
        // In one step, so that nobody reads half of it.
        let new = self.folder.path().join(format!("new-{name}"));
        std::fs::write(&new, what).unwrap();
        std::fs::rename(new, self.folder.path().join("told").join(name)).unwrap();
    }

    pub(crate) fn namespace(&self, name: &str) -> Namespace {
        Namespace::of(&self.server, name)
    }
}

/// One namespace of the server, over HTTP.
#[derive(Debug, Clone)]
pub(crate) struct Namespace {
    pub(crate) name: String,
    port: u16,
}

impl Namespace {
    /// A namespace of a server without a worker.
    pub(crate) fn of(server: &Server, name: &str) -> Self {
        Self {
            name: name.to_owned(),
            port: server.http_port(),
        }
    }

    /// Calls the HTTP API: the status and the body.
    #[track_caller]
    pub(crate) fn call(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let path = format!("/api/v1/namespaces/{}/{path}", self.name);
        http::request(self.port, method, &path, body)
            .unwrap_or_else(|error| panic!("{method} {path}: {error}"))
    }

    #[track_caller]
    pub(crate) fn post(&self, path: &str, body: &Value) -> Value {
        let (status, answer) = self.call("POST", path, body);
        assert_eq!(status, 200, "POST {path}: {answer}");
        answer
    }

    /// Starts a script; the run id.
    #[track_caller]
    pub(crate) fn start(&self, id: &str, steps: Value) -> String {
        self.start_with(id, steps, &json!({}))
    }

    /// The same with further fields of `StartWorkflowExecutionRequest`.
    #[track_caller]
    pub(crate) fn start_with(&self, id: &str, steps: Value, fields: &Value) -> String {
        let mut body = json!({
            "workflowType": {"name": "Script"},
            "taskQueue": {"name": QUEUE},
            "input": [{"steps": steps}],
        });
        for (key, value) in fields.as_object().unwrap() {
            body[key] = value.clone();
        }
        let started = self.post(&format!("workflows/{id}"), &body);
        started["runId"].as_str().unwrap().to_owned()
    }

    #[track_caller]
    pub(crate) fn describe(&self, id: &str) -> Value {
        self.call("GET", &format!("workflows/{id}"), &Value::Null).1
    }

    /// The events of the current run.
    #[track_caller]
    pub(crate) fn events(&self, id: &str) -> Vec<Value> {
        let path = format!("workflows/{id}/history");
        let history = self.call("GET", &path, &Value::Null).1;
        history["history"]["events"]
            .as_array()
            .cloned()
            .unwrap_or_default()
    }

    /// Whether the history of the current run has an event of this type.
    pub(crate) fn has_event(&self, id: &str, kind: &str) -> bool {
        let kind = format!("EVENT_TYPE_{kind}");
        self.events(id)
            .iter()
            .any(|event| event["eventType"] == kind.as_str())
    }

    /// Waits until the description shows something.
    #[track_caller]
    pub(crate) fn until(&self, id: &str, what: &str, look: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let shown = self.describe(id);
            if look(&shown) {
                return shown;
            }
            assert!(
                Instant::now() < deadline,
                "`{id}` is not {what} after {PATIENCE:?}, but {shown:#}"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    #[track_caller]
    pub(crate) fn until_status(&self, id: &str, status: &str) -> Value {
        let wanted = format!("WORKFLOW_EXECUTION_STATUS_{status}");
        self.until(id, status, |shown| {
            shown["workflowExecutionInfo"]["status"] == wanted.as_str()
        })
    }

    /// Waits until the first pending activity is in this state, at this attempt or later.
    #[track_caller]
    pub(crate) fn until_activity(&self, id: &str, state: &str, attempt: u64) -> Value {
        let wanted = format!("PENDING_ACTIVITY_STATE_{state}");
        self.until(id, &format!("{state} at attempt {attempt}"), |shown| {
            let activity = &shown["pendingActivities"][0];
            activity["state"] == wanted.as_str()
                && activity["attempt"].as_u64().is_some_and(|it| it >= attempt)
        })
    }

    fn status(&self, id: &str) -> Option<String> {
        let shown = self.describe(id);
        let status = shown["workflowExecutionInfo"]["status"].as_str();
        status.map(str::to_owned)
    }

    /// Whether the current run of a workflow is closed.
    pub(crate) fn has_ended(&self, id: &str) -> bool {
        let open = ["RUNNING", "PAUSED"].map(|it| format!("WORKFLOW_EXECUTION_STATUS_{it}"));
        self.status(id)
            .is_some_and(|status| !open.contains(&status))
    }

    /// Waits until lists of the server show a workflow in its status: they lag behind its writes.
    #[track_caller]
    pub(crate) fn until_listed(&self, id: &str) {
        eventually(&format!("`{id}` is listed in its status"), || {
            let status = self.status(id);
            let path = format!("workflows?query=WorkflowId%3D%27{id}%27");
            let (_, found) = self.call("GET", &path, &Value::Null);
            let rows = found["executions"].as_array()?;
            let mut shown = rows.iter().map(|row| row["status"].as_str());
            shown.any(|shown| shown == status.as_deref()).then_some(())
        });
    }

    /// Waits until a query, as a part of an address, finds a workflow.
    #[track_caller]
    pub(crate) fn until_found(&self, query: &str, id: &str) {
        eventually(&format!("`{id}` is found by {query}"), || {
            let path = format!("workflows?query={query}");
            let (_, found) = self.call("GET", &path, &Value::Null);
            let rows = found["executions"].as_array()?;
            let mut ids = rows.iter().map(|row| &row["execution"]["workflowId"]);
            ids.any(|found| found == id).then_some(())
        });
    }

    #[track_caller]
    pub(crate) fn until_event(&self, id: &str, kind: &str) {
        eventually(&format!("`{id}` has the event {kind}"), || {
            self.has_event(id, kind).then_some(())
        });
    }

    #[track_caller]
    pub(crate) fn cancel(&self, id: &str) {
        self.post(&format!("workflows/{id}/cancel"), &json!({}));
    }

    #[track_caller]
    pub(crate) fn terminate(&self, id: &str) {
        let body = json!({"reason": "stopped by the test"});
        self.post(&format!("workflows/{id}/terminate"), &body);
    }

    #[track_caller]
    pub(crate) fn pause(&self, id: &str) {
        let body = json!({"reason": "held by the test", "requestId": format!("pause-{id}")});
        self.post(&format!("workflows/{id}/pause"), &body);
    }

    #[track_caller]
    pub(crate) fn pause_activity(&self, id: &str, activity: &str) {
        let body = json!({"reason": "held by the test", "identity": "operator"});
        self.post(
            &format!("workflows/{id}/activities/{activity}/pause"),
            &body,
        );
    }

    #[track_caller]
    pub(crate) fn signal(&self, id: &str, name: &str) {
        self.post(&format!("workflows/{id}/signal/{name}"), &json!({}));
    }

    /// Resets to the first workflow task.
    #[track_caller]
    pub(crate) fn reset(&self, id: &str) {
        let body = json!({
            "workflowTaskFinishEventId": "4", "reason": "reset by the test",
            "requestId": format!("reset-{id}"),
        });
        self.post(&format!("workflows/{id}/reset"), &body);
    }

    /// Activities of this type are paused before they are started again after a failure.
    #[track_caller]
    pub(crate) fn pause_failing_activities(&self, kind: &str) {
        // A rule that exists already is as good.
        let body = json!({
            "requestId": "rule", "identity": "operator",
            "spec": {
                "id": "pause-failing",
                "activityStart": {"predicate": format!("ActivityType = '{kind}'")},
                "actions": [{"activityPause": {}}],
            },
        });
        let (status, answer) = self.call("POST", "workflow-rules", &body);
        let exists = answer["message"]
            .as_str()
            .is_some_and(|it| it.contains("already exists"));
        assert!(
            status == 200 || exists,
            "POST workflow-rules: {status} {answer}"
        );
    }
}

/// A step that runs an activity called `charge`.
pub(crate) fn activity(fields: Value) -> Value {
    let mut activity = json!({"id": "charge"});
    for (key, value) in fields.as_object().unwrap() {
        activity[key] = value.clone();
    }
    json!({"activity": activity})
}
