//! Get, list, watch, wait, history, explain. What happened to one step is in `step`.

use std::collections::BTreeSet;

use stateway_access::Permission;
use stateway_model::{ExecutionName, SubState};
use stateway_proto::v1;
use stateway_provider_api::{EventOrder, HistoryRequest, Verb, View};
use tonic::{Code, Status};

use super::super::validate;
use super::Executions;
use super::newest;
use crate::access::{self, ApiCall};
use crate::convert;
use crate::front::Peer;
use crate::list::{self, Listing};
use crate::parent::Parent;
use crate::status::Refusal;
use crate::token::TokenError;
use crate::watch::{Reader, Target, WatchRequest};

const EXECUTIONS_PER_PAGE: usize = 50;
const EVENTS_PER_PAGE: usize = 100;
/// The most executions of one watch by names.
const MOST_NAMES: usize = 100;

impl Executions {
    pub(super) async fn get(
        &self,
        call: ApiCall,
        request: v1::GetExecutionRequest,
    ) -> Result<v1::Execution, Status> {
        let name = validate::execution_name("name", &request.name)?;
        let view = match request.view() {
            v1::ExecutionView::Basic => View::Basic,
            v1::ExecutionView::Full | v1::ExecutionView::Unspecified => View::Full,
        };
        let (upstream, observation) = self.observe(&call, &name, view).await?;
        let execution = upstream.execution(*observation);
        call.require_execution(Permission::Read, &execution)?;
        Ok(call.show(execution))
    }

    pub(super) async fn list(
        &self,
        call: ApiCall,
        request: v1::ListExecutionsRequest,
    ) -> Result<v1::ListExecutionsResponse, Status> {
        let parent = validate::parent(&request.parent)?;
        if let Parent::One(id) = &parent {
            self.upstream(&call, id)?;
        }
        let filter = validate::filter(&request.filter)?;
        let page_size = validate::page_size(request.page_size, EXECUTIONS_PER_PAGE)?;
        let listing = Listing {
            upstreams: &self.upstreams,
            access: &call.access,
            parent: &parent,
            filter: &filter,
            page_size,
        };
        let purpose = list::purpose(&request.parent, &request.filter);
        let purpose = call.access.bound(purpose);
        let position = match request.page_token.as_str() {
            "" => listing.beginning(),
            token => self
                .sealer
                .open(&purpose, token)
                .map_err(page_token_refused)?,
        };
        let page = listing.page(&call, position).await?;
        Ok(v1::ListExecutionsResponse {
            executions: page
                .executions
                .into_iter()
                .map(|execution| call.show(execution))
                .collect(),
            next_page_token: page
                .next
                .map(|next| self.sealer.seal(&purpose, next))
                .unwrap_or_default(),
            unreachable: page
                .unreachable
                .iter()
                .map(|id| id.resource_name())
                .collect(),
            examined_count: i32::try_from(page.examined).unwrap_or(i32::MAX),
        })
    }

    pub(super) async fn watch(
        &self,
        call: ApiCall,
        peer: Option<Peer>,
        request: v1::WatchExecutionsRequest,
    ) -> Result<Reader, Status> {
        let mut target = watch_target(&request)?;
        match &mut target {
            Target::One(name) => self.authorize(&call, name, Permission::Read).await?,
            Target::Collection(Parent::One(id)) => drop(self.upstream(&call, id)?),
            Target::Some(names) => {
                for name in names.iter() {
                    self.upstream(&call, &name.provider)?;
                }
                self.retain_readable(&call, names).await?;
            }
            Target::Collection(Parent::All) => {}
        }
        let filter = validate::filter(&request.filter)?;
        let names = request.names.join(",");
        let purpose = format!("watch|{}|{names}|{}", request.parent, request.filter);
        let purpose = call.access.bound(purpose);
        let permit = self.watches.open(peer, &call)?;
        let request = WatchRequest {
            target,
            filter,
            access: call.access.clone(),
            purpose,
            cursor: request.cursor,
            permit,
        };
        Reader::open(&self.hub, request, call.deadline).await
    }

    /// Leaves out executions that do not exist, and those that the caller may not read. The stream is the same
    /// with and without them, so that the caller cannot learn which of them exist.
    async fn retain_readable(
        &self,
        call: &ApiCall,
        names: &mut Vec<ExecutionName>,
    ) -> Result<(), Status> {
        let mut readable = Vec::new();
        for name in names.drain(..) {
            match self.authorize(call, &name, Permission::Read).await {
                Ok(()) => readable.push(name),
                Err(status) if status.code() == Code::NotFound => {}
                Err(status) => return Err(status),
            }
        }
        *names = readable;
        Ok(())
    }

    pub(super) async fn wait(
        &self,
        call: ApiCall,
        peer: Option<Peer>,
        request: v1::WaitExecutionRequest,
    ) -> Result<v1::WaitExecutionResponse, Status> {
        let name = validate::execution_name("name", &request.name)?;
        let known = |value: &i32| {
            convert::sub_state_from(*value).ok_or_else(|| {
                Status::from(Refusal::invalid(
                    "sub_states",
                    format!("{value} is not a sub-state"),
                ))
            })
        };
        let wanted: Vec<SubState> = request
            .sub_states
            .iter()
            .map(known)
            .collect::<Result<_, _>>()?;
        let upstream = self.upstream(&call, &name.provider)?;
        self.authorize(&call, &name, Permission::Read).await?;
        let _permit = self.waits.open(peer, &call)?;
        let waited = self.hub.wait(upstream, &name, &wanted, call.deadline);
        let waited = tokio::select! {
            biased;
            () = call.access.clone().changed() => return Err(access::changed()),
            waited = waited => waited?,
        };
        call.require_execution(Permission::Read, &waited.execution)?;
        Ok(v1::WaitExecutionResponse {
            execution: Some(call.show(waited.execution)),
            reached: waited.reached,
        })
    }

    pub(super) async fn history(
        &self,
        call: ApiCall,
        request: v1::ListEventsRequest,
    ) -> Result<v1::ListEventsResponse, Status> {
        let order = newest::order(&request.order_by)?;
        let name = validate::execution_name("parent", &request.parent)?;
        let upstream = self.upstream(&call, &name.provider)?;
        let reads_payloads = self.authorize_read(&call, &name).await?;
        upstream.described(&call).await?;
        let can = upstream.capabilities();
        let is_redacted = !reads_payloads && request.view() == v1::ExecutionView::Full;
        let mut request = request;
        if is_redacted {
            request.set_view(v1::ExecutionView::Basic);
        }
        let page = self.events(call, request, (order, can.history_newest_first));
        let mut page = page.await?;
        page.payloads_redacted = is_redacted;
        Ok(page)
    }

    /// The events of an execution that the caller may read.
    async fn events(
        &self,
        call: ApiCall,
        request: v1::ListEventsRequest,
        (order, is_newest_first): (EventOrder, bool),
    ) -> Result<v1::ListEventsResponse, Status> {
        if order == EventOrder::OldestFirst || is_newest_first {
            return self.events_page(call, request, order).await;
        }
        let page_size = validate::page_size(request.page_size, EVENTS_PER_PAGE)?;
        self.last_events(call, request, page_size).await
    }

    /// A page of events as the provider reads them.
    pub(super) async fn events_page(
        &self,
        call: ApiCall,
        request: v1::ListEventsRequest,
        order: EventOrder,
    ) -> Result<v1::ListEventsResponse, Status> {
        let name = validate::execution_name("parent", &request.parent)?;
        let upstream = self.upstream(&call, &name.provider)?;
        let page_size = validate::page_size(request.page_size, EVENTS_PER_PAGE)?;
        if !request.branch.is_empty() {
            let page = (page_size, order);
            return self.branch_history(call, &name, request, page).await;
        }
        let view = event_view(request.view());
        let purpose = call
            .access
            .bound(format!("{}|{name}", token_purpose(order)));
        let cursor = match request.page_token.as_str() {
            "" => None,
            token => Some(
                self.sealer
                    .open(&purpose, token)
                    .map_err(page_token_refused)?,
            ),
        };
        let request = HistoryRequest {
            id: name.id,
            page_size: u32::try_from(page_size).unwrap_or(u32::MAX),
            cursor,
            view,
            order,
        };
        let guarded = upstream.within(&call);
        let page = guarded.call(Verb::History, |provider, call| {
            provider.history(call, request)
        });
        let page = page.await?;
        Ok(v1::ListEventsResponse {
            payloads_redacted: false,
            events: page.events.into_iter().map(convert::event).collect(),
            next_page_token: page
                .next
                .map(|next| self.sealer.seal(&purpose, next))
                .unwrap_or_default(),
        })
    }

    pub(super) async fn explain(
        &self,
        call: ApiCall,
        request: v1::ExplainExecutionRequest,
    ) -> Result<v1::ExplainExecutionResponse, Status> {
        let name = validate::execution_name("name", &request.name)?;
        // Only the full view is sure to have the steps.
        let (upstream, mut observation) = self.observe(&call, &name, View::Full).await?;
        (observation.input, observation.output) = (None, None);
        let explanation = upstream.explain(&observation);
        let execution = upstream.execution(*observation);
        call.require_execution(Permission::Read, &execution)?;
        Ok(convert::explanation(call.show(execution), explanation))
    }
}

/// What the page tokens of a history are bound to, beside the history: a token continues in its order only.
pub(super) const fn token_purpose(order: EventOrder) -> &'static str {
    match order {
        EventOrder::OldestFirst => "events",
        EventOrder::NewestFirst => "newest events",
    }
}

/// What a request wants to watch.
fn watch_target(request: &v1::WatchExecutionsRequest) -> Result<Target, Status> {
    if request.names.is_empty() {
        return collection(&request.parent);
    }
    if !request.parent.is_empty() {
        let message = "`parent` and `names` exclude each other";
        return Err(Refusal::invalid("names", message)
            .hint("Set `parent` to watch a collection, or `names` to watch single executions.")
            .into());
    }
    if !request.filter.is_empty() {
        let message = "`filter` is only allowed with `parent`";
        return Err(Refusal::invalid("filter", message).into());
    }
    if request.names.len() > MOST_NAMES {
        let count = request.names.len();
        let message = format!("`names` has {count} entries; at most {MOST_NAMES} are allowed");
        return Err(Refusal::invalid("names", message).into());
    }
    let names = request.names.iter();
    let names: BTreeSet<ExecutionName> = names
        .map(|name| validate::execution_name("names", name))
        .collect::<Result<_, _>>()?;
    let mut names: Vec<_> = names.into_iter().collect();
    Ok(match names.len() {
        1 => Target::One(names.remove(0)),
        _ => Target::Some(names),
    })
}

/// The collection to watch.
fn collection(parent: &str) -> Result<Target, Status> {
    if parent.is_empty() {
        let message = "`parent` or `names` must be given";
        return Err(Refusal::invalid("parent", message)
            .hint("Set `parent` to `providers/-` to watch the executions of all providers.")
            .into());
    }
    if parent.parse::<ExecutionName>().is_ok() {
        let message = "`parent` is a collection: `providers/{provider}` or `providers/-`";
        return Err(Refusal::invalid("parent", message)
            .hint("Set `names` to watch single executions.")
            .into());
    }
    Ok(Target::Collection(validate::parent(parent)?))
}

/// How much of each event is wanted.
pub(super) const fn event_view(view: v1::ExecutionView) -> View {
    match view {
        v1::ExecutionView::Full => View::Full,
        v1::ExecutionView::Basic | v1::ExecutionView::Unspecified => View::Basic,
    }
}

pub(crate) fn page_token_refused(error: TokenError) -> Status {
    Refusal::invalid("page_token", error.to_string())
        .reason("INVALID_PAGE_TOKEN")
        .hint("Start again at the first page, and use the same parent and filter for every page.")
        .into()
}
