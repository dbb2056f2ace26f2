//! Running a part of a hosted execution again, and readings of its log.

use stateway_hosted::message::{ObjectAnswer, ObjectRequest, RedoWork, VERSION, Work};
use stateway_hosted::provider::HostedProvider;
use stateway_machine::{ExecutionState, Verb};
use stateway_model::{ErrorCategory, ExecutionId, Reason, SubState};
use stateway_provider_api::{
    BranchChoice, BranchEventsRequest, ErrorKind, EventLog as _, EventOrder, HistoryRequest,
    Provider as _, ReplayRequest, ReplayUnder, RetryFromRequest, TaskFailure, TaskOutcome, View,
};
use stateway_replay::recording::Recording;

use crate::lab::Lab;
use crate::provider::{Worker, apply, call, completed, get, provider, start};

const CHAIN: &str = "name: test\nsteps:\n  - {name: a, agent: packer, timeout: 1m}\n  - {name: b, agent: packer, timeout: 1m, dependsOn: [a]}";

fn broken() -> TaskOutcome {
    TaskOutcome::Failed(TaskFailure {
        category: ErrorCategory::External,
        message: "no paper".to_owned(),
        no_retry: true,
        code: String::new(),
        effects_unknown: false,
        retry_after: None,
    })
}

fn again(id: &ExecutionId, step: &str, request: &str) -> RetryFromRequest {
    RetryFromRequest {
        id: id.clone(),
        step: step.to_owned(),
        from_start: false,
        input: None,
        feedback: String::new(),
        execution_id: None,
        request_id: request.parse().unwrap(),
    }
}

/// An execution whose first step is done and whose second one failed.
async fn failed(provider: &HostedProvider<Lab>, worker: &mut Worker) -> ExecutionId {
    apply(provider, CHAIN).await;
    let id = start(provider, "r1").await.id;
    let task = worker.task().await;
    let next = worker.answer(&task, completed("1")).await;
    let next = match next {
        Some(next) => next,
        None => worker.task().await,
    };
    worker.answer(&next, broken()).await;
    assert_eq!(
        get(provider, &id).await.reported.unwrap().0,
        SubState::Failed
    );
    id
}

async fn history(
    provider: &HostedProvider<Lab>,
    id: &ExecutionId,
    order: EventOrder,
) -> Vec<(u64, String)> {
    let (mut events, mut cursor) = (Vec::new(), None);
    loop {
        let request = HistoryRequest {
            id: id.clone(),
            page_size: 4,
            cursor,
            view: View::Full,
            order,
        };
        let page = provider.history(&call(), request).await.unwrap();
        let shown = page.events.into_iter();
        events.extend(shown.map(|event| (event.sequence, event.native_type)));
        cursor = page.next;
        if cursor.is_none() {
            return events;
        }
    }
}

#[tokio::test]
async fn a_failed_execution_continues_on_a_new_branch() {
    let lab = Lab::default();
    let provider = provider(&lab);
    let mut worker = Worker::connect(&provider, "w1", 1).await;
    let id = failed(&provider, &mut worker).await;
    let reopened = provider.retry_from(&call(), again(&id, "", "f1")).await;
    assert_eq!(reopened.unwrap().reported.unwrap().0, SubState::Running);
    // The same request has no further effect, another body is refused.
    provider
        .retry_from(&call(), again(&id, "", "f1"))
        .await
        .unwrap();
    let other = provider.retry_from(&call(), again(&id, "a", "f1")).await;
    assert_eq!(other.unwrap_err().reason(), "REQUEST_ID_REUSED");
    let task = worker.task().await;
    assert_eq!((&*task.step, task.attempt), ("b", 1));
    worker.answer(&task, completed("2")).await;
    let seen = get(&provider, &id).await;
    assert_eq!(seen.reported, Some((SubState::Succeeded, None)));
    assert_eq!(seen.reopen.unwrap().from, "failed");
    let branches = provider.branches(&call(), &id, None, 10).await.unwrap();
    let shown: Vec<_> = branches
        .iter()
        .map(|it| (it.branch, it.parent, it.current, it.cause.as_str()))
        .collect();
    assert_eq!(
        shown,
        [
            (0, None, false, "started"),
            (1, Some(0), true, "retry from b")
        ]
    );
    // Both directions show every event of both branches once.
    let oldest = history(&provider, &id, EventOrder::OldestFirst).await;
    let mut newest = history(&provider, &id, EventOrder::NewestFirst).await;
    newest.reverse();
    assert_eq!(oldest, newest);
    let numbers: Vec<_> = oldest.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, (1..=oldest.len() as u64).collect::<Vec<_>>());
    // The lineage of the new branch leaves the failure out.
    let along = BranchEventsRequest {
        id: id.clone(),
        branch: BranchChoice::Current,
        cursor: None,
        page_size: 100,
        view: View::Basic,
        order: EventOrder::OldestFirst,
    };
    let along = provider.branch_events(&call(), along).await.unwrap();
    let kinds = along.events.iter().map(|it| it.event.native_type.as_str());
    let kinds: Vec<_> = kinds.collect();
    assert!(!kinds.contains(&"AttemptFailed"), "{kinds:?}");
    assert!(kinds.contains(&"BranchOpened"), "{kinds:?}");
    let step = provider.step(&call(), &id, "b").await.unwrap();
    let attempts: Vec<_> = step.attempts.iter().map(|it| it.branch).collect();
    assert_eq!(attempts, [0, 1]);
}

#[tokio::test]
async fn a_success_is_forked_and_stays_as_it_is() {
    let lab = Lab::default();
    let provider = provider(&lab);
    let mut worker = Worker::connect(&provider, "w1", 1).await;
    let id = failed(&provider, &mut worker).await;
    provider
        .retry_from(&call(), again(&id, "", "f1"))
        .await
        .unwrap();
    let task = worker.task().await;
    worker.answer(&task, completed("2")).await;
    let before = lab.stored(id.as_str());
    let fork = provider
        .retry_from(&call(), again(&id, "b", "f2"))
        .await
        .unwrap();
    assert_ne!(fork.id, id);
    assert_eq!(fork.forked_from, Some(id.clone()));
    let same = provider.retry_from(&call(), again(&id, "b", "f2")).await;
    assert_eq!(same.unwrap().id, fork.id);
    assert_eq!(lab.stored(id.as_str()), before);
    let forks = get(&provider, &id).await.forks;
    assert_eq!(forks, std::slice::from_ref(&fork.id));
    let task = worker.task().await;
    assert_eq!((&task.execution, &*task.step), (&fork.id, "b"));
    worker.answer(&task, completed("3")).await;
    let seen = get(&provider, &fork.id).await;
    assert_eq!(seen.reported, Some((SubState::Succeeded, None)));
    // Its log stands alone.
    let file = provider.export(&call(), &fork.id, false).await.unwrap();
    let recording = Recording::read(&file).unwrap();
    recording.check().unwrap();
    assert_eq!(
        recording.state_at(None, 0).unwrap().state(),
        ExecutionState::Completed
    );
}

#[tokio::test]
async fn an_export_is_replayed_and_redacted_like_that_of_the_built_in_engine() {
    let lab = Lab::default();
    let provider = provider(&lab);
    let mut worker = Worker::connect(&provider, "w1", 1).await;
    let id = failed(&provider, &mut worker).await;
    for redact in [false, true] {
        let file = provider.export(&call(), &id, redact).await.unwrap();
        let recording = Recording::read(&file).unwrap();
        recording.check().unwrap();
        let state = recording.state_at(None, 0).unwrap();
        assert_eq!(state.state(), ExecutionState::Failed);
        let text = String::from_utf8(file).unwrap();
        assert_eq!(text.contains("no paper"), !redact);
    }
    let replay = |under| ReplayRequest {
        id: id.clone(),
        branch: None,
        under,
    };
    let recorded = provider
        .replay(&call(), replay(ReplayUnder::Recorded { until: 0 }))
        .await
        .unwrap();
    let shown = recorded.execution.unwrap();
    assert_eq!(shown.reported.unwrap().0, SubState::Failed);
    assert_eq!(recorded.source_hash_before, recorded.source_hash_after);
    let shadow = provider
        .replay(&call(), replay(ReplayUnder::Latest))
        .await
        .unwrap();
    assert!(shadow.divergences.is_empty(), "{:?}", shadow.divergences);
    let projected = provider.project(&call(), &id, "ioa").await.unwrap();
    assert!(projected.terminal, "{projected:?}");
}

#[tokio::test]
async fn a_log_that_changed_since_it_was_read_is_not_left() {
    let lab = Lab::default();
    let provider = provider(&lab);
    let mut worker = Worker::connect(&provider, "w1", 1).await;
    let id = failed(&provider, &mut worker).await;
    let before = lab.stored(id.as_str());
    let redo = RedoWork {
        head: (0, 1),
        source: CHAIN.into(),
        before: String::new(),
        verb: Box::new(Verb::GrantSlot),
    };
    let request = ObjectRequest {
        v: VERSION,
        id: "f1".into(),
        at: lab.now(),
        body: Some("b1".into()),
        work: Work::Redo(Box::new(redo)),
        claim: None,
    };
    let request = serde_json::to_vec(&request).unwrap();
    let answer = lab.send_raw(id.as_str(), &request);
    let ObjectAnswer::Refused(refusal) = serde_json::from_slice(&answer).unwrap() else {
        panic!("it was carried out");
    };
    assert_eq!(refusal.reason, "LOG_CHANGED");
    assert_eq!(lab.stored(id.as_str()), before);
}

#[tokio::test]
async fn what_cannot_run_again_is_refused_by_the_core() {
    let lab = Lab::default();
    let provider = provider(&lab);
    let mut worker = Worker::connect(&provider, "w1", 1).await;
    let id = failed(&provider, &mut worker).await;
    let unknown = provider.retry_from(&call(), again(&id, "zzz", "f1")).await;
    let unknown = unknown.unwrap_err();
    assert_eq!(
        (unknown.kind, unknown.reason()),
        (ErrorKind::NotFound, "STEP_NOT_FOUND")
    );
    let mut named = again(&id, "", "f2");
    named.execution_id = Some(ExecutionId::new("copy").unwrap());
    let refused = provider.retry_from(&call(), named).await.unwrap_err();
    assert_eq!(refused.reason(), "NOT_FORKED");
}

#[tokio::test]
async fn the_child_of_the_part_that_is_left_ends_and_another_one_starts() {
    let lab = Lab::default();
    let provider = provider(&lab);
    apply(
        &provider,
        "name: test\nsteps: [{name: sub, workflow: other, timeout: 10m}]",
    )
    .await;
    let other = stateway_provider_api::ApplyPortableRequest {
        source: "name: other\nsteps: [{name: nap, sleep: 1h}]".to_owned(),
        source_name: "other.yaml".to_owned(),
        request_id: "apply-other".parse().unwrap(),
    };
    use stateway_provider_api::PortableDefinitions as _;
    provider.apply_portable(&call(), other).await.unwrap();
    let id = start(&provider, "r1").await.id;
    provider
        .retry_from(&call(), again(&id, "sub", "f1"))
        .await
        .unwrap();
    let first = lab.view(&format!("{id}~sub~1"));
    assert_eq!(first.view.reason, Some(Reason::Cancelled));
    let second = lab.view(&format!("{id}~sub~1~b1"));
    assert_eq!(second.view.sub_state, SubState::Waiting);
    assert_eq!(
        get(&provider, &id).await.reported.unwrap().0,
        SubState::Waiting
    );
}

#[tokio::test]
async fn executions_are_counted_by_their_sub_state_also_those_of_earlier_builds() {
    let lab = Lab::default();
    let provider = provider(&lab);
    apply(&provider, "name: test\nsteps: [{name: nap, sleep: 1h}]").await;
    let first = start(&provider, "r1").await.id;
    start(&provider, "r2").await;
    let counted = async || {
        let counts = provider.count(&call()).await.unwrap();
        let counts = counts.into_iter();
        let counts = counts.map(|it| (it.example.reported.unwrap().0, it.count));
        counts.collect::<Vec<_>>()
    };
    assert_eq!(counted().await, [(SubState::Waiting, 2)]);
    let stored = lab.stored(first.as_str());
    let mut view: serde_json::Value = serde_json::from_slice(&stored["v"]).unwrap();
    view.as_object_mut().unwrap().remove("s");
    lab.replace(first.as_str(), "v", serde_json::to_vec(&view).unwrap());
    assert_eq!(counted().await, [(SubState::Waiting, 2)]);
}
