//! Histories: the events of all runs of an execution, the oldest run first. Events that a reset copied
//! from another run are left out.
//!
//! The server's pages are groups of events that were written together, so a page here may end in the
//! middle of one of them: a cursor has the server's token and the last event that was shown.

mod event;

use serde::{Deserialize, Serialize};
use stateway_provider_api::adapter::cursor::{self, HISTORY, NEWEST};
use stateway_provider_api::adapter::page_size;
use stateway_provider_api::{EventOrder, HistoryPage, HistoryRequest, Result, View};

use crate::api::history::v1::HistoryEvent;
use crate::api::workflow::v1::WorkflowExecutionInfo;
use crate::api::workflowservice::v1::{
    GetWorkflowExecutionHistoryRequest, GetWorkflowExecutionHistoryReverseRequest,
};
use crate::client::{Ask, Client};
use crate::id::WorkflowRef;
use crate::list::LONGEST_PAGE;
use crate::query;
use crate::quota::Api;
use crate::reader::{Reader, info, not_found};
use crate::response::run_id;
use crate::time::timestamp;

/// The most events of one page.
const LONGEST: u32 = 1_000;

/// Where a history continues.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Position {
    /// The run.
    run: String,
    /// The server's token of the page that contains the next event; empty: the run's first page.
    token: Vec<u8>,
    /// The last event of this run that was shown; 0: none.
    shown: i64,
    /// The last event of the current run when the first page was read. The server shows events beyond
    /// it that it may take back.
    until: i64,
}

/// A run, as far as its events are concerned.
#[derive(Debug, Clone, PartialEq)]
struct Run {
    id: String,
    info: WorkflowExecutionInfo,
    started: Option<jiff::Timestamp>,
    /// The number of its last event.
    length: i64,
    /// The sum of the lengths of the runs before it: event numbers of an execution ascend over its
    /// runs.
    offset: i64,
}

pub(crate) async fn history(
    reader: &Reader,
    ask: Ask<'_>,
    of: &WorkflowRef,
    request: &HistoryRequest,
) -> Result<HistoryPage> {
    let newest_first = request.order == EventOrder::NewestFirst;
    let name = if newest_first { NEWEST } else { HISTORY };
    let from: Option<Position> = cursor::read(name, request.cursor.as_deref(), ask.verb)?;
    let size = page_size(request.page_size, LONGEST, ask.verb)? as usize;
    let runs = reader.chain(ask, of).await?;
    let first = if newest_first {
        runs.last()
    } else {
        runs.first()
    };
    let Some(first) = first else {
        return Ok(HistoryPage::default());
    };
    let mut at = from.unwrap_or_else(|| Position {
        run: first.id.clone(),
        token: Vec::new(),
        shown: 0,
        until: runs.last().map_or(0, |run| run.length),
    });
    let mut events = Vec::new();
    let mut next = None;
    while let Some(place) = runs.iter().position(|run| run.id == at.run) {
        let run = &runs[place];
        let is_current = place + 1 == runs.len();
        let until = if is_current { at.until } else { run.length };
        let page = reader
            .page(ask, &of.run(&run.id), &at, newest_first, size)
            .await?;
        let (mut page, token) = page;
        page.retain(|event| is_shown(event, run, until, at.shown, newest_first));
        if let Some(codec) = reader.codec.as_ref().filter(|_| request.view == View::Full) {
            codec.decode_events(ask.call, &mut page).await;
        }
        let facts = reader.facts(ask, of, &run.info).await?;
        let room = size - events.len();
        let is_cut = page.len() > room;
        for event in page.iter().take(room) {
            at.shown = event.event_id;
            events.push(event::shown(event, run.offset, request.view, &facts));
        }
        if is_cut {
            next = Some(at.clone());
        } else if !token.is_empty() {
            at.token = token;
            next = Some(at.clone());
        } else {
            let other = if newest_first {
                place.checked_sub(1).map(|place| &runs[place])
            } else {
                runs.get(place + 1)
            };
            next = other.map(|other| Position {
                run: other.id.clone(),
                token: Vec::new(),
                shown: 0,
                until: at.until,
            });
        }
        match &next {
            Some(position) if events.len() < size => at = position.clone(),
            _ => break,
        }
    }
    Ok(HistoryPage {
        events,
        next: next.map(|position| cursor::write(name, &position)),
    })
}

/// Whether an event of a page is to be shown: not twice, not a copy, nothing that may be taken back.
fn is_shown(event: &HistoryEvent, run: &Run, until: i64, shown: i64, newest_first: bool) -> bool {
    let id = event.event_id;
    let is_new = shown == 0 || if newest_first { id < shown } else { id > shown };
    let is_copy = timestamp(event.event_time.as_ref()) < run.started;
    is_new && id <= until && !is_copy
}

impl Reader {
    /// The runs of an execution, the oldest first; only the named one if a run is named. Runs of one
    /// workflow follow each other, so those since the first run of the chain belong to it.
    async fn chain(&self, ask: Ask<'_>, of: &WorkflowRef) -> Result<Vec<Run>> {
        let described = self.describe(ask, of).await?;
        let info = info(ask.verb, &described)?;
        let current = run(info);
        let first = &info.first_run_id;
        if of.run_id.is_some() || first.is_empty() || *first == current.id {
            return Ok(vec![current]);
        }
        let query = query::chain_of(&of.workflow_id);
        let page = self.runs(ask, &query, LONGEST_PAGE, Vec::new()).await?;
        Ok(in_order(
            page.rows.iter().map(run).collect(),
            current,
            first,
        ))
    }

    /// The page of the server that contains the next events.
    async fn page(
        &self,
        ask: Ask<'_>,
        run: &WorkflowRef,
        at: &Position,
        newest_first: bool,
        size: usize,
    ) -> Result<(Vec<HistoryEvent>, Vec<u8>)> {
        self.client.count(Api::Reads);
        let namespace = self.client.namespace();
        let execution = Client::execution(run);
        let maximum_page_size = i32::try_from(size).unwrap_or(i32::MAX);
        let next_page_token = at.token.clone();
        let (history, token) = if newest_first {
            let request = GetWorkflowExecutionHistoryReverseRequest {
                namespace,
                execution,
                maximum_page_size,
                next_page_token,
            };
            let page = self
                .client
                .get_workflow_execution_history_reverse(ask, request);
            let page = page
                .await
                .map_err(|error| not_found(error, ask.verb, run))?;
            (page.history, page.next_page_token)
        } else {
            let request = GetWorkflowExecutionHistoryRequest {
                namespace,
                execution,
                maximum_page_size,
                next_page_token,
                ..Default::default()
            };
            let page = self.client.get_workflow_execution_history(ask, request);
            let page = page
                .await
                .map_err(|error| not_found(error, ask.verb, run))?;
            (page.history, page.next_page_token)
        };
        Ok((history.unwrap_or_default().events, token))
    }
}

/// The runs of a chain in their order, with the sums of their lengths. If the server has forgotten the
/// first run, what it still lists may belong to an earlier chain, and only the current run is left.
fn in_order(mut runs: Vec<Run>, current: Run, first: &str) -> Vec<Run> {
    let began = runs
        .iter()
        .find(|run| run.id == first)
        .map(|run| run.started);
    runs.retain(|run| {
        let is_of_chain = began.is_some_and(|began| run.started >= began);
        run.id != current.id && is_of_chain && run.started <= current.started
    });
    runs.sort_by(|a, b| (a.started, &a.id).cmp(&(b.started, &b.id)));
    runs.push(current);
    let mut offset = 0;
    for run in &mut runs {
        run.offset = offset;
        offset += run.length;
    }
    runs
}

fn run(info: &WorkflowExecutionInfo) -> Run {
    Run {
        id: run_id(info).to_owned(),
        info: info.clone(),
        started: timestamp(info.start_time.as_ref()),
        length: info.history_length,
        offset: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(id: &str, second: i64) -> Run {
        Run {
            id: id.to_owned(),
            info: WorkflowExecutionInfo::default(),
            started: jiff::Timestamp::from_second(second).ok(),
            length: 10,
            offset: 0,
        }
    }

    #[test]
    fn a_chain_is_the_runs_since_its_first_one() {
        let listed = vec![at("c", 30), at("b", 20), at("older", 10)];
        let runs = in_order(listed, at("c", 30), "b");
        let shown: Vec<_> = runs.iter().map(|run| (&*run.id, run.offset)).collect();
        assert_eq!(shown, [("b", 0), ("c", 10)]);
        let forgotten = in_order(vec![at("older", 10)], at("c", 30), "b");
        assert_eq!(forgotten, [at("c", 30)]);
    }
}
