//! What is not open any more, over all executions: who decided what, newest execution first.
//!
//! It is told by the logs alone, so executions are looked through one by one, as many as one answer
//! has time for. A page may be short, or empty, and not be the last.

use std::collections::HashMap;
use std::sync::Arc;

use stateway_definition::StepKind;
use stateway_engine::{ListQuery, View};
use stateway_model::{ExecutionId, ExecutionName};
use stateway_proto::v1;
use stateway_provider_api::Call;
use tonic::Status;

use super::filter::Filter;
use super::inbox::Place;
use super::{requests, shown};
use crate::engines::Chosen;
use crate::service::log::Log;

/// Executions that an engine is asked for at once.
const EXECUTIONS_PER_READ: usize = 50;
/// The most executions that are looked at for one page.
const MOST_EXECUTIONS: usize = 200;

/// One page over some engines, one after the other.
pub(super) async fn page(
    call: &Call,
    engines: &[Chosen<'_>],
    place: Option<Place>,
    size: usize,
    filter: &Filter,
) -> Result<(Vec<v1::Approval>, Option<Place>), Status> {
    let mut found = Vec::new();
    let mut looked_at = 0;
    let mut before = place.as_ref().and_then(|place| place.before);
    let first = place.map(|place| place.provider);
    let left = engines
        .iter()
        .skip_while(|chosen| first.as_ref().is_some_and(|first| chosen.id != first));
    for chosen in left {
        let mut asks = Asks::default();
        loop {
            if looked_at >= MOST_EXECUTIONS || found.len() >= size {
                let provider = chosen.id.clone();
                return Ok((found, Some(Place { provider, before })));
            }
            let query = ListQuery {
                definition: filter.definition.clone(),
                before,
                limit: EXECUTIONS_PER_READ.min(size - found.len()),
                ..ListQuery::default()
            };
            let page = chosen.answer(call, chosen.engine.list(query)).await?;
            looked_at += page.items.len();
            for view in &page.items {
                found.extend(of_execution(call, *chosen, view, &mut asks, filter).await?);
            }
            before = page.next;
            if before.is_none() {
                break;
            }
        }
    }
    Ok((found, None))
}

async fn of_execution(
    call: &Call,
    chosen: Chosen<'_>,
    view: &View,
    asks: &mut Asks,
    filter: &Filter,
) -> Result<Vec<v1::Approval>, Status> {
    let Ok(id) = ExecutionId::new(&view.id) else {
        return Ok(Vec::new());
    };
    if !asks.somebody(call, chosen, view).await? {
        return Ok(Vec::new());
    }
    let name = ExecutionName::new(chosen.id.clone(), id);
    let log = match Log::read(call, chosen, &view.id).await {
        Ok(log) => log,
        // It was purged while we looked.
        Err(status) if status.code() == tonic::Code::NotFound => return Ok(Vec::new()),
        Err(status) => return Err(status),
    };
    let requests = requests::of_log(&log.events);
    let rows = requests
        .iter()
        .rev()
        .map(|request| shown::approval(&name, &log.view, request));
    Ok(rows.filter(|row| filter.admits(row)).collect())
}

/// Which definitions ask anybody at all; the others' logs need not be read.
#[derive(Default)]
struct Asks(HashMap<(Arc<str>, Arc<str>), bool>);

impl Asks {
    async fn somebody(
        &mut self,
        call: &Call,
        chosen: Chosen<'_>,
        view: &View,
    ) -> Result<bool, Status> {
        let key = (view.definition.clone(), view.revision.clone());
        if let Some(known) = self.0.get(&key) {
            return Ok(*known);
        }
        let record = chosen.engine.definition(key.0.clone(), Some(key.1.clone()));
        let record = chosen.answer(call, record).await?;
        // One that cannot be read any more may have asked.
        let asks =
            stateway_definition::parse(&record.source, "definition").map_or(true, |parsed| {
                let mut steps = parsed.definition.steps.iter();
                steps.any(|step| matches!(step.kind, StepKind::Approval(_)))
            });
        self.0.insert(key, asks);
        Ok(asks)
    }
}
