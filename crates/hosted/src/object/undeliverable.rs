//! What a parent gets instead of a message that its child, or the parent itself, cannot store.

use std::sync::Arc;

use stateway_machine::Failure;
use stateway_model::{ErrorCategory, Usage};

use super::Message;
use crate::message::{ObjectRequest, VERSION, Work};

/// The code of the failure of a step whose child, or the output of it, is too large.
const TOO_LARGE: &str = "EXECUTION_TOO_LARGE";
/// The cause of the events of a parent whose child has ended.
const CHILD: &str = "child";

/// The message to the parent in place of a message to `id` that does not fit into the limits of the engine: the step
/// fails, because nobody would ever report its end. None if no parent waits for the message.
#[must_use]
pub fn too_large(id: &str, request: &ObjectRequest, why: &str) -> Option<Message> {
    let (parent, child, failure, usage) = match &request.work {
        Work::Start(start) => {
            let child = start.child.as_ref()?.of.clone();
            let why = format!("the child `{id}` cannot be started: {why}");
            let parent = Arc::clone(&child.parent);
            (parent, child, failure(why), Usage::default())
        }
        Work::FinishChild {
            child,
            outcome,
            usage,
        } => {
            let failure = match outcome {
                // The child has completed, and its steps stay.
                Ok(_) => Failure {
                    effects_unknown: true,
                    ..failure(format!("the output of the child cannot be stored: {why}"))
                },
                Err(failed) if *failed.code == *TOO_LARGE => return None,
                Err(failed) => Failure {
                    effects_unknown: failed.effects_unknown,
                    category: failed.category,
                    ..failure(format!("the failure of the child cannot be stored: {why}"))
                },
            };
            (id.into(), child.clone(), failure, *usage)
        }
        _ => return None,
    };
    let message = ObjectRequest {
        v: VERSION,
        id: CHILD.into(),
        at: request.at,
        body: None,
        work: Work::FinishChild {
            child,
            outcome: Err(failure),
            usage,
        },
        claim: None,
    };
    Some(Message::Execution(parent, Box::new(message)))
}

/// Another attempt would be as large.
fn failure(why: String) -> Failure {
    Failure {
        code: TOO_LARGE.into(),
        no_retry: true,
        ..Failure::reported(ErrorCategory::External, why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::ChildOf;

    fn child() -> ChildOf {
        ChildOf {
            parent: "order".into(),
            branch: 0,
            step: "sub".into(),
            attempt: 1,
        }
    }

    fn finish(outcome: Result<stateway_machine::Data, Failure>) -> ObjectRequest {
        ObjectRequest {
            v: VERSION,
            id: CHILD.into(),
            at: jiff::Timestamp::UNIX_EPOCH,
            body: None,
            work: Work::FinishChild {
                child: child(),
                outcome,
                usage: Usage::default(),
            },
            claim: None,
        }
    }

    /// The failure in a message to the parent.
    fn sent(message: Option<Message>) -> Option<Failure> {
        let Message::Execution(to, request) = message? else {
            panic!("it goes to an execution")
        };
        assert_eq!(&*to, "order");
        match request.work {
            Work::FinishChild {
                child: of,
                outcome: Err(failure),
                ..
            } if of == child() => Some(failure),
            work => panic!("{work:?}"),
        }
    }

    #[test]
    fn an_end_that_does_not_fit_is_a_small_failure_that_is_not_retried() {
        let output: stateway_machine::Data = Arc::new(serde_json::json!("long"));
        let failure = sent(too_large("order", &finish(Ok(output)), "too many bytes")).unwrap();
        assert_eq!(&*failure.code, TOO_LARGE);
        assert!(failure.no_retry && failure.effects_unknown);
        assert!(failure.message.contains("too many bytes"));
        // A long failure is replaced once; a replacement that does not fit either has no other.
        let long = Failure::reported(ErrorCategory::Governance, "long");
        let short = sent(too_large("order", &finish(Err(long)), "too many bytes")).unwrap();
        assert_eq!(short.category, ErrorCategory::Governance);
        assert!(!short.effects_unknown);
        assert_eq!(sent(too_large("order", &finish(Err(short)), "again")), None);
    }
}
