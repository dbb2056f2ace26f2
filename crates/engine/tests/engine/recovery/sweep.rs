//! Every point between two writes: the process dies there, and everything comes right.

use std::sync::atomic::{AtomicUsize, Ordering};

use stateway_model::SubState;

use super::*;

const PARENT: &str = "
name: parent
steps:
  - {name: first, agent: x, timeout: 1h}
  - {name: nap, sleep: 1ms, dependsOn: [first]}
  - {name: run, workflow: gated, dependsOn: [nap]}
  - {name: last, agent: x, dependsOn: [run], timeout: 1h}
";

/// Dies at the `point`-th write; how many there were.
fn at(point: usize, fate: Fate) -> (Faults, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&count);
    let faults = Faults::by(move |write| {
        if matches!(write, Write::TaskPlaced | Write::TaskWithdrawn) {
            return Fate::Done;
        }
        if seen.fetch_add(1, Ordering::Relaxed) == point {
            fate
        } else {
            Fate::Done
        }
    });
    (faults, count)
}

/// Goes on with the work until it is done or the process dies.
async fn work(lab: &Lab, deeds: &Deeds, request: &stateway_engine::RequestKey) -> Option<View> {
    let worker = deeds.worker(lab, "w");
    let done = async {
        for source in [GATED, PARENT] {
            let apply = stateway_engine::ApplyDefinition {
                source: source.to_owned(),
                source_name: "test.yaml".to_owned(),
                request: None,
            };
            lab.engine.apply(apply).await.ok()?;
        }
        let start = stateway_engine::Start {
            id: Some("p".into()),
            request: request.clone(),
            ..lab.start_of("parent", json!(1))
        };
        match lab.engine.start(start).await {
            Ok(_) => {}
            // The process died before it could say that it was started.
            Err(error) if error.kind == stateway_engine::ErrorKind::AlreadyExists => {}
            Err(_) => return None,
        }
        let child: Arc<str> = "p~run~1".into();
        loop {
            let parent = lab.engine.get("p".into()).await.ok()?;
            if matches!(parent.sub_state, SubState::Succeeded | SubState::Failed) {
                return Some(parent);
            }
            let waits = lab.engine.get(child.clone()).await;
            if waits.is_ok_and(|view| view.sub_state == SubState::Waiting) {
                // Someone else may have said so before.
                let _ = decide(lab, &child, true).await;
            }
            // What died says nothing more.
            lab.engine.survey().await.ok()?;
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    };
    let done = tokio::time::timeout(PATIENCE, done).await.expect("an end");
    worker.abort();
    done
}

async fn sweep(fate: Fate) {
    for point in 0.. {
        let (faults, writes) = at(point, fate);
        let lab = Lab::with(|config| {
            config.faults = faults;
            config.snapshot_events = 4;
        });
        let (deeds, request) = (Deeds::default(), lab.key(5));
        let ended = work(&lab, &deeds, &request).await;
        let died = writes.load(Ordering::Relaxed) > point;
        let (lab, ended) = match (died, ended) {
            (false, Some(ended)) => (lab, ended),
            (true, _) => {
                let lab = lab.restart();
                let ended = work(&lab, &deeds, &request).await;
                (
                    lab,
                    ended.unwrap_or_else(|| panic!("at {point} it does not come right")),
                )
            }
            (false, None) => panic!("it died by itself at {point}"),
        };
        assert_eq!(ended.sub_state, SubState::Succeeded, "at {point}");
        all_is_well(&lab).await;
        assert_eq!(lab.engine.total().await.unwrap(), 2, "at {point}");
        // Only what was with the worker when the process died may have been done twice.
        let done: Vec<_> = ["first", "a", "b", "last"]
            .map(|step| deeds.of(step))
            .into();
        assert!(
            done.iter().all(|times| (1..=2).contains(times)),
            "at {point}: {done:?}"
        );
        assert!(done.iter().sum::<usize>() <= 5, "at {point}: {done:?}");
        if !died {
            assert!(point > 20, "there are more writes than that");
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_dies_with_half_a_turn_on_disk() {
    sweep(Fate::Torn).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_dies_with_none_of_a_turn_on_disk() {
    sweep(Fate::Crash).await;
}

#[tokio::test]
async fn a_process_that_dies_while_it_recovers() {
    for point in 0.. {
        // The first process leaves a row that waits for a person who has decided.
        let ((mut lab, trap), deeds) = (lab(|_| {}), Deeds::default());
        lab.apply(GATED).await;
        let worker = deeds.worker(&lab, "w");
        let id = lab.start("gated", json!(1)).await.id;
        lab.until(&id, |view| view.sub_state == SubState::Waiting)
            .await;
        worker.abort();
        trap.set(Write::Status, Fate::Torn);
        decide(&lab, &id, true).await.unwrap_err();
        // The second dies at each of its own writes in turn, most of which are its repair.
        let (faults, writes) = at(point, Fate::Torn);
        lab.config.faults = faults;
        let (second, opened) = lab.try_restart();
        lab = second;
        let died = !opened || writes.load(Ordering::Relaxed) > point;
        lab.config.faults = Faults::default();
        let lab = lab.restart();
        deeds.worker(&lab, "w");
        assert_eq!(lab.ended(&id).await.sub_state, SubState::Succeeded);
        assert_eq!((deeds.of("a"), deeds.of("b")), (1, 1), "at {point}");
        assert!(!audit(&lab, &id).await.is_empty(), "at {point}");
        all_is_well(&lab).await;
        if !died {
            assert!(point > 1, "a repair is more than one write");
            return;
        }
    }
}
