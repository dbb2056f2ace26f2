//! The decisions that an execution waits for, on its own page: pending approvals and escalations.

use futures::join;
use maud::{Markup, html};
use stateway_proto::v1::wait::Kind;
use stateway_proto::v1::{
    Approval, Escalation, Execution, ListApprovalsRequest, ListEscalationsRequest,
};

use super::facts::Facts;
use crate::Site;
use crate::executions::ExecutionPath;
use crate::inbox::{approval_buttons, escalation_buttons};
use crate::text::{said, said_within};
use crate::time::{Now, lasting, moment, until};
use crate::visitor::Visitor;

/// The most approvals, and the most escalations, that are shown.
const MOST: usize = 20;

/// What a person has to decide.
#[derive(Default)]
pub(super) struct Decisions {
    approvals: Vec<Approval>,
    escalations: Vec<Escalation>,
}

impl Decisions {
    /// Reads the pending decisions; none if the execution waits for no person, or if the call failed.
    pub(super) async fn read(site: &Site, visitor: &Visitor, execution: &Execution) -> Self {
        let waits = |kind| execution.waits.iter().any(|wait| wait.kind() == kind);
        let name = &execution.name;
        let (approvals, escalations) = join!(
            async {
                if waits(Kind::Approval) {
                    approvals(site, visitor, name).await
                } else {
                    Vec::new()
                }
            },
            async {
                if waits(Kind::Escalation) {
                    escalations(site, visitor, name).await
                } else {
                    Vec::new()
                }
            }
        );
        Self {
            approvals,
            escalations,
        }
    }
}

async fn approvals(site: &Site, visitor: &Visitor, execution: &str) -> Vec<Approval> {
    let request = ListApprovalsRequest {
        parent: "providers/-".to_owned(),
        filter: pending(execution),
        ..ListApprovalsRequest::default()
    };
    let mut api = site.api.approvals();
    let found = api.list_approvals(visitor.request(request)).await;
    found.map_or_else(|_| Vec::new(), |found| found.into_inner().approvals)
}

async fn escalations(site: &Site, visitor: &Visitor, execution: &str) -> Vec<Escalation> {
    let request = ListEscalationsRequest {
        parent: "providers/-".to_owned(),
        filter: pending(execution),
        ..ListEscalationsRequest::default()
    };
    let mut api = site.api.approvals();
    let found = api.list_escalations(visitor.request(request)).await;
    found.map_or_else(|_| Vec::new(), |found| found.into_inner().escalations)
}

fn pending(execution: &str) -> String {
    format!("state = pending AND execution = \"{execution}\"")
}

/// The decisions with their buttons, or why the visitor may not decide.
pub(super) fn show(path: &ExecutionPath, facts: &Facts, visitor: &Visitor, now: Now) -> Markup {
    let Decisions {
        approvals,
        escalations,
    } = &facts.decisions;
    html! {
        @if !approvals.is_empty() || !escalations.is_empty() {
            section.card aria-labelledby="decisions-title" {
                h2 #decisions-title { "A person has to decide" }
                ul.cards {
                    @for one in approvals.iter().take(MOST) { li { (approval(path, one, visitor, now)) } }
                    @for one in escalations.iter().take(MOST) { li { (escalation(path, one, visitor, now)) } }
                }
            }
        }
    }
}

fn approval(path: &ExecutionPath, one: &Approval, visitor: &Visitor, now: Now) -> Markup {
    html! {
        h3 { "Approval of step " (said_within(&one.step, 60)) }
        p {
            (said(&one.summary))
            @if let Some(time) = moment(one.create_time.as_ref()) { ", " (lasting(time, now)) }
            @if let Some(time) = moment(one.expire_time.as_ref()) { ", expires " (until(time, now)) }
        }
        (approval_buttons(one, visitor, &path.path()))
    }
}

fn escalation(path: &ExecutionPath, one: &Escalation, visitor: &Visitor, now: Now) -> Markup {
    html! {
        h3 { "Escalation of step " (said_within(&one.step, 60)) }
        p {
            (said(&one.cause))
            @if let Some(time) = moment(one.create_time.as_ref()) { ", " (lasting(time, now)) }
        }
        (escalation_buttons(one, visitor, &path.path()))
    }
}
