//! Points in time for people: relative, exact in the tooltip, and kept up to date by the script.

use jiff::Timestamp;
use maud::{Markup, html};
pub(crate) use stateway_phrases::{exact, moment, span};
use stateway_phrases::{seconds_between, seconds_until, stamp};

/// `3 min ago`.
pub(crate) fn ago(time: Timestamp, now: Timestamp) -> Markup {
    let text = match seconds_between(time, now) {
        0 => "just now".to_owned(),
        seconds => format!("{} ago", span(seconds)),
    };
    html! {
        time datetime=(stamp(time)) title=(exact(time)) data-ago=(time.as_millisecond()) { (text) }
    }
}

/// `in 12 s`, counting down.
pub(crate) fn until(time: Timestamp, now: Timestamp) -> Markup {
    let text = match seconds_until(time, now) {
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
            "for " (span(seconds_between(since, now)))
        }
    }
}
