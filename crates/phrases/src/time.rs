//! Points in time and durations.

use jiff::Timestamp;
use prost_types::Timestamp as Wire;

/// A time of the wire; none when it is absent or outside the calendar.
#[must_use]
pub fn moment(time: Option<&Wire>) -> Option<Timestamp> {
    time.and_then(|time| Timestamp::new(time.seconds, time.nanos).ok())
}

/// How long since then: `3 min 4 s`.
#[must_use]
pub fn ago(then: Timestamp, now: Timestamp) -> String {
    span(seconds_between(then, now))
}

/// How long until then. A started second counts, so that a countdown ends at 0 when the time has
/// come.
#[must_use]
pub fn until(then: Timestamp, now: Timestamp) -> String {
    span(seconds_until(then, now))
}

/// Whole seconds from one time to a later one.
#[must_use]
pub fn seconds_between(from: Timestamp, to: Timestamp) -> i64 {
    (to.as_millisecond() - from.as_millisecond()).max(0) / 1_000
}

/// Seconds until then, a started second counted.
#[must_use]
pub fn seconds_until(then: Timestamp, now: Timestamp) -> i64 {
    ((then.as_millisecond() - now.as_millisecond()).max(0) + 999) / 1_000
}

/// A duration in at most two units: `12 s`, `3 min 4 s`, `25 min`, `5 h 10 min`, `2 d 3 h`.
#[must_use]
pub fn span(seconds: i64) -> String {
    let pair = |large: i64, large_unit, small: i64, small_unit| match small {
        0 => format!("{large} {large_unit}"),
        small => format!("{large} {large_unit} {small} {small_unit}"),
    };
    match seconds {
        ..60 => format!("{} s", seconds.max(0)),
        60..600 => pair(seconds / 60, "min", seconds % 60, "s"),
        600..3_600 => format!("{} min", seconds / 60),
        3_600..86_400 => pair(seconds / 3_600, "h", seconds % 3_600 / 60, "min"),
        _ => pair(seconds / 86_400, "d", seconds % 86_400 / 3_600, "h"),
    }
}

/// `2026-11-16T08:12:03.120Z`: to the millisecond, for lines that stay and for programs.
#[must_use]
pub fn stamp(time: Timestamp) -> String {
    rounded(time).strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

/// `2026-11-16 08:12:03.120 UTC`: to the millisecond, for people.
#[must_use]
pub fn exact(time: Timestamp) -> String {
    rounded(time)
        .strftime("%Y-%m-%d %H:%M:%S%.3f UTC")
        .to_string()
}

fn rounded(time: Timestamp) -> Timestamp {
    time.round(jiff::Unit::Millisecond).unwrap_or(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn spans_have_two_units_at_most() {
        for (seconds, shown) in [
            (-1, "0 s"),
            (59, "59 s"),
            (60, "1 min"),
            (64, "1 min 4 s"),
            (3_599, "59 min"),
            (3_600, "1 h"),
            (18_600, "5 h 10 min"),
            (86_400, "1 d"),
            (187_200, "2 d 4 h"),
        ] {
            assert_eq!(span(seconds), shown);
            assert_eq!(ago(at(0), at(seconds)), shown);
            assert_eq!(until(at(seconds), at(0)), shown);
        }
    }

    #[test]
    fn a_countdown_counts_the_started_second() {
        let then = Timestamp::from_millisecond(1_001).unwrap();
        assert_eq!(until(then, at(0)), "2 s");
        assert_eq!(until(then, at(2)), "0 s");
    }

    #[test]
    fn times_end_at_the_millisecond() {
        let time: Timestamp = "2026-11-16T02:25:22.805986928Z".parse().unwrap();
        assert_eq!(stamp(time), "2026-11-16T02:25:22.806Z");
        assert_eq!(exact(time), "2026-11-16 02:25:22.806 UTC");
        assert_eq!(stamp(Timestamp::UNIX_EPOCH), "1970-01-01T00:00:00.000Z");
    }

    #[test]
    fn a_time_outside_the_calendar_is_none() {
        let wild = Wire {
            seconds: i64::MAX,
            nanos: 0,
        };
        assert_eq!(moment(Some(&wild)), None);
    }
}
