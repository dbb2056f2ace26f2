//! Branches: the work is done again, the old branch stays, and what it left is fenced off.

use std::sync::Arc;

use serde_json::{Value, json};
use stateway_engine::{Engine, RetryFrom, Steer, View, WorkerMessage};
use stateway_machine::CancelMode;
use stateway_model::{ErrorCategory, Reason, SubState};

use crate::lab::Lab;
use crate::time::pass;

const MINUTE: i64 = 60_000;

const CHAIN: &str = "
name: chain
timeout: 1h
steps:
  - {name: a, agent: x, timeout: 1m}
  - {name: b, agent: x, dependsOn: [a], timeout: 1m, input: {n: '${steps.a.output.n}'}}
  - {name: c, agent: x, dependsOn: [b], timeout: 1m}
";

fn from(step: &str) -> RetryFrom {
    RetryFrom {
        step: step.into(),
        ..RetryFrom::default()
    }
}

async fn again(lab: &Lab, id: &Arc<str>, from: RetryFrom) -> View {
    let asked = lab
        .engine
        .retry_from(id.clone(), from, "eve".into(), lab.key(3));
    asked.await.unwrap()
}

async fn names(engine: &Engine, id: &Arc<str>, branch: Option<u32>) -> Vec<String> {
    let (_, events) = engine.lineage(id.clone(), branch, 0, 1_000).await.unwrap();
    let told = events.iter().map(|record| {
        let step = record.event.fact.step().map(|step| format!(" {step}"));
        format!("{}{}", record.event.fact.name(), step.unwrap_or_default())
    });
    told.collect()
}

/// The next task; that others are taken back is no news.
async fn next(worker: &mut crate::lab::Hand) -> stateway_engine::WorkerTask {
    loop {
        match worker.message().await {
            WorkerMessage::Task(task) => return *task,
            WorkerMessage::Withdrawn { .. } | WorkerMessage::Accepted { .. } => {}
            other => panic!("{other:?}"),
        }
    }
}

/// An execution of [`CHAIN`] whose second step has failed.
async fn failed(lab: &Lab, worker: &mut crate::lab::Hand) -> Arc<str> {
    lab.apply(CHAIN).await;
    let started = lab.start("chain", json!(null)).await;
    let a = worker.task().await;
    worker.done(&a, json!({"n": 1}));
    let b = worker.task().await;
    worker.failed(&b, ErrorCategory::AgentError);
    assert_eq!(lab.ended(&started.id).await.sub_state, SubState::Failed);
    started.id
}

#[tokio::test]
async fn a_step_is_done_again_with_other_input_and_a_word_of_advice() {
    let lab = Lab::new();
    let mut worker = lab.worker("w1", &["x"], 1);
    let id = failed(&lab, &mut worker).await;
    let redo = RetryFrom {
        input: Some(Arc::new(json!({"n": 2}))),
        feedback: "twice, please".into(),
        ..from("")
    };
    again(&lab, &id, redo).await;
    let b = worker.task().await;
    assert_eq!((&*b.task.step, &*b.input), ("b", &json!({"n": 2})));
    assert_eq!(b.feedback.as_deref(), Some("twice, please"));
    // What was given and said counts after a restart, and for the next attempt, too.
    let lab = lab.restart();
    let mut worker = lab.worker("w1", &["x"], 1);
    let b = worker.task().await;
    assert_eq!(
        (&*b.input, b.feedback.as_deref()),
        (&json!({"n": 2}), Some("twice, please"))
    );
    worker.done(&b, json!(2));
    let c = worker.task().await;
    assert_eq!((&*c.input, &c.feedback), (&Value::Null, &None));
    worker.done(&c, json!(3));
    assert_eq!(lab.ended(&id).await.sub_state, SubState::Succeeded);
}

#[tokio::test]
async fn every_branch_is_listed_with_who_opened_it_and_why_and_stays_readable() {
    let (lab, clock) = Lab::by_hand();
    let mut worker = lab.worker("w1", &["x"], 1);
    let id = failed(&lab, &mut worker).await;
    let old = names(&lab.engine, &id, None).await;
    clock.advance(24 * 3_600_000);
    let redo = RetryFrom {
        feedback: "better".into(),
        ..from("b")
    };
    again(&lab, &id, redo).await;
    let b = worker.task().await;
    worker.done(&b, json!(2));
    let c = worker.task().await;
    worker.failed(&c, ErrorCategory::AgentError);
    assert_eq!(lab.ended(&id).await.sub_state, SubState::Failed);
    let reset = RetryFrom {
        from_start: true,
        ..RetryFrom::default()
    };
    let view = again(&lab, &id, reset).await;
    assert_eq!((view.branch, view.sub_state), (2, SubState::Running));
    let a = worker.task().await;
    assert_eq!(&*a.task.step, "a");

    let branches = lab.engine.branches(id.clone(), None, 10).await.unwrap();
    let shown: Vec<_> = branches
        .iter()
        .map(|b| {
            (
                b.branch,
                b.parent,
                b.cutoff,
                b.current,
                &*b.by,
                b.cause.as_str(),
            )
        })
        .collect();
    assert_eq!(
        shown,
        [
            (0, None, 0, false, "ada", "started"),
            (
                1,
                Some(0),
                6,
                false,
                "eve",
                "retry from b, with feedback: better"
            ),
            // What both share of the log they share with the first.
            (2, Some(0), 3, true, "eve", "retry from a"),
        ]
    );
    let gap = branches[1]
        .created
        .unwrap()
        .duration_since(branches[0].created.unwrap());
    assert_eq!(gap.as_hours(), 24);
    let page = lab.engine.branches(id.clone(), Some(0), 1).await.unwrap();
    assert_eq!(page, branches[1..2]);

    // The old branches tell what they told, the new ones what leads to them.
    assert_eq!(names(&lab.engine, &id, Some(0)).await, old);
    let first = names(&lab.engine, &id, Some(1)).await;
    assert_eq!(first[..6], old[..6]);
    assert_eq!(
        first[6..9],
        ["BranchOpened", "ExecutionReopened", "StepStarted b"]
    );
    assert_eq!(first.last().unwrap(), "ExecutionFailed c");
    let now = names(&lab.engine, &id, None).await;
    assert_eq!(now[..3], old[..3]);
    assert_eq!(
        now[3..6],
        ["BranchOpened", "ExecutionReopened", "StepStarted a"]
    );
    let none = lab
        .engine
        .lineage(id.clone(), Some(7), 0, 10)
        .await
        .unwrap_err();
    assert_eq!(none.reason, "BRANCH_NOT_FOUND");
}

#[tokio::test]
async fn an_answer_for_the_branch_that_was_left_is_stale() {
    let lab = Lab::new();
    lab.apply(CHAIN).await;
    let mut worker = lab.worker("w1", &["x"], 2);
    let started = lab.start("chain", json!(null)).await;
    let a = worker.task().await;
    worker.done(&a, json!({"n": 1}));
    let old = worker.task().await;
    again(&lab, &started.id, from("b")).await;
    let new = next(&mut worker).await;
    assert_eq!((&*new.task.step, new.task.attempt), ("b", old.task.attempt));
    assert_ne!(new.token, old.token);
    worker.done(&old, json!("too late"));
    loop {
        match worker.message().await {
            WorkerMessage::Refused { reason, .. } => {
                assert_eq!(reason, "STALE_TASK");
                break;
            }
            WorkerMessage::Withdrawn { .. } => {}
            other => panic!("{other:?}"),
        }
    }
    worker.done(&new, json!("in time"));
    let c = worker.task().await;
    worker.done(&c, json!(null));
    assert_eq!(lab.ended(&started.id).await.sub_state, SubState::Succeeded);
    let log = lab.engine.recording(started.id).await.unwrap();
    let told = String::from_utf8(log.write()).unwrap();
    assert!(
        told.contains("in time") && !told.contains("too late"),
        "{told}"
    );
}

/// Its own time limit and those of what is open have as much left as they had.
#[tokio::test]
async fn the_time_between_a_failure_and_its_repetition_counts_for_nobody() {
    let (lab, clock) = Lab::by_hand();
    let source = "
name: pair
timeout: 1h
steps:
  - {name: a, agent: x, timeout: 10m}
  - {name: nap, sleep: 30m}
  - {name: b, agent: y, timeout: 10m}
";
    lab.apply(source).await;
    let mut x = lab.worker("w1", &["x"], 1);
    let mut y = lab.worker("w2", &["y"], 1);
    let started = lab.start("pair", json!(null)).await;
    x.task().await;
    let b = y.task().await;
    y.failed(&b, ErrorCategory::AgentError);
    assert_eq!(lab.ended(&started.id).await.sub_state, SubState::Failed);
    clock.advance(24 * 3_600_000);
    again(&lab, &started.id, from("b")).await;
    let a = next(&mut x).await;
    x.done(&a, json!(1));
    let b = next(&mut y).await;
    y.done(&b, json!(2));
    let nap = |view: &View| view.waits.iter().any(|wait| wait.kind.as_str() == "timer");
    lab.until(&started.id, |view| {
        view.sub_state == SubState::Waiting && nap(view)
    })
    .await;
    clock.advance(29 * 60_000);
    assert_eq!(lab.get(&started.id).await.sub_state, SubState::Waiting);
    clock.advance(60_000);
    assert_eq!(lab.ended(&started.id).await.sub_state, SubState::Succeeded);
}

#[tokio::test]
async fn what_a_step_cannot_take_is_refused_and_nothing_is_opened() {
    let lab = Lab::new();
    lab.apply("name: gate\nsteps: [{name: a, signal: go}, {name: h, http: {url: 'http://127.0.0.1:9/'}, dependsOn: [a]}]")
        .await;
    let started = lab.start("gate", json!(null)).await;
    let ask = |from: RetryFrom| {
        let key = lab.key(3);
        lab.engine
            .retry_from(started.id.clone(), from, "eve".into(), key)
    };
    let input = RetryFrom {
        input: Some(Arc::new(json!(1))),
        ..from("a")
    };
    let told = RetryFrom {
        feedback: "hurry".into(),
        ..from("a")
    };
    let both = RetryFrom {
        from_start: true,
        ..from("a")
    };
    for (from, reason) in [
        (input, "STEP_TAKES_NO_INPUT"),
        (told, "STEP_TAKES_NO_FEEDBACK"),
        (both, "STEP_AND_START"),
        (from("h"), "STEP_NOT_BEGUN"),
        (from("no"), "STEP_NOT_FOUND"),
        (from(""), "NOTHING_FAILED"),
    ] {
        assert_eq!(ask(from).await.unwrap_err().reason, reason);
    }
    let branches = lab.engine.branches(started.id.clone(), None, 10).await;
    assert_eq!(branches.unwrap().len(), 1);
    assert_eq!(lab.get(&started.id).await.branch, 0);
}

#[tokio::test]
async fn without_a_step_a_cancelled_execution_runs_again_from_the_interrupted_step() {
    let lab = Lab::new();
    lab.apply(
        "name: chain\nsteps: [{name: a, agent: x}, {name: b, agent: x, dependsOn: [a]}, {name: c, agent: x, dependsOn: [b]}]",
    )
    .await;
    let started = lab.start("chain", json!(null)).await;
    let mut worker = lab.worker("w1", &["x"], 1);
    let a = worker.task().await;
    worker.done(&a, json!(1));
    worker.task().await;
    let kill = Steer::Cancel {
        mode: CancelMode::Kill,
        cause: "".into(),
    };
    lab.steer(&started.id, kill).await.unwrap();
    lab.ended(&started.id).await;
    let view = again(&lab, &started.id, from("")).await;
    assert_eq!(view.branch, 1);
    let names = names(&lab.engine, &started.id, None).await;
    let opened = names.iter().position(|name| name == "BranchOpened");
    let opened = opened.expect("a branch");
    assert!(names[..opened].contains(&"StepCompleted a".to_owned()));
    assert!(names[opened..].contains(&"StepStarted b".to_owned()));
}

#[tokio::test]
async fn a_success_is_final_and_is_forked_instead() {
    let lab = Lab::new();
    lab.apply(CHAIN).await;
    let mut worker = lab.worker("w1", &["x"], 1);
    let source = lab.start("chain", json!(null)).await.id;
    for output in [json!({"n": 1}), json!(2), json!(3)] {
        let task = worker.task().await;
        worker.done(&task, output);
    }
    let before = lab.ended(&source).await;
    assert_eq!(before.sub_state, SubState::Succeeded);

    let fork = RetryFrom {
        fork_id: Some("second".into()),
        ..from("b")
    };
    let key = lab.key(3);
    let forked = |key| {
        let (source, fork) = (source.clone(), fork.clone());
        lab.engine.retry_from(source, fork, "eve".into(), key)
    };
    let view = forked(key.clone()).await.unwrap();
    assert_eq!(
        (&*view.id, view.branch, view.forked_from.as_deref()),
        ("second", 0, Some(&*source))
    );
    let repeated = forked(key).await.unwrap();
    assert_eq!(&*repeated.id, "second", "the same request forks once");
    let after = lab.engine.get(source.clone()).await.unwrap();
    assert_eq!(
        (after.sequence, after.branch, after.state),
        (before.sequence, 0, before.state)
    );
    assert_eq!(
        lab.engine.forks(source.clone(), 9).await.unwrap(),
        ["second".into()]
    );

    let b = worker.task().await;
    assert_eq!((&*b.execution, &*b.task.step), ("second", "b"));
    assert_eq!(*b.input, json!({"n": 1}), "what came before is kept");
    worker.done(&b, json!(20));
    let c = worker.task().await;
    worker.done(&c, json!(30));
    let ended = lab.ended(&view.id).await;
    assert_eq!(ended.output.as_deref(), Some(&json!({"c": 30})));
    assert_eq!(
        names(&lab.engine, &"second".into(), None).await[6..8],
        ["ExecutionForked", "StepStarted b"]
    );
    let lab = lab.restart();
    let again = lab.engine.get("second".into()).await.unwrap();
    assert_eq!(again.forked_from.as_deref(), Some(&*source));
    crate::lab::all_is_well(&lab).await;
}

#[tokio::test]
async fn a_fork_is_created_at_the_time_of_the_fork_and_its_timeout_counts_from_there() {
    let (lab, clock) = Lab::by_hand();
    lab.apply(
        "name: two\ntimeout: 10m\nsteps: [{name: a, agent: x}, {name: b, agent: x, dependsOn: [a]}]",
    )
    .await;
    let mut worker = lab.worker("w1", &["x"], 1);
    let source = lab.start("two", json!(null)).await;
    let a = worker.task().await;
    pass(&lab, &clock, 5 * MINUTE).await;
    worker.done(&a, json!(1));
    let b = worker.task().await;
    worker.done(&b, json!(2));
    lab.ended(&source.id).await;
    pass(&lab, &clock, 60 * MINUTE).await;
    let now = clock.now();
    let fork = lab
        .engine
        .retry_from(source.id.clone(), from("b"), "eve".into(), lab.key(7))
        .await
        .unwrap();
    let times = |view: &View| (view.times.created, view.times.started);
    assert_eq!(times(&fork), (Some(now), Some(now)));
    pass(&lab, &clock, 9 * MINUTE).await;
    let running = lab.get(&fork.id).await;
    assert_eq!(running.sub_state, SubState::Running);
    crate::lab::all_is_well(&lab).await;
    pass(&lab, &clock, MINUTE).await;
    let ended = lab.ended(&fork.id).await;
    assert_eq!(ended.reason, Some(Reason::TimedOut));
    assert_eq!(times(&ended), (Some(now), Some(now)));
}

#[tokio::test]
async fn a_compensation_in_a_workers_hands_is_not_redone() {
    let lab = Lab::new();
    let saga = "
name: saga
failurePolicy: compensate
steps:
  - {name: a, agent: x, timeout: 1m}
  - {name: b, agent: x, dependsOn: [a], timeout: 1m}
compensation: [{step: a, agent: x, timeout: 1m}]
";
    lab.apply(saga).await;
    let mut worker = lab.worker("w1", &["x"], 1);
    let id = lab.start("saga", json!(null)).await.id;
    let a = worker.task().await;
    worker.done(&a, json!(1));
    let b = worker.task().await;
    worker.failed(&b, ErrorCategory::AgentError);
    let undo = worker.task().await;
    assert!(undo.task.undo);
    let asked = lab
        .engine
        .retry_from(id.clone(), from("a"), "eve".into(), lab.key(3));
    let refused = asked.await.unwrap_err();
    assert_eq!(refused.reason, "COMPENSATION_IN_PROGRESS");
    assert_eq!(refused.message, "worker `w1` is compensating step `a`");
    worker.done(&undo, json!(null));
    assert_eq!(lab.ended(&id).await.state.as_str(), "rolled_back");
    let view = again(&lab, &id, from("a")).await;
    let reopened = view.reopened.unwrap();
    assert_eq!(
        (reopened.count, &*reopened.by, reopened.from.as_str()),
        (1, "eve", "rolled_back")
    );
}

#[tokio::test]
async fn usage_of_a_branch_that_was_left_stays_in_the_total() {
    let lab = Lab::new();
    let mut worker = lab.worker("w1", &["x"], 1);
    lab.apply(CHAIN).await;
    let id = lab.start("chain", json!(null)).await.id;
    let used = |tokens| stateway_model::Usage {
        input_tokens: tokens,
        ..Default::default()
    };
    let a = worker.task().await;
    worker.done_with(&a, json!({"n": 1}), used(1));
    let b = worker.task().await;
    worker.done_with(&b, json!(1), used(10));
    let c = worker.task().await;
    worker.failed(&c, ErrorCategory::AgentError);
    lab.ended(&id).await;
    again(&lab, &id, from("b")).await;
    let b = worker.task().await;
    worker.done_with(&b, json!(1), used(100));
    let view = lab.until(&id, |view| view.usage.input_tokens > 11).await;
    assert_eq!(view.usage, used(111));
    assert_eq!(view.abandoned_usage, used(10));
}
