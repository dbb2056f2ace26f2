//! Recovering while the engine runs: by an operator, by the look over everything, two at once.

use std::time::Duration;

use stateway_machine::ExecutionState;
use stateway_model::SubState;

use super::*;

const ONE: &str = "name: one\nsteps: [{name: a, agent: x, timeout: 1h}]";

/// An execution whose row missed that it waits for a person.
async fn adrift(lab: &Lab, trap: &Trap, deeds: &Deeds) -> Arc<str> {
    lab.apply(GATED).await;
    trap.set(Write::Status, Fate::Lost);
    deeds.worker(lab, "w");
    let id = lab.start("gated", json!(1)).await.id;
    lab.until(&id, |view| view.state == ExecutionState::AwaitingApproval)
        .await;
    assert!(trap.sprung());
    id
}

#[tokio::test]
async fn an_operator_sees_it_recovers_it_and_finds_nothing_more() {
    let ((lab, trap), deeds) = (lab(|_| {}), Deeds::default());
    let id = adrift(&lab, &trap, &deeds).await;
    let verdict = lab.engine.verify(id.clone()).await.unwrap();
    assert_eq!(codes(&verdict.findings), [Code::A2]);
    assert_eq!(verdict.remedy, stateway_engine::recovery::Remedy::Repair);

    let recovered = recover(&lab, &id).await.unwrap();
    assert_eq!(recovered.repaired, verdict.findings);
    assert_eq!((recovered.branched, recovered.again.len()), (false, 0));
    assert_eq!(audit(&lab, &id).await[0].4, "ada");
    all_is_well(&lab).await;

    let again = recover(&lab, &id).await.unwrap();
    assert!(again.repaired.is_empty());
    assert_eq!(
        audit(&lab, &id).await.len(),
        1,
        "what is well is left alone"
    );
    decide(&lab, &id, true).await.unwrap();
    assert_eq!(lab.ended(&id).await.sub_state, SubState::Succeeded);
    assert_eq!((deeds.of("a"), deeds.of("b")), (1, 1));
}

#[tokio::test]
async fn of_two_at_once_one_wins() {
    let ((lab, trap), deeds) = (lab(|_| {}), Deeds::default());
    let id = adrift(&lab, &trap, &deeds).await;
    let verdict = lab.engine.verify(id.clone()).await.unwrap();
    let ask = || Recover {
        expected: Some((verdict.branch, verdict.sequence)),
        ..Recover::default()
    };
    let (left, right) = tokio::join!(
        lab.engine
            .recover(id.clone(), ask(), "ada".into(), lab.key(1)),
        lab.engine
            .recover(id.clone(), ask(), "bob".into(), lab.key(2)),
    );
    let (won, lost): (Vec<_>, Vec<_>) = [left, right].into_iter().partition(Result::is_ok);
    assert_eq!((won.len(), lost.len()), (1, 1));
    let lost = lost.into_iter().next().unwrap().unwrap_err();
    assert!(
        ["EXECUTION_CHANGED", "ENGINE_BUSY"].contains(&lost.reason),
        "{lost:?}"
    );
    assert_eq!(audit(&lab, &id).await.len(), 1);
}

#[tokio::test]
async fn a_repeated_request_recovers_once() {
    let ((lab, trap), deeds) = (lab(|_| {}), Deeds::default());
    let id = adrift(&lab, &trap, &deeds).await;
    let request = lab.key(1);
    for _ in 0..2 {
        let (ask, request) = (Recover::default(), request.clone());
        let done = lab.engine.recover(id.clone(), ask, "ada".into(), request);
        done.await.unwrap();
    }
    assert_eq!(audit(&lab, &id).await.len(), 1);
}

#[tokio::test]
async fn the_look_over_everything_puts_it_right() {
    let change = |config: &mut Config| config.verify_interval = Duration::from_millis(20);
    let ((lab, trap), deeds) = (lab(change), Deeds::default());
    let id = adrift(&lab, &trap, &deeds).await;
    let put_right = async {
        while audit(&lab, &id).await.is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, put_right).await.unwrap();
    all_is_well(&lab).await;
    assert_eq!(audit(&lab, &id).await[0].4, "engine");
}

#[tokio::test]
async fn f1_an_open_attempt_that_nobody_can_get() {
    let ((lab, trap), deeds) = (lab(|_| {}), Deeds::default());
    lab.apply(ONE).await;
    trap.set(Write::TaskPlaced, Fate::Lost);
    let id = lab.start("one", json!(1)).await.id;
    assert!(trap.sprung());
    deeds.worker(&lab, "w");
    let verdict = lab.engine.verify(id.clone()).await.unwrap();
    assert_eq!(codes(&verdict.findings), [Code::F1], "{verdict:#?}");
    assert_eq!(deeds.of("a"), 0);

    recover(&lab, &id).await.unwrap();
    assert_eq!(lab.ended(&id).await.sub_state, SubState::Succeeded);
    assert_eq!(deeds.of("a"), 1);
    assert!(audit(&lab, &id).await[0].0.starts_with("F1: "));
    all_is_well(&lab).await;
}

#[tokio::test]
async fn f1_a_worker_that_works_for_an_execution_that_is_over() {
    let (lab, trap) = lab(|_| {});
    lab.apply(ONE).await;
    let mut worker = lab.worker("w", &["x"], 1);
    let id = lab.start("one", json!(1)).await.id;
    let task = worker.task().await;
    trap.set(Write::TaskWithdrawn, Fate::Lost);
    let kill = stateway_engine::Steer::Cancel {
        mode: stateway_machine::CancelMode::Kill,
        cause: "enough".into(),
    };
    lab.steer(&id, kill).await.unwrap();
    assert!(trap.sprung());
    let verdict = lab.engine.verify(id.clone()).await.unwrap();
    assert_eq!(codes(&verdict.findings), [Code::F1], "{verdict:#?}");

    recover(&lab, &id).await.unwrap();
    // The worker is told to stop, and has room again.
    let WorkerMessage::Withdrawn { token, .. } = worker.message().await else {
        panic!("the task is not taken back");
    };
    assert_eq!(token, task.token);
    all_is_well(&lab).await;
    assert_eq!(lab.get(&id).await.sub_state, SubState::Failed);
    let next = lab.start("one", json!(2)).await.id;
    let task = worker.task().await;
    worker.done(&task, json!(null));
    assert_eq!(lab.ended(&next).await.sub_state, SubState::Succeeded);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_look_while_everything_moves_finds_nothing() {
    let change = |config: &mut Config| {
        config.verify_interval = Duration::from_millis(1);
        config.snapshot_events = 8;
        config.max_active = 5;
    };
    let ((lab, _), deeds) = (lab(change), Deeds::default());
    lab.apply(ONE).await;
    lab.apply(
        "name: much\nsteps:\n  - {name: nap, sleep: 5ms}\n  - {name: run, workflow: one, dependsOn: [nap]}\n  \
         - {name: b, agent: x, dependsOn: [run], timeout: 1h}",
    )
    .await;
    for worker in ["w1", "w2"] {
        deeds.worker(&lab, worker);
    }
    let mut ids = Vec::new();
    for number in 0..60 {
        ids.push(lab.start("much", json!(number)).await.id);
        all_is_well(&lab).await;
    }
    for id in &ids {
        all_is_well(&lab).await;
        assert_eq!(lab.ended(id).await.sub_state, SubState::Succeeded);
        assert!(audit(&lab, id).await.is_empty());
    }
    all_is_well(&lab).await;
}

const ALONE: &str = "name: alone\nconcurrency: 1\nsteps: [{name: a, agent: x, timeout: 1h}]";

#[tokio::test]
async fn a_recovery_leaves_the_slots_as_they_are() {
    // The row does not learn of the end, or of the beginning, of the first.
    for lost_at_the_end in [true, false] {
        let (lab, trap) = lab(|_| {});
        lab.apply(ALONE).await;
        let mut worker = lab.worker("w", &["x"], 4);
        let first = lab.start("alone", json!(1)).await.id;
        let task = worker.task().await;
        let second = lab.start("alone", json!(2)).await.id;
        if lost_at_the_end {
            trap.set(Write::Status, Fate::Lost);
        }
        worker.done(&task, json!(null));
        let task = worker.task().await;
        let third = lab.start("alone", json!(3)).await.id;
        if lost_at_the_end {
            assert!(trap.sprung());
            assert_eq!(
                recover(&lab, &first).await.unwrap().repaired[0].code,
                Code::A3
            );
        } else {
            trap.set(Write::Status, Fate::Lost);
            let pause = stateway_engine::Steer::Pause { cause: "".into() };
            lab.steer(&second, pause).await.unwrap();
            recover(&lab, &second).await.unwrap();
            lab.steer(&second, stateway_engine::Steer::Resume)
                .await
                .unwrap();
        }
        // One runs, the other waits its turn.
        assert_eq!(
            lab.get(&third).await.reason,
            Some(stateway_model::Reason::Queued)
        );
        worker.done(&task, json!(null));
        let task = worker.task().await;
        worker.done(&task, json!(null));
        assert_eq!(lab.ended(&third).await.sub_state, SubState::Succeeded);
        all_is_well(&lab).await;
    }
}

#[tokio::test]
async fn what_is_promised_is_what_is_done() {
    let (lab, trap) = lab(|_| {});
    lab.apply(ONE).await;
    lab.apply(
        "name: both\nsteps:\n  - {name: run, workflow: one}\n  - {name: b, agent: y, timeout: 1h}\n  \
         - {name: c, agent: y, timeout: 1h, dependsOn: [b]}",
    )
    .await;
    let mut worker = lab.worker("y", &["y"], 1);
    let id = lab.start("both", json!(1)).await.id;
    let task = worker.task().await;
    trap.set(Write::Events, Fate::Lost);
    worker.done(&task, json!("b"));
    worker.task().await;
    assert!(trap.sprung());
    drop(worker);
    let verdict = lab.engine.verify(id.clone()).await.unwrap();
    assert_eq!(codes(&verdict.findings), [Code::L1]);
    let stateway_engine::recovery::Remedy::Branch { again, .. } = verdict.remedy else {
        panic!("{verdict:?}");
    };
    assert_eq!(
        again,
        ["run", "b", "c"].map(Arc::from),
        "children are work too"
    );
    let recovered = recover(&lab, &id).await.unwrap();
    assert_eq!((recovered.branched, recovered.again), (true, again));
    let deeds = Deeds::default();
    deeds.worker(&lab, "w");
    lab.worker("y", &["y"], 4).diligent();
    assert_eq!(lab.ended(&id).await.sub_state, SubState::Succeeded);
    all_is_well(&lab).await;
}

#[tokio::test]
async fn a_repeated_request_is_answered_the_same() {
    let ((lab, trap), deeds) = (lab(|_| {}), Deeds::default());
    let id = adrift(&lab, &trap, &deeds).await;
    let request = lab.key(1);
    let ask = || {
        let (ask, request) = (Recover::default(), request.clone());
        lab.engine.recover(id.clone(), ask, "ada".into(), request)
    };
    let (first, again) = (ask().await.unwrap(), ask().await.unwrap());
    assert_eq!(codes(&first.repaired), codes(&again.repaired));
    assert_eq!((first.cutoff, first.from), (again.cutoff, again.from));
}

#[tokio::test]
async fn the_look_over_everything_sees_what_is_only_in_memory() {
    let change = |config: &mut Config| config.verify_interval = Duration::from_millis(20);
    let ((lab, trap), deeds) = (lab(change), Deeds::default());
    lab.apply(ONE).await;
    deeds.worker(&lab, "w");
    trap.set(Write::TaskPlaced, Fate::Lost);
    let id = lab.start("one", json!(1)).await.id;
    assert_eq!(lab.ended(&id).await.sub_state, SubState::Succeeded);
    assert!(trap.sprung());
    assert_eq!(deeds.of("a"), 1);
}

#[tokio::test]
async fn a_start_of_which_only_the_row_is_left_can_be_repeated() {
    let ((lab, trap), deeds) = (lab(|_| {}), Deeds::default());
    lab.apply(ONE).await;
    trap.set(Write::Events, Fate::Lost);
    let start = lab.start_of("one", json!(1));
    lab.engine.start(start.clone()).await.unwrap();
    let lab = lab.restart();
    let id = lab.engine.start(start).await.unwrap().id;
    deeds.worker(&lab, "w");
    assert_eq!(lab.ended(&id).await.sub_state, SubState::Succeeded);
    all_is_well(&lab).await;
}
