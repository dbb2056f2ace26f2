//! Schedules by rule.

use super::*;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// The next times after a moment.
#[track_caller]
fn times(schedule: &str, zone: Option<&str>, after: &str, count: usize) -> Vec<String> {
    let schedule = Schedule::parse(schedule, zone).unwrap();
    let mut now = at(after);
    let mut found = Vec::new();
    for _ in 0..count {
        now = schedule.next_after(now).unwrap();
        found.push(now.to_string());
    }
    found
}

#[track_caller]
fn first(schedule: &str, after: &str) -> String {
    times(schedule, None, after, 1).remove(0)
}

#[test]
fn each_field_is_looked_at() {
    let after = "2026-11-16T05:07:30Z"; // A Monday.
    for (schedule, next) in [
        ("* * * * *", "2026-11-16T05:08:00Z"),
        ("*/15 * * * *", "2026-11-16T05:15:00Z"),
        ("5 * * * *", "2026-11-16T06:05:00Z"),
        ("0 9 * * *", "2026-11-16T09:00:00Z"),
        ("0 5 * * *", "2026-11-17T05:00:00Z"),
        ("10-20/5 4,5 * * *", "2026-11-16T05:10:00Z"),
        ("0 0 1 * *", "2026-12-01T00:00:00Z"),
        ("0 0 * jan *", "2027-01-01T00:00:00Z"),
        ("30 6 * * MON-fri", "2026-11-16T06:30:00Z"),
        ("0 0 * * sat-sun", "2026-11-21T00:00:00Z"),
        ("0 0 * * 7", "2026-11-22T00:00:00Z"),
        ("0 0 29 2 *", "2028-02-29T00:00:00Z"),
        ("50/5 3 * * *", "2026-11-17T03:50:00Z"),
        ("@hourly", "2026-11-16T06:00:00Z"),
        ("@daily", "2026-11-17T00:00:00Z"),
        ("@weekly", "2026-11-22T00:00:00Z"),
        ("@monthly", "2026-12-01T00:00:00Z"),
        ("@yearly", "2027-01-01T00:00:00Z"),
    ] {
        assert_eq!(first(schedule, after), next, "{schedule}");
    }
}

#[test]
fn it_fires_strictly_after() {
    assert_eq!(
        first("0 9 * * *", "2026-11-16T09:00:00Z"),
        "2026-11-17T09:00:00Z"
    );
    assert_eq!(
        first("* * * * *", "2026-11-16T09:00:00Z"),
        "2026-11-16T09:01:00Z"
    );
}

#[test]
fn with_both_day_fields_either_may_match() {
    assert_eq!(
        times("0 0 20 * mon", None, "2026-11-16T00:00:00Z", 3),
        [
            "2026-11-20T00:00:00Z",
            "2026-11-23T00:00:00Z",
            "2026-11-30T00:00:00Z"
        ]
    );
    // A field that begins with a star restricts without widening.
    assert_eq!(
        times("0 0 */2 * mon", None, "2026-11-16T00:00:00Z", 2),
        ["2026-11-23T00:00:00Z", "2026-12-07T00:00:00Z"]
    );
}

#[test]
fn a_time_that_is_skipped_fires_right_after_the_gap_and_once() {
    let berlin = Some("Europe/Berlin");
    assert_eq!(
        times("30 2 * * *", berlin, "2027-03-27T12:00:00Z", 2),
        ["2027-03-28T01:00:00Z", "2027-03-29T00:30:00Z"]
    );
    assert_eq!(
        times("0,20,40 2 * * *", berlin, "2027-03-27T12:00:00Z", 2),
        ["2027-03-28T01:00:00Z", "2027-03-29T00:00:00Z"]
    );
    // The gap's end is a time of its own: it does not fire twice.
    assert_eq!(
        times("0 2,3 * * *", berlin, "2027-03-27T12:00:00Z", 2),
        ["2027-03-28T01:00:00Z", "2027-03-29T00:00:00Z"]
    );
}

#[test]
fn a_time_that_comes_twice_fires_the_first_time() {
    let berlin = Some("Europe/Berlin");
    assert_eq!(
        times("30 2 * * *", berlin, "2027-10-30T12:00:00Z", 2),
        ["2027-10-31T00:30:00Z", "2027-11-01T01:30:00Z"]
    );
    // Asked between the two.
    assert_eq!(
        times("30 2 * * *", berlin, "2027-10-31T01:10:00Z", 1),
        ["2027-11-01T01:30:00Z"]
    );
}

#[test]
fn a_schedule_for_every_hour_follows_the_time_that_passes() {
    let berlin = Some("Europe/Berlin");
    assert_eq!(
        times("30 * * * *", berlin, "2027-10-30T23:40:00Z", 4),
        [
            "2027-10-31T00:30:00Z",
            "2027-10-31T01:30:00Z",
            "2027-10-31T02:30:00Z",
            "2027-10-31T03:30:00Z"
        ]
    );
    assert_eq!(
        times("30 * * * *", berlin, "2027-03-28T00:00:00Z", 3),
        [
            "2027-03-28T00:30:00Z",
            "2027-03-28T01:30:00Z",
            "2027-03-28T02:30:00Z"
        ]
    );
}

#[test]
fn a_gap_at_midnight_and_one_of_a_whole_day_are_passed() {
    assert_eq!(
        times(
            "0 0 * * *",
            Some("America/Sao_Paulo"),
            "2018-11-03T12:00:00Z",
            1
        ),
        ["2018-11-04T03:00:00Z"]
    );
    // Samoa had no 30 December 2011.
    assert_eq!(
        times(
            "0 12 * * *",
            Some("Pacific/Apia"),
            "2011-12-29T12:00:00Z",
            3
        ),
        [
            "2011-12-29T22:00:00Z",
            "2011-12-30T10:00:00Z",
            "2011-12-30T22:00:00Z"
        ]
    );
}

#[test]
fn the_zone_is_named_as_its_database_spells_it() {
    let schedule = Schedule::parse("@daily", Some("europe/berlin")).unwrap();
    assert_eq!(schedule.timezone(), Some("Europe/Berlin"));
    assert_eq!(
        Schedule::parse("@daily", Some("Mars/Olympus"))
            .unwrap_err()
            .to_string(),
        "`Mars/Olympus` is not a time zone"
    );
}

#[test]
fn what_is_no_schedule_says_why() {
    for (wrong, why) in [
        ("", "a schedule has five fields, not 0"),
        ("* * * *", "a schedule has five fields, not 4"),
        ("0 * * * * *", "a schedule has five fields, not 6"),
        ("60 * * * *", "`60` is not a valid minute (0 to 59)"),
        ("* 24 * * *", "`24` is not a valid hour (0 to 23)"),
        ("* * 0 * *", "`0` is not a valid day of month (1 to 31)"),
        ("* * * 13 *", "`13` is not a valid month (1 to 12)"),
        ("* * * * 8", "`8` is not a valid day of week (0 to 7)"),
        ("mon * * * *", "`mon` is not a valid minute (0 to 59)"),
        ("* * * * L", "`L` is not a valid day of week (0 to 7)"),
        ("-5 * * * *", "`` is not a valid minute (0 to 59)"),
        ("+5 * * * *", "`+5` is not a valid minute (0 to 59)"),
        ("20-10 * * * *", "the end of `20-10` is before its start"),
        ("*/0 * * * *", "the step of `*/0` is not from 1 to 59"),
        ("*/x * * * *", "the step of `*/x` is not from 1 to 59"),
        ("1,,2 * * * *", "`` is not a valid minute (0 to 59)"),
        ("@fortnightly", "`@fortnightly` is not a known schedule"),
        ("0 0 30 2 *", "`0 0 30 2 *` never matches a date"),
    ] {
        let error = Schedule::parse(wrong, None).unwrap_err();
        assert_eq!(error.to_string(), why, "{wrong}");
    }
    assert!(Schedule::parse(&"1,".repeat(500), None).is_err());
}

#[test]
fn a_leap_day_that_is_a_monday_is_found() {
    assert_eq!(
        first("0 0 29 2 */7", "2026-01-01T00:00:00Z"),
        "2032-02-29T00:00:00Z"
    );
    let rare = "0 0 */28 2 mon";
    assert!(Schedule::parse(rare, None).is_ok());
}

#[test]
fn the_end_of_time_is_no_panic() {
    for schedule in ["* * * * *", "0 9 * * *", "0 0 29 2 *"] {
        let schedule = Schedule::parse(schedule, Some("Asia/Tokyo")).unwrap();
        assert_eq!(schedule.next_after(Timestamp::MAX), None);
        assert!(schedule.next_after(Timestamp::MIN).is_some());
    }
}
