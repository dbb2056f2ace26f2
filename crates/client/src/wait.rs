//! Waiting for as long as it takes, over many calls.
//!
//! One `WaitExecution` ends with its deadline, with the gateway's longest one, or with the gateway.
//! A wait continues over all of these until its own deadline.

use std::time::Duration;

use stateway_proto::v1::WaitExecutionResponse;
use tokio::time::{Instant, sleep};
use tonic::Code;

use crate::back_off::{BackOff, spread};
use crate::{Client, Error, Wait};

/// The longest deadline of one call, so that neither the gateway nor a proxy ends the call early.
const LONGEST: Duration = Duration::from_secs(300);

/// The shortest deadline of a call shortly before the end of the wait.
const SHORTEST: Duration = Duration::from_millis(50);

/// A gateway answers a little before the deadline. Earlier than this, it is shutting down.
const EARLY: Duration = Duration::from_millis(500);

/// A call that lasted longer had reached a gateway: all retries of one that had not are over.
const REACHED: Duration = Duration::from_secs(2);

impl Client {
    /// Waits until the execution has finished or shows one of the wanted sub-states.
    ///
    /// Without a timeout, the call waits without a limit, also while a gateway is restarted. If the
    /// timeout expires first, `reached` is false and the response has the current execution.
    ///
    /// # Errors
    /// The gateway refuses the call or cannot be reached.
    pub async fn wait(&self, call: Wait) -> Result<WaitExecutionResponse, Error> {
        // A deadline that the clock cannot represent means no deadline.
        let deadline = call
            .timeout
            .and_then(|timeout| Instant::now().checked_add(timeout));
        let (mut reached, mut cut_short) = (false, 0);
        loop {
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            let slice = left.unwrap_or(LONGEST).clamp(SHORTEST, LONGEST);
            let is_last = left.is_some_and(|left| left <= slice);
            let begun = Instant::now();
            let answer = self.wait_once(call.clone().timeout(slice)).await;
            reached |= answer.is_ok() || begun.elapsed() > REACHED;
            let is_early = begun.elapsed() + EARLY < slice;
            match &answer {
                Ok(response) if response.reached => return answer,
                Ok(_) if is_early => {}
                Err(error) if error.code() == Code::Unavailable && reached => {}
                Err(error) if !error.is_deadline() => return answer,
                _ if is_last => return answer,
                _ => {
                    cut_short = 0;
                    continue;
                }
            }
            cut_short += 1;
            match BackOff::WATCH.pause(cut_short, None, spread()) {
                Some(pause) => sleep(pause.min(left.unwrap_or(LONGEST))).await,
                None => return answer,
            }
        }
    }
}
