//! Lists of approvals and escalations, a page at a time.
//!
//! A page is made of executions, so that a cursor is one number: an execution with three requests gives
//! three rows, and a page may be a few rows longer than asked for. What is pending is known without
//! reading a log. Every other state is known from the logs alone, so a page reads at most a bounded
//! number of them, may be short or empty, and is the last one only when it has no token.

use serde::{Deserialize, Serialize};
use stateway_engine::{ListQuery, View};
use stateway_machine::ExecutionState;
use stateway_model::{ExecutionId, ExecutionName, ProviderId};
use stateway_proto::v1;
use stateway_provider_api::Call;
use tonic::{Code, Status};

use super::case::{Case, Stage, pending};
use super::filter::Filter;
use super::name::Kind;
use super::{Approvals, read, shown};
use crate::engines::Chosen;
use crate::parent::Parent;
use crate::service::executions::page_token_refused;
use crate::service::validate;
use crate::status::Refusal;

const ROWS_PER_PAGE: usize = 50;
/// Executions that an engine is asked for at once.
const EXECUTIONS_PER_READ: usize = 50;
/// The most executions of the inbox that are read for one page, where a filter admits little.
const MOST_IN_THE_INBOX: usize = 400;
/// The most executions whose logs are read for one page.
const MOST_LOGS: usize = 200;

/// Where a list continues: at this provider, after this execution.
#[derive(Debug, Serialize, Deserialize)]
struct Place {
    provider: ProviderId,
    before: Option<i64>,
}

/// An execution and its cases that pass the filter.
struct Found<'e> {
    chosen: Chosen<'e>,
    name: ExecutionName,
    view: View,
    cases: Vec<Case>,
}

/// What a list request has in common for both kinds.
struct Listing<'r> {
    parent: &'r str,
    page_size: i32,
    page_token: &'r str,
    filter: &'r str,
}

impl Approvals {
    pub(super) async fn list(
        &self,
        call: Call,
        request: v1::ListApprovalsRequest,
    ) -> Result<v1::ListApprovalsResponse, Status> {
        let listing = Listing {
            parent: &request.parent,
            page_size: request.page_size,
            page_token: &request.page_token,
            filter: &request.filter,
        };
        let (found, next_page_token) = self.found(&call, Kind::Approval, listing).await?;
        let rows = found.iter().flat_map(|found| {
            let cases = found.cases.iter();
            cases.map(|case| shown::approval(&found.name, &found.view, case))
        });
        Ok(v1::ListApprovalsResponse {
            approvals: rows.collect(),
            next_page_token,
            unreachable: Vec::new(),
        })
    }

    pub(super) async fn escalations(
        &self,
        call: Call,
        request: v1::ListEscalationsRequest,
    ) -> Result<v1::ListEscalationsResponse, Status> {
        let listing = Listing {
            parent: &request.parent,
            page_size: request.page_size,
            page_token: &request.page_token,
            filter: &request.filter,
        };
        let (found, next_page_token) = self.found(&call, Kind::Escalation, listing).await?;
        let rows = found.iter().flat_map(|found| {
            let roles = found.chosen.engine.escalation_roles();
            let cases = found.cases.iter();
            cases.map(move |case| shown::escalation(&found.name, &found.view, case, roles))
        });
        Ok(v1::ListEscalationsResponse {
            escalations: rows.collect(),
            next_page_token,
            unreachable: Vec::new(),
        })
    }

    /// The executions of one page, and the token of the next one.
    async fn found<'s>(
        &'s self,
        call: &Call,
        kind: Kind,
        listing: Listing<'_>,
    ) -> Result<(Vec<Found<'s>>, String), Status> {
        let parent = validate::parent(listing.parent)?;
        let engines = self.directory.under(&parent, kind.collection())?;
        let filter = Filter::parse(kind, listing.filter)?;
        let size = validate::page_size(listing.page_size, ROWS_PER_PAGE)?;
        if let Some(execution) = &filter.execution {
            covers(&parent, execution)?;
            let found = self.of_execution(call, &filter, execution).await?;
            return Ok((vec![found], String::new()));
        }
        let collection = kind.collection();
        let purpose = format!("{collection}|{}|{}", listing.parent, listing.filter);
        let place = match listing.page_token {
            "" => None,
            token => Some(
                self.sealer
                    .open(&purpose, token)
                    .map_err(page_token_refused)?,
            ),
        };
        let (found, next) = page(call, &engines, place, size, &filter).await?;
        let seal = |next| self.sealer.seal(&purpose, next);
        Ok((found, next.map_or_else(String::new, seal)))
    }

    /// Every case of one execution, of every branch.
    async fn of_execution(
        &self,
        call: &Call,
        filter: &Filter,
        name: &ExecutionName,
    ) -> Result<Found<'_>, Status> {
        let collection = filter.kind.collection();
        let chosen = self.directory.of(&name.provider, collection)?;
        let id = name.id.as_str().into();
        let view = chosen.answer(call, chosen.engine.get(id)).await?;
        let wanted = filter.definition.as_deref();
        let cases = if wanted.is_none_or(|wanted| *wanted == *view.definition) {
            read::cases(call, chosen, &view.id).await?
        } else {
            Vec::new()
        };
        Ok(Found {
            chosen,
            name: name.clone(),
            cases: admitted(chosen, filter, cases),
            view,
        })
    }
}

fn covers(parent: &Parent, execution: &ExecutionName) -> Result<(), Status> {
    match parent {
        Parent::One(id) if *id != execution.provider => {
            let message = "`parent` and `execution` name different providers";
            Err(Refusal::invalid("filter", message)
                .reason("INVALID_FILTER")
                .into())
        }
        _ => Ok(()),
    }
}

/// One page over some engines, one after the other.
async fn page<'e>(
    call: &Call,
    engines: &[Chosen<'e>],
    place: Option<Place>,
    size: usize,
    filter: &Filter,
) -> Result<(Vec<Found<'e>>, Option<Place>), Status> {
    let most = if filter.is_of_the_inbox() {
        MOST_IN_THE_INBOX
    } else {
        MOST_LOGS
    };
    let (mut found, mut rows, mut read) = (Vec::new(), 0, 0);
    let mut before = place.as_ref().and_then(|place| place.before);
    let first = place.map(|place| place.provider);
    let left = engines
        .iter()
        .skip_while(|chosen| first.as_ref().is_some_and(|first| chosen.id != first));
    for chosen in left {
        loop {
            if rows >= size || read >= most {
                let provider = chosen.id.clone();
                return Ok((found, Some(Place { provider, before })));
            }
            let limit = EXECUTIONS_PER_READ.min(size - rows);
            let query = query(filter, before, limit);
            let page = chosen.answer(call, chosen.engine.list(query)).await?;
            read += page.items.len();
            for view in page.items {
                if let Some(one) = of_view(call, *chosen, view, filter).await? {
                    rows += one.cases.len();
                    found.push(one);
                }
            }
            before = page.next;
            if before.is_none() {
                break;
            }
        }
    }
    Ok((found, None))
}

fn query(filter: &Filter, before: Option<i64>, limit: usize) -> ListQuery {
    let inbox = filter.is_of_the_inbox();
    // A step may wait for an approval beside others that run, so only an escalation has a state.
    let states = match filter.kind {
        Kind::Escalation if inbox => vec![ExecutionState::Escalated],
        Kind::Escalation | Kind::Approval => Vec::new(),
    };
    ListQuery {
        states,
        inbox,
        definition: filter.definition.clone(),
        before,
        limit,
        ..ListQuery::default()
    }
}

/// The cases of an execution that pass; nothing where none does.
async fn of_view<'e>(
    call: &Call,
    chosen: Chosen<'e>,
    view: View,
    filter: &Filter,
) -> Result<Option<Found<'e>>, Status> {
    let Ok(id) = ExecutionId::new(&view.id) else {
        return Ok(None);
    };
    let pending = pending(&view);
    let known = !pending.iter().any(Case::is_of_a_rule);
    let cases = if filter.is_of_the_inbox() && known {
        pending
    } else {
        match read::cases(call, chosen, &view.id).await {
            Ok(mut cases) => {
                cases.reverse();
                cases
            }
            // It was purged meanwhile, or is damaged; the others are listed all the same.
            Err(status) if matches!(status.code(), Code::NotFound | Code::DataLoss) => Vec::new(),
            Err(status) => return Err(status),
        }
    };
    let mut cases = admitted(chosen, filter, cases);
    if filter.is_of_the_inbox() {
        cases.retain(|case| case.stage() == Stage::Pending);
    }
    let name = ExecutionName::new(chosen.id.clone(), id);
    Ok((!cases.is_empty()).then_some(Found {
        chosen,
        name,
        view,
        cases,
    }))
}

fn admitted(chosen: Chosen<'_>, filter: &Filter, mut cases: Vec<Case>) -> Vec<Case> {
    let configured = chosen.engine.escalation_roles();
    cases.retain(|case| filter.admits(case, &shown::roles(case, configured)));
    cases
}
