//! Approvals and escalations, read from the engine's log and decided by the engine.

mod decide;
mod list;
mod position;
mod read;
mod watch;

use async_trait::async_trait;
use stateway_provider_api::{
    Approval, ApprovalStream, Approvals, Call, DecideRequest, Escalation, InboxId, InboxPage,
    InboxRequest, ResolveRequest, Result, Verb,
};

use crate::BuiltinProvider;
use stateway_hosted::inbox::{self, Kind};

#[async_trait]
impl Approvals for BuiltinProvider {
    async fn list_approvals(
        &self,
        call: &Call,
        request: InboxRequest,
    ) -> Result<InboxPage<Approval>> {
        let asked = list::Inbox {
            provider: self,
            call,
            verb: Verb::ListApprovals,
            kind: Kind::Approval,
        };
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

    async fn watch_approvals(&self, call: &Call) -> Result<ApprovalStream> {
        watch::watch(self, call).await
    }

    async fn get_approval(&self, call: &Call, id: &InboxId) -> Result<Approval> {
        read::approval(self, call, Verb::GetApproval, id).await
    }

    async fn decide(&self, call: &Call, request: DecideRequest) -> Result<Approval> {
        decide::decide(self, call, request).await
    }

    async fn list_escalations(
        &self,
        call: &Call,
        request: InboxRequest,
    ) -> Result<InboxPage<Escalation>> {
        let asked = list::Inbox {
            provider: self,
            call,
            verb: Verb::ListEscalations,
            kind: Kind::Escalation,
        };
        let (found, next) = asked.page(&request).await?;
        let roles = self.engine.escalation_roles();
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
        read::escalation(self, call, Verb::GetEscalation, id).await
    }

    async fn resolve(&self, call: &Call, request: ResolveRequest) -> Result<Escalation> {
        decide::resolve(self, call, request).await
    }
}
