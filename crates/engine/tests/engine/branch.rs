//! Branches: the work is done again, the old branch stays, and what it left is fenced off.

use std::sync::Arc;

use serde_json::{Value, json};
use stateway_engine::{Engine, RetryFrom, View, WorkerMessage};
use stateway_model::{ErrorCategory, SubState};

use crate::lab::Lab;

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
    worker.done(&c, json!(3));
    assert_eq!(lab.ended(&id).await.sub_state, SubState::Succeeded);
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
            (1, Some(0), 6, false, "eve", "retry from b, told: better"),
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
    assert_eq!(first[6..8], ["BranchOpened", "StepStarted b"]);
    assert_eq!(first.last().unwrap(), "ExecutionCompleted");
    let now = names(&lab.engine, &id, None).await;
    assert_eq!(now[..3], old[..3]);
    assert_eq!(now[3..5], ["BranchOpened", "StepStarted a"]);
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
