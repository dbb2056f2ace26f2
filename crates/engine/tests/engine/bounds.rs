//! Bounded work: a definition that starts itself, trees that end, executions that cannot be loaded, and the
//! bytes in memory.

use std::sync::Arc;

use rusqlite::Connection;
use serde_json::json;
use stateway_engine::{Config, Engine, ListQuery, Steer};
use stateway_machine::CancelMode;
use stateway_model::{Reason, SubState};

use crate::lab::{Lab, PATIENCE};

/// Starts itself eight times.
fn bomb() -> String {
    let steps: Vec<String> = (0..8)
        .map(|step| format!("{{name: s{step}, workflow: bomb}}"))
        .collect();
    format!("name: bomb\nsteps: [{}]", steps.join(", "))
}

/// The same, with a step that waits in every execution, so that nothing ends by itself.
fn patient_bomb() -> String {
    bomb()
        .replace("steps: [", "steps: [{name: w, signal: never}, ")
        .replace("workflow: bomb}", "workflow: bomb, onFailure: skip}")
}

fn count(lab: &Lab, sql: &str) -> i64 {
    let file = Connection::open(&lab.config.path).unwrap();
    file.query_row(sql, [], |row| row.get(0)).unwrap()
}

const ALL: &str = "SELECT count(*) FROM executions";
const OPEN: &str = "SELECT count(*) FROM executions WHERE ended_at IS NULL";

async fn until_count(lab: &Lab, sql: &str, wanted: i64) {
    let mut committed = lab.engine.committed();
    let look = async {
        while count(lab, sql) != wanted {
            committed.changed().await.unwrap();
        }
    };
    let waited = tokio::time::timeout(3 * PATIENCE, look).await;
    assert!(
        waited.is_ok(),
        "{sql}: {} instead of {wanted}",
        count(lab, sql)
    );
}

#[tokio::test]
async fn a_definition_that_starts_itself_fails_at_the_limit_of_its_tree() {
    let lab = Lab::with(|config| config.max_tree = 200);
    lab.apply(&bomb()).await;
    let id = lab.start("bomb", json!(null)).await.id;
    let ended = lab.ended(&id).await;
    assert_eq!(ended.sub_state, SubState::Failed);
    let message = ended.last_error.unwrap().message;
    assert!(message.contains("`max_tree` allows 200"), "{message}");
    assert!(message.contains("may start itself"), "{message}");
    until_count(&lab, OPEN, 0).await;
    assert_eq!(count(&lab, ALL), 200);
}

#[tokio::test]
async fn the_limit_of_a_tree_holds_after_a_restart() {
    let lab = Lab::with(|config| config.max_tree = 20);
    lab.apply("name: leaf\nsteps: [{name: a, signal: go}]")
        .await;
    let steps: Vec<String> = (0..18)
        .map(|step| format!("{{name: s{step}, workflow: leaf}}"))
        .collect();
    let last = "{name: g, signal: more}, {name: x, workflow: leaf, dependsOn: [g]}, \
                {name: y, workflow: leaf, dependsOn: [g], onFailure: skip}";
    lab.apply(&format!(
        "name: root\nsteps: [{}, {last}]",
        steps.join(", ")
    ))
    .await;
    let id = lab.start("root", json!(null)).await.id;
    until_count(&lab, ALL, 19).await;
    let lab = lab.restart();
    let signal = Steer::Signal {
        name: "more".into(),
        payload: Arc::new(json!(null)),
    };
    lab.steer(&id, signal).await.unwrap();
    until_count(&lab, ALL, 20).await;
    let view = lab.get(&id).await;
    let skipped = view.steps.iter().find(|step| step.name == "y").unwrap();
    assert_eq!(skipped.reason, Some(Reason::Skipped));
}

#[tokio::test]
async fn killing_a_large_tree_ends_all_of_it_over_several_turns() {
    let lab = Lab::with(|config| config.max_tree = 4_000);
    lab.apply(&patient_bomb()).await;
    let id = lab.start("bomb", json!(null)).await.id;
    until_count(&lab, ALL, 4_000).await;
    let kill = Steer::Cancel {
        mode: CancelMode::Kill,
        cause: "".into(),
    };
    let killed = lab.steer(&id, kill).await.unwrap();
    assert_eq!(killed.reason, Some(Reason::Killed));
    // Not in the turn of the answer: other clients are served in between.
    assert!(count(&lab, OPEN) > 0);
    until_count(&lab, OPEN, 0).await;
    assert_eq!(count(&lab, ALL), 4_000);
}

#[tokio::test]
async fn a_tree_whose_end_a_crash_cut_short_is_ended_after_the_restart() {
    let lab = Lab::new();
    lab.apply("name: leaf\nsteps: [{name: a, signal: go}]")
        .await;
    lab.apply("name: mid\nsteps: [{name: a, workflow: leaf}]")
        .await;
    lab.apply("name: top\nsteps: [{name: a, workflow: mid}]")
        .await;
    let id = lab.start("top", json!(null)).await.id;
    let child: Arc<str> = format!("{id}~a~1").into();
    let leaf: Arc<str> = format!("{child}~a~1").into();
    let before = tempfile::tempdir().unwrap();
    lab.engine
        .backup(before.path().join("copy.db"))
        .await
        .unwrap();
    let kill = Steer::Cancel {
        mode: CancelMode::Kill,
        cause: "".into(),
    };
    lab.steer(&id, kill).await.unwrap();
    // A process that wrote the end of the first execution and was killed before the next turn: the rows and the
    // events of the other two are as they were before.
    let lab = lab.crash_with(|folder| {
        let file = Connection::open(folder.join("store.db")).unwrap();
        let copy = before.path().join("copy.db");
        let copy = copy.to_str().unwrap();
        file.execute_batch(&format!(
            "ATTACH '{copy}' AS before;
             DELETE FROM events WHERE execution > 1;
             INSERT INTO events SELECT * FROM before.events WHERE execution > 1;
             DELETE FROM executions WHERE number > 1;
             INSERT INTO executions SELECT * FROM before.executions WHERE number > 1;"
        ))
        .unwrap();
    });
    for id in [child, leaf] {
        assert_eq!(lab.ended(&id).await.reason, Some(Reason::Killed), "{id}");
    }
}

#[tokio::test]
async fn queued_executions_are_queued_again_without_being_loaded() {
    let lab = Lab::with(|config| config.max_active = 1);
    lab.apply("name: work\nsteps: [{name: a, agent: x}]").await;
    let mut ids = Vec::new();
    for _ in 0..2_500 {
        ids.push(lab.start("work", json!(null)).await.id);
    }
    let lab = lab.restart();
    let survey = lab.engine.survey().await.unwrap();
    assert_eq!(survey.damaged, []);
    let _worker = lab.worker("w", &["x"], 10).diligent();
    for id in ids {
        assert_eq!(lab.ended(&id).await.sub_state, SubState::Succeeded);
    }
}

#[tokio::test]
async fn a_worker_that_connects_while_executions_are_taken_up_gets_its_tasks_and_may_answer() {
    let lab = Lab::new();
    lab.apply("name: work\nsteps: [{name: a, agent: x}]").await;
    let mut worker = lab.worker("w", &["x"], 10_000);
    let mut ids = Vec::new();
    let mut tasks = Vec::new();
    for _ in 0..2_500 {
        ids.push(lab.start("work", json!(null)).await.id);
        tasks.push(worker.task().await);
    }
    drop(worker);
    let lab = lab.restart();
    let worker = lab.worker("w", &["x"], 10_000);
    // The last ones first: they are not taken up yet.
    for task in tasks.iter().rev() {
        worker.done(task, json!("done"));
    }
    for id in ids {
        assert_eq!(*lab.ended(&id).await.output.unwrap(), json!({"a": "done"}));
    }
}

#[tokio::test]
async fn executions_that_cannot_be_loaded_do_not_hide_those_behind_them() {
    let (lab, clock) = Lab::by_hand();
    lab.apply("name: nap\nsteps: [{name: a, sleep: 1h}]").await;
    let mut ids = Vec::new();
    for _ in 0..1_100 {
        ids.push(lab.start("nap", json!(null)).await.id);
    }
    crate::time::pass(&lab, &clock, 1_000).await;
    let last = lab.start("nap", json!(null)).await.id;
    let lab = lab.restart_after(|| {});
    let file = Connection::open(&lab.config.path).unwrap();
    file.execute_batch("UPDATE events SET lines = x'00' WHERE execution <= 1100")
        .unwrap();
    crate::time::pass(&lab, &clock, 2 * 3_600_000).await;
    assert_eq!(lab.ended(&last).await.sub_state, SubState::Succeeded);
}

#[tokio::test]
async fn executions_stay_queued_while_memory_is_full() {
    let lab = Lab::with(|config| config.max_memory_bytes = 3 * 1024 * 1024);
    lab.apply("name: work\nsteps: [{name: a, agent: x}]").await;
    let input = json!("x".repeat(1_000_000));
    let mut ids = Vec::new();
    for _ in 0..8 {
        ids.push(lab.start("work", input.clone()).await.id);
    }
    let survey = lab.engine.survey().await.unwrap();
    assert_eq!(survey.active, 4);
    assert!(survey.memory_bytes >= survey.max_memory_bytes);
    assert!(survey.memory_full);
    assert_eq!(survey.queued[0].waiting, 4);
    let _worker = lab.worker("w", &["x"], 1).diligent();
    for id in &ids {
        assert_eq!(lab.ended(id).await.sub_state, SubState::Succeeded);
    }
    // The last execution leaves memory in the turn after the one that ended it.
    lab.until_survey(|survey| !survey.memory_full && survey.memory_bytes < 1_000_000)
        .await;
}

#[tokio::test]
async fn a_store_with_many_open_executions_opens_and_answers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let lab = Lab::at_with(folder.path(), |config| config.max_tree = 3_000);
    lab.apply(&patient_bomb()).await;
    let id = lab.start("bomb", json!(null)).await.id;
    until_count(&lab, ALL, 3_000).await;
    drop(lab);
    let engine = Engine::open(&Config::new(path)).unwrap();
    assert_eq!(engine.get(id).await.unwrap().sub_state, SubState::Waiting);
    let page = engine
        .list(ListQuery {
            limit: 10,
            ..ListQuery::default()
        })
        .await
        .unwrap();
    assert!(!page.items.is_empty());
}

/// A torn write left the row of an execution that had begun, and none of its events.
#[tokio::test]
async fn a_row_without_events_does_not_use_up_the_concurrency_of_its_definition() {
    let lab = Lab::new();
    lab.apply("name: single\nconcurrency: 1\nsteps: [{name: a, signal: go}]")
        .await;
    lab.start("single", json!(null)).await;
    let lab = lab.crash_with(|folder| {
        let file = Connection::open(folder.join("store.db")).unwrap();
        file.execute_batch("DELETE FROM events").unwrap();
    });
    let next = lab.start("single", json!(null)).await;
    assert_eq!(next.reason, Some(Reason::AwaitingInput));
}

/// The gateway refuses a name that exists; the engine does not follow a link either.
#[cfg(unix)]
#[tokio::test]
async fn a_backup_follows_no_link() {
    let lab = Lab::new();
    let folder = tempfile::tempdir().unwrap();
    let (outside, link) = (
        folder.path().join("outside.db"),
        folder.path().join("monday.db"),
    );
    std::os::unix::fs::symlink(&outside, &link).unwrap();
    let refused = lab.engine.backup(link.clone()).await.unwrap_err();
    assert_eq!(refused.reason, "BACKUP_NOT_WRITTEN");
    assert!(!outside.exists() && link.is_symlink());
}

#[cfg(unix)]
#[tokio::test]
async fn only_the_owner_can_read_the_store_and_its_backups() {
    use std::os::unix::fs::PermissionsExt as _;
    let lab = Lab::new();
    lab.apply("name: single\nsteps: [{name: a, signal: go}]")
        .await;
    lab.start("single", json!(null)).await;
    let folder = lab.folder.path();
    let backup = folder.join("monday.db");
    lab.engine.backup(backup).await.unwrap();
    for name in ["store.db", "store.db-wal", "monday.db"] {
        let mode = std::fs::metadata(folder.join(name))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}
