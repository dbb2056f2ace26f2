//! What is wrong with a log itself, its definition, its snapshot, its children and requests.

use rusqlite::Connection;
use stateway_engine::recovery::Remedy;
use stateway_model::SubState;

use super::*;
use crate::lab::replace_in_log;

const TWO: &str = "
name: two
steps:
  - {name: a, agent: x, timeout: 1h}
  - {name: b, agent: x, dependsOn: [a], timeout: 1h}
";

fn edit(path: &std::path::Path, sql: &str) {
    let file = Connection::open(path).unwrap();
    assert!(file.execute(sql, []).unwrap() > 0, "{sql}");
}

/// What an execution's log is, byte by byte.
fn rows(path: &std::path::Path) -> Vec<(i64, Vec<u8>, Vec<u8>)> {
    let file = Connection::open(path).unwrap();
    let mut query = file
        .prepare("SELECT position, hash, lines FROM events ORDER BY position")
        .unwrap();
    let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
    rows.unwrap().map(Result::unwrap).collect()
}

#[tokio::test]
async fn l1_the_end_is_lost_and_the_work_is_done_again_as_a_branch() {
    let ((lab, trap), deeds) = (lab(|_| {}), Deeds::default());
    lab.apply(TWO).await;
    let mut worker = lab.worker("w", &["x"], 1);
    let id = lab.start("two", json!(1)).await.id;
    let task = worker.task().await;
    worker.done(&task, json!("a"));
    let task = worker.task().await;
    trap.set(Write::Events, Fate::Lost);
    worker.done(&task, json!("b"));
    while !matches!(worker.message().await, WorkerMessage::Accepted { .. }) {}
    assert!(trap.sprung());
    drop(worker);

    let lab = die(lab, Code::L1);
    // Work would be done again, so nobody decides that but an operator.
    assert!(audit(&lab, &id).await.is_empty());
    let damaged = lab.engine.survey().await.unwrap().damaged;
    assert!(damaged.iter().any(|one| one.id == id), "{damaged:?}");
    let verdict = lab.engine.verify(id.clone()).await.unwrap();
    assert_eq!(codes(&verdict.findings), [Code::L1]);
    let again: Vec<Arc<str>> = vec!["b".into()];
    let cutoff = verdict.sequence;
    assert_eq!(
        verdict.remedy,
        Remedy::Branch {
            cutoff,
            again: again.clone()
        }
    );

    let before = rows(&lab.config.path);
    let recovered = recover(&lab, &id).await.unwrap();
    assert_eq!((recovered.branched, recovered.again), (true, again));
    deeds.worker(&lab, "w");
    let ended = lab.ended(&id).await;
    assert_eq!((ended.sub_state, ended.branch), (SubState::Succeeded, 1));
    assert_eq!((deeds.of("a"), deeds.of("b")), (0, 1), "only what was lost");
    assert_eq!(audit(&lab, &id).await[0].3, cutoff);
    all_is_well(&lab).await;
    assert_eq!(
        rows(&lab.config.path)[..before.len()],
        before,
        "nothing is removed"
    );
}

#[tokio::test]
async fn h1_a_changed_event_is_found_and_left_behind() {
    let ((lab, _), deeds) = (lab(|_| {}), Deeds::default());
    lab.apply(TWO).await;
    let mut worker = lab.worker("w", &["x"], 1);
    let id = lab.start("two", json!(1)).await.id;
    let task = worker.task().await;
    worker.done(&task, json!("seventeen"));
    worker.task().await;
    drop(worker);
    let path = lab.config.path.clone();
    let lab = lab.restart_after(|| {
        replace_in_log(&path, 0, ("seventeen", "eighteen!"));
    });
    let verdict = lab.engine.verify(id.clone()).await.unwrap();
    let broken = &verdict.findings[0];
    assert_eq!(broken.code, Code::H1);
    assert!(broken.evidence[0].contains("position "), "{broken:?}");
    let refused = lab.engine.get(id.clone()).await.unwrap_err();
    assert_eq!(refused.reason, "STORE_DAMAGED");

    let recovered = recover(&lab, &id).await.unwrap();
    assert!(recovered.branched);
    assert_eq!(recovered.again, ["a".into(), "b".into()] as [Arc<str>; 2]);
    deeds.worker(&lab, "w");
    assert_eq!(lab.ended(&id).await.sub_state, SubState::Succeeded);
    assert_eq!((deeds.of("a"), deeds.of("b")), (1, 1));
    all_is_well(&lab).await;
}

#[tokio::test]
async fn h2_lost_events_in_the_middle_are_found() {
    let (lab, trap) = lab(|_| {});
    lab.apply(TWO).await;
    let mut worker = lab.worker("w", &["x"], 1);
    let id = lab.start("two", json!(1)).await.id;
    let task = worker.task().await;
    trap.set(Write::Events, Fate::Lost);
    worker.done(&task, json!("a"));
    let task = worker.task().await;
    assert!(trap.sprung());
    // The end of the log is lost, and memory knows better.
    let verdict = lab.engine.verify(id.clone()).await.unwrap();
    assert_eq!(codes(&verdict.findings), [Code::L1], "{verdict:#?}");
    let pause = stateway_engine::Steer::Pause {
        cause: "look".into(),
    };
    lab.steer(&id, pause).await.unwrap();
    let verdict = lab.engine.verify(id.clone()).await.unwrap();
    assert!(codes(&verdict.findings).contains(&Code::H2), "{verdict:#?}");
    assert!(
        matches!(verdict.remedy, Remedy::Branch { .. }),
        "{verdict:#?}"
    );
    drop((worker, task));

    let (deeds, recovered) = (Deeds::default(), recover(&lab, &id).await.unwrap());
    assert_eq!(recovered.again, ["a".into(), "b".into()] as [Arc<str>; 2]);
    deeds.worker(&lab, "w2");
    assert_eq!(lab.ended(&id).await.sub_state, SubState::Succeeded);
    assert_eq!((deeds.of("a"), deeds.of("b")), (1, 1));
    all_is_well(&lab).await;
}

#[tokio::test]
async fn e2_a_lost_definition_is_refused_until_it_is_there_again() {
    let ((lab, trap), deeds) = (lab(|_| {}), Deeds::default());
    trap.set(Write::Definition, Fate::Lost);
    lab.apply(TWO).await;
    assert!(trap.sprung());
    let id = lab.start("two", json!(1)).await.id;
    let lab = die(lab, Code::E2);
    let verdict = lab.engine.verify(id.clone()).await.unwrap();
    assert!(
        matches!(verdict.remedy, Remedy::Refused { .. }),
        "{verdict:?}"
    );
    let refused = recover(&lab, &id).await.unwrap_err();
    assert_eq!(refused.reason, "NOT_RECOVERABLE");
    assert!(
        refused
            .hint
            .contains("Apply that revision of the definition again"),
        "{refused:?}"
    );

    lab.apply(TWO).await;
    let recovered = recover(&lab, &id).await.unwrap();
    assert!(!recovered.branched);
    assert!(audit(&lab, &id).await[0].0.starts_with("E2: "));
    deeds.worker(&lab, "w");
    assert_eq!(lab.ended(&id).await.sub_state, SubState::Succeeded);
    assert_eq!((deeds.of("a"), deeds.of("b")), (1, 1));
    all_is_well(&lab).await;
}

#[tokio::test]
async fn e2_definitions_from_an_older_backup_are_noticed() {
    let ((lab, _), deeds) = (lab(|_| {}), Deeds::default());
    lab.apply("name: two\nsteps: [{name: z, agent: x, timeout: 1h}]")
        .await;
    let backup = lab.folder.path().join("backup.db");
    lab.engine.backup(backup.clone()).await.unwrap();
    lab.apply(TWO).await;
    let id = lab.start("two", json!(1)).await.id;
    let path = lab.config.path.clone();
    let lab = lab.restart_after(|| {
        let file = Connection::open(&path).unwrap();
        let backup = backup.to_string_lossy();
        file.execute("ATTACH ?1 AS old", [backup.as_ref()]).unwrap();
        let restore =
            "DELETE FROM definitions; INSERT INTO definitions SELECT * FROM old.definitions";
        file.execute_batch(restore).unwrap();
    });
    let verdict = lab.engine.verify(id.clone()).await.unwrap();
    assert_eq!(verdict.findings[0].code, Code::E2);
    assert_eq!(
        recover(&lab, &id).await.unwrap_err().reason,
        "NOT_RECOVERABLE"
    );
    lab.apply(TWO).await;
    recover(&lab, &id).await.unwrap();
    deeds.worker(&lab, "w");
    assert_eq!(lab.ended(&id).await.sub_state, SubState::Succeeded);
    assert_eq!((deeds.of("a"), deeds.of("b"), deeds.of("z")), (1, 1, 0));
}

#[tokio::test]
async fn e2_a_row_with_an_unknown_revision_falls_back_to_the_first_of_the_log() {
    let ((lab, _), deeds) = (lab(|_| {}), Deeds::default());
    lab.apply(TWO).await;
    let id = lab.start("two", json!(1)).await.id;
    let path = lab.config.path.clone();
    let lab = lab.restart_after(|| edit(&path, "UPDATE executions SET revision = 'gone'"));
    let audit = audit(&lab, &id).await;
    assert!(audit[0].0.starts_with("E2: "), "{audit:?}");
    deeds.worker(&lab, "w");
    assert_eq!(lab.ended(&id).await.sub_state, SubState::Succeeded);
    assert_eq!((deeds.of("a"), deeds.of("b")), (1, 1));
    let lab = lab.restart();
    all_is_well(&lab).await;
}

#[tokio::test]
async fn p1_a_parent_that_was_not_told_of_its_child() {
    let ((lab, trap), deeds) = (lab(|_| {}), Deeds::default());
    lab.apply("name: child\nsteps: [{name: a, agent: x, timeout: 1h}]")
        .await;
    lab.apply("name: parent\nsteps: [{name: run, workflow: child}]")
        .await;
    let mut worker = lab.worker("w", &["x"], 1);
    let id = lab.start("parent", json!(1)).await.id;
    let task = worker.task().await;
    // The child's end is on disk, the parent's news of it is not.
    trap.set_after(1, Write::Events, Fate::Lost);
    trap.set_after(1, Write::Status, Fate::Lost);
    worker.done(&task, json!("done"));
    while !matches!(worker.message().await, WorkerMessage::Accepted { .. }) {}
    assert!(trap.sprung());
    drop(worker);
    let lab = die(lab, Code::P1);
    deeds.worker(&lab, "w");
    assert_eq!(lab.ended(&id).await.sub_state, SubState::Succeeded);
    assert_eq!(deeds.of("a"), 0);
    all_is_well(&lab).await;
}

#[tokio::test]
async fn s2_a_snapshot_that_misleads_is_replaced() {
    let change = |config: &mut Config| config.snapshot_events = 4;
    let ((lab, _), deeds) = (lab(change), Deeds::default());
    lab.apply(GATED).await;
    let worker = deeds.worker(&lab, "w");
    let id = lab.start("gated", json!(1)).await.id;
    lab.until(&id, |view| view.sub_state == SubState::Waiting)
        .await;
    worker.abort();
    let path = lab.config.path.clone();
    let lab = lab.restart_after(|| {
        let sql =
            "UPDATE snapshots SET data = CAST(replace(CAST(data AS TEXT), 'ada', 'eve') AS BLOB)";
        edit(&path, sql);
    });
    // It was put right when the engine opened.
    assert!(audit(&lab, &id).await[0].0.starts_with("S2: "));
    assert_eq!(&*lab.get(&id).await.initiator, "ada");
    all_is_well(&lab).await;
}

#[tokio::test]
async fn r1_a_lost_request_cannot_start_a_second_execution() {
    let (lab, trap) = lab(|_| {});
    lab.apply(TWO).await;
    trap.set(Write::Request, Fate::Torn);
    let mut start = lab.start_of("two", json!(1));
    start.request.body = [1; 16];
    assert!(lab.engine.start(start.clone()).await.is_err());
    let lab = lab.restart();
    let first = lab.engine.start(start).await.unwrap();
    assert!(audit(&lab, &first.id).await[0].0.starts_with("R1: "));
    assert_eq!(lab.engine.total().await.unwrap(), 1);
    all_is_well(&lab).await;
}

#[tokio::test]
async fn r1_a_lost_request_is_not_carried_out_twice() {
    let (lab, trap) = lab(|_| {});
    lab.apply("name: gate\nsteps: [{name: a, signal: go, timeout: 1h}, {name: b, signal: go, timeout: 1h}]")
        .await;
    let id = lab.start("gate", json!(1)).await.id;
    lab.until(&id, |view| view.sub_state == SubState::Waiting)
        .await;
    let signal = || stateway_engine::Steer::Signal {
        name: "go".into(),
        payload: Arc::new(json!("once")),
    };
    let request = lab.key(7);
    let send = async |lab: &Lab| {
        let (id, request) = (id.clone(), request.clone());
        lab.engine.steer(id, signal(), "ada".into(), request).await
    };
    trap.set(Write::Request, Fate::Torn);
    assert!(send(&lab).await.is_err());
    let lab = lab.restart();
    assert!(audit(&lab, &id).await[0].0.starts_with("R1: "));
    send(&lab).await.unwrap();
    let history = lab.engine.history(id.clone(), 0, 1_000).await.unwrap();
    let names = history.iter().map(|record| record.event.fact.name());
    assert_eq!(names.filter(|name| *name == "SignalReceived").count(), 1);
    all_is_well(&lab).await;
}

#[tokio::test]
async fn t1_a_timer_that_would_not_ring_is_set() {
    let ((lab, _), _) = (lab(|_| {}), ());
    lab.apply("name: nap\nsteps: [{name: a, sleep: 1h}]").await;
    let id = lab.start("nap", json!(1)).await.id;
    lab.until(&id, |view| view.sub_state == SubState::Waiting)
        .await;
    let path = lab.config.path.clone();
    let lab = lab.restart_after(|| edit(&path, "UPDATE executions SET wake_at = NULL"));
    assert!(audit(&lab, &id).await[0].0.starts_with("T1: "));
    all_is_well(&lab).await;
}

#[tokio::test]
async fn a_row_without_a_log_hides_nothing_and_can_be_removed() {
    let (lab, trap) = lab(|_| {});
    lab.apply(TWO).await;
    let whole = lab.start("two", json!(1)).await.id;
    for id in ["first", "second"] {
        trap.set(Write::Events, Fate::Lost);
        let mut start = lab.start_of("two", json!(1));
        start.id = Some(id.into());
        lab.engine.start(start).await.unwrap();
    }
    let lab = die(lab, Code::H2);
    let query = stateway_engine::ListQuery {
        limit: 9,
        ..Default::default()
    };
    let shown = lab.engine.list(query).await.unwrap().items;
    let shown: Vec<_> = shown
        .iter()
        .map(|view| (&*view.id, view.sub_state))
        .collect();
    let error = SubState::Error;
    assert_eq!(
        shown,
        [
            ("second", error),
            ("first", error),
            (&*whole, SubState::Waiting)
        ]
    );
    let refused = recover(&lab, &"first".into()).await.unwrap_err();
    assert_eq!(refused.reason, "NOT_RECOVERABLE");
    lab.engine.remove("first".into()).await.unwrap();
    // Whoever wants the id may have it.
    let mut start = lab.start_of("two", json!(1));
    start.id = Some("second".into());
    lab.engine.start(start).await.unwrap();
    all_is_well(&lab).await;
}

/// An execution of which `a` is done and `b` was done again from there, on branch 1.
async fn branched(lab: &Lab, deeds: &Deeds) -> Arc<str> {
    lab.apply(GATED).await;
    let worker = deeds.worker(lab, "w");
    let id = lab.start("gated", json!("seventeen")).await.id;
    lab.until(&id, |view| view.sub_state == SubState::Waiting)
        .await;
    let from = stateway_engine::RetryFrom {
        step: "a".into(),
        ..Default::default()
    };
    let again = lab
        .engine
        .retry_from(id.clone(), from, "ada".into(), lab.key(3));
    again.await.unwrap();
    lab.until(&id, |view| {
        view.branch == 1 && view.sub_state == SubState::Waiting
    })
    .await;
    worker.abort();
    id
}

#[tokio::test]
async fn d2_a_wrong_row_of_the_table_of_branches_is_replaced() {
    let ((lab, _), deeds) = (lab(|_| {}), Deeds::default());
    let id = branched(&lab, &deeds).await;
    let path = lab.config.path.clone();
    let lab = lab.restart_after(|| edit(&path, "UPDATE branches SET cutoff = cutoff - 1"));
    assert!(audit(&lab, &id).await[0].0.starts_with("D2: "));
    all_is_well(&lab).await;
    decide(&lab, &id, true).await.unwrap();
    deeds.worker(&lab, "w");
    assert_eq!(lab.ended(&id).await.sub_state, SubState::Succeeded);
}

#[tokio::test]
async fn h1_damage_in_an_old_branch_is_told_and_hinders_nobody() {
    let ((lab, _), deeds) = (lab(|_| {}), Deeds::default());
    let id = branched(&lab, &deeds).await;
    let path = lab.config.path.clone();
    let lab = lab.restart_after(|| {
        // What branch 0 went on with, after branch 1 had left it.
        replace_in_log(&path, 0, ("boss", "bess"));
    });
    let verdict = lab.engine.verify(id.clone()).await.unwrap();
    assert_eq!(codes(&verdict.findings), [Code::H1]);
    assert!(audit(&lab, &id).await.is_empty(), "nobody hides it");
    assert!(lab.engine.survey().await.unwrap().damaged.is_empty());
    let pause = stateway_engine::Steer::Pause {
        cause: "look".into(),
    };
    lab.steer(&id, pause).await.unwrap();
    lab.steer(&id, stateway_engine::Steer::Resume)
        .await
        .unwrap();
    // An operator takes note of it; nothing is done again.
    let recovered = recover(&lab, &id).await.unwrap();
    assert!(!recovered.branched);
    all_is_well(&lab).await;
    decide(&lab, &id, true).await.unwrap();
    deeds.worker(&lab, "w");
    assert_eq!(lab.ended(&id).await.sub_state, SubState::Succeeded);
    assert_eq!((deeds.of("a"), deeds.of("b")), (2, 1));
}

#[tokio::test]
async fn h1_damage_in_what_branches_share_is_left_behind_once() {
    let ((lab, _), deeds) = (lab(|_| {}), Deeds::default());
    let id = branched(&lab, &deeds).await;
    let path = lab.config.path.clone();
    let did = ("\"did\"", "\"dad\"");
    let lab = lab.restart_after(|| replace_in_log(&path, 1, did));
    let recovered = recover(&lab, &id).await.unwrap();
    assert!(recovered.branched);
    all_is_well(&lab).await;
    deeds.worker(&lab, "w");
    lab.until(&id, |view| view.sub_state == SubState::Waiting)
        .await;
    assert_eq!(lab.get(&id).await.branch, 2);
    // Other damage is still found.
    let path = lab.config.path.clone();
    let lab = lab.restart_after(|| replace_in_log(&path, 0, did));
    let verdict = lab.engine.verify(id.clone()).await.unwrap();
    assert_eq!(codes(&verdict.findings), [Code::H1]);
}

#[tokio::test]
async fn h1_one_that_is_over_does_nothing_again_for_its_history() {
    let ((lab, _), deeds) = (lab(|_| {}), Deeds::default());
    lab.apply(TWO).await;
    let worker = deeds.worker(&lab, "w");
    let id = lab.start("two", json!(1)).await.id;
    lab.ended(&id).await;
    worker.abort();
    let path = lab.config.path.clone();
    let lab = lab.restart_after(|| replace_in_log(&path, 0, ("\"did\":\"a\"", "\"did\":\"z\"")));
    let refused = recover(&lab, &id).await.unwrap_err();
    assert_eq!(refused.reason, "NOT_RECOVERABLE");
    assert!(
        refused.message.starts_with("the execution has ended"),
        "{refused:?}"
    );
    assert_eq!((deeds.of("a"), deeds.of("b")), (1, 1));
}

#[tokio::test]
async fn l1_a_snapshot_or_a_branch_that_the_log_does_not_have() {
    let change = |config: &mut Config| config.snapshot_events = 7;
    let ((lab, trap), deeds) = (lab(change), Deeds::default());
    lab.apply(TWO).await;
    let mut worker = lab.worker("w", &["x"], 1);
    let id = lab.start("two", json!(1)).await.id;
    let task = worker.task().await;
    trap.set(Write::Events, Fate::Lost);
    worker.done(&task, json!("a"));
    worker.task().await;
    assert!(trap.sprung());
    drop(worker);
    let lab = die(lab, Code::L1);
    assert!(audit(&lab, &id).await.is_empty());

    // The evidence stays until someone decides: whatever is asked of it meanwhile is refused.
    let signal = stateway_engine::Steer::Signal {
        name: "go".into(),
        payload: Arc::default(),
    };
    let refused = lab.steer(&id, signal).await.unwrap_err();
    assert_eq!(refused.reason, "LOG_NOT_WHOLE", "{refused:?}");
    let verdict = lab.engine.verify(id.clone()).await.unwrap();
    let again: Vec<Arc<str>> = vec!["a".into(), "b".into()];
    let cutoff = verdict.sequence;
    let remedy = Remedy::Branch { cutoff, again };
    assert_eq!(verdict.remedy, remedy);
    assert!(recover(&lab, &id).await.unwrap().branched);
    deeds.worker(&lab, "w");
    assert_eq!(lab.ended(&id).await.sub_state, SubState::Succeeded);
    all_is_well(&lab).await;
}

#[tokio::test]
async fn one_that_cannot_be_read_at_all_hides_no_other() {
    let ((lab, trap), _) = (lab(|_| {}), ());
    lab.apply(GATED).await;
    for id in ["first", "second", "third"] {
        let mut start = lab.start_of("gated", json!(1));
        start.id = Some(id.into());
        lab.engine.start(start).await.unwrap();
    }
    drop(trap);
    let path = lab.config.path.clone();
    let lab = lab.restart_after(|| {
        edit(&path, "UPDATE events SET hash = x'00' WHERE execution = 1");
        edit(
            &path,
            "UPDATE executions SET state = 'lost' WHERE number = 2",
        );
    });
    let found = lab.engine.verify_batch(0, 10).await.unwrap();
    assert_eq!(found.executions, 3);
    let wrong: Vec<_> = found.wrong.iter().map(|verdict| &*verdict.id).collect();
    assert_eq!(wrong, ["first", "second"]);
    assert!(
        found
            .wrong
            .iter()
            .all(|v| codes(&v.findings)[0] == Code::H2)
    );
}
