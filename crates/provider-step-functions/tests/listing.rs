//! Lists over several state machines, in pages, narrowed where nothing can slip through.

#[allow(dead_code, reason = "each test uses a part of it")]
use crate::mock;

use std::collections::BTreeSet;

use mock::bench::{Bench, call};
use mock::scene::long_running_sequence;
use stateway_model::SubState;
use stateway_provider_api::filter::{DefinitionPattern, Hints};
use stateway_provider_api::{ListRequest, Provider};
use stateway_provider_step_functions::Config;

const MACHINES: [&str; 3] = ["order", "refund", "ship"];
const STATUSES: [&str; 5] = ["RUNNING", "SUCCEEDED", "FAILED", "TIMED_OUT", "ABORTED"];

/// One execution of each status on each machine.
async fn bench(change: impl FnOnce(&mut Config)) -> Bench {
    let bench = Bench::new(change).await;
    for machine in MACHINES {
        for status in STATUSES {
            bench.put(machine, status, long_running_sequence(20));
            let mut world = bench.service.world();
            let newest = world.executions.last_mut().expect("one was put there");
            status.clone_into(&mut newest.status);
        }
    }
    bench
}

/// Every row, by machine and name, from pages of two.
async fn listed(bench: &Bench, hints: Hints) -> Vec<String> {
    let (mut rows, mut cursor) = (Vec::new(), None);
    for _ in 0..100 {
        let request = ListRequest {
            hints: hints.clone(),
            page_size: 2,
            cursor,
        };
        let page = bench.provider.list(&call(), request).await;
        let page = page.expect("a page");
        assert!(page.observations.len() <= 2, "{page:?}");
        rows.extend(page.observations.into_iter().map(|row| {
            let name = row.id.as_str().split(":execution:").nth(1);
            name.unwrap_or_default().to_owned()
        }));
        cursor = page.next;
        if cursor.is_none() {
            return rows;
        }
    }
    panic!("a list that never ends: {rows:?}")
}

fn expected(machines: &[&str], statuses: &[&str]) -> BTreeSet<String> {
    let all = machines.iter().flat_map(|machine| {
        let named = move |status: &&str| format!("{machine}:{status}");
        statuses.iter().map(named)
    });
    all.collect()
}

fn once(rows: &[String]) -> BTreeSet<String> {
    let set: BTreeSet<String> = rows.iter().cloned().collect();
    assert_eq!(set.len(), rows.len(), "something is listed twice: {rows:?}");
    set
}

#[tokio::test]
async fn pages_go_from_one_state_machine_to_the_next() {
    let bench = bench(|_| {}).await;
    let rows = listed(&bench, Hints::none()).await;
    assert_eq!(once(&rows), expected(&MACHINES, &STATUSES));
}

#[tokio::test]
async fn a_status_is_asked_of_the_service() {
    let bench = bench(|_| {}).await;
    let hints = |sub_states: &[SubState]| Hints {
        sub_states: sub_states.to_vec(),
        ..Hints::none()
    };
    let over = ["FAILED", "TIMED_OUT", "ABORTED"];
    for (wanted, statuses) in [
        (SubState::Failed, &over[..]),
        (SubState::Succeeded, &["SUCCEEDED"][..]),
    ] {
        bench.service.world().narrowed.clear();
        let rows = listed(&bench, hints(&[wanted])).await;
        assert_eq!(once(&rows), expected(&MACHINES, statuses));
        let asked: BTreeSet<_> = bench.service.world().narrowed.drain(..).collect();
        let each = MACHINES.iter().flat_map(|machine| {
            let narrowed = move |status: &&str| (machine.to_string(), Some((*status).to_owned()));
            statuses.iter().map(narrowed)
        });
        assert_eq!(asked, each.collect(), "{wanted:?}");
    }
    // A status that no table has is shown as running, and the service filters by known ones only.
    let rows = listed(&bench, hints(&[SubState::Running])).await;
    assert_eq!(once(&rows), expected(&MACHINES, &["RUNNING"]));
    let asked: BTreeSet<_> = bench.service.world().narrowed.drain(..).collect();
    assert!(
        asked.iter().all(|(_, status)| status.is_none()),
        "{asked:?}"
    );
}

#[tokio::test]
async fn only_the_machines_that_are_wanted_are_asked() {
    let configured = bench(|config| {
        let arn = format!("{}:stateMachine:ship", mock::HERE);
        config.state_machines = vec!["order".to_owned(), arn];
    })
    .await;
    let rows = listed(&configured, Hints::none()).await;
    assert_eq!(once(&rows), expected(&["order", "ship"], &STATUSES));
    let hints = Hints {
        definition: Some(DefinitionPattern::new(
            "providers/payments/definitions/refund",
        )),
        ..Hints::none()
    };
    assert_eq!(
        listed(&configured, hints.clone()).await,
        Vec::<String>::new()
    );
    let all = bench(|_| {}).await;
    let rows = listed(&all, hints).await;
    assert_eq!(once(&rows), expected(&["refund"], &STATUSES));
    let asked = all.service.world().narrowed.clone();
    assert!(
        asked.iter().all(|(machine, _)| machine == "refund"),
        "{asked:?}"
    );
    for (value, machines) in [
        ("refund", &["refund"][..]),
        ("nobody", &[]),
        ("payments/refund", &MACHINES),
    ] {
        let hints = Hints {
            definition: Some(DefinitionPattern::new(value)),
            ..Hints::none()
        };
        let rows = listed(&all, hints).await;
        assert_eq!(once(&rows), expected(machines, &STATUSES), "{value}");
    }
}
