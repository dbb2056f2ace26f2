//! Steps: those that have not started too, what each was given and answered, and every attempt.

use serde_json::{Value, json};
use stateway_client::v1;
use stateway_client::v1::SubState;
use stateway_client::v1::step_attempt::Outcome;
use tonic::Code;

use crate::support::{BuiltInRig, Puppet, TestWorker, json_of, reason_of};

const ORDER: &str = "\
name: order
failurePolicy: compensate
steps:
  - {name: reserve, agent: x, timeout: 5m, input: {item: '${input.item}'}}
  - name: charge
    agent: x
    timeout: 5m
    dependsOn: [reserve]
    retryPolicy: {maxRetries: 1, backoff: constant, initialDelay: 1ms, maxDelay: 1ms}
  - {name: ship, agent: x, timeout: 5m, dependsOn: [charge]}
compensation: [{step: reserve, agent: x}]
";

async fn worker(rig: &BuiltInRig) -> TestWorker {
    let offer = v1::Offer {
        worker_id: "w1".into(),
        roles: vec!["x".into()],
        capacity: 2,
        ..v1::Offer::default()
    };
    rig.work(offer).await.unwrap()
}

async fn order(rig: &BuiltInRig, id: &str) -> TestWorker {
    rig.apply(ORDER).await;
    let worker = worker(rig).await;
    rig.begin("order", id, "ada", json!({"item": "book"})).await;
    worker
}

fn states(execution: &v1::Execution) -> Vec<(&str, SubState, &str, &str)> {
    let steps = execution.steps.iter();
    let shown = steps.map(|step| {
        let native = step.native_state.as_str();
        (&*step.name, step.sub_state(), native, step.reason().label())
    });
    shown.collect()
}

fn tokens(usage: Option<&v1::Usage>) -> i64 {
    usage.map_or(0, |usage| usage.input_token_count)
}

fn is(state: &'static str) -> impl Fn(&v1::Execution) -> bool {
    move |view| view.native_state == state
}

#[tokio::test]
async fn a_step_that_has_not_started_is_waiting_and_fails_when_the_execution_ends_without_it() {
    let rig = BuiltInRig::start().await;
    let mut worker = order(&rig, "o1").await;
    let reserve = worker.task().await;
    let open = rig.get("o1").await;
    assert_eq!(
        states(&open),
        [
            ("reserve", SubState::Running, "running", ""),
            ("charge", SubState::Waiting, "pending", "NOT_STARTED"),
            ("ship", SubState::Waiting, "pending", "NOT_STARTED"),
        ]
    );
    assert_eq!(open.sub_state(), SubState::Running);
    // A step that has not started is not open.
    assert_eq!(open.current_steps, ["reserve"]);
    assert_eq!(open.steps[1].blocked_by, ["reserve"]);
    assert!(open.steps[0].blocked_by.is_empty());
    let detail = rig.step("o1", "ship").await;
    assert!(detail.input.is_none() && detail.attempts.is_empty());
    worker.fail(&reserve, v1::ErrorCategory::AgentError);
    let ended = rig
        .until("o1", |execution| execution.end_time.is_some())
        .await;
    assert_eq!(
        states(&ended)[1..],
        [
            ("charge", SubState::Failed, "pending", "NOT_STARTED"),
            ("ship", SubState::Failed, "pending", "NOT_STARTED"),
        ]
    );
    assert!(ended.current_steps.is_empty() && ended.steps[1].blocked_by.is_empty());
}

#[tokio::test]
async fn a_step_shows_its_input_its_output_and_every_attempt() {
    let rig = BuiltInRig::start().await;
    let mut worker = order(&rig, "o1").await;
    let reserve = worker.task().await;
    worker.complete(&reserve, &json!({"held": 1}));
    let charge = worker.task().await;
    worker.fail(&charge, v1::ErrorCategory::Transient);
    let charge = worker.task().await;
    worker.complete_for(&charge, &json!({"paid": true}), 7);
    worker.task().await;
    let detail = rig.step("o1", "reserve").await;
    assert_eq!(detail.name, "providers/b/executions/o1/steps/reserve");
    assert_eq!(json_of(detail.input.as_ref()), json!({"item": "book"}));
    assert_eq!(json_of(detail.output.as_ref()), json!({"held": 1}));
    assert!(!detail.input_truncated && !detail.output_truncated);
    let detail = rig.step("o1", "charge").await;
    let step = detail.step.expect("a step");
    assert_eq!(step.sub_state(), SubState::Succeeded);
    assert_eq!(tokens(step.usage.as_ref()), 7);
    let [first, second] = &detail.attempts[..] else {
        panic!("{:?}", detail.attempts);
    };
    let branch = "providers/b/executions/o1/branches/0";
    assert_eq!(
        (first.attempt, &*first.branch, &*first.worker),
        (1, branch, "w1")
    );
    assert_eq!(first.outcome(), Outcome::Failed);
    let error = first.error.as_ref().expect("an error");
    assert_eq!((&*error.message, error.attempt), ("it did not work", 1));
    assert!(first.start_time.is_some() && first.assign_time.is_some() && first.end_time.is_some());
    assert_eq!((second.attempt, second.outcome()), (2, Outcome::Succeeded));
    assert_eq!(tokens(second.usage.as_ref()), 7);
    assert!(first.usage.is_none() && second.error.is_none());
    let open = rig.step("o1", "ship").await;
    let attempt = &open.attempts[0];
    assert_eq!((attempt.outcome(), attempt.end_time), (Outcome::Open, None));
}

#[tokio::test]
async fn a_step_shows_its_compensation_attempts() {
    let rig = BuiltInRig::start().await;
    let mut worker = order(&rig, "o1").await;
    let reserve = worker.task().await;
    worker.complete(&reserve, &json!({"held": 1}));
    for _ in 0..2 {
        let charge = worker.task().await;
        worker.fail(&charge, v1::ErrorCategory::Transient);
    }
    let undo = worker.task().await;
    assert!(undo.compensation);
    worker.complete(&undo, &json!(null));
    rig.until("o1", is("rolled_back")).await;
    let detail = rig.step("o1", "reserve").await;
    let shown: Vec<_> = detail
        .attempts
        .iter()
        .map(|one| (one.attempt, one.compensation, one.outcome()))
        .collect();
    assert_eq!(
        shown,
        [
            (1, false, Outcome::Succeeded),
            (1, true, Outcome::Succeeded)
        ]
    );
    let detail = rig.step("o1", "charge").await;
    assert_eq!(detail.not_retried, "not retried: the only retry is used up");
}

#[tokio::test]
async fn attempts_of_every_branch_are_told_with_their_cost() {
    let rig = BuiltInRig::start().await;
    let mut worker = order(&rig, "o1").await;
    let reserve = worker.task().await;
    worker.complete_for(&reserve, &json!(1), 10);
    let charge = worker.task().await;
    worker.complete_for(&charge, &json!(1), 20);
    let ship = worker.task().await;
    worker.fail(&ship, v1::ErrorCategory::AgentError);
    let undo = worker.task().await;
    worker.complete(&undo, &json!(null));
    rig.until("o1", is("rolled_back")).await;
    rig.retry_from("o1", "reserve", "olga").await;
    let reserve = worker.task().await;
    worker.complete_for(&reserve, &json!(2), 100);
    worker.task().await;
    let detail = rig.step("o1", "reserve").await;
    let shown: Vec<_> = detail
        .attempts
        .iter()
        .filter(|one| !one.compensation)
        .map(|one| {
            let number = one.branch.rsplit('/').next().unwrap_or_default();
            (number, one.outcome(), tokens(one.usage.as_ref()))
        })
        .collect();
    assert_eq!(
        shown,
        [
            ("0", Outcome::Succeeded, 10),
            ("1", Outcome::Succeeded, 100)
        ]
    );
    assert_eq!(json_of(detail.output.as_ref()), json!(2));
    // In all, on the branches that were left, of the step on the current branch, and by branch.
    let execution = rig.get("o1").await;
    assert_eq!(tokens(execution.usage.as_ref()), 130);
    assert_eq!(tokens(execution.abandoned_usage.as_deref()), 30);
    assert_eq!(tokens(execution.steps[0].usage.as_ref()), 100);
    let request = v1::ListBranchesRequest {
        parent: "providers/b/executions/o1".into(),
        ..v1::ListBranchesRequest::default()
    };
    let listed = rig.recovery().await.list_branches(request).await.unwrap();
    let branches = listed.into_inner().branches;
    let cost: Vec<_> = branches
        .iter()
        .map(|one| tokens(one.usage.as_ref()))
        .collect();
    assert_eq!(cost, [30, 100]);
}

#[tokio::test]
async fn a_step_that_runs_another_definition_names_its_execution_and_has_its_cost() {
    let rig = BuiltInRig::start().await;
    rig.apply("{name: import, steps: [{name: load, agent: x, timeout: 5m}]}")
        .await;
    rig.apply("{name: nightly, steps: [{name: shop, workflow: import, timeout: 5m}]}")
        .await;
    let mut worker = worker(&rig).await;
    rig.begin("nightly", "n1", "ada", Value::Null).await;
    let load = worker.task().await;
    let child = "providers/b/executions/n1~shop~1";
    assert_eq!(rig.get("n1").await.steps[0].child, child);
    worker.complete_for(&load, &json!(1), 40);
    rig.until("n1", is("completed")).await;
    let detail = rig.step("n1", "shop").await;
    let attempt = &detail.attempts[0];
    assert_eq!(
        (&*attempt.child, tokens(attempt.usage.as_ref())),
        (child, 40)
    );
    let parent = rig.get("n1").await;
    assert_eq!(tokens(parent.usage.as_ref()), 40);
    assert_eq!(tokens(parent.steps[0].usage.as_ref()), 40);
}

#[tokio::test]
async fn a_long_output_is_cut_and_says_so() {
    let rig = BuiltInRig::start().await;
    let mut worker = order(&rig, "o1").await;
    let reserve = worker.task().await;
    worker.complete(&reserve, &json!("x".repeat(300_000)));
    worker.task().await;
    let detail = rig.step("o1", "reserve").await;
    let output = detail.output.expect("an output");
    assert!(detail.output_truncated);
    assert_eq!(output.data.len(), 256 * 1024);
    assert_eq!(output.content_type, "text/plain; charset=utf-8");
}

#[tokio::test]
async fn steps_are_told_by_the_built_in_engine_only_and_only_those_that_exist() {
    let puppet = Puppet::new();
    puppet.show("x", "RUNNING");
    let rig = BuiltInRig::start_beside(|gateway| gateway.with_puppet("p", &puppet)).await;
    let mut worker = order(&rig, "o1").await;
    worker.task().await;
    let mut client = rig.gateway.executions().await;
    for (name, code, reason) in [
        (
            "providers/p/executions/x/steps/a",
            Code::Unimplemented,
            "CAPABILITY_NOT_SUPPORTED",
        ),
        (
            "providers/b/executions/o1/steps/none",
            Code::NotFound,
            "STEP_NOT_FOUND",
        ),
        (
            "providers/b/executions/none/steps/a",
            Code::NotFound,
            "EXECUTION_NOT_FOUND",
        ),
        (
            "providers/b/executions/o1",
            Code::InvalidArgument,
            "INVALID_ARGUMENT",
        ),
    ] {
        let request = v1::GetStepRequest { name: name.into() };
        let status = client.get_step(request).await.unwrap_err();
        assert_eq!(
            (status.code(), &*reason_of(&status)),
            (code, reason),
            "{name}"
        );
    }
}
