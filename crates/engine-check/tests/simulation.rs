//! The short form of `cargo xtask soak engine`, and the proof that the simulation finds defects.

use stateway_engine::simulation::{Bug, StoreFate};
use stateway_engine_check::soak::Soak;
use stateway_engine_check::{CrashAt, Schedule, Template};

/// The most schedules until a planted defect is found.
const ENOUGH: u64 = 4_000;

#[test]
fn nothing_that_was_acknowledged_is_lost_or_done_twice() {
    let soak = Soak {
        seed: 1,
        schedules: 300,
        jobs: 1,
        bug: None,
    };
    let totals = soak
        .run(&|_| {})
        .unwrap_or_else(|broken| panic!("{broken}"));
    // A simulation in which nothing happens proves nothing.
    for name in [
        "acknowledged: starts",
        "acknowledged: answers",
        "acknowledged: signals",
        "acknowledged: decisions",
        "engine: crashes",
        "engine: crashes in recovery",
        "engine: processes that lost the disk",
        "engine: second openers refused",
        "engine: turns written beside the next one",
        "fault: write fails",
        "fault: write succeeds without an answer",
        "fault: torn write, then a crash",
        "fault: read fails",
        "clock: jumps",
        "workers: late answers",
        "workers: answers sent twice",
        "clients: repeated requests",
        "PAYLOAD_TOO_LARGE",
        "PAYLOAD_TOO_DEEP",
        "INVALID_EXECUTION_ID",
        "TOO_MANY_LABELS",
    ] {
        assert!(totals.get(name) > 0, "{name} never happened");
    }
}

/// Long soaks found something in these schedules.
#[test]
fn schedules_that_once_failed_hold() {
    let template = Template::new().unwrap();
    for seed in [
        107_063, 2_101_369, 10_005_564, 20_067_222, 20_080_574, 30_077_093, 30_859_173, 50_004_640,
    ] {
        for one_by_one in [true, false] {
            let schedule = Schedule {
                seed,
                one_by_one,
                ..Schedule::default()
            };
            if let Err(broken) = schedule.run(&template) {
                panic!("{broken}");
            }
        }
    }
}

/// Every write of a schedule, the writes of recoveries included: the process dies before it, after it, and
/// with a part of it on the disk.
#[test]
fn a_crash_in_any_write_loses_nothing() {
    let template = Template::new().unwrap();
    let mut writes = 0;
    for seed in 1..=3 {
        let run = |crash| {
            let schedule = Schedule {
                seed,
                crash: Some(crash),
                ..Schedule::default()
            };
            let story = schedule.run(&template);
            story.unwrap_or_else(|broken| panic!("{crash:?}: {broken}"))
        };
        let whole = CrashAt {
            write: u64::MAX,
            fate: StoreFate::Works,
        };
        let most = run(whole).totals.get("store: writes");
        for write in 0..most {
            let part = usize::try_from(write % 5).unwrap();
            for fate in [
                StoreFate::DiesBefore,
                StoreFate::DiesAfter,
                StoreFate::Tears(part),
            ] {
                let totals = run(CrashAt { write, fate }).totals;
                assert_eq!(totals.get("fault: crash in a chosen write"), 1);
                writes += 1;
            }
        }
    }
    assert!(writes > 100, "{writes} writes are no schedule");
}

#[test]
fn the_same_seed_leads_to_the_same_log() {
    let templates = [Template::new().unwrap(), Template::new().unwrap()];
    let mut digests = std::collections::BTreeSet::new();
    for seed in 1..=40 {
        let schedule = Schedule {
            seed,
            trace: true,
            ..Schedule::default()
        };
        let [first, second] = templates.each_ref().map(|template| {
            let story = schedule.run(template);
            story.unwrap_or_else(|broken| panic!("{broken}"))
        });
        assert_eq!(first, second, "seed {seed}");
        digests.insert(first.digest);
    }
    assert_eq!(digests.len(), 40, "different seeds lead to different logs");
}

#[test]
fn every_planted_defect_is_found() {
    let mut missed = Vec::new();
    for bug in Bug::ALL {
        let soak = Soak {
            seed: 1,
            schedules: ENOUGH,
            jobs: 2,
            bug: Some(bug),
        };
        match soak.run(&|_| {}) {
            Err(broken) => println!("{bug:?}: {}", broken.what),
            Ok(_) => missed.push(bug),
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}
