//! Points in time for people: relative, exact in the tooltip, and kept up to date by the script.

use jiff::Timestamp;
use maud::{Markup, html};
pub(crate) use stateway_phrases::{exact, moment, span, stamp};
use stateway_phrases::{seconds_between, seconds_until};

/// The moment that a page or a part of it shows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Now {
    at: Timestamp,
    /// The script writes relative times. The server must not, because a part whose markup is the same
    /// is not sent again.
    by_script: bool,
}

impl Now {
    /// For a page: relative times are written out, also for browsers without a script.
    pub(crate) fn page() -> Self {
        Self {
            at: Timestamp::now(),
            by_script: false,
        }
    }

    /// For a part that is sent to a script: markup that changes with the facts alone.
    pub(crate) fn stream() -> Self {
        Self {
            at: Timestamp::now(),
            by_script: true,
        }
    }

    pub(crate) const fn timestamp(self) -> Timestamp {
        self.at
    }

    /// The text of a time: as written for people, or exact where the script writes it.
    fn text(self, time: Timestamp, relative: impl FnOnce(Timestamp) -> String) -> String {
        if self.by_script {
            exact(time)
        } else {
            relative(self.at)
        }
    }
}

/// `3 min ago`.
pub(crate) fn ago(time: Timestamp, now: Now) -> Markup {
    let text = now.text(time, |now| match seconds_between(time, now) {
        0 => "just now".to_owned(),
        seconds => format!("{} ago", span(seconds)),
    });
    html! {
        time datetime=(stamp(time)) title=(exact(time)) data-ago=(time.as_millisecond()) { (text) }
    }
}

/// `in 12 s`, counting down.
pub(crate) fn until(time: Timestamp, now: Now) -> Markup {
    let text = now.text(time, |now| match seconds_until(time, now) {
        0 => "now".to_owned(),
        seconds => format!("in {}", span(seconds)),
    });
    html! {
        time datetime=(stamp(time)) title=(exact(time)) data-until=(time.as_millisecond()) { (text) }
    }
}

/// `for 3 min`: how long something has lasted and still does.
pub(crate) fn lasting(since: Timestamp, now: Now) -> Markup {
    let text = now.text(since, |now| {
        format!("for {}", span(seconds_between(since, now)))
    });
    html! {
        time datetime=(stamp(since)) title=(exact(since)) data-for=(since.as_millisecond()) { (text) }
    }
}

/// A point in time by the clock: with its date, in the zone that the reader chose.
pub(crate) fn at(time: Timestamp) -> Markup {
    html! {
        time datetime=(stamp(time)) title=(exact(time)) data-at=(time.as_millisecond()) {
            (time.strftime("%Y-%m-%d %H:%M:%S%.3f"))
        }
    }
}

/// How long something took: `480 ms`, `1.2 s`, `3 min 4 s`.
pub(crate) fn length(from: Timestamp, to: Timestamp) -> String {
    match to.as_millisecond() - from.as_millisecond() {
        millis @ ..1_000 => format!("{} ms", millis.max(0)),
        millis @ 1_000..10_000 => format!("{}.{} s", millis / 1_000, millis % 1_000 / 100),
        millis => span(millis / 1_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_markup_of_a_stream_changes_with_the_time_alone() {
        let time = Timestamp::from_second(1_000).unwrap();
        let now = |second: i64, by_script| Now {
            at: Timestamp::from_second(second).unwrap(),
            by_script,
        };
        let shown = |second, by_script| ago(time, now(second, by_script)).into_string();
        assert!(shown(1_003, false).contains("3 s ago"));
        assert_ne!(shown(1_003, false), shown(1_004, false));
        assert_eq!(shown(1_003, true), shown(1_004, true));
    }
}
