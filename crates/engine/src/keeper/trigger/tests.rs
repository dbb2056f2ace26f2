//! Rules of events and schedules.

use super::*;

fn at(text: &str) -> Timestamp {
    text.parse().expect("a time")
}

fn trigger(yaml: &str) -> Trigger {
    let source = format!("name: d\ntrigger: {yaml}\nsteps: [{{name: a, signal: go}}]");
    let parsed = stateway_definition::parse(&source, "test.yaml").expect("a definition");
    parsed.definition.trigger.expect("a trigger")
}

/// Definitions with these names and triggers, planned from midnight on.
fn triggers(of: &[(&str, &str)]) -> Triggers {
    let mut triggers = Triggers::default();
    for (name, yaml) in of {
        triggers.set(&(*name).into(), &trigger(yaml), at("2026-01-01T00:00:00Z"));
    }
    triggers
}

fn names(found: &BTreeSet<Arc<str>>) -> Vec<String> {
    found.iter().map(ToString::to_string).collect()
}

const HOURLY: &str = "{schedule: '0 * * * *'}";
const DAILY: &str = "{schedule: '0 0 * * *'}";

#[test]
fn an_event_starts_every_definition_that_names_it() {
    let mut triggers = triggers(&[("a", "{event: paid}"), ("b", "{event: paid}")]);
    assert_eq!(names(&triggers.of_event("paid")), ["a", "b"]);
    assert_eq!(names(&triggers.of_event("sent")), [""; 0]);
    triggers.clear(&"a".into());
    assert_eq!(names(&triggers.of_event("paid")), ["b"]);
}

#[test]
fn the_schedule_that_is_due_first_comes_first() {
    let mut triggers = triggers(&[("daily", DAILY), ("hourly", HOURLY)]);
    assert_eq!(triggers.next(), Some(at("2026-01-01T01:00:00Z")));
    triggers.clear(&"hourly".into());
    assert_eq!(triggers.next(), Some(at("2026-01-02T00:00:00Z")));
    triggers.clear(&"daily".into());
    assert_eq!(triggers.next(), None);
}

#[test]
fn a_start_that_is_tried_later_is_still_the_start_of_its_time() {
    let mut triggers = triggers(&[("hourly", HOURLY)]);
    let (due, name) = triggers.due.pop_first().expect("a schedule");
    let planned = triggers.schedules.remove(&name).expect("a plan");
    let later = at("2026-01-01T01:00:01Z");
    triggers.retry(&name, planned, later);
    assert_eq!(triggers.next(), Some(later));
    assert_eq!(triggers.schedules[&name].occurrence, due);
}

#[test]
fn a_disabled_trigger_is_reported_and_starts_nothing() {
    let mut triggers = triggers(&[("a", "{event: paid}")]);
    let mark = DisabledTrigger {
        by: "ada".into(),
        at: at("2026-01-01T00:00:00Z"),
        comment: "".into(),
    };
    triggers.clear(&"b".into());
    triggers.disable(&"b".into(), mark.clone());
    if let Some(disabled) = triggers.disabled.get_mut("b") {
        (disabled.scheduled, disabled.event) = (true, "paid".to_owned());
    }
    assert_eq!(triggers.next(), None);
    assert_eq!(triggers.disabled("b"), Some(&mark));
    assert_eq!(names(&triggers.of_event("paid")), ["a", "b"]);
    let scheduled = triggers.scheduled();
    assert_eq!((scheduled.len(), scheduled[0].next), (1, None));
    triggers.enable("b");
    assert_eq!(names(&triggers.of_event("paid")), ["a"]);
}

#[test]
fn a_schedule_whose_start_panicked_is_not_planned_again() {
    let mut triggers = triggers(&[("hourly", HOURLY)]);
    triggers.stop("hourly".into());
    assert_eq!(triggers.next(), None);
    triggers.set(
        &"hourly".into(),
        &trigger(HOURLY),
        at("2026-01-01T05:00:00Z"),
    );
    assert_eq!(triggers.next(), None);
}

#[test]
fn of_the_times_that_were_missed_the_newest_counts() {
    let schedule = trigger(HOURLY).schedule.expect("a schedule");
    let (first, now) = (at("2026-01-01T01:00:00Z"), at("2026-01-01T07:30:00Z"));
    assert_eq!(newest(&schedule, first, now), at("2026-01-01T07:00:00Z"));
    assert_eq!(newest(&schedule, first, first), first);
}
