//! Every request for a decision that a log tells of, and what became of it.

use std::sync::Arc;

use jiff::Timestamp;
use stateway_machine::{Event, Fact, WaitFor};
use stateway_model::{Reason, Step, WaitKind};
use stateway_proto::v1::approval::State;

/// One request of one step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) step: Arc<str>,
    pub(super) attempt: u32,
    pub(super) role: Arc<str>,
    pub(super) asked: Timestamp,
    pub(super) expires: Option<Timestamp>,
    pub(super) outcome: Outcome,
}

/// What became of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The log says nothing: it is open, or was given up.
    Undecided,
    Decided {
        grant: bool,
        by: Arc<str>,
        comment: Arc<str>,
        at: Timestamp,
    },
    Expired,
}

/// The requests of a log, in the order they were made.
pub(super) fn of_log(events: &[Event]) -> Vec<Request> {
    let mut found: Vec<Request> = Vec::new();
    for event in events {
        match &event.fact {
            Fact::StepWaiting {
                step,
                attempt,
                wait: WaitFor::Approval(role),
                due,
            } => found.push(Request {
                step: step.clone(),
                attempt: *attempt,
                role: role.clone(),
                asked: event.at,
                expires: *due,
                outcome: Outcome::Undecided,
            }),
            Fact::ApprovalGranted {
                step,
                attempt,
                by,
                comment,
                ..
            } => settle(
                &mut found,
                step,
                *attempt,
                decided(true, by, comment, event),
            ),
            Fact::ApprovalRejected {
                step,
                attempt,
                by,
                comment,
            } => settle(
                &mut found,
                step,
                *attempt,
                decided(false, by, comment, event),
            ),
            Fact::ApprovalExpired { step, attempt } => {
                settle(&mut found, step, *attempt, Outcome::Expired);
            }
            _ => {}
        }
    }
    found
}

fn decided(grant: bool, by: &Arc<str>, comment: &Arc<str>, event: &Event) -> Outcome {
    Outcome::Decided {
        grant,
        by: by.clone(),
        comment: comment.clone(),
        at: event.at,
    }
}

fn settle(found: &mut [Request], step: &str, attempt: u32, outcome: Outcome) {
    let request = found
        .iter_mut()
        .rev()
        .find(|request| &*request.step == step && request.attempt == attempt);
    if let Some(request) = request {
        request.outcome = outcome;
    }
}

/// The request that a step waits for now.
pub(super) fn of_step(step: &Step) -> Option<Request> {
    let wait = step
        .waits
        .iter()
        .find(|wait| wait.kind == WaitKind::Approval)?;
    // An escalated step waits for a person too, but not for a yes or a no.
    if step.reason == Some(Reason::Escalated) {
        return None;
    }
    Some(Request {
        step: step.name.as_str().into(),
        attempt: step.retry.attempt,
        role: wait.name.as_str().into(),
        asked: wait.since.unwrap_or_default(),
        expires: wait.deadline,
        outcome: Outcome::Undecided,
    })
}

impl Request {
    /// Where it is, given what the execution's steps show now.
    pub(super) fn state(&self, steps: &[Step]) -> State {
        match &self.outcome {
            Outcome::Decided { grant: true, .. } => State::Granted,
            Outcome::Decided { grant: false, .. } => State::Rejected,
            Outcome::Expired => State::Expired,
            Outcome::Undecided => {
                let open = steps.iter().filter_map(of_step);
                let mut same =
                    open.filter(|open| open.step == self.step && open.attempt == self.attempt);
                match same.next() {
                    Some(_) => State::Pending,
                    None => State::Withdrawn,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(facts: Vec<Fact>) -> Vec<Event> {
        let events = facts.into_iter().zip(1..).map(|(fact, sequence)| Event {
            sequence,
            at: Timestamp::from_second(i64::try_from(sequence).unwrap()).unwrap(),
            causation: "c".into(),
            correlation: "c".into(),
            fact,
        });
        events.collect()
    }

    fn asked(attempt: u32) -> Fact {
        Fact::StepWaiting {
            step: "ship".into(),
            attempt,
            wait: WaitFor::Approval("ops".into()),
            due: None,
        }
    }

    #[test]
    fn each_request_keeps_what_became_of_it() {
        let events = log(vec![
            asked(1),
            Fact::ApprovalExpired {
                step: "ship".into(),
                attempt: 1,
            },
            asked(2),
            Fact::ApprovalRejected {
                step: "ship".into(),
                attempt: 2,
                by: "ada".into(),
                comment: "too early".into(),
            },
            asked(3),
        ]);
        let found = of_log(&events);
        let states: Vec<_> = found.iter().map(|request| request.state(&[])).collect();
        // Nothing waits any more, so the last one was given up.
        assert_eq!(states, [State::Expired, State::Rejected, State::Withdrawn]);
        let Outcome::Decided { by, at, .. } = &found[1].outcome else {
            panic!("undecided");
        };
        assert_eq!((&**by, *at), ("ada", events[3].at));
    }
}
