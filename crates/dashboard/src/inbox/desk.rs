//! What lies on the desk: read from the API, each paper once.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use maud::Markup;
use stateway_proto::v1::{
    Approval, DefinitionStep, Escalation, Event, Execution, GetApprovalRequest,
    GetDefinitionRequest, GetExecutionRequest, ListApprovalsRequest, ListEscalationsRequest,
    ListEventsRequest,
};

use super::{approval, escalation};
use crate::Site;
use crate::problem::Problem;
use crate::visitor::Visitor;

/// Approvals and escalations on the page, each; further ones follow when these are dealt with.
const MOST: i32 = 25;
/// Roles that are asked for, one by one.
const MOST_ROLES: usize = 8;
/// Decisions on the page.
const MOST_DECIDED: i32 = 10;
/// Events of a step that are shown.
const MOST_EVENTS: usize = 12;
/// What was decided is read from many logs: at this pace, or when something left the desk.
const DECIDED_PACE: Duration = Duration::from_secs(10);

/// A request for a yes or a no, and the rule it follows.
pub(super) struct Request {
    pub(super) approval: Approval,
    pub(super) step: Option<DefinitionStep>,
}

/// A step that is stuck, and how it came to that.
pub(super) struct Stuck {
    pub(super) escalation: Escalation,
    pub(super) execution: Option<Execution>,
    pub(super) events: Vec<Event>,
}

/// Everything on the page, as cards. A card is rendered when it is read, and once: its payload may be
/// large, and the script keeps its times true.
pub(super) struct Papers {
    pub(super) requests: Vec<Markup>,
    pub(super) more_requests: bool,
    pub(super) stuck: Vec<Markup>,
    pub(super) more_stuck: bool,
    pub(super) decided: Vec<Approval>,
    pub(super) unreachable: Vec<String>,
}

/// Reads the API for one visitor, and remembers what does not change.
pub(super) struct Desk {
    site: Site,
    pub(super) visitor: Visitor,
    pub(super) mine: bool,
    /// Cards by name and etag.
    requests: HashMap<(String, String), Markup>,
    stuck: HashMap<(String, String), Markup>,
    decided: Vec<Approval>,
    decided_at: Option<Instant>,
}

impl Desk {
    pub(super) fn new(site: &Site, visitor: &Visitor, mine: bool) -> Self {
        Self {
            site: site.clone(),
            visitor: visitor.clone(),
            mine,
            requests: HashMap::new(),
            stuck: HashMap::new(),
            decided: Vec::new(),
            decided_at: None,
        }
    }

    /// What is there now.
    pub(super) async fn look(&mut self) -> Result<Papers, Problem> {
        let (pending, more_requests, unreachable) = self.pending().await?;
        let mut requests = HashMap::new();
        for approval in &pending {
            let key = (approval.name.clone(), approval.etag.clone());
            let request = match self.requests.remove(&key) {
                Some(known) => known,
                None => {
                    let request = self.request(approval).await;
                    approval::card(&request, &self.visitor, Timestamp::now())
                }
            };
            requests.insert(key, request);
        }
        let left = !self.requests.is_empty();
        self.requests = requests;
        let (escalations, more_stuck) = self.escalations().await?;
        let mut stuck = HashMap::new();
        for escalation in &escalations {
            let key = (escalation.name.clone(), escalation.etag.clone());
            let known = match self.stuck.remove(&key) {
                Some(known) => known,
                None => {
                    let stuck = self.context(escalation).await;
                    escalation::card(&stuck, &self.visitor, Timestamp::now())
                }
            };
            stuck.insert(key, known);
        }
        self.stuck = stuck;
        self.look_back(left).await?;
        let of = |name: &str, etag: &str| (name.to_owned(), etag.to_owned());
        let requests = pending
            .iter()
            .filter_map(|found| self.requests.get(&of(&found.name, &found.etag)));
        let stuck = escalations
            .iter()
            .filter_map(|found| self.stuck.get(&of(&found.name, &found.etag)));
        Ok(Papers {
            requests: requests.cloned().collect(),
            more_requests,
            stuck: stuck.cloned().collect(),
            more_stuck,
            decided: self.decided.clone(),
            unreachable,
        })
    }

    /// What is pending: all of it, or what the visitor may decide.
    async fn pending(&self) -> Result<(Vec<Approval>, bool, Vec<String>), Problem> {
        if !self.mine {
            return self.approvals("", MOST).await;
        }
        let (mut found, mut more, mut unreachable) = (Vec::new(), false, Vec::new());
        let roles = self.visitor.acting.roles.split(',');
        // A quote would end the value; the API has no way to write one.
        let roles = roles.filter(|role| !role.is_empty() && !role.contains('"'));
        for role in roles.take(MOST_ROLES) {
            let filter = format!("role = \"{role}\"");
            let (approvals, further, without) = self.approvals(&filter, MOST).await?;
            found.extend(approvals);
            more |= further;
            unreachable = without;
        }
        found.retain(|approval| approval.initiator != self.visitor.acting.actor);
        Ok((found, more, unreachable))
    }

    async fn approvals(
        &self,
        filter: &str,
        most: i32,
    ) -> Result<(Vec<Approval>, bool, Vec<String>), Problem> {
        let request = ListApprovalsRequest {
            parent: "providers/-".into(),
            page_size: most,
            page_token: String::new(),
            filter: filter.to_owned(),
        };
        let mut api = self.site.api.approvals();
        let page = api.list_approvals(self.visitor.request(request)).await?;
        let page = page.into_inner();
        let more = !page.next_page_token.is_empty();
        Ok((page.approvals, more, page.unreachable))
    }

    async fn escalations(&self) -> Result<(Vec<Escalation>, bool), Problem> {
        let request = ListEscalationsRequest {
            parent: "providers/-".into(),
            page_size: MOST,
            page_token: String::new(),
        };
        let mut api = self.site.api.approvals();
        let page = api.list_escalations(self.visitor.request(request)).await?;
        let page = page.into_inner();
        Ok((page.escalations, !page.next_page_token.is_empty()))
    }

    /// One request with its input. What cannot be had is left out: the list itself was answered.
    async fn request(&self, approval: &Approval) -> Request {
        let whole = read_approval(&self.site, &self.visitor, &approval.name).await;
        whole.unwrap_or_else(|_| Request {
            approval: approval.clone(),
            step: None,
        })
    }

    async fn context(&self, escalation: &Escalation) -> Stuck {
        Stuck {
            escalation: escalation.clone(),
            execution: self.execution(&escalation.execution).await,
            events: self.events(escalation).await,
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

    async fn events(&self, escalation: &Escalation) -> Vec<Event> {
        let request = ListEventsRequest {
            parent: escalation.execution.clone(),
            page_size: 1_000,
            page_token: String::new(),
            branch: String::new(),
        };
        let mut api = self.site.api.executions();
        let found = api.list_events(self.visitor.request(request)).await;
        let events = found.map(|found| found.into_inner().events);
        let mut events = events.unwrap_or_default();
        events.retain(|event| event.step == escalation.step);
        let first = events.len().saturating_sub(MOST_EVENTS);
        events.split_off(first)
    }

    async fn look_back(&mut self, left: bool) -> Result<(), Problem> {
        let due = self
            .decided_at
            .is_none_or(|then| then.elapsed() > DECIDED_PACE);
        if due || left {
            let (decided, _, _) = self.approvals("state = decided", MOST_DECIDED).await?;
            self.decided = decided;
            self.decided_at = Some(Instant::now());
        }
        Ok(())
    }
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
    Ok(Request { approval, step })
}
