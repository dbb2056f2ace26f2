//! What lies on the desk: read from the API, each paper once.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use maud::Markup;
use stateway_proto::v1::{
    Approval, DefinitionStep, Escalation, Event, Execution, GetApprovalRequest,
    GetDefinitionRequest, GetExecutionRequest, ListApprovalsRequest, ListEscalationsRequest,
};

use super::approval::{self, May, may_decide};
use super::escalation;
use crate::Site;
use crate::execution::newest;
use crate::fields::{Fields, link};
use crate::problem::Problem;
use crate::visitor::Visitor;

/// Approvals and escalations on a page, each.
const MOST: i32 = 25;
/// Pages of the API that are looked through for what the visitor may decide, before they are asked
/// whether to look on.
const MOST_PAGES: usize = 40;
/// Decisions on the page.
const MOST_DECIDED: i32 = 10;
/// Events of a step that are shown.
const MOST_EVENTS: usize = 12;
/// What was decided is read from many logs: at this pace, or when something left the desk.
const DECIDED_PACE: Duration = Duration::from_secs(10);

/// What is asked for: by the address of the page and of its live updates.
pub(super) struct Asked {
    /// What the visitor may decide, and nothing else.
    pub(super) mine: bool,
    /// Where to begin, as the API says; empty for the newest.
    pub(super) requests: String,
    pub(super) stuck: String,
}

impl Asked {
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

/// A page of approvals.
#[derive(Default)]
struct Approvals {
    approvals: Vec<Approval>,
    /// Where the next page begins; empty after the last one.
    next: String,
    unreachable: Vec<String>,
}

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
    /// Where the older ones begin; empty when there are none.
    pub(super) older_requests: String,
    pub(super) stuck: Vec<Markup>,
    pub(super) older_stuck: String,
    pub(super) decided: Vec<Approval>,
    pub(super) unreachable: Vec<String>,
}

/// Reads the API for one visitor, and remembers what does not change.
pub(super) struct Desk {
    site: Site,
    pub(super) visitor: Visitor,
    pub(super) asked: Asked,
    /// Cards by name and etag.
    requests: HashMap<(String, String), Markup>,
    stuck: HashMap<(String, String), Markup>,
    decided: Vec<Approval>,
    decided_at: Option<Instant>,
}

impl Desk {
    pub(super) fn new(site: &Site, visitor: &Visitor, asked: Asked) -> Self {
        Self {
            site: site.clone(),
            visitor: visitor.clone(),
            asked,
            requests: HashMap::new(),
            stuck: HashMap::new(),
            decided: Vec::new(),
            decided_at: None,
        }
    }

    /// What is there now.
    pub(super) async fn look(&mut self) -> Result<Papers, Problem> {
        let Approvals {
            approvals: pending,
            next: older_requests,
            unreachable,
        } = self.pending().await?;
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
        let (escalations, older_stuck) = self.escalations().await?;
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
        // The API's filter knows one role. One walk through everything knows any number of them, and
        // has one place to go on from.
        found.next.clone_from(token);
        for _ in 0..MOST_PAGES {
            let page = self.approvals("", MOST, &found.next).await?;
            let mine = page.approvals.into_iter();
            let mine = mine.filter(|one| may_decide(one, &self.visitor.acting) == May::Yes);
            found.approvals.extend(mine);
            found.next = page.next;
            found.unreachable = page.unreachable;
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

    async fn escalations(&self) -> Result<(Vec<Escalation>, String), Problem> {
        let request = ListEscalationsRequest {
            parent: "providers/-".into(),
            page_size: MOST,
            page_token: self.asked.stuck.clone(),
        };
        let mut api = self.site.api.approvals();
        let page = api.list_escalations(self.visitor.request(request)).await?;
        let page = page.into_inner();
        Ok((page.escalations, page.next_page_token))
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
        let of_step = |event: &Event| event.step == escalation.step;
        let name = &escalation.execution;
        let found = newest(&self.site, &self.visitor, name, MOST_EVENTS, of_step).await;
        found.unwrap_or_default().events
    }

    async fn look_back(&mut self, left: bool) -> Result<(), Problem> {
        let due = self
            .decided_at
            .is_none_or(|then| then.elapsed() > DECIDED_PACE);
        if due || left {
            let page = self.approvals("state = decided", MOST_DECIDED, "").await?;
            self.decided = page.approvals;
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
