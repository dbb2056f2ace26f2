//! The simulated people of a demo: they leave some decisions to the user and make the others.

use std::time::Duration;

use stateway_client::{
    Client, DecideApproval, Error, ListApprovals, ListEscalations, ResolveEscalation, v1,
};

use super::LABEL;

/// The number of approvals and of escalations that are left to the user: the oldest ones, so that
/// they do not disappear while the user reads them.
const LEFT: usize = 3;

/// How often they look.
const LOOK: Duration = Duration::from_secs(2);

/// Decides what came last, wherever more waits than is left for others; never ends.
///
/// # Errors
/// The gateway does not answer any more.
pub async fn decide(client: Client) -> Result<(), Error> {
    let grace = client.acting_as("grace", ["release-manager", "operator"])?;
    loop {
        tokio::time::sleep(LOOK).await;
        if let Err(error) = look(&grace).await {
            // Somebody else was quicker, which is what they are left for.
            if !error.is_from_gateway() {
                return Err(error);
            }
        }
    }
}

async fn look(grace: &Client) -> Result<(), Error> {
    let parent = || "providers/-".to_owned();
    let inbox = ListApprovals::from_message(v1::ListApprovalsRequest {
        parent: parent(),
        ..v1::ListApprovalsRequest::default()
    });
    let mut waiting = grace.approvals_page(inbox).await?.approvals;
    waiting.retain(|approval| approval.labels.contains_key(LABEL));
    // The list has the newest first.
    for approval in waiting.into_iter().rev().skip(LEFT) {
        let yes = DecideApproval::from_message(v1::DecideApprovalRequest {
            name: approval.name,
            decision: v1::decide_approval_request::Choice::Grant.into(),
            comment: "looks good".to_owned(),
            ..v1::DecideApprovalRequest::default()
        });
        grace.decide_approval(yes).await?;
    }
    let stuck = ListEscalations::from_message(v1::ListEscalationsRequest {
        parent: parent(),
        ..v1::ListEscalationsRequest::default()
    });
    let mut stuck = grace.escalations_page(stuck).await?.escalations;
    stuck.retain(|escalation| escalation.labels.contains_key(LABEL));
    for escalation in stuck.into_iter().rev().skip(LEFT) {
        let go = ResolveEscalation::from_message(v1::ResolveEscalationRequest {
            name: escalation.name,
            action: v1::resolution::Action::Resume.into(),
            comment: "legal agrees".to_owned(),
            ..v1::ResolveEscalationRequest::default()
        });
        grace.resolve_escalation(go).await?;
    }
    Ok(())
}
