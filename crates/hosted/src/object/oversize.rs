//! What an engine sends instead of a message that it cannot send, or that its receiver cannot store, because of
//! its size: the message that the child of a step failed. It is small, so the parent does not wait for ever.

use std::sync::Arc;

use jiff::Timestamp;
use stateway_machine::{Failure, cut_message};
use stateway_model::{ErrorCategory, Usage};

use super::Message;
use crate::message::{ChildOf, ObjectRequest, VERSION, Work};

/// The code of the failure. An observation shows it as the code of the error.
pub const TOO_LARGE: &str = "EXECUTION_TOO_LARGE";
/// The cause of the events of a parent whose child has ended.
const CHILD: &str = "child";

/// The small message instead of one that is too large, and why it is too large: the order or the start of a child
/// becomes the message to the parent that the child cannot be started; the end of a child becomes the message that
/// its outcome is too large. None for a message that nobody waits for, and for one that is small already.
#[must_use]
pub fn instead(message: &Message, why: &str) -> Option<Message> {
    match message {
        Message::Definition(_, order) => {
            let child = order.start.child.as_ref()?;
            Some(finish(child.of.clone(), order.at, not_started(why)))
        }
        Message::Execution(_, request) => instead_of_request(request, why),
    }
}

/// The small message instead of a request to an execution; see [`instead`].
#[must_use]
pub fn instead_of_request(request: &ObjectRequest, why: &str) -> Option<Message> {
    match &request.work {
        Work::Start(start) => {
            let child = start.child.as_ref()?;
            Some(finish(child.of.clone(), request.at, not_started(why)))
        }
        Work::FinishChild {
            child,
            outcome,
            usage,
        } => {
            if matches!(outcome, Err(failure) if *failure.code == *TOO_LARGE) {
                return None;
            }
            let what = if outcome.is_ok() { "output" } else { "failure" };
            let failure = Failure {
                // What the child did stays.
                effects_unknown: outcome
                    .as_ref()
                    .map_or_else(|it| it.effects_unknown, |_| true),
                ..failure(format!(
                    "the {what} of the child execution is too large: {why}"
                ))
            };
            Some(finish(child.clone(), request.at, (failure, *usage)))
        }
        _ => None,
    }
}

fn not_started(why: &str) -> (Failure, Usage) {
    let message = format!("the child execution cannot be started: {why}");
    (failure(message), Usage::default())
}

fn failure(message: String) -> Failure {
    Failure {
        code: TOO_LARGE.into(),
        // Another attempt has the same size.
        no_retry: true,
        ..Failure::reported(ErrorCategory::Validation, cut_message(&message.into()))
    }
}

fn finish(child: ChildOf, at: Timestamp, (failure, usage): (Failure, Usage)) -> Message {
    let parent = Arc::clone(&child.parent);
    let request = ObjectRequest {
        v: VERSION,
        id: CHILD.into(),
        at,
        body: None,
        work: Work::FinishChild {
            child,
            outcome: Err(failure),
            usage,
        },
        claim: None,
    };
    Message::Execution(parent, Box::new(request))
}

#[cfg(test)]
mod tests {
    use stateway_machine::Data;

    use super::*;
    use crate::message::{ChildRequest, ChildStart, StartWork};

    fn child() -> ChildOf {
        ChildOf {
            parent: "p".into(),
            branch: 2,
            step: "sub".into(),
            attempt: 3,
        }
    }

    fn request(work: Work) -> ObjectRequest {
        ObjectRequest {
            v: VERSION,
            id: "p".into(),
            at: Timestamp::UNIX_EPOCH,
            body: None,
            work,
            claim: None,
        }
    }

    fn start(child: Option<ChildStart>) -> StartWork {
        StartWork {
            definition: "d".into(),
            source: "".into(),
            labels: Default::default(),
            not_before: None,
            input: Data::default(),
            by: "alice".into(),
            child,
        }
    }

    fn started() -> StartWork {
        start(Some(ChildStart {
            of: child(),
            depth: 1,
            correlation: "p".into(),
            redone_by: Vec::new(),
        }))
    }

    /// To whom a message goes, and the failure that it carries.
    #[track_caller]
    fn failed(message: Option<Message>) -> (Arc<str>, ChildOf, Failure, Usage) {
        let Some(Message::Execution(to, request)) = message else {
            panic!("no message to an execution: {message:?}");
        };
        match request.work {
            Work::FinishChild {
                child,
                outcome: Err(failure),
                usage,
            } => (to, child, failure, usage),
            work => panic!("not a failure: {work:?}"),
        }
    }

    #[test]
    fn a_child_that_cannot_be_started_has_failed_without_effects() {
        let order = ChildRequest {
            v: VERSION,
            at: Timestamp::UNIX_EPOCH,
            id: "p~sub".into(),
            start: started(),
        };
        let order = Message::Definition("d".into(), Box::new(order));
        let begin = request(Work::Start(Box::new(started())));
        let begin = Message::Execution("p~sub".into(), Box::new(begin));
        for message in [order, begin] {
            let (to, of, failure, usage) = failed(instead(&message, "9 bytes"));
            assert_eq!((&*to, of, usage), ("p", child(), Usage::default()));
            assert_eq!(&*failure.code, TOO_LARGE);
            assert!(failure.no_retry && !failure.effects_unknown);
            assert_eq!(
                &*failure.message,
                "the child execution cannot be started: 9 bytes"
            );
        }
    }

    #[test]
    fn an_output_that_is_too_large_is_a_failure_with_effects_and_with_the_usage() {
        let usage = Usage {
            cost_micros: 7,
            ..Usage::default()
        };
        let end = request(Work::FinishChild {
            child: child(),
            outcome: Ok(Data::default()),
            usage,
        });
        let small = instead_of_request(&end, "9 bytes");
        let (to, of, failure, spent) = failed(small.clone());
        assert_eq!((&*to, of, spent), ("p", child(), usage));
        assert!(failure.no_retry && failure.effects_unknown);
        // The small message has no smaller one.
        assert_eq!(instead(&small.unwrap(), "9 bytes"), None);
    }

    #[test]
    fn nobody_waits_for_another_message() {
        let by_a_caller = request(Work::Start(Box::new(start(None))));
        assert_eq!(instead_of_request(&by_a_caller, "9 bytes"), None);
        let end = request(Work::EndChild { kill: true });
        assert_eq!(instead_of_request(&end, "9 bytes"), None);
    }
}
