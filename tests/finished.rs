//! What an execution keeps: retry figures, who cancelled or reopened it, its forks, its last error.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;
use stateway_client::v1;
use stateway_client::v1::{RetryBasis, SubState};
use stateway_engine::Clock;
use tonic::Code;

use crate::support::{BuiltInRig, TestWorker, Watching, by, reason_of};

const TWICE: &str = "\
name: twice
steps:
  - name: a
    agent: x
    timeout: 5m
    retryPolicy: {maxRetries: 1, backoff: constant, initialDelay: 1ms, maxDelay: 1ms}
  - {name: b, agent: x, timeout: 5m, dependsOn: [a]}
";

fn name(id: &str) -> String {
    format!("providers/b/executions/{id}")
}

async fn worker(rig: &BuiltInRig) -> TestWorker {
    let offer = v1::Offer {
        worker_id: "w1".into(),
        roles: vec!["x".into()],
        capacity: 1,
        ..v1::Offer::default()
    };
    rig.work(offer).await.unwrap()
}

async fn begun(rig: &BuiltInRig, source: &str, definition: &str, id: &str) -> TestWorker {
    rig.apply(source).await;
    let worker = worker(rig).await;
    rig.begin(definition, id, "ada", json!(null)).await;
    worker
}

async fn ended(rig: &BuiltInRig, id: &str) -> v1::Execution {
    rig.until(id, |execution| execution.end_time.is_some())
        .await
}

async fn explained(rig: &BuiltInRig, id: &str) -> v1::ExplainExecutionResponse {
    let request = v1::ExplainExecutionRequest { name: name(id) };
    let mut client = rig.gateway.executions().await;
    client
        .explain_execution(request)
        .await
        .unwrap()
        .into_inner()
}

async fn listed(rig: &BuiltInRig, filter: &str) -> Vec<String> {
    let request = v1::ListExecutionsRequest {
        parent: "providers/b".into(),
        filter: filter.into(),
        ..v1::ListExecutionsRequest::default()
    };
    let mut client = rig.gateway.executions().await;
    let page = client.list_executions(request).await.unwrap().into_inner();
    let names = page.executions.into_iter().map(|execution| execution.name);
    names.collect()
}

#[tokio::test]
async fn a_finished_execution_keeps_its_retry_figures_and_is_found_by_them() {
    let rig = BuiltInRig::start().await;
    let mut worker = begun(&rig, TWICE, "twice", "f1").await;
    for _ in 0..2 {
        let a = worker.task().await;
        worker.fail(&a, v1::ErrorCategory::Transient);
    }
    let failed = ended(&rig, "f1").await;
    assert_eq!(failed.reason().label(), "RETRIES_EXHAUSTED");
    let retry = failed.retry.expect("figures");
    assert_eq!((retry.attempt, retry.max_attempt_count), (2, Some(2)));
    assert_eq!(
        (retry.retry_count, retry.basis()),
        (1, RetryBasis::Reported)
    );
    assert_eq!(retry.last_error.expect("an error").attempt, 2);
    assert!(retry.next_attempt_time.is_none() && retry.delay.is_none());
    let step = failed.steps[0].retry.as_ref().expect("figures");
    assert_eq!((step.attempt, step.retry_count), (2, 1));
    // One that succeeded at its second attempt.
    rig.begin("twice", "f2", "ada", json!(null)).await;
    let a = worker.task().await;
    worker.fail(&a, v1::ErrorCategory::Transient);
    for _ in 0..2 {
        let task = worker.task().await;
        worker.complete(&task, &json!(1));
    }
    let succeeded = ended(&rig, "f2").await;
    assert_eq!(succeeded.sub_state(), SubState::Succeeded);
    let retry = succeeded.retry.expect("figures");
    assert_eq!((retry.attempt, retry.retry_count), (2, 1));
    assert_eq!(
        listed(&rig, "retry.attempt >= 2").await,
        [name("f2"), name("f1")]
    );
    assert_eq!(listed(&rig, "retry.attempt >= 3").await, [""; 0]);
}

#[tokio::test]
async fn the_one_who_cancelled_and_the_cause_are_shown_and_explained() {
    let rig = BuiltInRig::start().await;
    let _worker = begun(&rig, TWICE, "twice", "c1").await;
    let cancel = v1::CancelExecutionRequest {
        name: name("c1"),
        mode: v1::cancel_execution_request::Mode::Kill.into(),
        comment: "wrong order".into(),
        ..v1::CancelExecutionRequest::default()
    };
    let mut client = rig.gateway.executions().await;
    client
        .cancel_execution(by("olga", "", cancel))
        .await
        .unwrap();
    let cancelled = ended(&rig, "c1").await.cancellation.expect("it was");
    assert_eq!(
        (&*cancelled.cancelled_by, &*cancelled.comment),
        ("olga", "wrong order")
    );
    assert!(cancelled.cancel_time.is_some());
    let evidence = explained(&rig, "c1").await.evidence;
    let line = "cancelled by olga: wrong order".to_owned();
    assert!(evidence.contains(&line), "{evidence:?}");
}

#[tokio::test]
async fn the_one_who_paused_and_the_cause_are_shown_while_it_is_paused() {
    let rig = BuiltInRig::start().await;
    let _worker = begun(&rig, TWICE, "twice", "p1").await;
    let mut client = rig.gateway.executions().await;
    let pause = v1::PauseExecutionRequest {
        name: name("p1"),
        comment: "month end".into(),
        ..v1::PauseExecutionRequest::default()
    };
    client.pause_execution(by("eve", "", pause)).await.unwrap();
    let pause = rig.get("p1").await.pause.expect("it is paused");
    assert_eq!((&*pause.paused_by, &*pause.comment), ("eve", "month end"));
    let resume = v1::ResumeExecutionRequest {
        name: name("p1"),
        ..v1::ResumeExecutionRequest::default()
    };
    client.resume_execution(resume).await.unwrap();
    assert_eq!(rig.get("p1").await.pause, None);
}

#[tokio::test]
async fn an_execution_that_failed_is_reopened_under_its_name_and_says_so() {
    let rig = BuiltInRig::start().await;
    let mut worker = begun(&rig, TWICE, "twice", "r1").await;
    for _ in 0..2 {
        let a = worker.task().await;
        worker.fail(&a, v1::ErrorCategory::Transient);
    }
    assert_eq!(ended(&rig, "r1").await.reopen, None);
    let mut watch = Watching::on(&rig.gateway, "providers/b").await;
    let again = rig.retry_from("r1", "a", "olga").await;
    assert_eq!((&*again.name, &*again.forked_from), (&*name("r1"), ""));
    let reopen = again.reopen.expect("it was reopened");
    assert_eq!((reopen.reopen_count, &*reopen.reopened_by), (1, "olga"));
    assert_eq!(reopen.previous_native_state, "failed");
    assert!(reopen.reopen_time.is_some());
    // Lists and watches show it too.
    let seen = loop {
        let answer = watch.next().await.unwrap();
        match answer.execution {
            Some(execution) if execution.reopen.is_some() => break execution,
            _ => {}
        }
    };
    assert_eq!(seen.name, name("r1"));
    // An id makes no sense where nothing is forked.
    for _ in 0..2 {
        let a = worker.task().await;
        worker.fail(&a, v1::ErrorCategory::Transient);
    }
    ended(&rig, "r1").await;
    let request = v1::RetryFromRequest {
        name: name("r1"),
        origin: Some(v1::retry_from_request::Origin::Step("a".into())),
        execution_id: "other".into(),
        ..v1::RetryFromRequest::default()
    };
    let mut client = rig.gateway.executions().await;
    let status = client.retry_from(request).await.unwrap_err();
    assert_eq!(
        (status.code(), &*reason_of(&status)),
        (Code::FailedPrecondition, "NOT_FORKED")
    );
}

#[tokio::test]
async fn an_execution_that_succeeded_is_forked_and_both_name_each_other() {
    let rig = BuiltInRig::start().await;
    let mut worker = begun(&rig, TWICE, "twice", "s1").await;
    for _ in 0..2 {
        let task = worker.task().await;
        worker.complete(&task, &json!(1));
    }
    let before = ended(&rig, "s1").await;
    let request = v1::RetryFromRequest {
        name: name("s1"),
        origin: Some(v1::retry_from_request::Origin::Step("b".into())),
        execution_id: "s2".into(),
        request_id: "fork-1".into(),
        ..v1::RetryFromRequest::default()
    };
    let mut client = rig.gateway.executions().await;
    let fork = client
        .retry_from(request.clone())
        .await
        .unwrap()
        .into_inner();
    assert_eq!(
        (&*fork.name, &*fork.forked_from),
        (&*name("s2"), &*name("s1"))
    );
    // A repetition of the request forks nothing more; another id under the same key is refused.
    let again = client
        .retry_from(request.clone())
        .await
        .unwrap()
        .into_inner();
    assert_eq!(again.name, fork.name);
    let other = v1::RetryFromRequest {
        execution_id: "s3".into(),
        ..request
    };
    let status = client.retry_from(other).await.unwrap_err();
    assert_eq!(status.code(), Code::AlreadyExists);
    let source = rig.get("s1").await;
    assert_eq!(source.forks, [name("s2")]);
    assert_eq!(
        (source.sub_state, &source.etag),
        (before.sub_state, &before.etag)
    );
    // Only the full view names forks.
    let basic = v1::GetExecutionRequest {
        name: name("s1"),
        view: v1::ExecutionView::Basic.into(),
    };
    let basic = client.get_execution(basic).await.unwrap().into_inner();
    assert!(basic.forks.is_empty());
    let b = worker.task().await;
    worker.complete(&b, &json!(2));
    assert_eq!(ended(&rig, "s2").await.sub_state(), SubState::Succeeded);
}

#[tokio::test]
async fn a_fork_of_a_reopened_execution_names_the_execution_and_its_branch() {
    let rig = BuiltInRig::start().await;
    let mut worker = begun(&rig, TWICE, "twice", "r1").await;
    for _ in 0..2 {
        let a = worker.task().await;
        worker.fail(&a, v1::ErrorCategory::Transient);
    }
    ended(&rig, "r1").await;
    rig.retry_from("r1", "a", "olga").await;
    for _ in 0..2 {
        let task = worker.task().await;
        worker.complete(&task, &json!(1));
    }
    rig.until("r1", |shown| shown.sub_state() == SubState::Succeeded)
        .await;
    let request = v1::RetryFromRequest {
        name: name("r1"),
        origin: Some(v1::retry_from_request::Origin::Step("b".into())),
        execution_id: "r2".into(),
        ..v1::RetryFromRequest::default()
    };
    let mut client = rig.gateway.executions().await;
    client.retry_from(by("eve", "", request)).await.unwrap();
    let b = worker.task().await;
    worker.complete(&b, &json!(2));
    let fork = ended(&rig, "r2").await;
    assert_eq!(
        (fork.sub_state(), &*fork.forked_from, &fork.reopen),
        (SubState::Succeeded, &*name("r1"), &None)
    );
    let source = rig.get("r1").await;
    assert_eq!((source.forks, &*source.forked_from), (vec![name("r2")], ""));
    assert_eq!(source.reopen.expect("it was reopened").reopen_count, 1);
    let (branches, summaries) = (branches(&rig, "r2").await, summaries(&rig, "r2").await);
    assert_eq!(branches.len(), 1);
    assert_eq!(
        (&*branches[0].cause, &*branches[0].created_by),
        ("fork of r1 from b", "eve")
    );
    let about = |word: &str| -> Vec<&str> {
        let found = summaries.iter().filter(|line| line.contains(word));
        found.map(String::as_str).collect()
    };
    assert_eq!(about("branch 0 opened"), [""; 0]);
    let [copied, forked] = about("branch")[..] else {
        panic!("{summaries:#?}");
    };
    assert!(
        copied.starts_with("branch of the forked execution after event ")
            && copied.contains(" by olga"),
        "{copied}"
    );
    assert!(
        forked.starts_with("forked from r1, branch 1, after event "),
        "{forked}"
    );
}

async fn branches(rig: &BuiltInRig, id: &str) -> Vec<v1::Branch> {
    let request = v1::ListBranchesRequest {
        parent: name(id),
        ..v1::ListBranchesRequest::default()
    };
    let mut client = rig.recovery().await;
    let page = client.list_branches(request).await.unwrap();
    page.into_inner().branches
}

async fn summaries(rig: &BuiltInRig, id: &str) -> Vec<String> {
    let request = v1::ListEventsRequest {
        parent: name(id),
        page_size: 100,
        ..v1::ListEventsRequest::default()
    };
    let mut client = rig.gateway.executions().await;
    let page = client.list_events(request).await.unwrap().into_inner();
    page.events.into_iter().map(|event| event.summary).collect()
}

#[tokio::test]
async fn a_timeout_that_is_not_rolled_back_completely_stays_the_last_error() {
    let clock = Clock::manual("2026-01-01T00:00:00Z".parse().unwrap());
    let hand = clock.clone();
    let rig = BuiltInRig::with(|config| config.clock = clock).await;
    let slow = "\
name: slow
timeout: 1h
failurePolicy: compensate
steps:
  - {name: a, agent: x, timeout: 5m}
  - {name: b, signal: go, dependsOn: [a]}
compensation: [{step: a, agent: x, retryPolicy: {maxRetries: 0}}]
";
    let mut worker = begun(&rig, slow, "slow", "t1").await;
    let a = worker.task().await;
    worker.complete(&a, &json!(1));
    rig.until("t1", |view| view.native_state == "awaiting_signal")
        .await;
    hand.advance(3_600_000);
    let undo = worker.task().await;
    assert!(undo.compensation);
    worker.fail(&undo, v1::ErrorCategory::AgentError);
    let shown = ended(&rig, "t1").await;
    assert_eq!(
        (shown.reason().label(), shown.not_rolled_back),
        ("PARTIALLY_ROLLED_BACK", vec!["a".to_owned()])
    );
    let error = shown.last_error.expect("an error");
    assert_eq!(
        (&*error.message, error.category().label(), &*error.step),
        (
            "the execution took longer than its timeout of 1h: step `b` waited for signal `go`",
            "timeout",
            ""
        )
    );
}

#[tokio::test]
async fn the_error_of_an_attempt_keeps_its_attempt_after_retry_now() {
    let rig = BuiltInRig::start().await;
    let slow = "\
name: slow
steps:
  - name: a
    agent: x
    timeout: 5m
    retryPolicy: {maxRetries: 3, backoff: constant, initialDelay: 1h, maxDelay: 1h}
";
    let mut worker = begun(&rig, slow, "slow", "n1").await;
    let a = worker.task().await;
    worker.fail(&a, v1::ErrorCategory::Transient);
    rig.until("n1", |execution| {
        execution.sub_state() == SubState::BackingOff
    })
    .await;
    let request = v1::RetryNowRequest {
        name: name("n1"),
        ..v1::RetryNowRequest::default()
    };
    let mut client = rig.gateway.executions().await;
    let now = client.retry_now(request).await.unwrap().into_inner();
    let retry = now.retry.expect("figures");
    assert_eq!(retry.attempt, 2);
    assert_eq!(retry.last_error.expect("an error").attempt, 1);
    assert_eq!(now.last_error.expect("an error").attempt, 1);
}

#[tokio::test]
async fn a_timeout_of_the_workflow_that_rolls_back_is_the_last_error() {
    let clock = Clock::manual(Timestamp::UNIX_EPOCH);
    let moved = clock.clone();
    let rig = BuiltInRig::with(|config| config.clock = clock).await;
    let limited = "\
name: limited
timeout: 10m
failurePolicy: compensate
steps:
  - {name: a, agent: x}
  - {name: b, agent: nobody, dependsOn: [a]}
compensation: [{step: a, agent: x}]
";
    let mut worker = begun(&rig, limited, "limited", "t1").await;
    let a = worker.task().await;
    worker.complete(&a, &json!(1));
    rig.until("t1", |execution| execution.current_steps == ["b"])
        .await;
    moved.advance(i64::try_from(Duration::from_secs(601).as_millis()).unwrap());
    let undo = worker.task().await;
    assert!(undo.compensation);
    worker.complete(&undo, &json!(null));
    let rolled_back = ended(&rig, "t1").await;
    assert_eq!(rolled_back.native_state, "rolled_back");
    let error = rolled_back.last_error.expect("an error");
    assert_eq!((error.category().label(), &*error.step), ("timeout", ""));
    assert!(error.message.contains("10m"), "{}", error.message);
}

#[tokio::test]
async fn the_explanation_says_why_no_retry_followed() {
    let rig = BuiltInRig::start().await;
    let plain = "{name: plain, steps: [{name: a, agent: x, timeout: 5m}]}";
    let mut worker = begun(&rig, plain, "plain", "e1").await;
    let a = worker.task().await;
    let open = explained(&rig, "e1").await;
    let attempt = |answer: &v1::ExplainExecutionResponse| {
        let lines = answer.steps[0].evidence.clone();
        let found = lines.into_iter().find(|line| line.starts_with("attempt"));
        found.expect("an attempt")
    };
    // Without a retry policy and before a failure nobody knows how many attempts there may be.
    assert!(attempt(&open).starts_with("attempt 1 under way"));
    worker.fail(&a, v1::ErrorCategory::AgentError);
    ended(&rig, "e1").await;
    let failed = explained(&rig, "e1").await;
    assert!(
        attempt(&failed).starts_with("attempt 1 of 1 failed, no retry follows"),
        "{}",
        attempt(&failed)
    );
    let why = "not retried: `agent_error` failures need a `retryPolicy`".to_owned();
    assert!(failed.steps[0].evidence.contains(&why), "{failed:#?}");
}

#[tokio::test]
async fn a_finished_step_has_no_attempt_under_way_in_its_explanation() {
    let rig = BuiltInRig::start().await;
    let plain = "{name: plain, steps: [{name: a, agent: x, timeout: 5m}]}";
    let mut worker = begun(&rig, plain, "plain", "e1").await;
    let a = worker.task().await;
    worker.complete(&a, &json!(1));
    ended(&rig, "e1").await;
    let answer = explained(&rig, "e1").await;
    let evidence = &answer.steps[0].evidence;
    let attempt = |line: &&String| line.starts_with("attempt 1");
    let line = evidence.iter().find(attempt).expect("an attempt");
    assert!(line.starts_with("attempt 1 succeeded"), "{line}");
}

#[tokio::test]
async fn steps_that_were_not_rolled_back_are_named() {
    let rig = BuiltInRig::start().await;
    let partly = "\
name: partly
failurePolicy: compensate
steps:
  - {name: a, agent: x, timeout: 5m}
  - {name: b, agent: x, timeout: 5m, dependsOn: [a]}
  - {name: c, agent: x, timeout: 5m, dependsOn: [b]}
compensation: [{step: a, agent: x}]
";
    let mut worker = begun(&rig, partly, "partly", "l1").await;
    for _ in 0..2 {
        let task = worker.task().await;
        worker.complete(&task, &json!(1));
    }
    let c = worker.task().await;
    worker.fail(&c, v1::ErrorCategory::AgentError);
    let undo = worker.task().await;
    worker.complete(&undo, &json!(null));
    rig.until("l1", |view| view.native_state == "rolled_back")
        .await;
    assert_eq!(rig.get("l1").await.not_rolled_back, ["b"]);
}
