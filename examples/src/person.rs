//! The people of the examples: the release manager who grants the approval.

use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use stateway_client::{Client, DecideApproval, ListApprovals, v1};

use crate::Outcome;

/// Reads the pending approvals until the approval of the release appears, then grants it.
pub(crate) fn release_manager(
    client: Client,
    execution: String,
) -> BoxFuture<'static, Outcome<()>> {
    async move {
        let grace = client.acting_as("grace", ["release-manager"])?;
        loop {
            let inbox = ListApprovals::from_message(v1::ListApprovalsRequest {
                parent: "providers/-".to_owned(),
                ..v1::ListApprovalsRequest::default()
            });
            let waiting = grace.approvals_page(inbox).await?.approvals;
            if let Some(found) = waiting.iter().find(|found| found.execution == execution) {
                let decide = DecideApproval::from_message(v1::DecideApprovalRequest {
                    name: found.name.clone(),
                    decision: v1::decide_approval_request::Choice::Grant.into(),
                    comment: "looks good".to_owned(),
                    ..v1::DecideApprovalRequest::default()
                });
                grace.decide_approval(decide).await?;
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    .boxed()
}
