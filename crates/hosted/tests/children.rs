//! Children of hosted executions: objects of their own, reached by messages.

use jiff::SignedDuration;
use stateway_machine::ExecutionState;
use stateway_model::{ErrorCategory, ExecutionId, Payload, Reason, SubState};
use stateway_provider_api::{
    ApplyPortableRequest, CancelMode, CancelRequest, CompensationChoice, PortableDefinitions as _,
    Provider as _, TaskFailure, TaskOutcome,
};

use crate::lab::Lab;
use crate::provider::{Worker, apply, call, completed, get, provider, start};

const PARENT: &str = "name: test\nsteps:\n  - {name: sub, workflow: other, timeout: 10m, input: {from: '${input.n}'}}\n  - {name: ship, agent: packer, timeout: 1m, dependsOn: [sub], input: '${steps.sub.output}'}";
const CHILD: &str = "name: other\nsteps: [{name: pack, agent: packer, timeout: 1m}]";

async fn define(provider: &stateway_hosted::provider::HostedProvider<Lab>) {
    apply(provider, PARENT).await;
    let request = ApplyPortableRequest {
        source: CHILD.to_owned(),
        source_name: "other.yaml".to_owned(),
        request_id: "apply-other".parse().unwrap(),
    };
    provider.apply_portable(&call(), request).await.unwrap();
}

fn child_of(parent: &ExecutionId) -> ExecutionId {
    ExecutionId::new(format!("{parent}~sub~1")).unwrap()
}

fn cancel(id: &ExecutionId, mode: CancelMode) -> CancelRequest {
    CancelRequest {
        id: id.clone(),
        mode,
        compensation: CompensationChoice::AsDefined,
        comment: String::new(),
        request_id: "c1".parse().unwrap(),
    }
}

#[tokio::test]
async fn a_child_runs_as_an_execution_of_its_own_and_its_output_reaches_the_parent() {
    let lab = Lab::default();
    let provider = provider(&lab);
    define(&provider).await;
    let mut worker = Worker::connect(&provider, "w1", 1).await;
    let parent = start(&provider, "r1").await.id;
    let child = child_of(&parent);
    let seen = get(&provider, &parent).await;
    assert_eq!(seen.steps[0].child, Some(child.clone()));
    let shown = get(&provider, &child).await;
    assert_eq!(shown.parent_execution, Some(parent.clone()));
    assert_eq!(shown.input, Some(Payload::json(r#"{"from":1}"#)));
    let task = worker.task().await;
    assert_eq!((&task.execution, &*task.step), (&child, "pack"));
    worker.answer(&task, completed(r#"{"box":7}"#)).await;
    let task = worker.task().await;
    assert_eq!((&task.execution, &*task.step), (&parent, "ship"));
    worker.answer(&task, completed("1")).await;
    for id in [&parent, &child] {
        let seen = get(&provider, id).await;
        assert_eq!(seen.reported, Some((SubState::Succeeded, None)), "{id}");
    }
    // The object forgets the children that have ended.
    let kept = String::from_utf8(lab.stored(parent.as_str())["x"].clone()).unwrap();
    assert!(!kept.lines().next().unwrap().contains("children"), "{kept}");
}

#[tokio::test]
async fn the_failure_of_a_child_fails_the_step() {
    let lab = Lab::default();
    let provider = provider(&lab);
    define(&provider).await;
    let mut worker = Worker::connect(&provider, "w1", 1).await;
    let parent = start(&provider, "r1").await.id;
    let task = worker.task().await;
    let failure = TaskFailure {
        category: ErrorCategory::External,
        message: "no paper".to_owned(),
        no_retry: true,
        code: String::new(),
        effects_unknown: false,
        retry_after: None,
    };
    worker.answer(&task, TaskOutcome::Failed(failure)).await;
    let seen = get(&provider, &parent).await;
    let error = seen.last_error.unwrap();
    assert_eq!(error.step, "sub");
    assert!(error.message.contains("no paper"), "{}", error.message);
}

#[tokio::test]
async fn a_child_without_a_definition_is_a_failure_of_the_step() {
    let lab = Lab::default();
    let provider = provider(&lab);
    apply(&provider, PARENT).await;
    let parent = start(&provider, "r1").await.id;
    let seen = get(&provider, &parent).await;
    let error = seen.last_error.unwrap();
    assert_eq!(error.message, "there is no definition `other`");
    assert!(lab.stored(child_of(&parent).as_str()).is_empty());
}

#[tokio::test]
async fn a_child_that_a_host_cannot_run_fails_the_step_with_the_words_of_the_report() {
    let lab = Lab::default();
    let provider = provider(&lab);
    apply(&provider, PARENT).await;
    let source = "name: other\nconcurrency: 2\nsteps: [{name: nap, sleep: 1s}]";
    let request = ApplyPortableRequest {
        source: source.to_owned(),
        source_name: "other.yaml".to_owned(),
        request_id: "apply-other".parse().unwrap(),
    };
    provider.apply_portable(&call(), request).await.unwrap();
    let report = provider.portability(&call(), source).await.unwrap();
    let parent = start(&provider, "r1").await.id;
    let error = get(&provider, &parent).await.last_error.unwrap();
    assert_eq!(
        error.message,
        format!("definition `other`: {}", report.reasons[0])
    );
}

#[tokio::test]
async fn a_cancelled_parent_waits_for_its_child_and_a_killed_one_does_not() {
    for (mode, reason) in [
        (CancelMode::Graceful, Reason::Cancelled),
        (CancelMode::Kill, Reason::Killed),
    ] {
        let lab = Lab::default();
        let provider = provider(&lab);
        define(&provider).await;
        let parent = start(&provider, "r1").await.id;
        let child = child_of(&parent);
        provider
            .cancel(&call(), cancel(&parent, mode))
            .await
            .unwrap();
        for id in [&child, &parent] {
            let seen = get(&provider, id).await;
            assert_eq!(
                seen.reported,
                Some((SubState::Failed, Some(reason))),
                "{id}"
            );
        }
    }
}

#[tokio::test]
async fn an_end_that_overtakes_the_start_ends_the_child() {
    for mode in [CancelMode::Graceful, CancelMode::Kill] {
        let lab = Lab::default();
        let provider = provider(&lab);
        define(&provider).await;
        lab.hold_messages(true, false);
        let parent = start(&provider, "r1").await.id;
        provider
            .cancel(&call(), cancel(&parent, mode))
            .await
            .unwrap();
        lab.hold_messages(false, true);
        let child = child_of(&parent);
        for id in [&child, &parent] {
            let state = lab.view(id.as_str()).view.state;
            assert_eq!(state, ExecutionState::Cancelled, "{id} {mode:?}");
        }
    }
}

#[tokio::test]
async fn a_paused_parent_starts_its_child_once() {
    use stateway_provider_api::{PauseRequest, ResumeRequest};
    let lab = Lab::default();
    let provider = provider(&lab);
    define(&provider).await;
    let parent = start(&provider, "r1").await.id;
    let before = lab.stored(child_of(&parent).as_str());
    let pause = PauseRequest {
        id: parent.clone(),
        comment: String::new(),
        request_id: "p1".parse().unwrap(),
    };
    provider.pause(&call(), pause).await.unwrap();
    let resume = ResumeRequest {
        id: parent.clone(),
        request_id: "p2".parse().unwrap(),
    };
    provider.resume(&call(), resume).await.unwrap();
    assert_eq!(lab.stored(child_of(&parent).as_str()), before);
}

#[tokio::test]
async fn a_message_that_waited_has_the_time_of_its_delivery() {
    let lab = Lab::default();
    let provider = provider(&lab);
    define(&provider).await;
    lab.hold_messages(true, false);
    let parent = start(&provider, "r1").await.id;
    lab.pass(SignedDuration::from_mins(5));
    lab.hold_messages(false, false);
    let seen = lab.view(child_of(&parent).as_str());
    assert_eq!(seen.view.times.created, Some(lab.now()));
}

#[tokio::test]
async fn a_definition_that_starts_itself_ends_at_the_greatest_depth() {
    let lab = Lab::default();
    let provider = provider(&lab);
    apply(
        &provider,
        "name: test\nsteps: [{name: sub, workflow: test, timeout: 10m, retryPolicy: {maxRetries: 0}}]",
    )
    .await;
    let parent = start(&provider, "r1").await.id;
    let seen = get(&provider, &parent).await;
    assert_eq!(seen.reported.unwrap().0, SubState::Failed);
    let error = seen.last_error.unwrap();
    assert!(
        error.message.contains("nested 32 deep"),
        "{}",
        error.message
    );
}
