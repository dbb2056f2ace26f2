//! Rules of the executions in memory.

use super::*;
use crate::view::{Origin, Parent};

fn live(number: i64, parent: Option<i64>) -> Live {
    let source = "name: one\nsteps:\n  - name: a\n    agent: worker\n";
    let plan = crate::catalogue::Catalogue::default()
        .usable(source, "one.yaml")
        .map(|usable| usable.plan);
    let origin = Origin {
        number,
        id: format!("e{number}").into(),
        definition: "one".into(),
        labels: Arc::default(),
        parent: parent.map(|number| Parent {
            number,
            step: "a".into(),
            attempt: 1,
            branch: 0,
        }),
        depth: 0,
        not_before: None,
        forked_from: None,
    };
    let plan = plan.expect("a definition");
    Live::new(
        Arc::new(origin),
        stateway_machine::State::new(plan),
        [0; 16],
    )
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("a time")
}

#[test]
fn timers_are_taken_in_the_order_of_their_time() {
    let mut executions = Executions::default();
    for number in 1..=3 {
        executions.keep(live(number, None));
    }
    executions.set_alarm(1, Some(at(30)));
    executions.set_alarm(2, Some(at(10)));
    executions.set_alarm(3, Some(at(20)));
    executions.set_alarm(3, Some(at(5)));
    assert_eq!(executions.next_alarm(), Some(at(5)));
    assert_eq!(executions.take_due(at(10)), Some(3));
    assert_eq!(executions.take_due(at(10)), Some(2));
    assert_eq!(executions.take_due(at(10)), None);
    assert_eq!(executions.get(2).and_then(|live| live.alarm), None);
    assert_eq!(executions.next_alarm(), Some(at(30)));
}

#[test]
fn a_forgotten_execution_leaves_every_index() {
    let mut executions = Executions::default();
    executions.keep(live(1, None));
    executions.keep(live(2, Some(1)));
    executions.count(2, true);
    executions.count(2, true);
    executions.set_alarm(2, Some(at(1)));
    assert_eq!(executions.active(), 1);
    assert_eq!(executions.children_of(1).count(), 1);
    executions.forget(2);
    executions.forget(2);
    assert_eq!(executions.active(), 0);
    assert_eq!(executions.children_of(1).count(), 0);
    assert_eq!(executions.next_alarm(), None);
    assert_eq!(executions.number_of("e2"), None);
    assert_eq!(executions.number_of("e1"), Some(1));
}

#[test]
fn a_touched_execution_is_processed_once() {
    let mut executions = Executions::default();
    executions.keep(live(1, None));
    executions.touch(1);
    executions.touch(1);
    executions.touch(2);
    assert_eq!(executions.take_touched(), [1]);
    assert_eq!(executions.take_touched(), [] as [i64; 0]);
}

#[test]
fn the_bytes_are_those_of_the_executions_in_memory() {
    let mut executions = Executions::default();
    for number in 1..=2 {
        let mut live = live(number, None);
        live.bytes = 100;
        executions.keep(live);
    }
    assert_eq!(executions.bytes(), 200);
    if let Some(live) = executions.get_mut(1) {
        live.bytes = 30;
    }
    executions.weigh(1);
    assert_eq!(executions.bytes(), 130);
    executions.forget(2);
    assert_eq!(executions.bytes(), 30);
    executions.clear();
    assert_eq!(executions.bytes(), 0);
}

#[test]
fn numbers_are_never_given_twice() {
    let mut executions = Executions::new(Arc::default());
    executions.begin_after(41);
    assert_eq!(executions.next_number(), 42);
    executions.clear();
    assert_eq!(executions.next_number(), 43);
}

#[test]
fn the_list_of_damaged_executions_is_bounded_and_survives_a_failed_commit() {
    let mut executions = Executions::default();
    let damaged = || Damaged {
        id: "e".into(),
        why: String::new(),
        code: None,
    };
    for number in 0..1_000 {
        assert!(executions.set_damaged(number, damaged()));
    }
    assert!(!executions.set_damaged(0, damaged()));
    assert!(!executions.set_damaged(1_000, damaged()));
    executions.clear();
    assert_eq!(executions.all_damaged().count(), 1_000);
    executions.clear_damaged(5);
    assert!(executions.damaged(5).is_none());
}
