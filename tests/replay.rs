//! Looking back: branches, the state at any event, and what another definition would have made.

use serde_json::json;
use stateway_client::v1;
use stateway_client::v1::replay_execution_request::Variant;
use stateway_client::v1::stream_tasks_response::Message as Told;
use stateway_engine::recording::Recording;
use tonic::Code;

use crate::support::{BuiltInRig, TestWorker, json_of, reason_of};

const ORDER: &str = "\
name: order
failurePolicy: compensate
steps:
  - {name: reserve, agent: x, timeout: 5m}
  - name: charge
    agent: x
    timeout: 5m
    dependsOn: [reserve]
    retryPolicy: {maxRetries: 1, backoff: constant, initialDelay: 1ms, maxDelay: 1ms}
compensation: [{step: reserve, agent: x}]
";
const CHAIN: &str = "\
name: chain
steps:
  - {name: a, agent: x, timeout: 5m}
  - {name: b, agent: x, timeout: 5m, dependsOn: [a]}
";

fn name(id: &str) -> String {
    format!("providers/b/executions/{id}")
}

async fn worker(rig: &BuiltInRig) -> TestWorker {
    let offer = v1::Offer {
        roles: vec!["x".into()],
        capacity: 2,
        ..v1::Offer::default()
    };
    rig.work(offer).await.unwrap()
}

/// An order that was charged at the second attempt.
async fn ordered(rig: &BuiltInRig) {
    rig.apply(ORDER).await;
    let mut worker = worker(rig).await;
    rig.begin("order", "o1", "ada", json!({"n": 1})).await;
    let reserve = worker.task().await;
    worker.complete(&reserve, &json!({"held": 1}));
    let charge = worker.task().await;
    worker.fail(&charge, v1::ErrorCategory::Transient);
    let charge = worker.task().await;
    worker.complete(&charge, &json!({"paid": true}));
    rig.until("o1", |view| view.native_state == "completed")
        .await;
}

fn replay(id: &str) -> v1::ReplayExecutionRequest {
    v1::ReplayExecutionRequest {
        name: name(id),
        ..v1::ReplayExecutionRequest::default()
    }
}

/// The bytes of the store's files.
fn files(rig: &BuiltInRig) -> Vec<Vec<u8>> {
    ["store.db", "store.db-wal"]
        .map(|file| std::fs::read(rig.directory.path().join(file)).unwrap_or_default())
        .into()
}

#[tokio::test]
async fn a_replay_shows_the_execution_at_any_event_and_touches_nothing() {
    let rig = BuiltInRig::start().await;
    ordered(&rig).await;
    let before = (files(&rig), rig.export("o1").await);
    let mut client = rig.recovery().await;
    let mut shown = Vec::new();
    for at in 1..=14 {
        let request = v1::ReplayExecutionRequest {
            variant: Some(Variant::AtSequence(at)),
            ..replay("o1")
        };
        let answer = client.replay_execution(request).await.unwrap().into_inner();
        assert_eq!(answer.event_count, at);
        assert_eq!(answer.source_hash_before, answer.source_hash_after);
        assert_eq!(answer.source_hash_before.len(), 64);
        let execution = answer.execution.unwrap();
        assert_eq!(execution.name, name("o1"));
        shown.push((execution.sub_state(), execution.current_steps.join(" ")));
    }
    use v1::SubState::{BackingOff, Running, Succeeded, Waiting};
    let expected = [
        (Waiting, ""),
        (Waiting, ""),
        (Running, ""),
        (Running, "reserve"),
        (Running, "reserve"),
        (Running, ""),
        (Running, "charge"),
        (Running, "charge"),
        (Running, "charge"),
        (BackingOff, "charge"),
        (Running, "charge"),
        (Running, "charge"),
        (Running, ""),
        (Succeeded, ""),
    ];
    let shown: Vec<_> = shown
        .iter()
        .map(|(state, steps)| (*state, &**steps))
        .collect();
    assert_eq!(shown, expected);
    let whole = client
        .replay_execution(replay("o1"))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(whole.event_count, 14);
    let execution = whole.execution.unwrap();
    assert_eq!(
        json_of(execution.output.as_ref()),
        json!({"charge": {"paid": true}})
    );
    assert_eq!(json_of(execution.input.as_ref()), json!({"n": 1}));
    let after = (files(&rig), rig.export("o1").await);
    assert!(before == after, "the store was written");
    let recorded = Recording::read(&after.1).unwrap();
    assert_eq!(whole.head_hash, recorded.head().unwrap());
}

#[tokio::test]
async fn under_another_definition_the_shadow_says_where_it_parts() {
    let rig = BuiltInRig::start().await;
    ordered(&rig).await;
    let before = (files(&rig), rig.export("o1").await);
    let mut client = rig.recovery().await;
    let request = v1::ReplayExecutionRequest {
        variant: Some(Variant::Source(
            ORDER.replace("maxRetries: 1", "maxRetries: 0"),
        )),
        ..replay("o1")
    };
    let answer = client.replay_execution(request).await.unwrap().into_inner();
    let told: Vec<_> = answer
        .divergences
        .iter()
        .map(|found| (found.kind().label(), &*found.step, found.sequence))
        .collect();
    assert_eq!(
        told,
        [
            ("retries", "charge", 10),
            ("path", "reserve", 10),
            ("outcome", "", 14),
        ]
    );
    assert!(
        answer.divergences[0]
            .summary
            .contains("in the shadow: nothing more")
    );
    let open: Vec<_> = answer
        .unrecorded_steps
        .iter()
        .map(|open| (&*open.step, open.attempt, open.compensation))
        .collect();
    assert_eq!(open, [("reserve", 1, true)]);
    assert_eq!(
        answer.recorded_outcome,
        "completed with {\"charge\":{\"paid\":true}}"
    );
    assert!(
        answer
            .derived_outcome
            .contains("`reserve` has no recorded result")
    );
    assert_eq!(answer.steps.len(), 2);
    assert_eq!(answer.source_hash_before, answer.source_hash_after);
    let after = (files(&rig), rig.export("o1").await);
    assert!(before == after, "the store was written");

    // A revision that was applied, by its first digits or as the newest.
    let applied = rig
        .apply(&ORDER.replace("timeout: 5m", "timeout: 6m"))
        .await;
    for revision in [&applied.revision[..12], "latest", &applied.revision] {
        let request = v1::ReplayExecutionRequest {
            variant: Some(Variant::Revision(revision.to_owned())),
            ..replay("o1")
        };
        let answer = client.replay_execution(request).await.unwrap().into_inner();
        assert_eq!(answer.divergences, [], "{revision}");
        assert_eq!(answer.revision, applied.revision);
        assert_eq!(answer.derived_outcome, answer.recorded_outcome);
    }
}

#[tokio::test]
async fn what_cannot_be_replayed_is_refused_with_the_reason() {
    let rig = BuiltInRig::start().await;
    ordered(&rig).await;
    let with = |change: &dyn Fn(&mut v1::ReplayExecutionRequest)| {
        let mut request = replay("o1");
        change(&mut request);
        request
    };
    let mut client = rig.recovery().await;
    for (request, code, reason) in [
        (
            with(&|r| r.variant = Some(Variant::AtSequence(15))),
            Code::OutOfRange,
            "NOT_IN_HISTORY",
        ),
        (
            with(&|r| r.branch = format!("{}/branches/3", r.name)),
            Code::OutOfRange,
            "NOT_IN_HISTORY",
        ),
        (
            with(&|r| r.branch = format!("{}/branches/x", r.name)),
            Code::InvalidArgument,
            "INVALID_ARGUMENT",
        ),
        (
            with(&|r| r.branch = format!("{}/branches/-", r.name)),
            Code::InvalidArgument,
            "INVALID_ARGUMENT",
        ),
        (
            with(&|r| r.branch = "0".into()),
            Code::InvalidArgument,
            "INVALID_ARGUMENT",
        ),
        (
            with(&|r| r.variant = Some(Variant::Revision("feedbeef".into()))),
            Code::NotFound,
            "REVISION_NOT_FOUND",
        ),
        (
            with(&|r| r.variant = Some(Variant::Source("steps: 3".into()))),
            Code::InvalidArgument,
            "INVALID_ARGUMENT",
        ),
        (
            with(&|r| r.variant = Some(Variant::Revision(String::new()))),
            Code::InvalidArgument,
            "INVALID_ARGUMENT",
        ),
        (
            with(&|r| r.variant = Some(Variant::AtSequence(0))),
            Code::InvalidArgument,
            "INVALID_ARGUMENT",
        ),
        (
            with(&|r| r.name = name("nope")),
            Code::NotFound,
            "EXECUTION_NOT_FOUND",
        ),
    ] {
        let shown = format!("{request:?}");
        let status = client.replay_execution(request).await.unwrap_err();
        assert_eq!(
            (status.code(), &*reason_of(&status)),
            (code, reason),
            "{shown}"
        );
    }
}

#[tokio::test]
async fn work_done_again_is_a_branch_with_its_own_history_and_the_old_one_is_fenced_off() {
    let rig = BuiltInRig::start().await;
    rig.apply(CHAIN).await;
    let mut worker = worker(&rig).await;
    rig.begin("chain", "c1", "ada", json!({})).await;
    let a = worker.task().await;
    worker.complete(&a, &json!(1));
    let old = worker.task().await;
    let again = v1::RetryFromRequest {
        name: name("c1"),
        origin: Some(v1::retry_from_request::Origin::Step("b".into())),
        input: Some(v1::Payload {
            data: json!({"gently": true}).to_string().into(),
            content_type: String::new(),
        }),
        feedback: "gently, please".into(),
        ..v1::RetryFromRequest::default()
    };
    let mut executions = rig.gateway.executions().await;
    executions.retry_from(again).await.unwrap();
    let new = worker.task().await;
    assert_eq!((&*new.step, &*new.feedback), ("b", "gently, please"));
    assert_eq!(json_of(new.input.as_ref()), json!({"gently": true}));
    worker.complete(&old, &json!("too late"));
    let refused = loop {
        if let Told::Refused(refused) = worker.next().await.unwrap() {
            break refused;
        }
    };
    assert_eq!(
        (&*refused.reason, &refused.task_token),
        ("STALE_TASK", &old.task_token)
    );
    worker.complete(&new, &json!("in time"));
    rig.until("c1", |view| view.native_state == "completed")
        .await;

    let mut client = rig.recovery().await;
    let list = v1::ListBranchesRequest {
        parent: name("c1"),
        page_size: 1,
        ..v1::ListBranchesRequest::default()
    };
    let first = client
        .list_branches(list.clone())
        .await
        .unwrap()
        .into_inner();
    let rest = v1::ListBranchesRequest {
        page_token: first.next_page_token,
        ..list
    };
    let second = client.list_branches(rest).await.unwrap().into_inner();
    assert_eq!(second.next_page_token, "");
    let branches = [&first.branches[..], &second.branches[..]].concat();
    assert_eq!(branches.len(), 2);
    assert_eq!(
        (&*branches[0].parent_branch, branches[0].current),
        ("", false)
    );
    let new = &branches[1];
    assert_eq!(new.name, format!("{}/branches/1", name("c1")));
    assert_eq!(new.parent_branch, branches[0].name);
    assert_eq!((new.cutoff_sequence, new.current), (6, true));
    assert!(
        new.cause
            .contains("from b, with other input, with feedback: gently"),
        "{}",
        new.cause
    );
    assert!(new.create_time.is_some() && !new.created_by.is_empty());

    let events = |branch: &str| v1::ListEventsRequest {
        parent: name("c1"),
        branch: format!("{}/branches/{branch}", name("c1")),
        page_size: 3,
        ..v1::ListEventsRequest::default()
    };
    let mut told = Vec::new();
    for branch in ["0", "current", "-"] {
        let mut all = Vec::new();
        let mut request = events(branch);
        loop {
            let page = executions
                .list_events(request.clone())
                .await
                .unwrap()
                .into_inner();
            assert!(page.events.len() <= 3);
            all.extend(page.events.iter().map(|event| {
                let branch = event.branch.strip_prefix(&name("c1")).expect("its own");
                let branch = branch.strip_prefix("/branches/").expect("a branch");
                format!(
                    "{branch}.{} {} {}",
                    event.sequence, event.native_type, event.step
                )
            }));
            request.page_token = page.next_page_token;
            if request.page_token.is_empty() {
                break;
            }
        }
        told.push(all);
    }
    let [old, current, all] = &told[..] else {
        panic!()
    };
    assert_eq!(old[5], "0.6 StepCompleted a");
    assert_eq!(old[6], "0.7 StepStarted b");
    assert_eq!(current[..6], old[..6]);
    assert_eq!(current[6], "1.7 BranchOpened ");
    assert!(current.last().unwrap().contains("ExecutionCompleted"));
    // Everything that ever happened is what both tell, the part they share once.
    assert_eq!(*all, [&old[..], &current[6..]].concat());
    let status = executions.list_events(events("9")).await.unwrap_err();
    assert_eq!(
        (status.code(), &*reason_of(&status)),
        (Code::NotFound, "BRANCH_NOT_FOUND")
    );
}

#[tokio::test]
async fn a_history_leaves_as_a_file_that_replays_elsewhere() {
    let rig = BuiltInRig::start().await;
    ordered(&rig).await;
    let export = async |redact| {
        let request = v1::ExportHistoryRequest {
            name: name("o1"),
            redact,
        };
        let stream = rig.recovery().await.export_history(request).await;
        let mut stream = stream.unwrap().into_inner();
        let mut file = Vec::new();
        while let Some(piece) = stream.message().await.unwrap() {
            file.extend_from_slice(&piece.data);
        }
        file
    };
    let mut client = rig.recovery().await;
    let file = export(false).await;
    let read = Recording::read(&file).unwrap();
    assert_eq!(read.write(), file);
    let replayed = client.replay_execution(replay("o1")).await.unwrap();
    let replayed = replayed.into_inner();
    assert_eq!(read.fingerprint(), replayed.source_hash_before);
    let state = read.state_at(None, 0).unwrap().state();
    assert_eq!(state.as_str(), "completed");
    let redacted = export(true).await;
    let text = String::from_utf8(redacted.clone()).unwrap();
    assert!(
        !text.contains("\"paid\":true") && !text.contains("\"ada\""),
        "{text}"
    );
    let redacted = Recording::read(&redacted).unwrap();
    assert_eq!(
        redacted.state_at(None, 0).unwrap().state().as_str(),
        "completed"
    );
}
