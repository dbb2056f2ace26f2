//! What is pending, a page at a time.
//!
//! A page is made of executions and not of requests, so that a cursor is one number: an execution
//! with three requests gives three rows, and a page may be a few rows longer than asked for.

use serde::{Deserialize, Serialize};
use stateway_engine::{ListQuery, View};
use stateway_machine::ExecutionState;
use stateway_model::{ExecutionId, ExecutionName, ProviderId};
use stateway_proto::v1;
use stateway_provider_api::Call;
use tonic::Status;

use super::filter::Filter;
use super::{APPROVALS, Approvals, ESCALATIONS, decided, requests, shown};
use crate::engines::Chosen;
use crate::parent::Parent;
use crate::service::executions::page_token_refused;
use crate::service::log::Log;
use crate::service::validate;
use crate::status::Refusal;

const ROWS_PER_PAGE: usize = 50;
/// The most often one engine is asked for one page, where a filter admits little.
const MOST_ROUNDS: usize = 8;

/// Where an inbox goes on: at this provider, after this execution.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Place {
    pub(super) provider: ProviderId,
    pub(super) before: Option<i64>,
}

impl Approvals {
    pub(super) async fn list(
        &self,
        call: Call,
        request: v1::ListApprovalsRequest,
    ) -> Result<v1::ListApprovalsResponse, Status> {
        let parent = validate::parent(&request.parent)?;
        let engines = self.directory.under(&parent, APPROVALS)?;
        let filter = Filter::parse(&request.filter)?;
        let size = validate::page_size(request.page_size, ROWS_PER_PAGE)?;
        if let Some(execution) = &filter.execution {
            self.covers(&parent, execution)?;
            let approvals = self.of_execution(&call, &filter, execution).await?;
            return Ok(v1::ListApprovalsResponse {
                approvals,
                ..v1::ListApprovalsResponse::default()
            });
        }
        let purpose = format!("approvals|{}|{}", request.parent, request.filter);
        let place = self.place(&purpose, &request.page_token)?;
        if !filter.is_of_the_inbox() {
            let (approvals, next) = decided::page(&call, &engines, place, size, &filter).await?;
            let seal = |next| self.sealer.seal(&purpose, next);
            return Ok(v1::ListApprovalsResponse {
                approvals,
                next_page_token: next.map_or_else(String::new, seal),
                unreachable: Vec::new(),
            });
        }
        let rows = |name: &ExecutionName, view: &View| {
            let open = view.steps.iter().filter_map(requests::of_step);
            let rows = open.map(|request| shown::approval(name, view, &request));
            rows.filter(|row| filter.admits(row)).collect()
        };
        let (approvals, next) = page(&call, &engines, place, size, Wanted::Approvals, rows).await?;
        Ok(v1::ListApprovalsResponse {
            approvals,
            next_page_token: next.map_or_else(String::new, |next| self.sealer.seal(&purpose, next)),
            unreachable: Vec::new(),
        })
    }

    pub(super) async fn escalations(
        &self,
        call: Call,
        request: v1::ListEscalationsRequest,
    ) -> Result<v1::ListEscalationsResponse, Status> {
        let parent = validate::parent(&request.parent)?;
        let engines = self.directory.under(&parent, ESCALATIONS)?;
        let size = validate::page_size(request.page_size, ROWS_PER_PAGE)?;
        let purpose = format!("escalations|{}", request.parent);
        let place = self.place(&purpose, &request.page_token)?;
        let rows = |name: &ExecutionName, view: &View| {
            let steps = view.steps.iter().filter(|step| shown::is_escalated(step));
            steps
                .map(|step| shown::escalation(name, view, step))
                .collect()
        };
        let wanted = Wanted::Escalations;
        let (escalations, next) = page(&call, &engines, place, size, wanted, rows).await?;
        Ok(v1::ListEscalationsResponse {
            escalations,
            next_page_token: next.map_or_else(String::new, |next| self.sealer.seal(&purpose, next)),
            unreachable: Vec::new(),
        })
    }

    fn place(&self, purpose: &str, token: &str) -> Result<Option<Place>, Status> {
        match token {
            "" => Ok(None),
            token => {
                let place = self.sealer.open(purpose, token);
                place.map(Some).map_err(page_token_refused)
            }
        }
    }

    /// Every request of one execution, decided ones included.
    async fn of_execution(
        &self,
        call: &Call,
        filter: &Filter,
        name: &ExecutionName,
    ) -> Result<Vec<v1::Approval>, Status> {
        let chosen = self.directory.of(&name.provider, APPROVALS)?;
        let log = Log::read(call, chosen, &name.id.as_str().into()).await?;
        let all = requests::of_log(&log.events);
        let rows = all
            .iter()
            .map(|request| shown::approval(name, &log.view, request));
        Ok(rows.filter(|row| filter.admits(row)).collect())
    }

    fn covers(&self, parent: &Parent, execution: &ExecutionName) -> Result<(), Status> {
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
}

/// What an engine is asked for.
#[derive(Clone, Copy)]
enum Wanted {
    Approvals,
    Escalations,
}

/// One page over some engines, one after the other.
async fn page<R>(
    call: &Call,
    engines: &[Chosen<'_>],
    place: Option<Place>,
    size: usize,
    wanted: Wanted,
    rows: impl Fn(&ExecutionName, &View) -> Vec<R>,
) -> Result<(Vec<R>, Option<Place>), Status> {
    let mut found = Vec::new();
    let mut before = place.as_ref().and_then(|place| place.before);
    let first = place.map(|place| place.provider);
    let left = engines
        .iter()
        .skip_while(|chosen| first.as_ref().is_some_and(|first| chosen.id != first));
    for chosen in left {
        for _ in 0..MOST_ROUNDS {
            let room = size.saturating_sub(found.len());
            if room == 0 {
                return Ok((found, Some(place_at(chosen, before))));
            }
            let page = ask(call, *chosen, wanted, before, room).await?;
            for view in &page.items {
                if let Ok(id) = ExecutionId::new(&view.id) {
                    found.extend(rows(&ExecutionName::new(chosen.id.clone(), id), view));
                }
            }
            before = page.next;
            if before.is_none() {
                break;
            }
        }
        if before.is_some() {
            return Ok((found, Some(place_at(chosen, before))));
        }
    }
    Ok((found, None))
}

fn place_at(chosen: &Chosen<'_>, before: Option<i64>) -> Place {
    Place {
        provider: chosen.id.clone(),
        before,
    }
}

async fn ask(
    call: &Call,
    chosen: Chosen<'_>,
    wanted: Wanted,
    before: Option<i64>,
    limit: usize,
) -> Result<stateway_engine::Page<View>, Status> {
    // A step may wait for a yes beside others that run, so no state tells; the inbox does.
    let states = match wanted {
        Wanted::Escalations => vec![ExecutionState::Escalated],
        Wanted::Approvals => Vec::new(),
    };
    let query = ListQuery {
        states,
        inbox: true,
        before,
        limit,
        ..ListQuery::default()
    };
    chosen.answer(call, chosen.engine.list(query)).await
}
