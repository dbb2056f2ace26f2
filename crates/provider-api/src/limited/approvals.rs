//! The approvals of a limited provider: without payloads and labels where those are off.

use async_trait::async_trait;
use futures::StreamExt;

use super::{Limited, strip};
use crate::{
    Approval, ApprovalStream, Approvals, Call, DecideRequest, Error, Escalation, InboxId,
    InboxPage, InboxRequest, Provider, ResolveRequest, Result, Verb, WatchedApproval,
};

impl<P: Provider + ?Sized> Limited<P> {
    fn inbox(&self, verb: Verb) -> Result<&dyn Approvals> {
        self.check(verb)?;
        self.provider
            .approvals()
            .ok_or_else(|| Error::unsupported(verb))
    }
}

#[async_trait]
impl<P: Provider + ?Sized> Approvals for Limited<P> {
    async fn list_approvals(
        &self,
        call: &Call,
        request: InboxRequest,
    ) -> Result<InboxPage<Approval>> {
        let inbox = self.inbox(Verb::ListApprovals)?;
        let mut page = inbox.list_approvals(call, request).await?;
        for row in &mut page.items {
            strip::approval(row, &self.allowed);
        }
        Ok(page)
    }

    async fn watch_approvals(&self, call: &Call) -> Result<ApprovalStream> {
        let inbox = self.inbox(Verb::WatchApprovals)?;
        let stream = inbox.watch_approvals(call).await?;
        let allowed = self.allowed;
        let shown = stream.map(move |item| {
            let mut item = item?;
            if let WatchedApproval::Seen(seen) = &mut item {
                strip::approval(seen, &allowed);
            }
            Ok(item)
        });
        Ok(shown.boxed())
    }

    async fn get_approval(&self, call: &Call, id: &InboxId) -> Result<Approval> {
        let inbox = self.inbox(Verb::GetApproval)?;
        let mut found = inbox.get_approval(call, id).await?;
        strip::approval(&mut found, &self.allowed);
        Ok(found)
    }

    async fn decide(&self, call: &Call, request: DecideRequest) -> Result<Approval> {
        let inbox = self.inbox(Verb::DecideApproval)?;
        let mut decided = inbox.decide(call, request).await?;
        strip::approval(&mut decided, &self.allowed);
        Ok(decided)
    }

    async fn list_escalations(
        &self,
        call: &Call,
        request: InboxRequest,
    ) -> Result<InboxPage<Escalation>> {
        let inbox = self.inbox(Verb::ListEscalations)?;
        let mut page = inbox.list_escalations(call, request).await?;
        for row in &mut page.items {
            strip::escalation(row, &self.allowed);
        }
        Ok(page)
    }

    async fn get_escalation(&self, call: &Call, id: &InboxId) -> Result<Escalation> {
        let inbox = self.inbox(Verb::GetEscalation)?;
        let mut found = inbox.get_escalation(call, id).await?;
        strip::escalation(&mut found, &self.allowed);
        Ok(found)
    }

    async fn resolve(&self, call: &Call, request: ResolveRequest) -> Result<Escalation> {
        let inbox = self.inbox(Verb::ResolveEscalation)?;
        let mut resolved = inbox.resolve(call, request).await?;
        strip::escalation(&mut resolved, &self.allowed);
        Ok(resolved)
    }
}

#[cfg(test)]
mod tests;
