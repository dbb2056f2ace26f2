//! Rolling back, as a client and its workers see it: work in flight is awaited and compensated in its
//! place, a person can be asked afterwards, and a success is final.

use serde_json::{Value, json};
use stateway_client::v1;
use stateway_client::v1::stream_tasks_response::Message as Told;
use tonic::Code;

use crate::support::{BuiltInRig, TestWorker, by, reason_of};

const SIBLINGS: &str = "\
name: siblings
failurePolicy: compensate
steps:
  - {name: quick, agent: w, timeout: 5m}
  - {name: slow, agent: w, timeout: 5m}
  - {name: boom, agent: w, timeout: 5m, dependsOn: [quick]}
compensation:
  - {step: quick, agent: w, timeout: 5m}
  - {step: slow, agent: w, timeout: 5m}
";

const ESCALATES: &str = "\
name: escalates
steps:
  - {name: reserve, agent: w, timeout: 5m}
  - {name: charge, agent: w, timeout: 5m, dependsOn: [reserve], onFailure: compensate, then: escalate}
compensation: [{step: reserve, agent: w, timeout: 5m}]
";

async fn worker(rig: &BuiltInRig) -> TestWorker {
    let offer = v1::Offer {
        worker_id: "w1".into(),
        roles: vec!["w".into()],
        capacity: 4,
        ..v1::Offer::default()
    };
    rig.work(offer).await.unwrap()
}

/// The next task of this step, and whether it is a compensation.
async fn next(worker: &mut TestWorker) -> (v1::Task, bool) {
    let task = worker.task().await;
    let compensates = task.compensation;
    (task, compensates)
}

async fn get(rig: &BuiltInRig, id: &str) -> v1::Execution {
    let request = v1::GetExecutionRequest {
        name: format!("providers/b/executions/{id}"),
        view: v1::ExecutionView::Full.into(),
    };
    let mut client = rig.gateway.executions().await;
    client.get_execution(request).await.unwrap().into_inner()
}

async fn retry_from(
    rig: &BuiltInRig,
    id: &str,
    step: &str,
) -> Result<v1::Execution, tonic::Status> {
    let request = v1::RetryFromRequest {
        name: format!("providers/b/executions/{id}"),
        origin: Some(v1::retry_from_request::Origin::Step(step.into())),
        ..v1::RetryFromRequest::default()
    };
    let mut client = rig.gateway.executions().await;
    let answer = client.retry_from(by("eve", "", request)).await;
    answer.map(tonic::Response::into_inner)
}

#[tokio::test]
async fn work_in_flight_is_asked_to_cancel_awaited_and_compensated_in_its_place() {
    let rig = BuiltInRig::start().await;
    rig.apply(SIBLINGS).await;
    let mut worker = worker(&rig).await;
    rig.begin("siblings", "s1", "ada", Value::Null).await;
    let (first, _) = next(&mut worker).await;
    let (second, _) = next(&mut worker).await;
    let (quick, slow) = if first.step == "quick" {
        (first, second)
    } else {
        (second, first)
    };
    worker.complete(&quick, &json!({"did": "quick"}));
    let (boom, _) = next(&mut worker).await;
    assert_eq!(boom.step, "boom");
    worker.fail(&boom, v1::ErrorCategory::AgentError);
    let asked = loop {
        match worker.next().await.unwrap() {
            Told::Cancelled(cancelled) => break cancelled,
            Told::Accepted(_) => {}
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(asked.task_token, slow.task_token);
    let shown = get(&rig, "s1").await;
    assert_eq!(
        (shown.native_state.as_str(), shown.reason().label()),
        ("compensating", "COMPENSATING"),
        "no compensation starts while `slow` is in a worker's hands"
    );

    // The worker had all but finished: its answer counts, and is compensated first.
    worker.complete(&slow, &json!({"did": "slow"}));
    for step in ["slow", "quick"] {
        let (task, compensates) = next(&mut worker).await;
        assert_eq!((task.step.as_str(), compensates), (step, true));
        assert_eq!(
            crate::support::json_of(task.input.as_ref()),
            json!({"did": step})
        );
        worker.complete(&task, &Value::Null);
    }
    rig.until("s1", |view| view.end_time.is_some()).await;
    let ended = get(&rig, "s1").await;
    assert_eq!(ended.reason().label(), "ROLLED_BACK");
}

#[tokio::test]
async fn after_a_rollback_a_person_resumes_and_compensated_steps_run_again() {
    let rig = BuiltInRig::start().await;
    rig.apply(ESCALATES).await;
    let mut worker = worker(&rig).await;
    rig.begin("escalates", "e1", "ada", Value::Null).await;
    let (reserve, _) = next(&mut worker).await;
    worker.complete(&reserve, &json!(1));
    let (charge, _) = next(&mut worker).await;
    worker.fail(&charge, v1::ErrorCategory::AgentError);
    let (undo, compensates) = next(&mut worker).await;
    assert_eq!((undo.step.as_str(), compensates), ("reserve", true));
    worker.complete(&undo, &Value::Null);
    rig.until("e1", |view| view.native_state == "escalated")
        .await;

    let resume = v1::ResolveEscalationRequest {
        name: "providers/b/executions/e1/escalations/charge~1".into(),
        action: v1::resolution::Action::Resume.into(),
        ..v1::ResolveEscalationRequest::default()
    };
    let mut client = rig.approvals().await;
    let refused = client
        .resolve_escalation(by("ada", "operator", resume.clone()))
        .await;
    assert_eq!(reason_of(&refused.unwrap_err()), "SELF_APPROVAL");
    client
        .resolve_escalation(by("olga", "operator", resume))
        .await
        .unwrap();
    for step in ["reserve", "charge"] {
        let (task, compensates) = next(&mut worker).await;
        assert_eq!(
            (task.step.as_str(), task.attempt, compensates),
            (step, 2, false)
        );
        worker.complete(&task, &json!(2));
    }
    rig.until("e1", |view| view.end_time.is_some()).await;
    assert_eq!(get(&rig, "e1").await.native_state, "completed");
}

#[tokio::test]
async fn a_success_is_forked_and_a_failure_is_reopened() {
    let rig = BuiltInRig::start().await;
    rig.apply("name: one\nsteps: [{name: a, agent: w, timeout: 5m}]")
        .await;
    let mut worker = worker(&rig).await;
    for (id, fails) in [("good", false), ("bad", true)] {
        rig.begin("one", id, "ada", Value::Null).await;
        let (task, _) = next(&mut worker).await;
        if fails {
            worker.fail(&task, v1::ErrorCategory::AgentError);
        } else {
            worker.complete(&task, &json!(1));
        }
        rig.until(id, |view| view.end_time.is_some()).await;
    }
    let before = get(&rig, "good").await;
    let fork = retry_from(&rig, "good", "a").await.unwrap();
    assert_ne!(fork.name, before.name);
    assert_eq!(
        get(&rig, "good").await.etag,
        before.etag,
        "a success is final"
    );

    let reopened = retry_from(&rig, "bad", "a").await.unwrap();
    assert_eq!(reopened.name, "providers/b/executions/bad");
    let request = v1::ListEventsRequest {
        branch: format!("{}/branches/current", reopened.name),
        parent: reopened.name,
        ..v1::ListEventsRequest::default()
    };
    let mut client = rig.gateway.executions().await;
    let events = client.list_events(request).await.unwrap().into_inner();
    let names: Vec<_> = events
        .events
        .iter()
        .map(|event| &*event.native_type)
        .collect();
    assert!(names.contains(&"ExecutionReopened"), "{names:?}");
}

#[tokio::test]
async fn a_compensation_in_a_workers_hands_keeps_retry_from_waiting() {
    let rig = BuiltInRig::start().await;
    rig.apply(ESCALATES).await;
    let mut worker = worker(&rig).await;
    rig.begin("escalates", "e1", "ada", Value::Null).await;
    let (reserve, _) = next(&mut worker).await;
    worker.complete(&reserve, &json!(1));
    let (charge, _) = next(&mut worker).await;
    worker.fail(&charge, v1::ErrorCategory::AgentError);
    let (_undo, compensates) = next(&mut worker).await;
    assert!(compensates);
    let refused = retry_from(&rig, "e1", "reserve").await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert_eq!(reason_of(&refused), "COMPENSATION_IN_PROGRESS");
}
