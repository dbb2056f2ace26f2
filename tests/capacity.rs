//! A task that no connected worker can take is waiting with reason NO_WORKER, wherever it is shown.

use std::time::Duration;

use serde_json::json;
use stateway_client::v1;
use stateway_client::v1::SubState;

use crate::support::{BuiltInRig, TestWorker, Watching};

const ETL: &str = "\
name: etl
steps:
  - {name: load, agent: etl, skill: sql, timeout: 5m}
  - {name: report, agent: etl, timeout: 5m, dependsOn: [load]}
";
/// The filter of the dashboard's view \"Stuck\".
const STUCK: &str = r#"sub_state = "error" OR reason = "NO_WORKER""#;

async fn worker(rig: &BuiltInRig, skill: &str, capacity: i32) -> TestWorker {
    let offer = v1::Offer {
        worker_id: format!("w-{skill}"),
        roles: vec!["etl".into()],
        skills: vec![skill.into()],
        capacity,
        ..v1::Offer::default()
    };
    rig.work(offer).await.unwrap()
}

async fn begun() -> BuiltInRig {
    let rig = BuiltInRig::start().await;
    rig.apply(ETL).await;
    rig.begin("etl", "e1", "ada", json!(null)).await;
    rig
}

async fn listed(rig: &BuiltInRig, filter: &str) -> usize {
    let request = v1::ListExecutionsRequest {
        parent: "providers/b".into(),
        filter: filter.into(),
        ..v1::ListExecutionsRequest::default()
    };
    let mut client = rig.gateway.executions().await;
    let page = client.list_executions(request).await.unwrap();
    page.into_inner().executions.len()
}

fn is_unserved(execution: &v1::Execution) -> bool {
    execution.reason().label() == "NO_WORKER"
}

#[tokio::test]
async fn a_task_without_a_worker_is_waiting_and_names_role_and_skill() {
    let rig = begun().await;
    let waiting = rig.until("e1", is_unserved).await;
    assert_eq!(waiting.sub_state(), SubState::Waiting);
    let step = &waiting.steps[0];
    assert_eq!(
        (step.sub_state(), step.reason().label()),
        (SubState::Waiting, "NO_WORKER")
    );
    let wait = &waiting.waits[0];
    assert_eq!((wait.kind().label(), &*wait.name), ("capacity", "etl"));
    assert_eq!(
        wait.detail,
        "no worker of role `etl` with skill `sql` is connected"
    );
    let request = v1::ExplainExecutionRequest {
        name: waiting.name.clone(),
    };
    let mut client = rig.gateway.executions().await;
    let answer = client
        .explain_execution(request)
        .await
        .unwrap()
        .into_inner();
    let evidence = answer.steps[0].evidence.join("\n");
    assert!(evidence.contains(&wait.detail), "{evidence}");
}

#[tokio::test]
async fn the_view_stuck_lists_it_until_a_worker_that_can_take_it_connects() {
    let rig = begun().await;
    rig.until("e1", is_unserved).await;
    assert_eq!(listed(&rig, STUCK).await, 1);
    // A worker of the role without the skill cannot take it.
    let _other = worker(&rig, "java", 1).await;
    let waiting = rig
        .until("e1", |execution| {
            execution.waits[0].detail
                == "1 worker of role `etl` is connected, none with skill `sql`"
        })
        .await;
    assert!(is_unserved(&waiting));
    assert_eq!(listed(&rig, STUCK).await, 1);
    let _able = worker(&rig, "sql", 1).await;
    rig.until("e1", |execution| execution.sub_state() == SubState::Running)
        .await;
    assert_eq!(listed(&rig, STUCK).await, 0);
}

#[tokio::test]
async fn a_watch_reports_that_the_last_worker_left() {
    let rig = BuiltInRig::start().await;
    rig.apply(ETL).await;
    // It has no room for a task, but it is there.
    let mut busy = worker(&rig, "sql", 1).await;
    rig.begin("etl", "e0", "ada", json!(null)).await;
    busy.task().await;
    rig.begin("etl", "e1", "ada", json!(null)).await;
    let served = rig
        .until("e1", |execution| !execution.waits.is_empty())
        .await;
    assert_eq!(served.sub_state(), SubState::Running);
    let mut one = Watching::on(&rig.gateway, "providers/b/executions/e1").await;
    let mut all = Watching::on(&rig.gateway, "providers/b").await;
    drop(busy);
    for watch in [&mut one, &mut all] {
        loop {
            let answer = watch.next().await.unwrap();
            let Some(execution) = answer.execution else {
                continue;
            };
            if execution.name.ends_with("/e1") && is_unserved(&execution) {
                break;
            }
        }
    }
}

#[tokio::test]
async fn a_worker_that_lost_its_connection_is_expected_back_and_not_counted() {
    let rig = BuiltInRig::with(|config| config.reconnect = Duration::from_secs(3_600)).await;
    rig.apply(ETL).await;
    let mut busy = worker(&rig, "sql", 1).await;
    rig.begin("etl", "e0", "ada", json!(null)).await;
    busy.task().await;
    rig.begin("etl", "e1", "ada", json!(null)).await;
    let detail = "1 worker of role `etl` is connected";
    rig.until("e1", |execution| has_wait(execution, detail))
        .await;
    drop(busy);
    let detail =
        "no worker of role `etl` with skill `sql` is connected; 1 is expected to reconnect";
    let shown = rig
        .until("e1", |execution| has_wait(execution, detail))
        .await;
    assert_eq!(
        shown.sub_state(),
        SubState::Running,
        "the state does not change"
    );
}

fn has_wait(execution: &v1::Execution, detail: &str) -> bool {
    execution.waits.iter().any(|wait| wait.detail == detail)
}

#[tokio::test]
async fn a_worker_that_connects_does_not_change_the_etag() {
    let rig = begun().await;
    let unserved = rig.until("e1", is_unserved).await;
    // A worker of the role without the skill takes nothing.
    let _other = worker(&rig, "java", 1).await;
    let other = rig
        .until("e1", |execution| {
            execution.waits[0].detail != unserved.waits[0].detail
        })
        .await;
    assert_eq!(other.etag, unserved.etag);
    let pause = v1::PauseExecutionRequest {
        name: unserved.name,
        etag: unserved.etag,
        ..v1::PauseExecutionRequest::default()
    };
    let mut client = rig.gateway.executions().await;
    let paused = client.pause_execution(pause).await.unwrap().into_inner();
    assert_ne!(paused.etag, other.etag);
}

/// The wait of an execution that is queued.
async fn queue_wait(rig: &BuiltInRig, id: &str) -> v1::Wait {
    let queued = rig
        .until(id, |execution| execution.reason().label() == "QUEUED")
        .await;
    queued.waits[0].clone()
}

#[tokio::test]
async fn a_queued_execution_names_the_limit_that_it_waits_for() {
    let rig = BuiltInRig::with(|config| config.max_active = 3).await;
    rig.apply("name: pair\nconcurrency: 2\nsteps: [{name: go, agent: x}]")
        .await;
    rig.apply("name: free\nsteps: [{name: go, agent: x}]").await;
    for id in ["p1", "p2", "p3"] {
        rig.begin("pair", id, "ada", json!(null)).await;
    }
    let wait = queue_wait(&rig, "p3").await;
    assert_eq!((wait.kind().label(), &*wait.name), ("capacity", ""));
    assert_eq!(
        wait.detail,
        "2 of 2 executions of `pair` are running (`concurrency` of the definition)"
    );
    for id in ["f1", "f2"] {
        rig.begin("free", id, "ada", json!(null)).await;
    }
    let wait = queue_wait(&rig, "f2").await;
    assert_eq!(
        wait.detail,
        "3 of 3 executions are active (`max_active` of the engine)"
    );
    let mut client = rig.gateway.executions().await;
    let request = v1::ListExecutionsRequest {
        parent: "providers/b".into(),
        filter: r#"reason = "QUEUED""#.into(),
        ..v1::ListExecutionsRequest::default()
    };
    let page = client.list_executions(request).await.unwrap().into_inner();
    assert_eq!(page.executions.len(), 2);
    let details = page.executions.iter().map(|one| &*one.waits[0].detail);
    for detail in details {
        assert!(detail.contains(" executions "), "{detail}");
    }
    let request = v1::ExplainExecutionRequest {
        name: "providers/b/executions/p3".into(),
    };
    let answer = client
        .explain_execution(request)
        .await
        .unwrap()
        .into_inner();
    let evidence = answer.evidence.join("\n");
    assert!(
        evidence.contains("2 of 2 executions of `pair`"),
        "{evidence}"
    );
}
