//! What is kept is compared with the log, and put right.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;
use stateway_client::v1;
use stateway_client::v1::remedy::Kind;
use stateway_engine::{Fate, Faults, Write};
use tonic::Code;

use crate::support::{BuiltInRig, TestWorker, reason_of};

const ONE: &str = "name: one\nsteps: [{name: a, agent: x, timeout: 5m}]\n";

/// A gateway whose store loses what rows say for as long as it is told to.
async fn rig() -> (BuiltInRig, Arc<AtomicBool>) {
    let losing = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&losing);
    let rig = BuiltInRig::with(|config| {
        config.verify_interval = std::time::Duration::ZERO;
        config.faults = Faults::by(move |write| {
            let lost = write == Write::Status && told.load(Ordering::Relaxed);
            if lost { Fate::Lost } else { Fate::Done }
        });
    });
    let rig = rig.await;
    rig.apply(ONE).await;
    (rig, losing)
}

async fn worker(rig: &BuiltInRig) -> TestWorker {
    let offer = v1::Offer {
        roles: vec!["x".into()],
        capacity: 1,
        ..v1::Offer::default()
    };
    rig.work(offer).await.unwrap()
}

fn name(id: &str) -> String {
    format!("providers/b/executions/{id}")
}

async fn verdict(rig: &BuiltInRig, id: &str) -> v1::Verdict {
    let request = v1::VerifyExecutionRequest { name: name(id) };
    let answer = rig.recovery().await.verify_execution(request).await;
    answer.unwrap().into_inner().verdict.unwrap()
}

/// An execution that has ended by its log, and runs by its row.
async fn ended_unnoticed(rig: &BuiltInRig, losing: &AtomicBool, id: &str) {
    let mut worker = worker(rig).await;
    rig.begin("one", id, "ada", json!({})).await;
    let task = worker.task().await;
    losing.store(true, Ordering::Relaxed);
    worker.complete(&task, &json!("done once"));
    rig.until(id, |view| view.native_state == "completed").await;
    losing.store(false, Ordering::Relaxed);
}

#[tokio::test]
async fn a_row_that_has_not_noticed_the_end_is_found_put_right_and_noted() {
    let (rig, losing) = rig().await;
    ended_unnoticed(&rig, &losing, "e1").await;

    let found = verdict(&rig, "e1").await;
    assert_eq!(found.name, name("e1"));
    let codes: Vec<_> = found
        .findings
        .iter()
        .map(|finding| &*finding.code)
        .collect();
    assert_eq!(codes, ["A3"]);
    assert!(!found.findings[0].summary.is_empty() && !found.findings[0].evidence.is_empty());
    let remedy = found.remedy.unwrap();
    assert_eq!(
        (remedy.kind(), remedy.repeated_steps.len()),
        (Kind::Repair, 0)
    );
    assert_eq!(found.branch, format!("{}/branches/0", name("e1")));
    assert_eq!((found.sequence, found.event_count), (7, 7));

    let mut client = rig.recovery().await;
    let recover = v1::RecoverExecutionRequest {
        name: name("e1"),
        request_id: "r1".into(),
        ..v1::RecoverExecutionRequest::default()
    };
    let mended = client.recover_execution(recover.clone()).await;
    let mended = mended.unwrap().into_inner();
    assert_eq!(mended.repaired.len(), 1);
    assert_eq!(mended.repaired[0].code, "A3");
    // No work is done again.
    assert_eq!((&*mended.branch, mended.repeated_steps.len()), ("", 0));
    let execution = mended.execution.unwrap();
    assert_eq!(execution.sub_state(), v1::SubState::Succeeded);
    assert!(verdict(&rig, "e1").await.findings.is_empty());

    // The same request is answered and nothing more is done; the log tells of one recovery.
    client.recover_execution(recover).await.unwrap();
    let events = v1::ListEventsRequest {
        parent: name("e1"),
        ..v1::ListEventsRequest::default()
    };
    let events = rig.gateway.executions().await.list_events(events).await;
    let recovered = events.unwrap().into_inner().events;
    let recovered: Vec<_> = recovered
        .iter()
        .filter(|event| event.native_type == "ExecutionRecovered")
        .collect();
    assert_eq!(recovered.len(), 1);
    assert!(
        recovered[0].summary.contains("A3"),
        "{}",
        recovered[0].summary
    );
}

#[tokio::test]
async fn every_execution_is_verified_with_progress() {
    let (rig, losing) = rig().await;
    for number in 0..30 {
        rig.begin("one", &format!("idle-{number}"), "ada", json!({}))
            .await;
    }
    let all = |parent: &str| v1::VerifyExecutionsRequest {
        parent: parent.into(),
    };
    let mut client = rig.recovery().await;
    let told = client.verify_executions(all("providers/-")).await.unwrap();
    let told = all_of(told.into_inner()).await;
    let last = told.last().unwrap();
    assert_eq!(
        (
            last.checked_count,
            last.total_count,
            last.faulty_count,
            last.done
        ),
        (30, 30, 0, true)
    );
    assert!(last.event_count >= 30 * 3 && last.elapsed_duration.is_some());
    assert!(told.iter().all(|message| message.verdicts.is_empty()));

    let mut worker = worker(&rig).await;
    let task = worker.task().await;
    losing.store(true, Ordering::Relaxed);
    worker.complete(&task, &json!(1));
    let id = task.execution.rsplit('/').next().unwrap().to_owned();
    rig.until(&id, |view| view.native_state == "completed")
        .await;
    losing.store(false, Ordering::Relaxed);
    drop(worker);
    let told = client.verify_executions(all("providers/b")).await.unwrap();
    let told = all_of(told.into_inner()).await;
    let wrong: Vec<_> = told.iter().flat_map(|message| &message.verdicts).collect();
    let ours: Vec<_> = wrong
        .iter()
        .filter(|verdict| verdict.name == name(&id))
        .collect();
    assert_eq!(ours.len(), 1, "{wrong:#?}");
    let faulty = told.last().unwrap().faulty_count;
    assert_eq!(faulty, i64::try_from(wrong.len()).unwrap());
}

async fn all_of(
    mut stream: tonic::Streaming<v1::VerifyExecutionsResponse>,
) -> Vec<v1::VerifyExecutionsResponse> {
    let mut told = Vec::new();
    while let Some(message) = stream.message().await.unwrap() {
        told.push(message);
    }
    told
}

#[tokio::test]
async fn a_recovery_that_was_decided_on_old_facts_is_refused() {
    let (rig, losing) = rig().await;
    ended_unnoticed(&rig, &losing, "e1").await;
    let mut client = rig.recovery().await;
    let recover = |etag: &str| v1::RecoverExecutionRequest {
        name: name("e1"),
        etag: etag.into(),
        ..v1::RecoverExecutionRequest::default()
    };
    let refused = client.recover_execution(recover("0123456789abcdef")).await;
    let refused = refused.unwrap_err();
    assert_eq!(
        (refused.code(), &*reason_of(&refused)),
        (Code::Aborted, "ETAG_MISMATCH")
    );
    assert_eq!(verdict(&rig, "e1").await.findings.len(), 1);
    let get = v1::GetExecutionRequest {
        name: name("e1"),
        ..v1::GetExecutionRequest::default()
    };
    let shown = rig.gateway.executions().await.get_execution(get).await;
    let etag = shown.unwrap().into_inner().etag;
    let mended = client.recover_execution(recover(&etag)).await.unwrap();
    assert_eq!(mended.into_inner().repaired.len(), 1);
}

#[tokio::test]
async fn recovering_what_is_well_changes_nothing() {
    let (rig, _) = rig().await;
    rig.begin("one", "e1", "ada", json!({})).await;
    let before = rig.export("e1").await;
    let recover = v1::RecoverExecutionRequest {
        name: name("e1"),
        ..v1::RecoverExecutionRequest::default()
    };
    let mut client = rig.recovery().await;
    let answer = client
        .recover_execution(recover)
        .await
        .unwrap()
        .into_inner();
    assert!(answer.repaired.is_empty() && answer.branch.is_empty());
    assert_eq!(rig.export("e1").await, before);
    let none = v1::VerifyExecutionRequest { name: name("nope") };
    let status = client.verify_execution(none).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
}
