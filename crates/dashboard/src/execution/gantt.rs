//! The timeline as a picture: a line per step, drawn in per cent so that it fits any width.

use jiff::Timestamp;
use maud::{Markup, html};
use stateway_proto::v1::SubState;

use super::timeline::{Kind, Lane, Span};
use crate::sub_state::word;
use crate::text::{said_within, visible};
use crate::time::{exact, span, until};

/// The most lines that are drawn.
const MOST_LANES: usize = 100;
/// The most spans of one line that are drawn: the last ones.
const MOST_SPANS: usize = 100;
/// The future is at most this part of the picture.
const FUTURE: f64 = 0.25;

/// The whole picture; nothing when there is nothing to show.
pub(super) fn draw(lanes: &[Lane], open: bool, now: Timestamp) -> Markup {
    let Some(scale) = Scale::of(lanes, open, now) else {
        return html! { p.muted { "Nothing has begun yet." } };
    };
    html! {
        div.gantt {
            @for lane in lanes.iter().take(MOST_LANES) { (row(lane, &scale, now)) }
            (axis(&scale))
        }
        @if lanes.len() > MOST_LANES {
            p.muted { (lanes.len() - MOST_LANES) " more steps are left out." }
        }
        p.legend {
            span.key.done { "done" } span.key.failed { "failed" } span.key.running { "running" }
            span.key.waiting { "waiting" } span.key.gap { "back-off" } span.key.undo { "compensated" }
        }
    }
}

fn row(lane: &Lane, scale: &Scale, now: Timestamp) -> Markup {
    let skipped = lane.spans.len().saturating_sub(MOST_SPANS);
    let spans = &lane.spans[skipped..];
    html! {
        div.lane {
            span.name { (said_within(&lane.step, 40)) }
            svg.bars height="22" role="img" aria-label=(told(lane, now)) {
                @if open_end(scale) { line.now x1=(scale.at(now)) x2=(scale.at(now)) y1="0" y2="22" {} }
                @for pair in spans.windows(2) { (gap(&pair[0], pair[1].from, scale)) }
                @for span in spans { (bar(span, scale, now)) }
                @if let (Some(next), Some(last)) = (lane.next, spans.last()) {
                    (gap(last, next, scale))
                    line.due x1=(scale.at(next)) x2=(scale.at(next)) y1="3" y2="19" {
                        title { "next attempt " (exact(next)) }
                    }
                }
            }
            span.after {
                @if let Some(next) = lane.next { "next " (until(next, now)) }
                @else if spans.len() > 1 { (attempts(spans)) }
            }
        }
    }
}

fn attempts(spans: &[Span]) -> String {
    let most = spans.iter().map(|span| span.attempt).max().unwrap_or(0);
    match most {
        0 | 1 => String::new(),
        most => format!("{most} attempts"),
    }
}

fn bar(span: &Span, scale: &Scale, now: Timestamp) -> Markup {
    let end = span.to.unwrap_or(now).max(span.from);
    let width = (scale.share(end) - scale.share(span.from)).max(0.4);
    let undo = matches!(span.kind, Kind::Undo | Kind::UndoFailed);
    html! {
        rect class=(class(span.kind)) x=(scale.at(span.from)) width=(per_cent(width))
            y=(if undo { 7 } else { 4 }) height=(if undo { 8 } else { 14 }) rx="3" {
            title { (title(span, end)) }
        }
    }
}

fn gap(before: &Span, until: Timestamp, scale: &Scale) -> Markup {
    let from = before.to.unwrap_or(before.from);
    html! {
        @if before.kind == Kind::Failed && until > from {
            line.gap x1=(scale.at(from)) x2=(scale.at(until)) y1="11" y2="11" {
                title { "back-off of " (length(from, until)) }
            }
        }
    }
}

const fn class(kind: Kind) -> &'static str {
    match kind {
        Kind::Done => "done",
        Kind::Failed => "failed",
        Kind::Open(SubState::Waiting) => "waiting",
        Kind::Open(SubState::BackingOff | SubState::Error) => "failed",
        Kind::Open(_) => "running",
        Kind::Undo => "undo",
        Kind::UndoFailed => "undo failed",
    }
}

fn outcome(span: &Span) -> String {
    match span.kind {
        Kind::Done => "done".to_owned(),
        Kind::Failed => "failed".to_owned(),
        Kind::Open(sub_state) => word(sub_state).to_owned(),
        Kind::Undo if span.to.is_none() => "being compensated".to_owned(),
        Kind::Undo => "compensated".to_owned(),
        Kind::UndoFailed => "compensation failed".to_owned(),
    }
}

fn title(span: &Span, end: Timestamp) -> String {
    let attempt = match span.attempt {
        0 => String::new(),
        attempt => format!("attempt {attempt}: "),
    };
    let told = visible(&span.told);
    let told: String = told.chars().take(200).collect();
    let parts = format!(
        "{attempt}{} ({}) from {}",
        outcome(span),
        length(span.from, end),
        exact(span.from)
    );
    match told.is_empty() {
        true => parts,
        false => format!("{parts} – {told}"),
    }
}

/// A line in words.
fn told(lane: &Lane, now: Timestamp) -> String {
    let skipped = lane.spans.len().saturating_sub(MOST_SPANS);
    let spans = lane.spans[skipped..].iter().map(|span| {
        let end = span.to.unwrap_or(now).max(span.from);
        let attempt = span.attempt.max(1);
        format!(
            "attempt {attempt} {}, {}",
            outcome(span),
            length(span.from, end)
        )
    });
    let name = visible(&lane.step);
    format!("{name}: {}", spans.collect::<Vec<_>>().join("; "))
}

fn axis(scale: &Scale) -> Markup {
    html! {
        div.lane.axis aria-hidden="true" {
            span.name {}
            svg.bars height="20" {
                @for (at, label) in scale.ticks() {
                    line.tick x1=(per_cent(at)) x2=(per_cent(at)) y1="0" y2="4" {}
                    text.tick x=(per_cent(at)) y="16" text-anchor=(anchor(at)) { (label) }
                }
            }
            span.after {}
        }
    }
}

fn anchor(at: f64) -> &'static str {
    match at {
        at if at < 3.0 => "start",
        at if at > 97.0 => "end",
        _ => "middle",
    }
}

fn open_end(scale: &Scale) -> bool {
    scale.open
}

/// `480 ms`, `1.2 s`, `3 min 4 s`.
fn length(from: Timestamp, to: Timestamp) -> String {
    match to.as_millisecond() - from.as_millisecond() {
        millis @ ..1_000 => format!("{} ms", millis.max(0)),
        millis @ 1_000..10_000 => format!("{}.{} s", millis / 1_000, millis % 1_000 / 100),
        millis => span(millis / 1_000),
    }
}

fn per_cent(share: f64) -> String {
    format!("{share:.2}%")
}

/// Time as per cent of the picture.
struct Scale {
    from: i64,
    to: i64,
    open: bool,
}

impl Scale {
    fn of(lanes: &[Lane], open: bool, now: Timestamp) -> Option<Self> {
        let spans = || lanes.iter().flat_map(|lane| &lane.spans);
        let from = spans().map(|span| span.from).min()?;
        let ends = spans().map(|span| span.to.unwrap_or(now));
        let mut to = ends.max()?.max(from);
        if open {
            to = to.max(now);
        }
        let (from, mut to) = (from.as_millisecond(), to.as_millisecond().saturating_add(1));
        let next = lanes.iter().filter_map(|lane| lane.next).max();
        if let Some(next) = next {
            // What is due in a day must not squeeze what happened into a dot.
            let past = (to - from).max(1_000) as f64;
            let room = (past * FUTURE / (1.0 - FUTURE)) as i64;
            to = next.as_millisecond().clamp(to, to + room);
        }
        Some(Self { from, to, open })
    }

    fn share(&self, time: Timestamp) -> f64 {
        let whole = (self.to - self.from).max(1) as f64;
        let part = (time.as_millisecond() - self.from) as f64;
        (part / whole * 100.0).clamp(0.0, 100.0)
    }

    fn at(&self, time: Timestamp) -> String {
        per_cent(self.share(time))
    }

    /// Round times since the beginning, at most six.
    fn ticks(&self) -> Vec<(f64, String)> {
        const STEPS: [i64; 20] = [
            100,
            200,
            500,
            1_000,
            2_000,
            5_000,
            10_000,
            30_000,
            60_000,
            120_000,
            300_000,
            600_000,
            1_800_000,
            3_600_000,
            7_200_000,
            21_600_000,
            43_200_000,
            86_400_000,
            604_800_000,
            2_592_000_000,
        ];
        let whole = (self.to - self.from).max(1);
        let step = STEPS.into_iter().find(|step| whole / step <= 6);
        let step = step.unwrap_or(whole / 5).max(1);
        let ticks = (0..=whole / step).map(|count| {
            let millis = count * step;
            let label = match millis {
                0 => "0".to_owned(),
                millis @ ..1_000 => format!("{millis} ms"),
                millis if millis % 1_000 != 0 => {
                    format!("{}.{} s", millis / 1_000, millis % 1_000 / 100)
                }
                millis => span(millis / 1_000),
            };
            (millis as f64 / whole as f64 * 100.0, label)
        });
        ticks.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn lane(next: Option<Timestamp>) -> Lane {
        Lane {
            step: "<b>step</b>".into(),
            spans: vec![Span {
                attempt: 1,
                kind: Kind::Failed,
                from: at(0),
                to: Some(at(30)),
                told: "\"<script>\u{202e}".into(),
            }],
            next,
        }
    }

    #[test]
    fn the_future_gets_a_quarter_at_most() {
        let scale = Scale::of(&[lane(Some(at(1_000_000)))], true, at(30)).unwrap();
        let now = scale.share(at(30));
        assert!((74.0..=76.0).contains(&now), "{now}");
        let near = Scale::of(&[lane(Some(at(33)))], true, at(30)).unwrap();
        assert!(near.share(at(33)) > 99.0);
    }

    #[test]
    fn ticks_are_few_and_round() {
        let scale = Scale::of(&[lane(None)], false, at(30)).unwrap();
        let labels: Vec<_> = scale.ticks().into_iter().map(|(_, label)| label).collect();
        assert_eq!(labels, ["0", "5 s", "10 s", "15 s", "20 s", "25 s", "30 s"]);
    }

    #[test]
    fn text_of_others_is_inert() {
        let html = draw(&[lane(Some(at(40)))], true, at(31)).into_string();
        assert!(
            !html.contains("<script") && !html.contains("<b>step"),
            "{html}"
        );
        assert!(html.contains("back-off of 10 s"), "{html}");
    }
}
