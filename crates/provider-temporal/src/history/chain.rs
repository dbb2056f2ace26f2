//! The runs of an execution in their order. Lists do not show which chain a run belongs to, they lag behind, and
//! the server deletes runs when their retention time is over.

use jiff::Timestamp;
use stateway_provider_api::{ErrorKind, Result};

use crate::api::history::v1::history_event::Attributes;
use crate::api::workflow::v1::WorkflowExecutionInfo;
use crate::client::Ask;
use crate::id::WorkflowRef;
use crate::list::LONGEST_PAGE;
use crate::query;
use crate::reader::{MOST_RUNS, Reader, info};
use crate::response::{is_closed, run_id};
use crate::time::timestamp;

/// The most pages of runs that are read for a chain.
const MOST_PAGES: usize = 5;

/// A run, as far as its events are concerned.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Run {
    pub(super) id: String,
    pub(super) info: WorkflowExecutionInfo,
    pub(super) started: Option<Timestamp>,
    /// The number of its last event.
    pub(super) length: i64,
    /// The sum of the lengths of the runs before it: event numbers of an execution ascend over its
    /// runs.
    pub(super) offset: i64,
}

/// The runs that the server still has, the oldest first.
pub(super) struct Chain {
    pub(super) runs: Vec<Run>,
    /// The first of them is not the first run of the execution.
    pub(super) is_cut: bool,
}

impl Reader {
    /// The runs of an execution; only the named one if a run is named.
    pub(super) async fn chain(&self, ask: Ask<'_>, of: &WorkflowRef) -> Result<Chain> {
        let described = self.describe(ask, of).await?;
        let info = info(ask.verb, &described)?;
        let current = run(info);
        let first = &info.first_run_id;
        if of.run_id.is_some() || first.is_empty() || *first == current.id {
            let runs = vec![current];
            return Ok(Chain {
                runs,
                is_cut: false,
            });
        }
        let mut listed = self.listed_runs(ask, of, first).await?;
        self.add_unlisted(ask, of, &current, &mut listed).await?;
        let mut runs = before(&listed, &current);
        let is_whole = runs.iter().position(|run| run.id == *first);
        let begin = match is_whole {
            Some(begin) => begin,
            None => self.begin_of_chain(ask, of, &runs, first).await?,
        };
        runs.drain(..begin);
        let mut ended = Vec::with_capacity(runs.len() + 1);
        for run in runs {
            ended.extend(self.as_ended(ask, of, run).await?);
        }
        ended.push(current);
        Ok(Chain {
            runs: numbered(ended),
            is_cut: is_whole.is_none(),
        })
    }

    /// The runs of a workflow, at least up to this one if the server lists it.
    async fn listed_runs(
        &self,
        ask: Ask<'_>,
        of: &WorkflowRef,
        first: &str,
    ) -> Result<Vec<WorkflowExecutionInfo>> {
        let query = query::chain_of(&of.workflow_id);
        let (mut rows, mut token) = (Vec::new(), Vec::new());
        for _ in 0..MOST_PAGES {
            let page = self.runs(ask, &query, LONGEST_PAGE, token).await?;
            let is_found = page.rows.iter().any(|row| run_id(row) == first);
            rows.extend(page.rows);
            token = page.next;
            if is_found || token.is_empty() {
                break;
            }
        }
        Ok(rows)
    }

    /// Adds the newest runs before the current one that lists do not show yet.
    async fn add_unlisted(
        &self,
        ask: Ask<'_>,
        of: &WorkflowRef,
        current: &Run,
        rows: &mut Vec<WorkflowExecutionInfo>,
    ) -> Result<()> {
        let mut facts = self.facts(ask, of, &current.info).await?;
        for _ in 0..MOST_RUNS {
            let base = facts.reset.as_ref().map(|reset| &reset.base_run);
            let begin = facts.begin.as_ref();
            let previous = begin.and_then(|begin| begin.previous_run.as_ref());
            let is_new = |id: &&String| !rows.iter().any(|row| run_id(row) == id.as_str());
            let Some(id) = base.into_iter().chain(previous).find(is_new) else {
                break;
            };
            let described = match self.describe(ask, &of.run(id)).await {
                Ok(described) => described,
                // It is not late in the list, but gone.
                Err(error) if error.kind == ErrorKind::NotFound => break,
                Err(error) => return Err(error),
            };
            let row = info(ask.verb, &described)?;
            facts = self.facts(ask, of, row).await?;
            rows.push(row.clone());
        }
        Ok(())
    }

    /// Where the chain begins among the runs of its workflow, if its first run is gone. The runs of one workflow
    /// follow each other, so earlier chains come before it.
    async fn begin_of_chain(
        &self,
        ask: Ask<'_>,
        of: &WorkflowRef,
        runs: &[Run],
        first: &str,
    ) -> Result<usize> {
        let (mut from, mut to) = (0, runs.len());
        while from < to {
            let middle = from.midpoint(to);
            if self.belongs(ask, &of.run(&runs[middle].id), first).await? {
                to = middle;
            } else {
                from = middle + 1;
            }
        }
        Ok(from)
    }

    async fn belongs(&self, ask: Ask<'_>, run: &WorkflowRef, first: &str) -> Result<bool> {
        match self.first_event(ask, run).await {
            Ok(event) => Ok(matches!(
                &event.attributes,
                Some(Attributes::WorkflowExecutionStartedEventAttributes(it))
                    if it.first_execution_run_id == first
            )),
            // It was deleted since it was listed.
            Err(error) if error.kind == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The run as it ended. A list may show it as open for a moment after its end, and then without its length.
    async fn as_ended(&self, ask: Ask<'_>, of: &WorkflowRef, listed: Run) -> Result<Option<Run>> {
        if is_closed(&listed.info) && listed.length > 0 {
            return Ok(Some(listed));
        }
        match self.describe(ask, &of.run(&listed.id)).await {
            Ok(described) => Ok(Some(run(info(ask.verb, &described)?))),
            Err(error) if error.kind == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether the server still has a run.
    pub(super) async fn has_run(&self, ask: Ask<'_>, run: &WorkflowRef) -> Result<bool> {
        match self.describe(ask, run).await {
            Ok(_) => Ok(true),
            Err(error) if error.kind == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// The runs that began before the current one, the oldest first.
fn before(rows: &[WorkflowExecutionInfo], current: &Run) -> Vec<Run> {
    let mut runs: Vec<Run> = rows.iter().map(run).collect();
    let latest = current.started.map(|time| {
        let rounded = time.checked_add(query::IMPRECISION);
        rounded.unwrap_or(time)
    });
    runs.retain(|run| run.id != current.id && run.started <= latest);
    runs.sort_by(|a, b| (a.started, &a.id).cmp(&(b.started, &b.id)));
    runs
}

fn numbered(mut runs: Vec<Run>) -> Vec<Run> {
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
