//! Waiting for as long as it takes, over many calls.
//!
//! One `WaitExecution` ends with its deadline, with the gateway's longest one, or with the gateway.
//! A wait goes on over all of these until its own deadline comes.

use std::time::Duration;

use stateway_proto::v1::WaitExecutionResponse;
use tokio::time::{Instant, sleep};
use tonic::Code;

use crate::back_off::{BackOff, spread};
use crate::{Client, Error, Wait};

/// One call asks for no more than this, so that neither a gateway's longest deadline nor a proxy's
/// patience ends it early.
const LONGEST: Duration = Duration::from_secs(300);

/// What is left for an answer when the deadline has all but come.
const SHORTEST: Duration = Duration::from_millis(50);

/// A gateway answers a little before the deadline. Earlier than this, it is shutting down.
const EARLY: Duration = Duration::from_millis(500);

/// A call that lasted longer had reached a gateway: all retries of one that had not are over.
const REACHED: Duration = Duration::from_secs(2);

impl Client {
    /// Waits until the execution has finished or shows one of the wanted sub-states.
    ///
    /// Without a timeout of its own the call waits for as long as it takes, also while a gateway
    /// is restarted. `reached` is false, and the execution is shown as it is, when the timeout
    /// came first.
    ///
    /// # Errors
    /// What the gateway refuses, or that it cannot be reached.
    pub async fn wait(&self, call: Wait) -> Result<WaitExecutionResponse, Error> {
        // A deadline beyond what a clock can say is none.
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
