//! Waiting for an execution to show one of some sub-states.

use std::sync::Arc;
use std::time::Instant;

use stateway_model::{ExecutionName, SubState};
use stateway_proto::v1;
use tonic::{Code, Status};

use super::hub::Hub;
use super::topic::{Seen, TopicKey};
use crate::status::Refusal;
use crate::upstream::Upstream;

/// How a wait ended.
pub(crate) struct Waited {
    pub(crate) execution: v1::Execution,
    /// False when the deadline came first.
    pub(crate) reached: bool,
}

impl Hub {
    /// Waits until the execution shows one of `wanted`, has finished, or `deadline` comes.
    pub(crate) async fn wait(
        self: &Arc<Self>,
        upstream: &Arc<Upstream>,
        name: &ExecutionName,
        wanted: &[SubState],
        deadline: Instant,
    ) -> Result<Waited, Status> {
        let _slot = self.open_stream()?;
        let key = TopicKey {
            provider: name.provider.clone(),
            execution: Some(name.id.clone()),
        };
        let member = self.join(upstream, key)?;
        let synced = tokio::time::timeout_at(deadline.into(), member.topic.synced()).await;
        synced.unwrap_or_else(|_| Err(no_answer(name)))?;
        let ends = |seen: &Seen| {
            let shown = seen.execution.sub_state;
            shown.is_terminal() || wanted.contains(&shown)
        };
        loop {
            let mut snapshot = member.topic.snapshot();
            let Some(seen) = snapshot.present.pop() else {
                let message = format!("`{name}` is gone");
                return Err(Refusal::new(Code::NotFound, "EXECUTION_NOT_FOUND", message).into());
            };
            if ends(&seen) {
                return Ok(Waited {
                    execution: seen.message(),
                    reached: true,
                });
            }
            tokio::select! {
                // A change, or having missed some: either way the snapshot tells.
                _ = snapshot.changes.recv() => {}
                () = tokio::time::sleep_until(deadline.into()) => {
                    return Ok(Waited { execution: seen.message(), reached: false });
                }
                () = self.stop.cancelled() => {
                    return Ok(Waited { execution: seen.message(), reached: false });
                }
            }
        }
    }
}

fn no_answer(name: &ExecutionName) -> Status {
    let message = format!("provider {} has not answered in time", name.provider);
    Refusal::new(Code::DeadlineExceeded, "PROVIDER_TIMEOUT", message)
        .with("provider", name.provider.to_string())
        .retry_after(std::time::Duration::from_secs(1))
        .into()
}
