//! Points in time for people: relative, exact in the tooltip, and kept up to date by the script.

use jiff::Timestamp;
use maud::{Markup, html};
use prost_types::Timestamp as Wire;

/// A time of the wire; none when it is absent or outside the calendar.
pub(crate) fn moment(time: Option<&Wire>) -> Option<Timestamp> {
    time.and_then(|time| Timestamp::new(time.seconds, time.nanos).ok())
}

/// `3 min ago`.
pub(crate) fn ago(time: Timestamp, now: Timestamp) -> Markup {
    let text = match seconds(time, now) {
        0 => "just now".to_owned(),
        seconds => format!("{} ago", span(seconds)),
    };
    html! {
        time datetime=(stamp(time)) title=(exact(time)) data-ago=(time.as_millisecond()) { (text) }
    }
}

/// `in 12 s`, counting down.
pub(crate) fn until(time: Timestamp, now: Timestamp) -> Markup {
    let text = match seconds(now, time) {
        0 => "now".to_owned(),
        seconds => format!("in {}", span(seconds)),
    };
    html! {
        time datetime=(stamp(time)) title=(exact(time)) data-until=(time.as_millisecond()) { (text) }
    }
}

/// `for 3 min`: how long something has lasted and still does.
pub(crate) fn lasting(since: Timestamp, now: Timestamp) -> Markup {
    html! {
        time datetime=(stamp(since)) title=(exact(since)) data-for=(since.as_millisecond()) {
            "for " (span(seconds(since, now)))
        }
    }
}

/// `2026-11-16 08:12:03.120 UTC`.
pub(crate) fn exact(time: Timestamp) -> String {
    time.strftime("%Y-%m-%d %H:%M:%S%.3f UTC").to_string()
}

/// For programs, as exactly as for people.
fn stamp(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

/// Two units at most: `12 s`, `3 min 4 s`, `5 h 10 min`, `2 d 3 h`.
pub(crate) fn span(seconds: i64) -> String {
    let pair = |big: i64, big_unit, small: i64, small_unit| match small {
        0 => format!("{big} {big_unit}"),
        small => format!("{big} {big_unit} {small} {small_unit}"),
    };
    match seconds {
        ..60 => format!("{} s", seconds.max(0)),
        60..600 => pair(seconds / 60, "min", seconds % 60, "s"),
        600..3_600 => format!("{} min", seconds / 60),
        3_600..86_400 => pair(seconds / 3_600, "h", seconds % 3_600 / 60, "min"),
        _ => pair(seconds / 86_400, "d", seconds % 86_400 / 3_600, "h"),
    }
}

fn seconds(from: Timestamp, to: Timestamp) -> i64 {
    (to.as_millisecond() - from.as_millisecond()).max(0) / 1_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_short() {
        let shown: Vec<_> = [0, 59, 60, 64, 3_599, 3_600, 18_600, 86_400, 187_200]
            .map(span)
            .into();
        let wanted = [
            "0 s",
            "59 s",
            "1 min",
            "1 min 4 s",
            "59 min",
            "1 h",
            "5 h 10 min",
            "1 d",
            "2 d 4 h",
        ];
        assert_eq!(shown, wanted);
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
