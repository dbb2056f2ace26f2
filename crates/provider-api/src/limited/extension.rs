//! The event log of a limited provider, without what is off.

use async_trait::async_trait;
use stateway_model::ExecutionId;

use super::{Limited, strip};
use crate::{
    Branch, BranchEventsPage, BranchEventsRequest, Call, Error, EventLog, Projection, Provider,
    ReplayRequest, Replayed, Result, StepHistory, Verb, View,
};

impl<P: Provider + ?Sized> Limited<P> {
    fn whole_log(&self, verb: Verb) -> Result<&dyn EventLog> {
        self.check(verb)?;
        self.provider
            .event_log()
            .ok_or_else(|| Error::unsupported(verb))
    }
}

#[async_trait]
impl<P: Provider + ?Sized> EventLog for Limited<P> {
    async fn branches(
        &self,
        call: &Call,
        id: &ExecutionId,
        after: Option<u32>,
        limit: usize,
    ) -> Result<Vec<Branch>> {
        let log = self.whole_log(Verb::Branches)?;
        log.branches(call, id, after, limit).await
    }

    async fn branch_events(
        &self,
        call: &Call,
        mut request: BranchEventsRequest,
    ) -> Result<BranchEventsPage> {
        if !self.allowed.payloads {
            request.view = View::Basic;
        }
        request.order.check(&self.allowed, Verb::BranchEvents)?;
        let log = self.whole_log(Verb::BranchEvents)?;
        log.branch_events(call, request).await
    }

    async fn step(&self, call: &Call, id: &ExecutionId, step: &str) -> Result<StepHistory> {
        let log = self.whole_log(Verb::Step)?;
        let mut history = log.step(call, id, step).await?;
        if !self.allowed.payloads {
            (history.input, history.output) = (None, None);
        }
        Ok(history)
    }

    async fn export(&self, call: &Call, id: &ExecutionId, redact: bool) -> Result<Vec<u8>> {
        let log = self.whole_log(Verb::Export)?;
        log.export(call, id, redact || !self.allowed.payloads).await
    }

    async fn replay(&self, call: &Call, request: ReplayRequest) -> Result<Replayed> {
        let log = self.whole_log(Verb::Replay)?;
        let mut replayed = log.replay(call, request).await?;
        let shown = replayed.execution.take();
        replayed.execution = shown.map(|seen| strip::observation(seen, &self.allowed));
        Ok(replayed)
    }

    async fn project(&self, call: &Call, id: &ExecutionId, vocabulary: &str) -> Result<Projection> {
        let log = self.whole_log(Verb::Project)?;
        log.project(call, id, vocabulary).await
    }
}
