//! The attempts of each step over time, with the pauses between them: pure, from the history and the
//! steps as they are now.

use jiff::Timestamp;
use stateway_proto::v1::{AttemptPhase, Event, Execution, Step, SubState};

use crate::time::moment;

/// One step's line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Lane {
    pub(super) step: String,
    pub(super) spans: Vec<Span>,
    /// When the next attempt is due.
    pub(super) next: Option<Timestamp>,
}

/// One attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) attempt: i32,
    pub(super) kind: Kind,
    pub(super) from: Timestamp,
    /// None while it lasts.
    pub(super) to: Option<Timestamp>,
    /// The summary of its last event.
    pub(super) summary: String,
}

/// How an attempt went, or how it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Done,
    Failed,
    /// It lasts, and shows this.
    Open(SubState),
    Compensation,
    CompensationFailed,
}

/// The lanes of an execution, in the order in which steps began.
pub(super) fn lanes(execution: &Execution, events: &[Event]) -> Vec<Lane> {
    let mut lanes: Vec<Lane> = Vec::new();
    for event in events.iter().filter(|event| !event.step.is_empty()) {
        let Some(time) = moment(event.occur_time.as_ref()) else {
            continue;
        };
        if event.phase() == AttemptPhase::Unspecified {
            continue;
        }
        let at = lanes.iter().position(|lane| lane.step == event.step);
        let at = at.unwrap_or_else(|| {
            lanes.push(Lane::of(&event.step));
            lanes.len() - 1
        });
        lanes[at].take(event, time);
    }
    for step in &execution.steps {
        settle(&mut lanes, step, execution);
    }
    lanes.retain(|lane| !lane.spans.is_empty());
    lanes
}

impl Lane {
    fn of(step: &str) -> Self {
        Self {
            step: step.to_owned(),
            spans: Vec::new(),
            next: None,
        }
    }

    fn take(&mut self, event: &Event, time: Timestamp) {
        match event.phase() {
            AttemptPhase::Unspecified => {}
            AttemptPhase::Started => {
                let going_on = self
                    .open()
                    .is_some_and(|open| open.attempt == event.attempt);
                if !going_on {
                    self.begin(event, time, Kind::Open(SubState::Running));
                }
            }
            AttemptPhase::CompensationStarted => self.begin(event, time, Kind::Compensation),
            AttemptPhase::Succeeded => self.end(event, time, Kind::Done),
            AttemptPhase::Failed => self.end(event, time, Kind::Failed),
            AttemptPhase::CompensationSucceeded => self.end(event, time, Kind::Compensation),
            AttemptPhase::CompensationFailed => self.end(event, time, Kind::CompensationFailed),
        }
    }

    fn open(&mut self) -> Option<&mut Span> {
        self.spans.last_mut().filter(|span| span.to.is_none())
    }

    fn begin(&mut self, event: &Event, time: Timestamp, kind: Kind) {
        // An attempt without an end in the history ended at the latest when the next one began.
        if let Some(open) = self.open() {
            open.to = Some(time);
            open.kind = Kind::Failed;
        }
        self.spans.push(Span {
            attempt: event.attempt,
            kind,
            from: time,
            to: None,
            summary: String::new(),
        });
    }

    fn end(&mut self, event: &Event, time: Timestamp, kind: Kind) {
        if let Some(open) = self.open() {
            open.to = Some(time);
            open.kind = kind;
            open.summary.clone_from(&event.summary);
        }
    }
}

/// The current state of a step ends, or leaves open, an attempt without an end in the history. A step without an
/// attempt in the history gets one span, from its own times.
fn settle(lanes: &mut Vec<Lane>, step: &Step, execution: &Execution) {
    let Some(lane) = lanes.iter_mut().find(|lane| lane.step == step.name) else {
        lanes.extend(from_times(step));
        return;
    };
    let sub_state = step.sub_state();
    let end = moment(step.end_time.as_ref()).or(moment(execution.end_time.as_ref()));
    if let Some(open) = lane.open() {
        match (end, open.kind) {
            (Some(end), Kind::Open(_)) => {
                open.to = Some(end.max(open.from));
                open.kind = kind(sub_state);
            }
            (Some(end), _) => open.to = Some(end.max(open.from)),
            (None, Kind::Open(_)) => open.kind = Kind::Open(sub_state),
            (None, _) => {}
        }
    }
    let retry = step.retry.as_ref();
    let next = retry.and_then(|retry| moment(retry.next_attempt_time.as_ref()));
    lane.next = next.filter(|_| sub_state == SubState::BackingOff);
}

fn from_times(step: &Step) -> Option<Lane> {
    let from = moment(step.start_time.as_ref())?;
    let to = moment(step.end_time.as_ref());
    let retry = step.retry.clone().unwrap_or_default();
    Some(Lane {
        step: step.name.clone(),
        spans: vec![Span {
            attempt: retry.attempt,
            kind: match to {
                Some(_) => kind(step.sub_state()),
                None => Kind::Open(step.sub_state()),
            },
            from,
            to: to.map(|to| to.max(from)),
            summary: String::new(),
        }],
        next: moment(retry.next_attempt_time.as_ref()),
    })
}

const fn kind(sub_state: SubState) -> Kind {
    match sub_state {
        SubState::Failed | SubState::Error => Kind::Failed,
        _ => Kind::Done,
    }
}

#[cfg(test)]
mod tests {
    use prost_types::Timestamp as Wire;
    use stateway_proto::v1::Retry;

    use super::*;

    fn at(seconds: i64) -> Option<Wire> {
        Some(Wire { seconds, nanos: 0 })
    }

    fn second(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn event(seconds: i64, step: &str, attempt: i32, phase: AttemptPhase) -> Event {
        Event {
            occur_time: at(seconds),
            step: step.into(),
            attempt,
            phase: phase.into(),
            summary: format!("{phase:?}"),
            ..Event::default()
        }
    }

    fn brief(lane: &Lane) -> Vec<(i32, Kind, i64, Option<i64>)> {
        let brief = |span: &Span| {
            let to = span.to.map(|to| to.as_second());
            (span.attempt, span.kind, span.from.as_second(), to)
        };
        lane.spans.iter().map(brief).collect()
    }

    #[test]
    fn a_retried_step_has_a_span_per_attempt_and_knows_its_next() {
        use AttemptPhase::{Failed, Started, Unspecified};
        let events = [
            event(0, "charge", 1, Started),
            event(1, "charge", 1, Started),
            event(2, "charge", 1, Failed),
            event(2, "charge", 2, Unspecified),
            event(5, "charge", 2, Started),
            event(6, "charge", 2, Failed),
        ];
        let execution = Execution {
            steps: vec![Step {
                name: "charge".into(),
                sub_state: SubState::BackingOff.into(),
                retry: Some(Box::new(Retry {
                    next_attempt_time: at(12),
                    ..Retry::default()
                })),
                ..Step::default()
            }],
            ..Execution::default()
        };
        let lanes = lanes(&execution, &events);
        assert_eq!(lanes.len(), 1);
        assert_eq!(
            brief(&lanes[0]),
            [(1, Kind::Failed, 0, Some(2)), (2, Kind::Failed, 5, Some(6))]
        );
        assert_eq!(lanes[0].next, Some(second(12)));
    }

    #[test]
    fn what_is_undone_has_a_span_of_its_own() {
        use AttemptPhase::{CompensationStarted, Started, Succeeded};
        let events = [
            event(0, "reserve", 1, Started),
            event(1, "reserve", 1, Succeeded),
            event(4, "reserve", 1, CompensationStarted),
        ];
        let lanes = lanes(&Execution::default(), &events);
        assert_eq!(
            brief(&lanes[0]),
            [
                (1, Kind::Done, 0, Some(1)),
                (1, Kind::Compensation, 4, None)
            ]
        );
    }

    #[test]
    fn an_attempt_that_was_left_open_ends_with_its_execution() {
        let events = [event(3, "a", 1, AttemptPhase::Started)];
        let execution = Execution {
            steps: vec![Step {
                name: "a".into(),
                sub_state: SubState::Failed.into(),
                ..Step::default()
            }],
            end_time: at(9),
            ..Execution::default()
        };
        let lanes = lanes(&execution, &events);
        assert_eq!(brief(&lanes[0]), [(1, Kind::Failed, 3, Some(9))]);
    }

    #[test]
    fn an_engine_that_tells_no_attempts_still_shows_when_its_steps_ran() {
        let execution = Execution {
            steps: vec![
                Step {
                    name: "a".into(),
                    sub_state: SubState::Succeeded.into(),
                    start_time: at(1),
                    end_time: at(2),
                    ..Step::default()
                },
                Step {
                    name: "b".into(),
                    sub_state: SubState::Waiting.into(),
                    start_time: at(2),
                    ..Step::default()
                },
                Step {
                    name: "not begun".into(),
                    ..Step::default()
                },
            ],
            ..Execution::default()
        };
        let lanes = lanes(&execution, &[]);
        assert_eq!(brief(&lanes[0]), [(0, Kind::Done, 1, Some(2))]);
        assert_eq!(
            brief(&lanes[1]),
            [(0, Kind::Open(SubState::Waiting), 2, None)]
        );
        assert_eq!(lanes.len(), 2);
    }
}
