//! The line to the upstream, which can be disturbed as a network would be.
//!
//! Each injected fault meets exactly one call, in the order of injection. A line without a fault
//! costs one read of a flag.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use stateway_provider_api::adapter::lock;
use stateway_provider_api::{Call, Error, ErrorKind, Result, Verb};
use tokio::time::{Instant, sleep_until};

/// What can go wrong between a provider and its engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineFault {
    /// No answer ever comes.
    Hang,
    /// The answer takes this long.
    Slow(Duration),
    /// The engine asks to slow down, perhaps naming a pause.
    Throttle(Option<Duration>),
    /// The call gets no answer.
    Refuse,
    /// The answer is no answer.
    Garble,
    /// The engine refuses the operation to this gateway.
    Deny,
}

#[derive(Debug, Default)]
pub(crate) struct Line {
    disturbed: AtomicBool,
    faults: Mutex<VecDeque<LineFault>>,
}

impl Line {
    pub(crate) fn inject(&self, fault: LineFault) {
        let mut faults = lock(&self.faults);
        faults.push_back(fault);
        self.disturbed.store(true, Ordering::Release);
    }

    /// Carries a call to the upstream, or fails as the line would.
    pub(crate) async fn carry(&self, call: &Call, verb: Verb) -> Result<()> {
        if !self.disturbed.load(Ordering::Acquire) {
            return Ok(());
        }
        let Some(fault) = self.next_fault() else {
            return Ok(());
        };
        match fault {
            LineFault::Hang => hold_until(call, verb, None).await,
            LineFault::Slow(pause) => hold_until(call, verb, Some(Instant::now() + pause)).await,
            LineFault::Throttle(pause) => {
                let error = Error::new(ErrorKind::Throttled, verb, "too many requests");
                Err(match pause {
                    Some(pause) => error.with_retry_after(pause),
                    None => error,
                })
            }
            LineFault::Refuse => Err(Error::new(
                ErrorKind::Unavailable,
                verb,
                "connection refused",
            )),
            LineFault::Deny => Err(Error::new(
                ErrorKind::PermissionDenied,
                verb,
                "the operation is not allowed",
            )),
            LineFault::Garble => Err(Error::new(
                ErrorKind::Malformed,
                verb,
                "the answer is not a document",
            )),
        }
    }

    fn next_fault(&self) -> Option<LineFault> {
        let mut faults = lock(&self.faults);
        let fault = faults.pop_front();
        self.disturbed.store(!faults.is_empty(), Ordering::Release);
        fault
    }
}

/// Waits for an answer until it comes or the caller stops listening.
async fn hold_until(call: &Call, verb: Verb, answer: Option<Instant>) -> Result<()> {
    let deadline = Instant::from_std(call.deadline);
    match answer {
        Some(answer) if answer <= deadline => {
            sleep_until(answer).await;
            Ok(())
        }
        _ => {
            sleep_until(deadline).await;
            Err(Error::new(ErrorKind::Timeout, verb, "no answer in time"))
        }
    }
}
