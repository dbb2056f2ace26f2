//! Files of older versions are opened by this one.

use std::fmt::Write as _;
use std::path::Path;

use rusqlite::Connection;
use serde_json::json;
use stateway_engine::{Config, Engine, SCHEMA_VERSION, Steer};
use stateway_model::SubState;

use crate::lab::Lab;

/// A store of version 1 with an execution that waits, one whose second step is with a worker, one
/// that went back to a step, one that has ended.
const VERSION_1: &str = include_str!("../golden/store-v1.sql");

/// A store of version 3 as commit b9878b7 wrote it, with snapshots: executions that are done, failed, rolled
/// back, cancelled, paused, escalated, running, asleep, with a child, and waiting for an approval, a signal, a
/// retry or a worker. The input of `deep` has 126 levels, which that build accepted and could not read.
const CACHES: &str = include_str!("../golden/store-v3-caches.sql");

fn store_of_caches(change: &str) -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let file = Connection::open(&path).unwrap();
    file.execute_batch(CACHES).unwrap();
    file.execute_batch(change).unwrap();
    (folder, path)
}

fn number(path: &Path, sql: &str) -> i64 {
    let file = Connection::open(path).unwrap();
    file.query_row(sql, [], |row| row.get(0)).unwrap()
}

/// A lab on the store at a time when none of its timers is due.
fn shortly_after(folder: &Path) -> Lab {
    let clock = stateway_engine::Clock::manual("2026-11-16T21:35:00Z".parse().unwrap());
    Lab::at_with(folder, |config| config.clock = clock)
}

const IDS: &[&str] = &[
    "done",
    "failed",
    "undone",
    "approval",
    "retrying",
    "escalated",
    "waiting",
    "asleep",
    "parent",
    "parent~a~1",
    "paused",
    "cancelled",
    "deep",
    "running",
    "unserved",
];

/// How many rows of the log repair something.
fn recoveries(path: &Path) -> usize {
    let file = Connection::open(path).unwrap();
    let mut query = file.prepare("SELECT lines FROM events").unwrap();
    let rows = query.query_map([], |row| row.get::<_, Vec<u8>>(0)).unwrap();
    let is_recovery = |stored: Vec<u8>| {
        let text = String::from_utf8(stateway_engine::unpack(&stored).into_owned());
        text.unwrap().contains("ExecutionRecovered")
    };
    rows.filter(|stored| is_recovery(stored.as_ref().unwrap().clone()))
        .count()
}

/// Nothing in the store contradicts a log, and nothing was repaired.
async fn assert_whole(lab: &Lab, path: &Path) {
    assert_eq!(lab.engine.survey().await.unwrap().damaged, []);
    for id in IDS {
        let found = lab.engine.verify((*id).into()).await.unwrap().findings;
        assert_eq!(found, [], "{id}");
    }
    // A snapshot or a row of the last build that this build would write differently needs a new
    // `SNAPSHOT_VERSION` or `ROW_FORM`.
    assert_eq!(recoveries(path), 0, "an upgrade repairs nothing");
}

#[tokio::test]
async fn a_store_of_the_last_build_is_opened_without_recoveries() {
    let (folder, path) = store_of_caches("");
    let lab = shortly_after(folder.path());
    assert_whole(&lab, &path).await;
    for (id, shown) in [
        ("done", SubState::Succeeded),
        ("failed", SubState::Failed),
        ("undone", SubState::Failed),
        ("approval", SubState::Waiting),
        ("retrying", SubState::BackingOff),
        ("waiting", SubState::Waiting),
        ("asleep", SubState::Waiting),
        ("parent", SubState::Waiting),
        ("deep", SubState::Waiting),
    ] {
        assert_eq!(lab.get(&id.into()).await.sub_state, shown, "{id}");
    }
}

/// A store of version 4, of the build before labels had a table and rows had summaries.
const VERSION_4: &str = include_str!("../golden/store-v4.sql");
/// What leads from version 4 to version 5.
const TO_VERSION_5: &str =
    include_str!("../../src/store/sqlite/migration/005_summaries_and_labels.sql");

async fn labelled(lab: &Lab, value: &str) -> Vec<String> {
    let query = stateway_engine::ListQuery {
        labels: vec![("tenant".to_owned(), value.to_owned())],
        limit: 10,
        ..Default::default()
    };
    let page = lab.engine.list(query).await.unwrap();
    page.items.iter().map(|view| view.id.to_string()).collect()
}

#[tokio::test]
async fn executions_of_an_older_store_are_found_by_label_and_listed_without_replays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let file = Connection::open(&path).unwrap();
    file.execute_batch(VERSION_4).unwrap();
    drop(file);
    let lab = Lab::at(folder.path());
    let newest_first = ["running", "again", "done", "waiting"];
    assert_eq!(labelled(&lab, "blue").await, newest_first);
    assert!(labelled(&lab, "red").await.is_empty());
    // The rows are renewed in the background.
    let began = std::time::Instant::now();
    loop {
        let before = lab.engine.list_replays();
        labelled(&lab, "blue").await;
        if lab.engine.list_replays() == before {
            break;
        }
        assert!(began.elapsed() < crate::lab::PATIENCE, "lists still replay");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_migration_that_was_interrupted_is_continued() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let file = Connection::open(&path).unwrap();
    file.execute_batch(VERSION_4).unwrap();
    file.execute_batch(TO_VERSION_5).unwrap();
    file.execute_batch(
        "PRAGMA user_version = 5; INSERT INTO labels VALUES ('tenant', 'blue', 1); \
         UPDATE counters SET value = 1 WHERE name = 'labels_filled';",
    )
    .unwrap();
    drop(file);
    let lab = Lab::at(folder.path());
    assert_eq!(labelled(&lab, "blue").await.len(), 4);
    drop(lab);
    let left = "SELECT count(*) FROM counters WHERE name = 'labels_filled'";
    assert_eq!(number(&path, left), 0);
}

/// The build before accepted the input and could not read its event.
#[tokio::test]
async fn an_execution_that_was_acknowledged_with_a_deep_input_continues() {
    let (folder, path) = store_of_caches("");
    let lab = shortly_after(folder.path());
    let signal = Steer::Signal {
        name: "go".into(),
        payload: std::sync::Arc::new(json!(null)),
    };
    lab.steer(&"deep".into(), signal).await.unwrap();
    let ended = lab.ended(&"deep".into()).await;
    assert_eq!(ended.sub_state, SubState::Succeeded);
    assert_whole(&lab, &path).await;
}

#[tokio::test]
async fn a_snapshot_that_this_build_cannot_read_leads_to_a_replay() {
    for change in [
        "UPDATE snapshots SET data = CAST('{\"v\":999,\"revision\":\"\"}' AS BLOB)",
        "UPDATE snapshots SET data = x'00ff'",
        "UPDATE snapshots SET data = x''",
    ] {
        let (folder, path) = store_of_caches(change);
        let lab = shortly_after(folder.path());
        assert_whole(&lab, &path).await;
        let waiting = lab.get(&"approval".into()).await;
        assert_eq!(waiting.sub_state, SubState::Waiting, "{change}");
    }
}

/// A build that adds an optional field to the snapshot writes other bytes for the same state.
#[tokio::test]
async fn a_snapshot_with_other_bytes_of_the_same_state_is_no_damage() {
    let (folder, path) = store_of_caches("");
    let file = Connection::open(&path).unwrap();
    let sql = "SELECT execution, data FROM snapshots";
    let mut query = file.prepare(sql).unwrap();
    let rows: Vec<(i64, Vec<u8>)> = query
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    for (execution, data) in rows {
        let read: serde_json::Value = serde_json::from_slice(&data).unwrap_or_default();
        let spaced = serde_json::to_vec_pretty(&read).unwrap();
        if read.is_object() {
            let sql = "UPDATE snapshots SET data = ?2 WHERE execution = ?1";
            file.execute(sql, rusqlite::params![execution, spaced])
                .unwrap();
        }
    }
    drop(query);
    drop(file);
    let lab = shortly_after(folder.path());
    assert_whole(&lab, &path).await;
}

/// A build that computes a column of the rows in another way has another form of rows.
#[tokio::test]
async fn rows_of_an_older_form_are_written_again_without_recoveries() {
    let (folder, path) = store_of_caches(
        "UPDATE executions SET form = 0, sub_state = 'running', reason = NULL WHERE ended_at IS NULL",
    );
    let lab = shortly_after(folder.path());
    let older = "SELECT count(*) FROM executions WHERE form < 1";
    let renewed = async {
        while number(&path, older) > 0 {
            lab.engine.survey().await.unwrap();
        }
    };
    let waited = tokio::time::timeout(crate::lab::PATIENCE, renewed).await;
    waited.expect("the rows are written again");
    let row = "SELECT count(*) FROM executions WHERE id = 'waiting' AND sub_state = 'waiting' \
               AND reason = 'AWAITING_INPUT'";
    assert_eq!(number(&path, row), 1);
    assert_whole(&lab, &path).await;
}

fn version_of(path: &Path) -> i64 {
    let file = Connection::open(path).unwrap();
    file.pragma_query_value(None, "user_version", |row| row.get(0))
        .unwrap()
}

#[tokio::test]
async fn a_file_of_version_1_is_taken_up_where_it_was_left() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    Connection::open(&path)
        .unwrap()
        .execute_batch(VERSION_1)
        .unwrap();
    assert_eq!(version_of(&path), 1);
    let lab = Lab::at(folder.path());
    assert!(lab.engine.survey().await.unwrap().damaged.is_empty());
    let done = lab.get(&"done".into()).await;
    assert_eq!(*done.output.unwrap(), json!({"b": {"did": "b"}}));
    for worker in ["w1", "w2"] {
        lab.worker(worker, &["x"], 4).diligent();
    }
    for id in ["running", "again"] {
        let ended = lab.ended(&id.into()).await;
        assert_eq!(ended.sub_state, SubState::Succeeded, "{id}");
        assert_eq!(ended.steps[0].sub_state, SubState::Succeeded, "{id}");
    }
    assert_eq!(lab.get(&"again".into()).await.branch, 1);
    let signal = Steer::Signal {
        name: "go".into(),
        payload: std::sync::Arc::new(json!(null)),
    };
    lab.steer(&"waiting".into(), signal).await.unwrap();
    assert_eq!(
        lab.ended(&"waiting".into()).await.sub_state,
        SubState::Succeeded
    );
    drop(lab);
    assert_eq!(version_of(&path), SCHEMA_VERSION);
}

#[tokio::test]
async fn definitions_of_a_file_of_version_1_are_deleted_and_their_triggers_disabled() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    Connection::open(&path)
        .unwrap()
        .execute_batch(VERSION_1)
        .unwrap();
    let lab = Lab::at(folder.path());
    assert!(lab.engine.disabled_triggers().await.unwrap().is_empty());
    let delete = |keep_running| stateway_engine::DeleteDefinition {
        name: "gate".into(),
        keep_running,
        request: lab.key(9),
    };
    let refused = lab.engine.delete_definition(delete(false)).await;
    assert_eq!(refused.unwrap_err().reason, "DEFINITION_IN_USE");
    let deleted = lab.engine.delete_definition(delete(true)).await.unwrap();
    assert_eq!(deleted.open_executions, 1);
    lab.apply("name: chain\ntrigger: {event: go}\nsteps: [{name: a, agent: x}]")
        .await;
    let disable = stateway_engine::SwitchTrigger {
        name: "chain".into(),
        enabled: false,
        actor: "ada".into(),
        comment: "".into(),
        request: lab.key(8),
    };
    lab.engine.switch_trigger(disable).await.unwrap();
    drop(lab);
    let lab = Lab::at(folder.path());
    let disabled = lab.engine.disabled_triggers().await.unwrap();
    assert_eq!(&*disabled["chain"].by, "ada");
    let waiting = lab.get(&"waiting".into()).await;
    assert_eq!(waiting.sub_state, SubState::Waiting);
}

#[tokio::test]
async fn opening_a_file_twice_changes_nothing_more() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let schema = || {
        let file = Connection::open(&path).unwrap();
        schema_of(&file)
    };
    drop(Engine::open(&Config::new(&path)).unwrap());
    let first = schema();
    drop(Engine::open(&Config::new(&path)).unwrap());
    assert_eq!(schema(), first);
}

/// Writes the golden file of the present version. Run once, when a version is released:
/// `cargo test -p stateway-engine --test engine -- --ignored golden_of_this_version`.
#[tokio::test]
#[ignore = "writes a golden file, once per version"]
async fn golden_of_this_version() {
    let lab = Lab::new();
    lab.apply("name: chain\nsteps: [{name: a, agent: x}, {name: b, agent: x, dependsOn: [a]}]")
        .await;
    lab.apply("name: gate\nsteps: [{name: a, signal: go}]")
        .await;
    let start = async |definition: &str, id: &str| {
        let mut start = lab.start_of(definition, json!({"n": 1}));
        start.id = Some(id.into());
        start.labels.insert("tenant".into(), "blue".into());
        lab.engine.start(start).await.unwrap();
    };
    start("gate", "waiting").await;
    start("chain", "done").await;
    let mut worker = lab.worker("w1", &["x"], 1);
    for step in ["a", "b"] {
        let task = worker.task().await;
        worker.done(&task, json!({ "did": step }));
    }
    lab.ended(&"done".into()).await;
    start("chain", "again").await;
    let task = worker.task().await;
    worker.done(&task, json!({"did": "a"}));
    let task = worker.task().await;
    worker.failed(&task, stateway_model::ErrorCategory::AgentError);
    lab.ended(&"again".into()).await;
    let from = stateway_engine::RetryFrom {
        step: "".into(),
        ..stateway_engine::RetryFrom::default()
    };
    let key = lab.key(3);
    lab.engine
        .retry_from("again".into(), from, "ada".into(), key)
        .await
        .unwrap();
    let task = worker.task().await;
    assert_eq!((&*task.execution, &*task.task.step), ("again", "b"));
    let mut other = lab.worker("w2", &["x"], 1);
    start("chain", "running").await;
    let task = other.task().await;
    other.done(&task, json!({"did": "a"}));
    let task = other.task().await;
    assert_eq!(&*task.task.step, "b");
    let path = lab.config.path.clone();
    let _folder = lab.folder;
    drop((lab.engine, worker, other));
    let golden = dump(&Connection::open(&path).unwrap());
    let name = format!("tests/golden/store-v{SCHEMA_VERSION}.sql");
    let to = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    std::fs::create_dir_all(to.parent().unwrap()).unwrap();
    std::fs::write(to, golden).unwrap();
}

/// Writes the golden file of a store that holds an execution of every sort, with snapshots: the
/// caches of one build, kept for the builds after it. Run once per build that is kept:
/// `cargo test -p stateway-engine --test engine -- --ignored golden_of_the_caches`.
#[tokio::test]
#[ignore = "writes a golden file, once per build that is kept"]
async fn golden_of_the_caches() {
    let lab = Lab::with(|config| config.snapshot_events = 2);
    for source in [
        "name: chain\nsteps: [{name: a, agent: x}, {name: b, agent: x, dependsOn: [a]}]",
        "name: gate\nsteps: [{name: a, signal: go}]",
        "name: nap\nsteps: [{name: a, sleep: 1h}]",
        "name: ask\nsteps: [{name: a, agent: x}, {name: b, approval: {role: lead}, dependsOn: [a]}]",
        "name: retry\nsteps: [{name: a, agent: x, retryPolicy: {maxRetries: 5, initialDelay: 1h}}]",
        "name: escalate\nsteps: [{name: a, agent: x, onFailure: escalate}]",
        "name: outer\nsteps: [{name: a, workflow: gate}]",
        "name: undo\nfailurePolicy: compensate\n\
         steps: [{name: a, agent: x}, {name: b, agent: x, dependsOn: [a]}]\n\
         compensation: [{step: a, action: back, agent: x}]",
    ] {
        lab.apply(source).await;
    }
    let start = async |definition: &str, id: &str, input: serde_json::Value| {
        let mut start = lab.start_of(definition, input);
        start.id = Some(id.into());
        start.labels.insert("tenant".into(), "blue".into());
        lab.engine.start(start).await.unwrap();
    };
    let mut worker = lab.worker("w1", &["x"], 1);
    let mut answer = async |step: &str, fail: bool| {
        let task = worker.task().await;
        assert_eq!(&*task.task.step, step);
        if fail {
            worker.failed(&task, stateway_model::ErrorCategory::AgentError);
        } else {
            worker.done(&task, json!({ "did": step }));
        }
    };
    start("chain", "done", json!({"n": 1})).await;
    answer("a", false).await;
    answer("b", false).await;
    lab.ended(&"done".into()).await;
    start("chain", "failed", json!({"n": 1})).await;
    answer("a", true).await;
    lab.ended(&"failed".into()).await;
    start("undo", "undone", json!({"n": 1})).await;
    answer("a", false).await;
    answer("b", true).await;
    answer("a", false).await;
    lab.ended(&"undone".into()).await;
    start("ask", "approval", json!({"n": 1})).await;
    answer("a", false).await;
    start("retry", "retrying", json!({"n": 1})).await;
    answer("a", true).await;
    start("escalate", "escalated", json!({"n": 1})).await;
    answer("a", true).await;
    start("gate", "waiting", json!({"n": 1})).await;
    start("nap", "asleep", json!({"n": 1})).await;
    start("outer", "parent", json!({"n": 1})).await;
    start("gate", "paused", json!({"n": 1})).await;
    let pause = Steer::Pause { cause: "".into() };
    lab.steer(&"paused".into(), pause).await.unwrap();
    start("gate", "cancelled", json!({"n": 1})).await;
    let cancel = Steer::Cancel {
        mode: stateway_machine::CancelMode::Kill,
        cause: "".into(),
    };
    lab.steer(&"cancelled".into(), cancel).await.unwrap();
    // This build accepts it and cannot read it again.
    let deep = "[".repeat(126) + &"]".repeat(126);
    start("gate", "deep", serde_json::from_str(&deep).unwrap()).await;
    start("chain", "running", json!({"n": 1})).await;
    answer("a", false).await;
    let task = worker.task().await;
    assert_eq!((&*task.execution, &*task.task.step), ("running", "b"));
    start("chain", "unserved", json!({"n": 1})).await;
    let path = lab.config.path.clone();
    let _folder = lab.folder;
    drop((lab.engine, worker));
    let golden = dump(&Connection::open(&path).unwrap());
    let to = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/store-v3-caches.sql");
    std::fs::write(to, golden).unwrap();
}

fn schema_of(file: &Connection) -> Vec<String> {
    let sql = "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY type DESC, name";
    let mut query = file.prepare(sql).unwrap();
    let rows = query.query_map([], |row| row.get(0)).unwrap();
    rows.map(Result::unwrap).collect()
}

/// A store as SQL text.
fn dump(file: &Connection) -> String {
    let mut text = String::new();
    for statement in schema_of(file) {
        writeln!(text, "{statement};").unwrap();
    }
    let tables = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name";
    let mut query = file.prepare(tables).unwrap();
    let tables: Vec<String> = query
        .query_map([], |row| row.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    for table in tables {
        let mut query = file.prepare(&format!("SELECT * FROM {table}")).unwrap();
        let columns: Vec<String> = query
            .column_names()
            .map(|name| format!("quote({name})"))
            .collect();
        query = file
            .prepare(&format!(
                "SELECT {} FROM {table}",
                columns.join(" || ', ' || ")
            ))
            .unwrap();
        let rows = query.query_map([], |row| row.get::<_, String>(0)).unwrap();
        for row in rows {
            writeln!(text, "INSERT INTO {table} VALUES ({});", row.unwrap()).unwrap();
        }
    }
    for pragma in ["application_id", "user_version"] {
        let value: i64 = file
            .pragma_query_value(None, pragma, |row| row.get(0))
            .unwrap();
        writeln!(text, "PRAGMA {pragma} = {value};").unwrap();
    }
    text
}

#[tokio::test]
async fn one_row_that_cannot_be_read_hides_no_execution_behind_it() {
    let lab = Lab::new();
    lab.apply("name: one\nsteps: [{name: a, agent: x}]").await;
    let mut starts = tokio::task::JoinSet::new();
    for _ in 0..1_005 {
        let (engine, start) = (lab.engine.clone(), lab.start_of("one", json!(null)));
        starts.spawn(async move { engine.start(start).await.unwrap() });
    }
    starts.join_all().await;
    let path = lab.config.path.clone();
    let lab = lab.restart_after(|| {
        let file = Connection::open(path).unwrap();
        let broken = "UPDATE executions SET state = 'garbage' WHERE number = 500";
        assert_eq!(file.execute(broken, []).unwrap(), 1);
    });
    let mut worker = lab.worker("w1", &["x"], 2_000);
    for _ in 0..1_004 {
        let task = worker.task().await;
        assert_ne!(task.token.to_string().split('.').next(), Some("500"));
    }
}

#[tokio::test]
async fn a_snapshot_that_contradicts_its_log_leads_to_a_replay() {
    for change in [
        "UPDATE snapshots SET hash = zeroblob(16)",
        "UPDATE snapshots SET sequence = sequence - 1",
        "UPDATE snapshots SET revision = 'gone'",
    ] {
        let lab = Lab::with(|config| config.snapshot_events = 3);
        lab.apply("name: two\nsteps: [{name: a, signal: go}, {name: b, signal: go}]")
            .await;
        let id = lab.start("two", json!(null)).await.id;
        let path = lab.config.path.clone();
        let lab = lab.restart_after(|| {
            let file = Connection::open(path).unwrap();
            assert_eq!(file.execute(change, []).unwrap(), 1, "{change}");
        });
        for _ in 0..2 {
            let go = Steer::Signal {
                name: "go".into(),
                payload: Default::default(),
            };
            lab.steer(&id, go).await.unwrap();
        }
        let view = lab.ended(&id).await;
        assert_eq!(view.sub_state, SubState::Succeeded, "{change}");
    }
}
