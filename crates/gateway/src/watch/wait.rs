//! Waiting for an execution to show one of some sub-states.

use std::sync::Arc;
use std::time::Instant;

use futures::StreamExt;
use stateway_model::{Execution, ExecutionName, SubState};
use stateway_provider_api::{Call, Verb, View, WatchScope, Watched};
use tonic::{Code, Status};

use super::hub::Hub;
use super::present::CachedExecution;
use super::reader::gone;
use super::topic::{Subject, TopicKey};
use crate::status::Refusal;
use crate::upstream::Upstream;

/// How a wait ended.
pub(crate) struct Waited {
    pub(crate) execution: Execution,
    /// False if the deadline passed before the state was reached.
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
        let only_the_end = wanted.iter().all(|state| state.is_terminal());
        if upstream.capabilities().watch_end
            && only_the_end
            && let Some(waited) = self.wait_for_end(upstream, name, deadline).await
        {
            return Ok(waited);
        }
        let key = TopicKey {
            provider: name.provider.clone(),
            subject: Subject::One(name.id.clone()),
        };
        let member = self.join(upstream, key)?;
        let synced = tokio::time::timeout_at(deadline.into(), member.topic.synced()).await;
        synced.unwrap_or_else(|_| Err(no_answer(name)))?;
        let ends = |seen: &CachedExecution| {
            let shown = seen.execution.sub_state;
            shown.is_terminal() || wanted.contains(&shown)
        };
        loop {
            let mut snapshot = member.topic.snapshot();
            let Some(seen) = snapshot.present.pop() else {
                return Err(gone(name));
            };
            if ends(&seen) {
                return Ok(Waited {
                    execution: seen.execution.clone(),
                    reached: true,
                });
            }
            tokio::select! {
                // A change, or changes that were missed: the next snapshot has the current state.
                _ = snapshot.news.recv() => {}
                () = tokio::time::sleep_until(deadline.into()) => {
                    return Ok(Waited { execution: seen.execution.clone(), reached: false });
                }
                () = self.stop.cancelled() => {
                    return Ok(Waited { execution: seen.execution.clone(), reached: false });
                }
            }
        }
    }
}

impl Hub {
    /// Waits for the end through a separate push: no change before the end is requested, so there is
    /// nothing to share with other readers. Nothing when the push fails: then it is waited for in
    /// the way that survives an outage.
    async fn wait_for_end(
        &self,
        upstream: &Upstream,
        name: &ExecutionName,
        deadline: Instant,
    ) -> Option<Waited> {
        let call = Call::within(upstream.settings.timeout);
        let scope = WatchScope::End(name.id.clone());
        let guarded = upstream.within(&call);
        let opened = guarded.call(Verb::WatchEnd, |provider, call| provider.watch(call, scope));
        let mut stream = opened.await.ok()?;
        let mut last = None;
        loop {
            let next = tokio::select! {
                next = stream.next() => next?.ok()?,
                () = tokio::time::sleep_until(deadline.into()) => break,
                () = self.stop.cancelled() => break,
            };
            let Watched::Seen(next) = next else {
                continue;
            };
            let seen = upstream.execution(*next);
            if seen.sub_state.is_terminal() {
                return Some(Waited {
                    execution: seen,
                    reached: true,
                });
            }
            last = Some(seen);
        }
        // A provider need not report the states in between.
        if last.is_none() {
            let call = Call::within(upstream.settings.timeout);
            let guarded = upstream.within(&call);
            let read = guarded.call(Verb::Get, |provider, call| {
                provider.get(call, &name.id, View::Basic)
            });
            last = read.await.ok().map(|read| upstream.execution(read));
        }
        last.map(|seen| Waited {
            reached: seen.sub_state.is_terminal(),
            execution: seen,
        })
    }
}

fn no_answer(name: &ExecutionName) -> Status {
    let message = format!("provider {} has not answered in time", name.provider);
    Refusal::new(Code::DeadlineExceeded, "PROVIDER_TIMEOUT", message)
        .with("provider", name.provider.to_string())
        .retry_after(std::time::Duration::from_secs(1))
        .into()
}
