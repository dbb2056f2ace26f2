//! The time axis of the timeline: true to scale, except for marked breaks.
//!
//! Long times in which nothing happens (a back-off of an hour between attempts of a second) would
//! squeeze everything else into dots. Such a time is a break: it has a fixed width and a mark. Pure.

use jiff::Timestamp;

use super::timeline::Lane;
use crate::time::span;

/// The width of a break, in per cent of the picture.
const BREAK: f64 = 9.0;
/// The most breaks; further long times are drawn to scale.
const MOST_BREAKS: usize = 5;
/// A time without work is a break if it is this many times longer than everything else together.
const TOO_LONG: i64 = 2;
/// Times below this many milliseconds are never a break.
const SHORTEST: i64 = 5_000;
/// Two labels of the axis are at least this far apart, in per cent.
const LABEL: f64 = 11.0;

/// A part of the axis: times and the places that they are drawn at.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Segment {
    from: i64,
    to: i64,
    left: f64,
    right: f64,
    is_break: bool,
}

/// Time as per cent of the picture.
#[derive(Debug)]
pub(super) struct Axis {
    segments: Vec<Segment>,
    /// Whether the execution has not ended.
    pub(super) open: bool,
}

impl Axis {
    /// The axis of these lanes; none when nothing has begun.
    pub(super) fn of(lanes: &[Lane], open: bool, now: Timestamp) -> Option<Self> {
        let mut busy: Vec<(i64, i64)> = Vec::new();
        for span in lanes.iter().flat_map(|lane| &lane.spans) {
            let from = span.from.as_millisecond();
            let to = span.to.unwrap_or(now).as_millisecond();
            busy.push((from, to.max(from + 1)));
        }
        if busy.is_empty() {
            return None;
        }
        let moments = lanes.iter().filter_map(|lane| lane.next);
        let moments = moments.chain(open.then_some(now));
        busy.extend(moments.map(|time| (time.as_millisecond(), time.as_millisecond())));
        Some(Self {
            segments: segments(&merged(busy)),
            open,
        })
    }

    /// Where a time is, in per cent.
    pub(super) fn share(&self, time: Timestamp) -> f64 {
        let time = time.as_millisecond();
        let found = self.segments.iter().find(|segment| time <= segment.to);
        let Some(segment) = found.or(self.segments.last()) else {
            return 0.0;
        };
        let whole = (segment.to - segment.from).max(1) as f64;
        let part = (time - segment.from) as f64 / whole;
        segment.left + part.clamp(0.0, 1.0) * (segment.right - segment.left)
    }

    /// The middle of each break and how long it is, in milliseconds.
    pub(super) fn breaks(&self) -> Vec<(f64, i64)> {
        let breaks = self.segments.iter().filter(|segment| segment.is_break);
        let places = breaks.map(|one| (f64::midpoint(one.left, one.right), one.to - one.from));
        places.collect()
    }

    /// Round times since the beginning, and where the axis continues after a break.
    pub(super) fn ticks(&self) -> Vec<(f64, String)> {
        let drawn = || self.segments.iter().filter(|segment| !segment.is_break);
        let whole: i64 = drawn().map(|segment| segment.to - segment.from).sum();
        let step = step(whole);
        let start = self.segments.first().map_or(0, |segment| segment.from);
        let mut ticks: Vec<(f64, String)> = Vec::new();
        for segment in drawn() {
            let first = (segment.from - start).div_euclid(step) + 1;
            let last = (segment.to - start).div_euclid(step);
            let round = (first..=last).map(|count| count * step);
            for millis in std::iter::once(segment.from - start).chain(round) {
                let whole = (segment.to - segment.from).max(1) as f64;
                let part = (start + millis - segment.from) as f64 / whole;
                let place = segment.left + part * (segment.right - segment.left);
                let is_free = ticks.last().is_none_or(|(last, _)| place - last >= LABEL);
                if is_free {
                    ticks.push((place, label(millis)));
                }
            }
        }
        ticks
    }
}

/// Times that overlap or touch, joined, in order.
fn merged(mut times: Vec<(i64, i64)>) -> Vec<(i64, i64)> {
    times.sort_unstable();
    let mut merged: Vec<(i64, i64)> = Vec::new();
    for (from, to) in times {
        match merged.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => merged.push((from, to)),
        }
    }
    merged
}

/// The times between which nothing happens for too long.
fn long_pauses(busy: &[(i64, i64)]) -> Vec<(i64, i64)> {
    let (Some(first), Some(last)) = (busy.first(), busy.last()) else {
        return Vec::new();
    };
    let mut pauses: Vec<_> = busy.windows(2).map(|two| (two[0].1, two[1].0)).collect();
    pauses.sort_by_key(|(from, to)| from - to);
    let mut rest = last.1 - first.0;
    let mut long = Vec::new();
    for (from, to) in pauses {
        let length = to - from;
        rest -= length;
        if long.len() == MOST_BREAKS || length < SHORTEST || length < TOO_LONG * rest.max(1_000) {
            break;
        }
        long.push((from, to));
    }
    long.sort_unstable();
    long
}

fn segments(busy: &[(i64, i64)]) -> Vec<Segment> {
    let (Some(first), Some(last)) = (busy.first(), busy.last()) else {
        return Vec::new();
    };
    let breaks = long_pauses(busy);
    let broken: i64 = breaks.iter().map(|(from, to)| to - from).sum();
    let scale = (100.0 - BREAK * breaks.len() as f64) / (last.1 - first.0 - broken).max(1) as f64;
    let mut segments = Vec::new();
    let (mut time, mut place) = (first.0, 0.0);
    let mut push = |to: i64, width: f64, is_break: bool| {
        segments.push(Segment {
            from: time,
            to,
            left: place,
            right: place + width,
            is_break,
        });
        (time, place) = (to, place + width);
    };
    let mut drawn = first.0;
    for (from, to) in breaks {
        push(from, (from - drawn) as f64 * scale, false);
        push(to, BREAK, true);
        drawn = to;
    }
    push(last.1, (last.1 - drawn) as f64 * scale, false);
    segments
}

/// A round distance between labels, for at most seven of them.
fn step(whole: i64) -> i64 {
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
    let found = STEPS.into_iter().find(|step| whole / step <= 6);
    found.unwrap_or(whole / 5).max(1)
}

fn label(millis: i64) -> String {
    match millis {
        0 => "0".to_owned(),
        millis @ ..1_000 => format!("{millis} ms"),
        millis if millis < 10_000 && millis % 1_000 >= 100 => {
            format!("{}.{} s", millis / 1_000, millis % 1_000 / 100)
        }
        millis => span(millis / 1_000),
    }
}

#[cfg(test)]
mod tests {
    use super::super::timeline::{Kind, Span};
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn lane(spans: &[(i64, i64)], next: Option<i64>) -> Lane {
        let span = |&(from, to): &(i64, i64)| Span {
            attempt: 1,
            kind: Kind::Failed,
            from: at(from),
            to: Some(at(to)),
            summary: String::new(),
        };
        Lane {
            step: "s".into(),
            spans: spans.iter().map(span).collect(),
            next: next.map(at),
        }
    }

    #[test]
    fn what_lasts_twice_as_long_is_twice_as_wide() {
        let axis = Axis::of(&[lane(&[(0, 10), (10, 30)], None)], false, at(30)).unwrap();
        assert!(axis.breaks().is_empty());
        let third = axis.share(at(10));
        assert!((33.0..34.0).contains(&third), "{third}");
        let labels: Vec<_> = axis.ticks().into_iter().map(|(_, label)| label).collect();
        assert_eq!(labels, ["0", "5 s", "10 s", "15 s", "20 s", "25 s", "30 s"]);
    }

    #[test]
    fn a_far_attempt_is_beyond_a_break() {
        let axis = Axis::of(&[lane(&[(0, 30)], Some(3_600))], true, at(31)).unwrap();
        let breaks = axis.breaks();
        assert_eq!(breaks.len(), 1, "{axis:?}");
        assert_eq!(breaks[0].1, 3_569_000);
        assert!(axis.share(at(3_600)) > 99.0);
        let now = axis.share(at(31));
        assert!((90.0..92.0).contains(&now), "{now}");
        assert_eq!(axis.ticks().last().unwrap().1, "1 h", "{:?}", axis.ticks());
    }

    #[test]
    fn a_near_attempt_needs_no_break() {
        let axis = Axis::of(&[lane(&[(0, 30)], Some(40))], true, at(31)).unwrap();
        assert!(axis.breaks().is_empty());
        assert!((74.0..76.0).contains(&axis.share(at(30))));
    }

    #[test]
    fn the_order_of_times_is_kept() {
        let lanes = [lane(&[(0, 1), (4_000, 4_002), (90_000, 90_001)], None)];
        let axis = Axis::of(&lanes, false, at(90_001)).unwrap();
        assert_eq!(axis.breaks().len(), 2);
        let shares: Vec<_> = [0, 1, 2_000, 4_000, 4_002, 50_000, 90_000, 90_001]
            .map(|second| axis.share(at(second)))
            .into();
        assert!(shares.is_sorted(), "{shares:?}");
        assert!(shares[0] < 0.1 && shares[7] > 99.9, "{shares:?}");
    }
}
