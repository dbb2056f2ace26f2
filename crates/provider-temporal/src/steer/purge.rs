//! `purge`: deletes the runs of an execution that has ended. The server deletes an open run too, by
//! terminating it, so only runs that are known to be closed are deleted, each by its id.

use std::time::{Duration, Instant};

use stateway_provider_api::{Error, ErrorKind, Result};

use crate::TemporalProvider;
use crate::api::workflow::v1::WorkflowExecutionInfo;
use crate::api::workflowservice::v1::DeleteWorkflowExecutionRequest;
use crate::client::{Ask, Client};
use crate::id::WorkflowRef;
use crate::list::LONGEST_PAGE;
use crate::query;
use crate::reader::info;
use crate::response::{is_closed, run_id};
use crate::time::timestamp;

/// How long a deletion is waited for, and how often it is checked.
const SETTLE: Duration = Duration::from_millis(500);
const CHECK: Duration = Duration::from_millis(50);
/// The most pages of runs that one purge deletes.
const MOST_PAGES: usize = 5;

/// Deletes every run of an execution that has ended. The server deletes later, so this waits a moment and
/// hides what is left.
pub(crate) async fn purge(
    provider: &TemporalProvider,
    ask: Ask<'_>,
    of: &WorkflowRef,
) -> Result<()> {
    let reader = &provider.reader;
    let described = reader.describe(ask, of).await?;
    let current = info(ask.verb, &described)?;
    if !is_closed(current) {
        return Err(Error::not_finished(ask.verb));
    }
    let chain = if of.run_id.is_none() {
        other_runs(provider, ask, of, current).await?
    } else {
        Chain::default()
    };
    for run in &chain.runs {
        delete(provider, ask, &of.run(run)).await?;
        reader.deleted.add(run);
    }
    if chain.is_cut {
        let most = MOST_PAGES * LONGEST_PAGE as usize;
        let message = format!("the workflow has more than {most} runs, and the oldest remain");
        return Err(Error::precondition(ask.verb, message)
            .with_reason("TOO_MANY_RUNS")
            .with_hint("Repeat the purge until it succeeds."));
    }
    // The current run is the last one: until then the execution is shown as it was.
    delete(provider, ask, &of.run(run_id(current))).await?;
    let until = Instant::now() + SETTLE.min(ask.call.remaining() / 2);
    while Instant::now() < until && !is_deleted(provider, ask, of).await {
        tokio::time::sleep(CHECK).await;
    }
    reader.deleted.add(run_id(current));
    provider.gone(of);
    Ok(())
}

async fn delete(provider: &TemporalProvider, ask: Ask<'_>, run: &WorkflowRef) -> Result<()> {
    let client = &provider.reader.client;
    let message = DeleteWorkflowExecutionRequest {
        namespace: client.namespace(),
        workflow_execution: Client::execution(run),
    };
    match client.delete_workflow_execution(ask, message).await {
        Ok(_) => Ok(()),
        // Another purge or the retention time has deleted it.
        Err(error) if error.kind == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// The closed runs of a workflow beside its current one.
#[derive(Debug, Default)]
struct Chain {
    runs: Vec<String>,
    /// More runs exist than one purge deletes.
    is_cut: bool,
}

async fn other_runs(
    provider: &TemporalProvider,
    ask: Ask<'_>,
    of: &WorkflowRef,
    current: &WorkflowExecutionInfo,
) -> Result<Chain> {
    let query = query::chain_of(&of.workflow_id);
    let (mut chain, mut token) = (Chain::default(), Vec::new());
    for _ in 0..MOST_PAGES {
        let page = provider.reader.runs(ask, &query, LONGEST_PAGE, token);
        let page = page.await?;
        let others = page.rows.iter();
        for row in others.filter(|row| run_id(row) != run_id(current)) {
            if !has_ended(provider, ask, of, row).await? {
                return Err(Error::not_finished(ask.verb));
            }
            if is_newer(row, current) {
                let message = "another run of the workflow began and ended during the purge";
                return Err(Error::precondition(ask.verb, message)
                    .with_reason("RUN_STARTED")
                    .with_hint("Repeat the purge to delete that run too."));
            }
            chain.runs.push(run_id(row).to_owned());
        }
        token = page.next;
        if token.is_empty() {
            return Ok(chain);
        }
    }
    chain.is_cut = true;
    Ok(chain)
}

fn is_newer(row: &WorkflowExecutionInfo, current: &WorkflowExecutionInfo) -> bool {
    let began = |run: &WorkflowExecutionInfo| timestamp(run.start_time.as_ref());
    let latest = began(current).and_then(|time| time.checked_add(query::IMPRECISION).ok());
    latest.is_some() && began(row) > latest
}

/// A list may show a run as open for a moment after its end, a description does not.
async fn has_ended(
    provider: &TemporalProvider,
    ask: Ask<'_>,
    of: &WorkflowRef,
    row: &WorkflowExecutionInfo,
) -> Result<bool> {
    if is_closed(row) {
        return Ok(true);
    }
    match provider.reader.describe(ask, &of.run(run_id(row))).await {
        Ok(described) => Ok(is_closed(info(ask.verb, &described)?)),
        Err(error) if error.kind == ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    }
}

/// Whether neither a description nor a list shows the execution any more. The server has accepted the deletion, so
/// a check that fails is no failure of the purge.
async fn is_deleted(provider: &TemporalProvider, ask: Ask<'_>, of: &WorkflowRef) -> bool {
    let reader = &provider.reader;
    match reader.describe(ask, of).await {
        Err(error) if error.kind == ErrorKind::NotFound => {}
        Ok(_) | Err(_) => return false,
    }
    if of.run_id.is_some() {
        return true;
    }
    let query = query::chain_of(&of.workflow_id);
    let page = reader.runs(ask, &query, 1, Vec::new()).await;
    page.is_ok_and(|page| page.rows.is_empty())
}
