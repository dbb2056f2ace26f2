//! The timeline as a picture: a line per step, drawn in per cent so that it fits any width.

use jiff::Timestamp;
use maud::{Markup, html};
use stateway_proto::v1::SubState;

use super::axis::Axis;
use super::timeline::{Kind, Lane, Span};
use crate::sub_state::word;
use crate::text::{said_within, visible};
use crate::time::{Now, exact, length, span, until};

/// The most lines that are drawn.
const MOST_LANES: usize = 100;
/// The most spans of one line that are drawn: the last ones.
const MOST_SPANS: usize = 100;
/// The whole picture; nothing when there is nothing to show.
///
/// `href` is the page of a step or of one of its attempts (0: of the step).
pub(super) fn draw(
    lanes: &[Lane],
    open: bool,
    now: Now,
    href: &dyn Fn(&str, i32) -> Option<String>,
) -> Markup {
    let Some(axis) = Axis::of(lanes, open, now.timestamp()) else {
        return html! { p.muted { "No step has begun." } };
    };
    let breaks = axis.breaks();
    let chart = Chart { axis, now, href };
    html! {
        div.gantt {
            @for lane in lanes.iter().take(MOST_LANES) { (chart.row(lane)) }
            (chart.axis())
        }
        @if lanes.len() > MOST_LANES {
            p.muted { (lanes.len() - MOST_LANES) " more steps are left out." }
        }
        p.legend {
            span.key.done { "done" } span.key.failed { "failed" } span.key.running { "running" }
            span.key.waiting { "waiting" } span.key.gap { "back-off" } span.key.compensation { "compensated" }
            @if let Some(longest) = breaks.iter().map(|(_, millis)| millis).max() {
                span { "≈ break in the time axis: " (span(longest / 1_000)) " at most, without work" }
            }
        }
    }
}

/// The style of a line.
struct Chart<'c> {
    axis: Axis,
    now: Now,
    href: &'c dyn Fn(&str, i32) -> Option<String>,
}

impl Chart<'_> {
    fn row(&self, lane: &Lane) -> Markup {
        let skipped = lane.spans.len().saturating_sub(MOST_SPANS);
        let spans = &lane.spans[skipped..];
        let now = self.now.timestamp();
        let summary = summary(lane, now);
        // What is inside an image cannot be reached; links can.
        let has_links = (self.href)(&lane.step, 0).is_some();
        let role = if has_links { "group" } else { "img" };
        html! {
            div.lane {
                span.name {
                    @match (self.href)(&lane.step, 0) {
                        Some(href) => { a href=(href) { (said_within(&lane.step, 40)) } }
                        None => { (said_within(&lane.step, 40)) }
                    }
                }
                svg.bars height="22" role=(role) aria-label=(summary) {
                    @if self.axis.open { line.now x1=(self.at(now)) x2=(self.at(now)) y1="0" y2="22" {} }
                    @for pair in spans.windows(2) { (self.gap(&pair[0], pair[1].from)) }
                    @for span in spans { (self.bar(&lane.step, span)) }
                    @if let (Some(next), Some(last)) = (lane.next, spans.last()) {
                        (self.gap(last, next))
                        line.due x1=(self.at(next)) x2=(self.at(next)) y1="3" y2="19" {
                            title { "next attempt " (exact(next)) }
                        }
                    }
                    @for (place, _) in self.axis.breaks() { (break_mark(place, 22)) }
                }
                span.after {
                    @if let Some(next) = lane.next { "next " (until(next, self.now)) }
                    @else if spans.len() > 1 { (attempts(spans)) }
                    @else { (whole(spans)) }
                }
            }
        }
    }

    fn bar(&self, step: &str, span: &Span) -> Markup {
        let end = span.to.unwrap_or(self.now.timestamp()).max(span.from);
        let width = (self.axis.share(end) - self.axis.share(span.from)).max(0.4);
        let compensation = matches!(span.kind, Kind::Compensation | Kind::CompensationFailed);
        let bar = html! {
            rect class=(class(span.kind)) x=(self.at(span.from)) width=(per_cent(width))
                y=(if compensation { 7 } else { 4 }) height=(if compensation { 8 } else { 14 }) rx="3" {
                title { (title(span, end)) }
            }
        };
        // The name of the line is the link for keys and screen readers.
        html! {
            @match (self.href)(step, span.attempt) {
                Some(href) => { a href=(href) tabindex="-1" aria-hidden="true" { (bar) } }
                None => { (bar) }
            }
        }
    }

    fn gap(&self, before: &Span, until: Timestamp) -> Markup {
        let from = before.to.unwrap_or(before.from);
        html! {
            @if before.kind == Kind::Failed && until > from {
                line.gap x1=(self.at(from)) x2=(self.at(until)) y1="11" y2="11" {
                    title { "back-off of " (length(from, until)) }
                }
            }
        }
    }

    fn axis(&self) -> Markup {
        html! {
            div.lane.axis aria-hidden="true" {
                span.name {}
                svg.bars height="20" {
                    @for (place, label) in self.axis.ticks() {
                        line.tick x1=(per_cent(place)) x2=(per_cent(place)) y1="0" y2="4" {}
                        text.tick x=(per_cent(place)) y="16" text-anchor=(anchor(place)) { (label) }
                    }
                    @for (place, _) in self.axis.breaks() { (break_mark(place, 12)) }
                }
                span.after {}
            }
        }
    }

    fn at(&self, time: Timestamp) -> String {
        per_cent(self.axis.share(time))
    }
}

/// How long a step took that had one attempt.
fn whole(spans: &[Span]) -> String {
    let ended = spans.last().and_then(|span| Some((span.from, span.to?)));
    ended.map_or_else(String::new, |(from, to)| length(from, to))
}

/// Two strokes where the axis leaves time out.
fn break_mark(place: f64, height: u32) -> Markup {
    let stroke = |at: f64| {
        let (from, to) = (per_cent(at - 0.3), per_cent(at + 0.3));
        html! { line.break x1=(from) x2=(to) y1=(height) y2="0" {} }
    };
    html! { (stroke(place - 0.4)) (stroke(place + 0.4)) }
}

fn attempts(spans: &[Span]) -> String {
    let most = spans.iter().map(|span| span.attempt).max().unwrap_or(0);
    match most {
        0 | 1 => String::new(),
        most => format!("{most} attempts"),
    }
}

const fn class(kind: Kind) -> &'static str {
    match kind {
        Kind::Done => "done",
        Kind::Failed => "failed",
        Kind::Open(SubState::Waiting) => "waiting",
        Kind::Open(SubState::BackingOff | SubState::Error) => "failed",
        Kind::Open(_) => "running",
        Kind::Compensation => "compensation",
        Kind::CompensationFailed => "compensation failed",
    }
}

fn outcome(span: &Span) -> String {
    match span.kind {
        Kind::Done => "done".to_owned(),
        Kind::Failed => "failed".to_owned(),
        Kind::Open(sub_state) => word(sub_state).to_owned(),
        Kind::Compensation if span.to.is_none() => "being compensated".to_owned(),
        Kind::Compensation => "compensated".to_owned(),
        Kind::CompensationFailed => "compensation failed".to_owned(),
    }
}

fn title(span: &Span, end: Timestamp) -> String {
    let attempt = match span.attempt {
        0 => String::new(),
        attempt => format!("attempt {attempt}: "),
    };
    let summary = visible(&span.summary);
    let summary: String = summary.chars().take(200).collect();
    let parts = format!(
        "{attempt}{} ({}) from {}",
        outcome(span),
        length(span.from, end),
        exact(span.from)
    );
    if summary.is_empty() {
        parts
    } else {
        format!("{parts} – {summary}")
    }
}

/// A line in words.
fn summary(lane: &Lane, now: Timestamp) -> String {
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

fn anchor(at: f64) -> &'static str {
    match at {
        at if at < 3.0 => "start",
        at if at > 97.0 => "end",
        _ => "middle",
    }
}

fn per_cent(share: f64) -> String {
    format!("{share:.2}%")
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
                summary: "\"<script>\u{202e}".into(),
            }],
            next,
        }
    }

    #[test]
    fn text_of_others_is_inert() {
        let html = draw(&[lane(Some(at(40)))], true, Now::page(), &|_, _| None).into_string();
        assert!(
            !html.contains("<script") && !html.contains("<b>step"),
            "{html}"
        );
        assert!(html.contains("back-off of 10 s"), "{html}");
    }
}
