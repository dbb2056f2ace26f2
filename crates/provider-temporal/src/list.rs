//! Lists. The server lists runs; this adapter shows each workflow once, by its current run.
//!
//! The server shows open runs first and then the closed ones, the newest end first. So the first row of a
//! workflow is its current run, and on the first page of an unnarrowed list nothing more has to be asked.
//! On other pages the current runs of the closed rows are asked for, in one query for many.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::StreamExt;
use serde::{Deserialize, Serialize};
use stateway_model::ProviderId;
use stateway_provider_api::adapter::cursor::{self, LIST};
use stateway_provider_api::adapter::{Round, Scheduled, page_size};
use stateway_provider_api::{ListPage, ListRequest, Observation, Result, Table};

use crate::api::workflow::v1::WorkflowExecutionInfo;
use crate::api::workflowservice::v1::ListWorkflowExecutionsRequest;
use crate::client::Ask;
use crate::id::WorkflowRef;
use crate::query;
use crate::quota::{Api, RESERVE};
use crate::reader::{KnownExecution, Reader};
use crate::response::{is_closed, row, run_id, workflow_id};

/// The most rows of one page; the server gives no more.
pub(crate) const LONGEST_PAGE: u32 = 1_000;
/// How many workflows one query asks for, and how many of its pages are read.
const ASKED_AT_ONCE: usize = 250;
const MOST_PAGES: usize = 5;
/// How many executions are described at the same time.
const AT_ONCE: usize = 16;

/// Where a list continues: the server's own token.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Position {
    token: Vec<u8>,
}

/// A page of runs.
pub(crate) struct Runs {
    pub(crate) rows: Vec<WorkflowExecutionInfo>,
    pub(crate) next: Vec<u8>,
}

pub(crate) async fn list(
    reader: &Reader,
    ask: Ask<'_>,
    request: ListRequest,
    (table, provider): (&Table, &ProviderId),
) -> Result<ListPage> {
    let from: Option<Position> = cursor::read(LIST, request.cursor.as_deref(), ask.verb)?;
    let size = page_size(request.page_size, LONGEST_PAGE, ask.verb)?;
    let query = query::list(&request.hints, table, provider);
    let is_whole = from.is_none() && query == query::ALL;
    let token = from.map(|from| from.token).unwrap_or_default();
    let page = reader.runs(ask, &query, size, token).await?;
    let rows = first_of_each(page.rows);
    let rows = if is_whole {
        rows
    } else {
        reader.only_current(ask, rows).await?
    };
    let position = Position { token: page.next };
    let next = (!position.token.is_empty()).then(|| cursor::write(LIST, &position));
    Ok(ListPage {
        observations: reader.refine(ask, rows).await?,
        next,
    })
}

/// The first run of each workflow.
pub(crate) fn first_of_each(rows: Vec<WorkflowExecutionInfo>) -> Vec<WorkflowExecutionInfo> {
    let (mut known, mut rows) = (BTreeSet::new(), rows);
    rows.retain(|row| known.insert(workflow_id(row).to_owned()));
    rows
}

impl Reader {
    /// A page of runs. Waits for its turn of the quota.
    pub(crate) async fn runs(
        &self,
        ask: Ask<'_>,
        query: &str,
        size: u32,
        token: Vec<u8>,
    ) -> Result<Runs> {
        self.client.turn(ask, Api::Visibility).await?;
        let request = ListWorkflowExecutionsRequest {
            namespace: self.client.namespace(),
            page_size: i32::try_from(size).unwrap_or(i32::MAX),
            next_page_token: token,
            query: query.to_owned(),
        };
        let page = self.client.list_workflow_executions(ask, request).await?;
        let mut rows = page.executions;
        rows.retain(|run| !self.deleted.contains(run_id(run)));
        if let Some(codec) = &self.codec {
            codec.decode_rows(ask.call, &mut rows).await;
        }
        Ok(Runs {
            rows,
            next: page.next_page_token,
        })
    }

    /// Leaves out closed runs that another run of the same workflow has replaced.
    async fn only_current(
        &self,
        ask: Ask<'_>,
        mut rows: Vec<WorkflowExecutionInfo>,
    ) -> Result<Vec<WorkflowExecutionInfo>> {
        let closed = rows.iter().filter(|row| is_closed(row)).map(workflow_id);
        let closed: Vec<String> = closed.map(str::to_owned).collect();
        let mut current: BTreeMap<String, String> = BTreeMap::new();
        for asked in closed.chunks(ASKED_AT_ONCE) {
            let query = query::runs_of(asked.iter().map(String::as_str));
            let mut token = Vec::new();
            for _ in 0..MOST_PAGES {
                let page = self.runs(ask, &query, LONGEST_PAGE, token).await?;
                for run in &page.rows {
                    let known = current.entry(workflow_id(run).to_owned());
                    known.or_insert_with(|| run_id(run).to_owned());
                }
                token = page.next;
                if token.is_empty() || asked.iter().all(|id| current.contains_key(id)) {
                    break;
                }
            }
        }
        rows.retain(|row| {
            let known = current.get(workflow_id(row));
            known.is_none_or(|current| current == run_id(row)) || !is_closed(row)
        });
        Ok(rows)
    }

    /// Rows as executions. Open ones are described as far as the quota allows; the others are shown as
    /// they were described last, or as the list has them.
    pub(crate) async fn refine(
        &self,
        ask: Ask<'_>,
        rows: Vec<WorkflowExecutionInfo>,
    ) -> Result<Vec<Observation>> {
        let now = self.clock.now();
        let mut shown = Vec::with_capacity(rows.len());
        for info in &rows {
            shown.push(row(ask.verb, info)?);
        }
        let open = || rows.iter().zip(&shown).filter(|(info, _)| !is_closed(info));
        for (info, seen) in open() {
            let id = workflow_id(info);
            let known = self.seen.get(id);
            if known.is_some_and(|known| !known.value.agrees_with(info, seen)) {
                self.seen.forget(id);
            }
            self.seen.note(id, now, |known| match known {
                Some(known) => known.clone(),
                None => KnownExecution {
                    run: run_id(info).to_owned(),
                    seen: Arc::new(seen.clone()),
                },
            });
        }
        let turns = self.client.turns(Api::Reads, RESERVE);
        // Those that were never read take two turns each.
        let reads_all = open().count() * 2 <= turns;
        let ids = open().map(|(info, _)| workflow_id(info));
        let round = self.seen.round(ids, turns, now);
        let mut looks = Vec::with_capacity(rows.len());
        for (info, seen) in rows.iter().zip(shown.clone()) {
            looks.push(self.refine_one(ask, info, seen, (reads_all, round)));
        }
        Ok(futures::stream::iter(looks)
            .buffered(AT_ONCE)
            .collect()
            .await)
    }

    async fn refine_one(
        &self,
        ask: Ask<'_>,
        info: &WorkflowExecutionInfo,
        seen: Observation,
        (reads_all, round): (bool, Round),
    ) -> Observation {
        if is_closed(info) {
            return seen;
        }
        let known = self.seen.get(workflow_id(info));
        let is_admitted = reads_all || known.as_ref().is_none_or(|known| round.admits(known));
        let was_read = known.as_ref().is_some_and(Scheduled::was_read);
        if is_admitted && self.client.spare_look(was_read) {
            let of = WorkflowRef {
                workflow_id: workflow_id(info).to_owned(),
                run_id: None,
            };
            match self.look(ask, &of).await {
                Ok(fresh) => return fresh,
                Err(error) => tracing::debug!(%error, execution = of.workflow_id, "not described"),
            }
        }
        // What was read may be older than the row.
        let known = known.filter(|known| known.value.agrees_with(info, &seen));
        known.map_or(seen, |known| Observation::clone(&known.value.seen))
    }
}
