//! Reads the inbox of a visitor from the API; a request that did not change is read and rendered once.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use maud::Markup;
use stateway_proto::filter::quoted;
use stateway_proto::v1::{
    Approval, DefinitionStep, Escalation, Execution, GetApprovalRequest, GetDefinitionRequest,
    GetEscalationRequest, GetExecutionRequest, ListApprovalsRequest, ListEscalationsRequest,
};

use super::may::May;
use super::{approval, escalation};
use crate::Site;
use crate::fields::{Fields, link};
use crate::problem::Problem;
use crate::time::{Now, moment};
use crate::visitor::Visitor;

/// Approvals and escalations on a page, each.
const MOST: i32 = 25;
/// Pages of the API that are looked through for what the visitor may decide, before they are asked
/// whether to look on.
const MOST_PAGES: usize = 40;
/// The most earlier requests of a step that are shown.
const MOST_EARLIER: i32 = 100;
/// Decisions on the page.
const MOST_DECIDED: i32 = 10;
/// Decisions are read from many logs: at this pace, or when a request left the inbox.
const DECIDED_PACE: Duration = Duration::from_secs(10);

/// What is asked for: by the address of the page and of its live updates.
pub(super) struct InboxAddress {
    /// What the visitor may decide, and nothing else.
    pub(super) mine: bool,
    /// The page token of the API; empty for the newest.
    pub(super) requests: String,
    pub(super) stuck: String,
}

impl InboxAddress {
    pub(super) fn of(fields: &Fields) -> Self {
        Self {
            mine: fields.has("mine"),
            requests: fields.get("requests").to_owned(),
            stuck: fields.get("stuck").to_owned(),
        }
    }

    /// The address of this, with one of the lists beginning elsewhere.
    pub(super) fn link(&self, path: &str, requests: &str, stuck: &str) -> String {
        let mine = if self.mine { "1" } else { "" };
        let fields = [("mine", mine), ("requests", requests), ("stuck", stuck)];
        link(path, &fields)
    }
}

/// What has to be read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    Everything,
    /// The approvals are as they were.
    Escalations,
}

/// A page of approvals.
#[derive(Clone, Default)]
struct Approvals {
    approvals: Vec<Approval>,
    /// Where the next page begins; empty after the last one.
    next: String,
    unreachable: Vec<String>,
}

/// A page of escalations.
#[derive(Default)]
struct Escalations {
    escalations: Vec<Escalation>,
    /// Where the next page begins; empty after the last one.
    next: String,
    unreachable: Vec<String>,
}

/// A decision that was made.
#[derive(Clone)]
pub(super) enum Settled {
    Approval(Box<Approval>),
    Escalation(Box<Escalation>),
}

impl Settled {
    fn time(&self) -> Option<Timestamp> {
        let decision = match self {
            Self::Approval(approval) => approval.decision.as_ref(),
            Self::Escalation(escalation) => {
                let resolution = escalation.resolution.as_ref();
                resolution.and_then(|resolution| resolution.decision.as_ref())
            }
        };
        moment(decision?.decide_time.as_ref())
    }
}

/// A request for an approval, and the rule it follows.
pub(super) struct Request {
    pub(super) approval: Approval,
    pub(super) step: Option<DefinitionStep>,
    /// The earlier requests of the same step, oldest first.
    pub(super) earlier: Vec<Approval>,
}

/// An escalated step, and the execution that it belongs to.
pub(super) struct Stuck {
    pub(super) escalation: Escalation,
    pub(super) execution: Option<Execution>,
}

/// Everything on the page, as cards. A card is rendered when it is read, and once: its payload may be
/// large, and the script keeps its times true.
pub(super) struct InboxPage {
    pub(super) requests: Vec<Markup>,
    /// Where the older ones begin; empty when there are none.
    pub(super) older_requests: String,
    pub(super) stuck: Vec<Markup>,
    pub(super) older_stuck: String,
    pub(super) decided: Vec<Settled>,
    pub(super) unreachable: Vec<String>,
}

/// Reads the API for one visitor, and remembers what does not change.
pub(super) struct InboxReader {
    site: Site,
    pub(super) visitor: Visitor,
    pub(super) asked: InboxAddress,
    /// The approvals as they were read last.
    pending: Option<Approvals>,
    /// Cards by name and etag.
    requests: HashMap<(String, String), Markup>,
    stuck: HashMap<(String, String), Markup>,
    decided: Vec<Settled>,
    decided_at: Option<Instant>,
}

impl InboxReader {
    pub(super) fn new(site: &Site, visitor: &Visitor, asked: InboxAddress) -> Self {
        Self {
            site: site.clone(),
            visitor: visitor.clone(),
            asked,
            pending: None,
            requests: HashMap::new(),
            stuck: HashMap::new(),
            decided: Vec::new(),
            decided_at: None,
        }
    }

    /// What is there now.
    pub(super) async fn look(&mut self, reading: Reading) -> Result<InboxPage, Problem> {
        let known = self.pending.take();
        let page = match known.filter(|_| reading == Reading::Escalations) {
            Some(known) => known,
            None => self.pending().await?,
        };
        self.pending = Some(page.clone());
        let Approvals {
            approvals: pending,
            next: older_requests,
            mut unreachable,
        } = page;
        let mut requests = HashMap::new();
        for approval in &pending {
            let key = (approval.name.clone(), approval.etag.clone());
            let request = match self.requests.remove(&key) {
                Some(known) => known,
                None => {
                    let request = self.request(approval).await;
                    approval::card(&request, &self.visitor, Now::page())
                }
            };
            requests.insert(key, request);
        }
        let mut left = !self.requests.is_empty();
        self.requests = requests;
        let Escalations {
            escalations,
            next: older_stuck,
            unreachable: without_escalations,
        } = self.stuck().await?;
        unreachable.extend(without_escalations);
        unreachable.sort();
        unreachable.dedup();
        let mut stuck = HashMap::new();
        for escalation in &escalations {
            let key = (escalation.name.clone(), escalation.etag.clone());
            let known = match self.stuck.remove(&key) {
                Some(known) => known,
                None => {
                    let stuck = self.context(escalation).await;
                    escalation::card(&stuck, &self.visitor, Now::page())
                }
            };
            stuck.insert(key, known);
        }
        left |= !self.stuck.is_empty();
        self.stuck = stuck;
        self.look_back(left).await?;
        let of = |name: &str, etag: &str| (name.to_owned(), etag.to_owned());
        let requests = pending
            .iter()
            .filter_map(|found| self.requests.get(&of(&found.name, &found.etag)));
        let stuck = escalations
            .iter()
            .filter_map(|found| self.stuck.get(&of(&found.name, &found.etag)));
        Ok(InboxPage {
            requests: requests.cloned().collect(),
            older_requests,
            stuck: stuck.cloned().collect(),
            older_stuck,
            decided: self.decided.clone(),
            unreachable,
        })
    }

    /// What is pending: all of it, or what the visitor may decide.
    async fn pending(&self) -> Result<Approvals, Problem> {
        let token = &self.asked.requests;
        if !self.asked.mine {
            return self.approvals("", MOST, token).await;
        }
        let mut found = Approvals::default();
        if self.visitor.acting.roles.is_empty() {
            return Ok(found);
        }
        // Who may decide depends on more than the role: the person who started an execution may not.
        found.next.clone_from(token);
        for _ in 0..MOST_PAGES {
            let page = self.approvals("", MOST, &found.next).await?;
            let mine = page.approvals.into_iter();
            let acting = &self.visitor.acting;
            let mine = mine.filter(|one| approval::may_decide(one, acting) == May::Yes);
            found.approvals.extend(mine);
            found.next = page.next;
            found.unreachable.extend(page.unreachable);
            let enough = found.approvals.len() >= usize::try_from(MOST).unwrap_or_default();
            if enough || found.next.is_empty() {
                break;
            }
        }
        Ok(found)
    }

    async fn approvals(&self, filter: &str, most: i32, token: &str) -> Result<Approvals, Problem> {
        let request = ListApprovalsRequest {
            parent: "providers/-".into(),
            page_size: most,
            page_token: token.to_owned(),
            filter: filter.to_owned(),
        };
        let mut api = self.site.api.approvals();
        let page = api.list_approvals(self.visitor.request(request)).await?;
        let page = page.into_inner();
        Ok(Approvals {
            approvals: page.approvals,
            next: page.next_page_token,
            unreachable: page.unreachable,
        })
    }

    /// The pending escalations: all of them, or what the visitor may decide.
    async fn stuck(&self) -> Result<Escalations, Problem> {
        let token = &self.asked.stuck;
        if !self.asked.mine {
            return self.escalations("", MOST, token).await;
        }
        let mut found = Escalations::default();
        if self.visitor.acting.roles.is_empty() {
            return Ok(found);
        }
        found.next.clone_from(token);
        for _ in 0..MOST_PAGES {
            let page = self.escalations("", MOST, &found.next).await?;
            let acting = &self.visitor.acting;
            let mine = page.escalations.into_iter();
            let mine = mine.filter(|one| escalation::may_decide(one, acting) == May::Yes);
            found.escalations.extend(mine);
            found.next = page.next;
            found.unreachable.extend(page.unreachable);
            let enough = found.escalations.len() >= usize::try_from(MOST).unwrap_or_default();
            if enough || found.next.is_empty() {
                break;
            }
        }
        Ok(found)
    }

    async fn escalations(
        &self,
        filter: &str,
        most: i32,
        token: &str,
    ) -> Result<Escalations, Problem> {
        let request = ListEscalationsRequest {
            parent: "providers/-".into(),
            page_size: most,
            page_token: token.to_owned(),
            filter: filter.to_owned(),
        };
        let mut api = self.site.api.approvals();
        let page = api.list_escalations(self.visitor.request(request)).await?;
        let page = page.into_inner();
        Ok(Escalations {
            escalations: page.escalations,
            next: page.next_page_token,
            unreachable: page.unreachable,
        })
    }

    /// One request with its input. Details that cannot be read are left out: the list itself was
    /// answered.
    async fn request(&self, approval: &Approval) -> Request {
        let whole = read_approval(&self.site, &self.visitor, &approval.name).await;
        whole.unwrap_or_else(|_| Request {
            approval: approval.clone(),
            step: None,
            earlier: Vec::new(),
        })
    }

    /// One escalation with its attempts. Details that cannot be read are left out: the list itself
    /// was answered.
    async fn context(&self, escalation: &Escalation) -> Stuck {
        let whole = read_escalation(&self.site, &self.visitor, &escalation.name).await;
        Stuck {
            execution: self.execution(&escalation.execution).await,
            escalation: whole.unwrap_or_else(|_| escalation.clone()),
        }
    }

    async fn execution(&self, name: &str) -> Option<Execution> {
        let request = GetExecutionRequest {
            name: name.to_owned(),
            ..GetExecutionRequest::default()
        };
        let mut api = self.site.api.executions();
        let found = api.get_execution(self.visitor.request(request)).await;
        found.ok().map(tonic::Response::into_inner)
    }

    async fn look_back(&mut self, left: bool) -> Result<(), Problem> {
        let due = self
            .decided_at
            .is_none_or(|then| then.elapsed() > DECIDED_PACE);
        if due || left {
            let approvals = self
                .approvals("state = GRANTED OR state = REJECTED", MOST_DECIDED, "")
                .await?;
            let escalations = self
                .escalations("state = RESOLVED", MOST_DECIDED, "")
                .await?;
            let approvals = approvals.approvals.into_iter();
            let approvals = approvals.map(|one| Settled::Approval(Box::new(one)));
            let escalations = escalations.escalations.into_iter();
            let escalations = escalations.map(|one| Settled::Escalation(Box::new(one)));
            self.decided = approvals.chain(escalations).collect();
            self.decided
                .sort_by_key(|settled| std::cmp::Reverse(settled.time()));
            self.decided_at = Some(Instant::now());
        }
        Ok(())
    }
}

/// One escalation with every attempt of its step.
pub(super) async fn read_escalation(
    site: &Site,
    visitor: &Visitor,
    name: &str,
) -> Result<Escalation, Problem> {
    let request = GetEscalationRequest {
        name: name.to_owned(),
    };
    let mut api = site.api.approvals();
    let escalation = api.get_escalation(visitor.request(request)).await?;
    Ok(escalation.into_inner())
}

/// One approval with everything, and the step of its definition.
pub(super) async fn read_approval(
    site: &Site,
    visitor: &Visitor,
    name: &str,
) -> Result<Request, Problem> {
    let request = GetApprovalRequest {
        name: name.to_owned(),
    };
    let mut api = site.api.approvals();
    let approval = api.get_approval(visitor.request(request)).await?;
    let approval = approval.into_inner();
    let request = GetDefinitionRequest {
        name: format!("{}/revisions/{}", approval.definition, approval.revision),
    };
    let mut api = site.api.definitions();
    let definition = api.get_definition(visitor.request(request)).await;
    // The rule is a help; without it the request can still be decided.
    let step = definition.ok().and_then(|definition| {
        let steps = definition.into_inner().steps;
        steps.into_iter().find(|step| step.name == approval.step)
    });
    let earlier = earlier(site, visitor, &approval).await;
    Ok(Request {
        approval,
        step,
        earlier,
    })
}

/// The requests of the same step before this one. They are a help; without them the request can still be
/// decided.
async fn earlier(site: &Site, visitor: &Visitor, approval: &Approval) -> Vec<Approval> {
    let (execution, step) = (quoted(&approval.execution), quoted(&approval.step));
    let request = ListApprovalsRequest {
        parent: "providers/-".into(),
        page_size: MOST_EARLIER,
        filter: format!("execution = {execution} AND step = {step}"),
        ..ListApprovalsRequest::default()
    };
    let mut api = site.api.approvals();
    let listed = api.list_approvals(visitor.request(request)).await;
    let listed = listed.map_or_else(|_| Vec::new(), |listed| listed.into_inner().approvals);
    let asked = |approval: &Approval| moment(approval.create_time.as_ref());
    // The list has the newest request of a step first.
    let oldest_first = listed.into_iter().rev();
    oldest_first
        .filter(|other| asked(other) < asked(approval))
        .collect()
}
