//! Approvals and escalations of hosted executions: read from views and logs, decided by the objects.

mod decide;
mod list;
mod read;

use async_trait::async_trait;
use stateway_provider_api::{
    Approval, Approvals, Call, DecideRequest, Escalation, InboxId, InboxPage, InboxRequest,
    ResolveRequest, Result, Verb,
};

use super::{HostPort, HostedProvider};
use crate::inbox::{self, Kind};

#[async_trait]
impl<P: HostPort> Approvals for HostedProvider<P> {
    async fn list_approvals(
        &self,
        call: &Call,
        request: InboxRequest,
    ) -> Result<InboxPage<Approval>> {
        let asked = list::Inbox::new(self, call, Verb::ListApprovals, Kind::Approval);
        let (found, next) = asked.page(&request).await?;
        let items = found.iter().flat_map(|found| {
            let cases = found.cases.iter();
            cases.map(|case| inbox::approval(&found.execution, &found.view, case))
        });
        Ok(InboxPage {
            items: items.collect(),
            next,
        })
    }

    async fn get_approval(&self, call: &Call, id: &InboxId) -> Result<Approval> {
        self.approval(call, Verb::GetApproval, id).await
    }

    async fn decide(&self, call: &Call, request: DecideRequest) -> Result<Approval> {
        self.decide_approval(call, request).await
    }

    async fn list_escalations(
        &self,
        call: &Call,
        request: InboxRequest,
    ) -> Result<InboxPage<Escalation>> {
        let asked = list::Inbox::new(self, call, Verb::ListEscalations, Kind::Escalation);
        let (found, next) = asked.page(&request).await?;
        let roles = &self.escalation_roles;
        let items = found.iter().flat_map(|found| {
            let cases = found.cases.iter();
            cases.map(move |case| inbox::escalation(&found.execution, &found.view, case, roles))
        });
        Ok(InboxPage {
            items: items.collect(),
            next,
        })
    }

    async fn get_escalation(&self, call: &Call, id: &InboxId) -> Result<Escalation> {
        self.escalation(call, Verb::GetEscalation, id).await
    }

    async fn resolve(&self, call: &Call, request: ResolveRequest) -> Result<Escalation> {
        self.resolve_escalation(call, request).await
    }
}
