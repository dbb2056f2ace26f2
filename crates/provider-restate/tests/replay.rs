//! Every recorded answer of the real server, given to the adapter over HTTP at the moment when it
//! would get it: file by file, so that none is forgotten.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use stateway_model::{ExecutionId, Payload};
use stateway_provider_api::filter::Hints;
use stateway_provider_api::table::compiled_in;
use stateway_provider_api::{
    Call, CancelMode, CancelRequest, CompensationChoice, ErrorKind, EventOrder, HistoryRequest,
    ListRequest, Observation, PauseRequest, Provider, PurgeRequest, RequestId, Result,
    ResumeRequest, RetryFromRequest, SignalRequest, StartDefinition, StartRequest, View,
};
use stateway_provider_restate::{Config, RestateProvider};
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, Request, Respond, ResponseTemplate};

/// Recordings of what the adapter has no use for, by the end of their names.
const NEVER_ASKED: &[(&str, &str)] = &[
    ("ingress_attach", "it would block until the end"),
    ("ingress_attach_timeout", "it would block until the end"),
    ("ingress_invocation_attach", "it would block until the end"),
    ("ingress_workflow_attach", "it would block until the end"),
    ("ingress_call", "a start does not wait for the end"),
    ("ingress_call_old", "a start does not wait for the end"),
    (
        "ingress_call_after_completion",
        "a start does not wait for the end",
    ),
    (
        "ingress_call_duplicate_call",
        "a start does not wait for the end",
    ),
    (
        "ingress_call_shared_phase",
        "a start does not wait for the end",
    ),
    ("call_same_key", "a start does not wait for the end"),
    (
        "ingress_lookup",
        "it computes an id and does not say whether there is one",
    ),
    (
        "ingress_lookup_unknown",
        "it computes an id and does not say whether there is one",
    ),
    (
        "lookup",
        "it computes an id and does not say whether there is one",
    ),
    ("ingress_output_by_target", "outputs are asked for by id"),
    ("ingress_workflow_output", "outputs are asked for by id"),
    ("output_by_key", "outputs are asked for by id"),
    ("admin_delete_root", "it says yes to what does not exist"),
    (
        "admin_delete_mode_Cancel",
        "it says yes to what does not exist",
    ),
    (
        "admin_delete_mode_cancel",
        "it says yes to what does not exist",
    ),
    (
        "admin_delete_mode_Kill",
        "it says yes to what does not exist",
    ),
    (
        "admin_delete_mode_Purge",
        "it says yes to what does not exist",
    ),
    ("admin_get_root", "there is no such method"),
    ("admin_purge_journal", "a purge takes the whole record"),
    ("admin_health", "health is asked by a query"),
    ("admin_cluster_health", "health is asked by a query"),
    ("admin_deployments", "where a service lives is not shown"),
    (
        "sys_invocation_status",
        "half of what `sys_invocation` shows",
    ),
    (
        "child_sys_invocation",
        "a child is read as any other invocation",
    ),
    ("sys_inbox", "the row says that it is in an inbox"),
    (
        "sys_keyed_service_status",
        "the row says that it is in an inbox",
    ),
    ("sys_locks", "the row says that it is in an inbox"),
    ("sys_promise", "the journal names the promise"),
    ("sys_vqueues", "the entry's own status tells"),
    ("state", "a service's state is not shown"),
];

/// What the stand-in answers.
#[derive(Default)]
struct Script {
    /// The rows of each table.
    tables: BTreeMap<&'static str, Vec<Value>>,
    /// The recorded answer to whatever is neither a query nor about the server or a service.
    answer: Value,
    /// The invocations once that answer was given.
    afterwards: Option<Vec<Value>>,
    /// What a query is answered, instead of rows.
    query: Option<Value>,
    version: Option<&'static str>,
    /// The paths to which the recorded answer was given.
    asked: Vec<String>,
}

struct Answers(Arc<Mutex<Script>>);

impl Respond for Answers {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let mut script = self.0.lock().unwrap();
        let path = request.url.path().to_owned();
        match path.as_str() {
            "/version" => {
                let mut body = response("meta.admin_version")["body"].clone();
                if let Some(version) = script.version {
                    body["version"] = json!(version);
                }
                let queues = script.tables.get("sys_vqueue_entry_status");
                let vqueues = queues.is_some_and(|rows| !rows.is_empty());
                body["features"]["vqueues"] = json!(vqueues);
                ResponseTemplate::new(200).set_body_json(body)
            }
            "/query" => script.rows(request),
            path if path.starts_with("/services/") => {
                let services = response("meta.admin_services")["body"]["services"].clone();
                let name = path.rsplit('/').next().unwrap();
                let all = services.as_array().unwrap();
                let service = all.iter().find(|it| it["name"] == name);
                ResponseTemplate::new(200).set_body_json(service.unwrap())
            }
            _ => {
                script.asked.push(path);
                if let Some(rows) = script.afterwards.take() {
                    script.tables.insert("sys_invocation", rows);
                }
                answered(&script.answer)
            }
        }
    }
}

impl Script {
    fn rows(&self, request: &Request) -> ResponseTemplate {
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        let sql = body["query"].as_str().unwrap();
        if sql.contains("information_schema.columns") {
            return answered(&response("meta.query_columns"));
        }
        if let Some(answer) = &self.query {
            return answered(answer);
        }
        let table = sql
            .split(" FROM ")
            .nth(1)
            .unwrap()
            .split(' ')
            .next()
            .unwrap();
        let rows = self.tables.get(table).cloned().unwrap_or_default();
        // Only a query by id names ids; one for a restarted invocation finds none.
        let named = |row: &Value| match row["id"].as_str() {
            Some(id) if sql.contains("inv_") => sql.contains(id) && !sql.contains("restarted_from"),
            _ => true,
        };
        let of_type = |row: &Value| {
            let column = ["entry_type", "event_type"].map(|it| row[it].as_str().unwrap_or("-"));
            !sql.contains("_type IN") && !sql.contains("_type =")
                || column.iter().any(|it| sql.contains(&format!("'{it}'")))
        };
        let rows: Vec<Value> = rows.into_iter().filter(named).filter(of_type).collect();
        ResponseTemplate::new(200).set_body_json(json!({"rows": rows}))
    }
}

fn answered(response: &Value) -> ResponseTemplate {
    let status = u16::try_from(response["status"].as_u64().unwrap()).unwrap();
    let template = ResponseTemplate::new(status);
    let body = match (&response["body"], &response["body_text"]) {
        (Value::Null, Value::String(text)) => text.clone().into_bytes(),
        (Value::Null, _) => Vec::new(),
        (body, _) => serde_json::to_vec(body).unwrap(),
    };
    let content_type = response["headers"]["content-type"].as_str();
    template.set_body_raw(body, content_type.unwrap_or("application/json"))
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings")
}

fn recording(name: &str) -> Option<Value> {
    let text = std::fs::read_to_string(folder().join(format!("{name}.json"))).ok()?;
    Some(serde_json::from_str(&text).unwrap())
}

fn response(name: &str) -> Value {
    recording(name).unwrap()["response"].clone()
}

fn rows(name: &str) -> Vec<Value> {
    let rows = recording(name).map(|it| it["response"]["body"]["rows"].clone());
    rows.and_then(|rows| rows.as_array().cloned())
        .unwrap_or_default()
}

/// Every recording as scenario and what was asked of it.
fn recordings() -> Vec<(String, String)> {
    let files = std::fs::read_dir(folder()).unwrap();
    let mut names: Vec<(String, String)> = files
        .map(|file| {
            let name = file.unwrap().file_name().into_string().unwrap();
            let name = name.strip_suffix(".json").unwrap();
            let (scenario, asked) = name.split_once('.').unwrap();
            (scenario.to_owned(), asked.to_owned())
        })
        .collect();
    names.sort();
    names
}

struct Replay {
    script: Arc<Mutex<Script>>,
    provider: RestateProvider,
    server: MockServer,
}

fn on(server: &MockServer) -> RestateProvider {
    let mut config = Config::at(server.uri(), server.uri());
    config.signals = BTreeMap::from([("approval".to_owned(), "approve".to_owned())]);
    let (id, table) = ("replay".parse().unwrap(), compiled_in("restate").unwrap());
    RestateProvider::new(id, &config, table).unwrap()
}

impl Replay {
    async fn of(script: Script) -> Self {
        let script = Arc::new(Mutex::new(script));
        let server = MockServer::start().await;
        let answers = Answers(script.clone());
        Mock::given(any())
            .respond_with(answers)
            .mount(&server)
            .await;
        Self {
            script,
            provider: on(&server),
            server,
        }
    }

    /// Another replica of the gateway, which has read nothing yet.
    fn replica(&self) -> RestateProvider {
        on(&self.server)
    }

    /// All that was recorded of a scenario.
    async fn scenario(name: &str, version: Option<&'static str>, answer: Value) -> Self {
        let tables = ["sys_invocation", "sys_invocation_state", "sys_journal"];
        let more = ["sys_journal_events", "sys_vqueue_entry_status"];
        let tables = tables.into_iter().chain(more);
        let row = rows(&format!("{name}.sys_invocation")).first().cloned();
        let of = |table: &str| {
            let mut rows = rows(&format!("{name}.{table}"));
            // The queue was recorded for another invocation of the same kind.
            for (queued, row) in rows.iter_mut().zip(&row) {
                if queued["entry_id"].is_string() {
                    queued["entry_id"] = row["id"].clone();
                }
            }
            rows
        };
        Self::of(Script {
            tables: tables.map(|table| (table, of(table))).collect(),
            version,
            answer,
            ..Script::default()
        })
        .await
    }

    fn asked(&self) -> Vec<String> {
        self.script.lock().unwrap().asked.clone()
    }
}

fn call() -> Call {
    Call::within(Duration::from_secs(5))
}

fn request_id() -> RequestId {
    "replay".parse().unwrap()
}

fn kind<T>(result: Result<T>) -> Option<ErrorKind> {
    result.err().map(|error| error.kind)
}

/// What an answer of the admin API to a verb must come to.
fn expected(status: u64) -> Option<ErrorKind> {
    match status {
        200..=299 => None,
        400 => Some(ErrorKind::InvalidArgument),
        404 => Some(ErrorKind::NotFound),
        409 | 410 | 422 | 425 => Some(ErrorKind::FailedPrecondition),
        status => panic!("no rule for {status}"),
    }
}

#[tokio::test]
async fn every_recording_is_replayed_or_said_to_be_of_no_use() {
    let mut replayed = 0;
    for (scenario, asked) in recordings() {
        let file = format!("{scenario}.{asked}");
        if NEVER_ASKED.iter().any(|(never, _)| *never == asked) {
            continue;
        }
        match asked.as_str() {
            "sys_invocation"
            | "sys_journal"
            | "sys_journal_events"
            | "sys_vqueue_entry_status"
            | "sys_invocation_state" => read(&scenario, &asked).await,
            "ingress_output" => output(&scenario, &file, None).await,
            "ingress_invocation_output" => output(&scenario, &file, Some("1.6.2")).await,
            "first_send" | "second_send" => send(&file, None).await,
            "ingress_send_old" => send(&file, Some("1.6.2")).await,
            asked if asked.starts_with("ingress_send") => send(&file, None).await,
            "ingress_approve" => approve(&file).await,
            asked if asked.starts_with("ingress_re") => awakeable(&file).await,
            "samples" => timeline(&file).await,
            "ingress_health" => ingress_health(&file).await,
            "admin_version" | "admin_service_Lab" | "admin_services" | "query_columns" => {
                about_the_server().await;
            }
            "empty" | "syntax_error" | "insert_forbidden" | "unknown_column" | "query_500" => {
                query(&file).await;
            }
            asked if asked.starts_with("admin_") => verb(&scenario, asked, &file).await,
            other => panic!("{file}: nobody replays {other}"),
        }
        replayed += 1;
    }
    let all = recordings().len();
    println!("{replayed} of {all} recordings replayed, the others are never asked for");
    assert!(replayed >= 240, "{replayed}");
}

#[test]
fn what_is_said_to_be_of_no_use_was_recorded() {
    let all = recordings();
    for (never, why) in NEVER_ASKED {
        assert!(
            all.iter().any(|(_, asked)| asked == never),
            "{never}: {why}"
        );
    }
}

/// Get, history and a look of a watch, each over all that was recorded of the scenario.
async fn read(scenario: &str, table: &str) {
    let mut replay = Replay::scenario(scenario, None, Value::Null).await;
    let Some(row) = rows(&format!("{scenario}.sys_invocation")).first().cloned() else {
        if scenario == "garbage_id" {
            let id = ExecutionId::new("not-an-id").unwrap();
            let got = replay.provider.get(&call(), &id, View::Basic).await;
            assert_eq!(kind(got), Some(ErrorKind::NotFound), "{scenario}");
        } else {
            let id = ExecutionId::new("inv_1eTqpRCIcPDI1BlGOaA7wKfvRtG1a3vgpu").unwrap();
            let got = replay.provider.get(&call(), &id, View::Full).await;
            assert_eq!(kind(got), Some(ErrorKind::NotFound), "{scenario}");
        }
        return;
    };
    let id = ExecutionId::new(row["id"].as_str().unwrap()).unwrap();
    let seen = replay
        .provider
        .get(&call(), &id, View::Basic)
        .await
        .unwrap();
    assert_eq!(
        seen.native.state,
        row["status"].as_str().unwrap(),
        "{scenario}"
    );
    match table {
        "sys_journal" | "sys_journal_events" => {
            let request = HistoryRequest {
                id,
                page_size: 1_000,
                cursor: None,
                view: View::Basic,
                order: EventOrder::OldestFirst,
            };
            let told = replay
                .provider
                .history(&call(), request)
                .await
                .unwrap()
                .events;
            let recorded = rows(&format!("{scenario}.{table}"));
            let recorded = recorded.iter().filter(|it| it["id"] == row["id"]).count();
            assert!(told.len() >= recorded, "{scenario}: {told:#?}");
        }
        "sys_vqueue_entry_status" => {
            assert!(
                seen.native.qualifiers.contains_key("vqueue_status"),
                "{scenario}"
            );
        }
        "sys_invocation_state" => confirmed(&mut replay, scenario, &id).await,
        _ => {}
    }
}

/// The in-memory row that was recorded beside the row does not contradict it.
async fn confirmed(replay: &mut Replay, scenario: &str, id: &ExecutionId) {
    let ids = std::slice::from_ref(id);
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(10)).await;
    tokio::time::resume();
    let first = replay
        .provider
        .observe(&call(), ids)
        .await
        .remove(0)
        .unwrap();
    let state = rows(&format!("{scenario}.sys_invocation_state"));
    let beats = state.into_iter().map(|mut beat| {
        beat["failed"] = json!(beat["last_failure"].is_string());
        beat
    });
    {
        let mut script = replay.script.lock().unwrap();
        script
            .tables
            .insert("sys_invocation_state", beats.collect());
        // Whoever reads the row again finds none.
        script.tables.insert("sys_invocation", Vec::new());
    }
    let again = replay.provider.observe(&call(), ids).await.remove(0);
    match again {
        Ok(again) => assert_eq!(again, first, "{scenario}"),
        // With vqueues the queue is asked, whatever the memory says.
        Err(_) => assert_eq!(first.native.state, "ready", "{scenario}"),
    }
}

/// An output is asked for where there is one, by the path that the server's version has.
async fn output(scenario: &str, file: &str, version: Option<&'static str>) {
    let recorded = response(file);
    let replay = Replay::scenario(scenario, version, recorded.clone()).await;
    let row = rows(&format!("{scenario}.sys_invocation")).first().cloned();
    if let Some(row) = row {
        let id = ExecutionId::new(row["id"].as_str().unwrap()).unwrap();
        let got = replay.provider.get(&call(), &id, View::Full).await.unwrap();
        let path = recording(file).unwrap()["request"]["path"].clone();
        match recorded["status"].as_u64() {
            Some(200) => {
                assert_eq!(replay.asked(), [path.as_str().unwrap()], "{file}");
                let data: Value = serde_json::from_slice(&got.output.unwrap().data).unwrap();
                assert_eq!(data, recorded["body"], "{file}");
            }
            _ => assert_eq!((got.output, replay.asked().len()), (None, 0), "{file}"),
        }
    }
    // Of one that succeeded and is not kept any more there is none to show.
    if matches!(recorded["status"].as_u64(), Some(404 | 470)) {
        let id = "inv_1eTqpRCIcPDI1BlGOaA7wKfvRtG1a3vgpu";
        let row = json!({"id": id, "status": "completed", "completion_result": "success"});
        replay
            .script
            .lock()
            .unwrap()
            .tables
            .insert("sys_invocation", vec![row]);
        let id = ExecutionId::new(id).unwrap();
        let got = replay.provider.get(&call(), &id, View::Full).await.unwrap();
        assert_eq!((got.output, replay.asked().len()), (None, 1), "{file}");
    }
}

async fn send(file: &str, version: Option<&'static str>) {
    let recorded = recording(file).unwrap();
    let path = recorded["request"]["path"].as_str().unwrap();
    let path = path.split('?').next().unwrap();
    let target = path
        .trim_start_matches("/restate/send/")
        .trim_start_matches('/');
    let answer = recorded["response"].clone();
    let id = answer["body"]["invocationId"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let replay = Replay::of(Script {
        tables: BTreeMap::from([("sys_invocation", vec![json!({"id": id, "status": "ready"})])]),
        answer: answer.clone(),
        version,
        ..Script::default()
    })
    .await;
    let request = StartRequest {
        definition: StartDefinition::native(target.trim_end_matches("/send")),
        options: Default::default(),
        execution_id: None,
        input: Some(Payload::json("1")),
        labels: Default::default(),
        delay: None,
        request_id: request_id(),
    };
    let started = replay.provider.start(&call(), request).await;
    assert_eq!(replay.asked(), [path], "{file}");
    match expected(answer["status"].as_u64().unwrap()) {
        None => assert_eq!(started.unwrap().id.as_str(), id, "{file}"),
        refused => assert_eq!(kind(started), refused, "{file}"),
    }
}

async fn signalled(row: Value, signal: &str, file: &str) -> Option<ErrorKind> {
    let id = ExecutionId::new(row["id"].as_str().unwrap()).unwrap();
    let replay = Replay::of(Script {
        tables: BTreeMap::from([("sys_invocation", vec![row])]),
        answer: response(file),
        ..Script::default()
    })
    .await;
    let request = SignalRequest {
        id,
        signal: signal.to_owned(),
        payload: Some(Payload::json(r#""alice""#)),
        request_id: request_id(),
    };
    let sent = replay.provider.signal(&call(), request).await;
    assert_eq!(replay.asked().len(), 1, "{file}");
    kind(sent)
}

async fn approve(file: &str) {
    let row = json!({
        "id": "inv_11pMXzRab74q0NgpdbdCSM5JqfhY25SLZP", "status": "suspended",
        "target_service_name": "Wf", "target_service_key": "order-1", "target_handler_name": "run",
    });
    assert_eq!(signalled(row, "approval", file).await, None, "{file}");
}

async fn awakeable(file: &str) {
    let row = json!({"id": "inv_18ikDxF8r8Lh4BMQNeB4xdSxLZb0styRpH", "status": "suspended"});
    let name = "sign_12weFGzMDoGDN-pFjVqF6BO2KPHbg_nOXAAAAEQ";
    let name = if file.ends_with("reject") {
        format!("{name}/reject")
    } else {
        name.to_owned()
    };
    let status = response(file)["status"].as_u64().unwrap();
    assert_eq!(
        signalled(row, &name, file).await,
        expected(status),
        "{file}"
    );
}

/// A verb of the admin API that got as far as the server, which then answered as recorded.
async fn verb(scenario: &str, asked: &str, file: &str) {
    let answer = response(file);
    let status = answer["status"].as_u64().unwrap();
    let asked = asked
        .trim_start_matches("admin_")
        .trim_start_matches("patch_");
    if scenario == "garbage_id" {
        let replay = Replay::scenario(scenario, None, answer).await;
        let id = ExecutionId::new("not-an-id").unwrap();
        let ended = replay
            .provider
            .cancel(&call(), cancel(id, CancelMode::Graceful))
            .await;
        assert_eq!(kind(ended), Some(ErrorKind::NotFound), "{file}");
        assert!(replay.asked().is_empty(), "{file}");
        return;
    }
    let path = recording(file).unwrap()["request"]["path"]
        .as_str()
        .unwrap()
        .to_owned();
    let id = path.split('/').nth(2).unwrap().to_owned();
    let row = |status: &str| json!({"id": id, "status": status});
    let done = |result: &str| json!({"id": id, "status": "completed", "completion_result": result});
    let new = answer["body"]["new_invocation_id"]
        .as_str()
        .unwrap_or_default();
    let recorded = rows(&format!("{scenario}.sys_invocation"));
    let accepted = status < 300;
    // How the row was when the verb was asked for, and how it is afterwards.
    let (before, after) = match asked {
        "cancel" | "kill" => (
            Vec::new(),
            match (accepted, scenario) {
                (true, "scheduled" | "pending_inboxed" | "vqueues_scheduled") => Vec::new(),
                (true, _) => recorded,
                (false, _) if status == 409 => vec![done("success")],
                (false, _) => Vec::new(),
            },
        ),
        "pause" => (vec![row("running")], vec![row("paused")]),
        "resume" => (vec![row("paused")], vec![row("running")]),
        "purge" => (vec![done("success")], Vec::new()),
        _ => (
            vec![done("failure")],
            vec![json!({"id": new, "status": "running"})],
        ),
    };
    let replay = Replay::of(Script {
        tables: BTreeMap::from([("sys_invocation", before)]),
        afterwards: Some(after),
        answer,
        ..Script::default()
    })
    .await;
    let (provider, call) = (&replay.provider, call());
    let execution = ExecutionId::new(&id).unwrap();
    let (id, request_id) = (execution, request_id());
    let result: Result<Option<Observation>> = match asked {
        "cancel" => provider
            .cancel(&call, cancel(id, CancelMode::Graceful))
            .await
            .map(Some),
        "kill" => provider
            .cancel(&call, cancel(id, CancelMode::Kill))
            .await
            .map(Some),
        "pause" => {
            let comment = String::new();
            let request = PauseRequest {
                id,
                comment,
                request_id,
            };
            provider.pause(&call, request).await.map(Some)
        }
        "resume" => {
            let request = ResumeRequest { id, request_id };
            provider.resume(&call, request).await.map(Some)
        }
        "purge" => {
            let request = PurgeRequest { id, request_id };
            provider.purge(&call, request).await.map(|()| None)
        }
        "restart_as_new" => {
            let (step, input) = (String::new(), None);
            let request = RetryFromRequest {
                id,
                step,
                input,
                feedback: String::new(),
                from_start: false,
                request_id,
                execution_id: None,
            };
            provider.retry_from(&call, request).await.map(Some)
        }
        other => panic!("{file}: no verb {other}"),
    };
    assert_eq!(replay.asked(), [path], "{file}");
    if let (Ok(Some(seen)), "scheduled" | "pending_inboxed", "cancel" | "kill") =
        (&result, scenario, asked)
    {
        // What had not begun is gone, and is said to have been ended.
        let word = match asked {
            "kill" => "killed",
            _ => "cancelled",
        };
        assert_eq!(seen.native.qualifiers["failure_kind"], word, "{file}");
    }
    assert_eq!(kind(result), expected(status), "{file}");
}

fn cancel(id: ExecutionId, mode: CancelMode) -> CancelRequest {
    CancelRequest {
        id,
        mode,
        compensation: CompensationChoice::AsDefined,
        comment: String::new(),
        request_id: request_id(),
    }
}

/// Any answer of the ingress, whatever it says of a service, is a sign of life.
async fn ingress_health(file: &str) {
    let replay = Replay::scenario("backing_off", None, response(file)).await;
    let health = replay.provider.health(&call()).await.unwrap();
    assert_eq!(health.detail, "");
    assert_eq!(replay.asked(), ["/restate/health"]);
}

async fn about_the_server() {
    let answer = response("meta.ingress_health");
    let replay = Replay::scenario("backing_off", None, answer).await;
    let health = replay.provider.health(&call()).await.unwrap();
    assert_eq!(health.engine_version, "1.7.12");
    let id = rows("backing_off.sys_invocation")[0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let id = ExecutionId::new(id).unwrap();
    let seen = replay
        .provider
        .get(&call(), &id, View::Basic)
        .await
        .unwrap();
    let policy = response("meta.admin_service_Lab")["body"]["retry_policy"]["max_attempts"].clone();
    assert_eq!(
        seen.retry.unwrap().max_attempts.map(Value::from),
        Some(policy)
    );
}

/// What a query was answered when there was nothing, or nothing to be had.
async fn query(file: &str) {
    let replay = Replay::of(Script {
        query: Some(response(file)),
        ..Script::default()
    })
    .await;
    let request = ListRequest {
        hints: Hints::none(),
        page_size: 10,
        cursor: None,
    };
    let listed = kind(replay.provider.list(&call(), request).await);
    let wanted = match file {
        "query.empty" => None,
        "query.unknown_column" => Some(ErrorKind::Malformed),
        "server_starting.query_500" => Some(ErrorKind::Unavailable),
        _ => Some(ErrorKind::InvalidArgument),
    };
    assert_eq!(listed, wanted, "{file}");
}

/// Restate's count of attempts starts again. Every replica shows it as Restate counts, whatever it has
/// read before.
async fn timeline(file: &str) {
    let samples = recording(file).unwrap()["samples"]
        .as_array()
        .unwrap()
        .clone();
    let replay = Replay::of(Script::default()).await;
    let id = "inv_1eTqpRCIcPDI1BlGOaA7wKfvRtG1a3vgpu";
    let mut most = 0;
    for mut sample in samples {
        sample["id"] = json!(id);
        if let Value::Object(row) = &mut sample {
            row.retain(|_, value| !value.is_null());
        }
        let status = sample["status"].as_str().unwrap().to_owned();
        replay
            .script
            .lock()
            .unwrap()
            .tables
            .insert("sys_invocation", vec![sample]);
        let id = ExecutionId::new(id).unwrap();
        let seen = replay
            .provider
            .get(&call(), &id, View::Basic)
            .await
            .unwrap();
        assert_eq!(seen.native.state, status, "{file}");
        let other = replay.replica().get(&call(), &id, View::Basic).await;
        assert_eq!(other.unwrap(), seen, "{file}");
        most = most.max(seen.retry.map_or(0, |retry| retry.attempt));
    }
    assert!(most > 1, "{file}");
}
