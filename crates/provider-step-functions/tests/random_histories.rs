//! Histories made up at random, with nested Parallel and Map states, retries of tasks and of whole
//! Parallels, interleaved as the service would: at every moment the open steps are those that the
//! simulation has open, however the history is read.

use crate::simulation;

use std::collections::BTreeMap;

use jiff::Timestamp;
use proptest::prelude::*;
use simulation::{Moment, simulate};
use stateway_provider_api::StepObservation;
use stateway_provider_step_functions::pure::{Definition, Event, Fold, HistoryPages, steps};

fn shown(open: &[StepObservation]) -> BTreeMap<String, bool> {
    let of_tasks = open.iter().filter(|step| {
        let native = step.native.state.as_str();
        !native.starts_with("Parallel") && !native.starts_with("Map")
    });
    of_tasks
        .map(|step| {
            let follow_up = step.native.qualifiers.get("follow_up");
            (
                step.name.clone(),
                follow_up.is_some_and(|word| word == "retry"),
            )
        })
        .collect()
}

fn look(events: &[Event], definition: &Definition, known: Option<Fold>) -> Fold {
    let mut reader = HistoryPages::new(definition, known, 1_000);
    let mut left: Vec<Event> = events.iter().rev().cloned().collect();
    while reader.wants().is_some() {
        // Far smaller pages than the service gives, so that there are many.
        let page: Vec<Event> = left.drain(..left.len().min(7)).collect();
        reader.take(page, !left.is_empty());
    }
    reader.finish()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_moment_shows_what_is_open(seed in any::<u64>()) {
        let run = simulate(seed);
        let definition = Definition::parse(&run.definition.to_string());
        let now = Timestamp::UNIX_EPOCH;
        let mut whole = Fold::default();
        let mut earlier: Option<Fold> = None;
        for (at, (event, moment)) in run.events.iter().zip(&run.moments).enumerate() {
            whole.feed(event, &definition);
            let open = steps(&whole, &definition, now);
            // Between two states nothing is open, and what was left last is shown.
            let nothing_open = moment.open.is_empty();
            if !nothing_open {
                prop_assert_eq!(&shown(&open), &moment.open, "after {:?}", event);
            }
            let read = &run.events[..=at];
            let newest_first = look(read, &definition, None);
            prop_assert_eq!(&steps(&newest_first, &definition, now), &open, "newest first, {:?}", event);
            let goes_on = look(read, &definition, earlier.clone());
            prop_assert_eq!(&steps(&goes_on, &definition, now), &open, "going on, {:?}", event);
            if at % 5 == 0 {
                earlier = Some(goes_on);
            }
            prop_assert!(!newest_first.is_partial());
        }
        let last: Option<&Moment> = run.moments.last();
        prop_assert!(last.is_some_and(|moment| moment.open.is_empty()));
        prop_assert_eq!(steps(&whole, &definition, now), vec![]);
        prop_assert_eq!(whole.ending().map(|ending| ending.status()), Some("SUCCEEDED"));
    }

    #[test]
    fn what_is_cut_off_anywhere_is_read_without_panic(seed in any::<u64>(), size in 1_usize..60) {
        let run = simulate(seed);
        let definition = Definition::parse(&run.definition.to_string());
        for at in 0..run.events.len() {
            let mut reader = HistoryPages::new(&definition, None, 1);
            let newest: Vec<Event> = run.events[..=at].iter().rev().take(size).cloned().collect();
            reader.take(newest, at >= size);
            prop_assert_eq!(reader.wants(), None, "a bound is a bound");
            let fold = reader.finish();
            let open = steps(&fold, &definition, Timestamp::UNIX_EPOCH);
            let mut names: Vec<_> = open.iter().map(|step| &step.name).collect();
            names.sort();
            names.dedup();
            prop_assert_eq!(names.len(), open.len(), "names are unique: {:?}", open);
        }
    }
}
