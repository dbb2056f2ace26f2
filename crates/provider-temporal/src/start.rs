//! Starts. The server recognises a repeated request id only while the run that it began is the current
//! one; afterwards the first run of the chain shows it.

use stateway_model::ExecutionId;
use stateway_provider_api::{Error, ErrorKind, Observation, Result, StartRequest, Verb};

use crate::TemporalProvider;
use crate::api::enums::v1::WorkflowIdReusePolicy;
use crate::api::history::v1::history_event::Attributes;
use crate::api::workflowservice::v1::StartWorkflowExecutionRequest;
use crate::client::Ask;
use crate::id::WorkflowRef;
use crate::reader::info;
use crate::response::run_id;
use crate::{query, request};

/// How many runs of a workflow are searched for a start whose id may be used again.
const MOST_RUNS: u32 = 16;

pub(crate) async fn start(
    provider: &TemporalProvider,
    ask: Ask<'_>,
    request: &StartRequest,
) -> Result<Observation> {
    let reader = &provider.reader;
    let message = StartWorkflowExecutionRequest {
        namespace: reader.client.namespace(),
        identity: reader.client.identity(ask.call),
        ..request::start(request, &provider.config)?
    };
    let id = ExecutionId::new(&message.workflow_id);
    let id = id.map_err(|why| Error::invalid(Verb::Start, why.to_string()))?;
    let of = WorkflowRef::of(&id, Verb::Start).map_err(|_| {
        let message = "an execution id of Temporal has at most 1000 bytes";
        Error::invalid(Verb::Start, message).without_engine()
    })?;
    if of.run_id.is_some() {
        let message = "an execution id must not end like the name of a run (`~run:` and a UUID)";
        return Err(Error::invalid(Verb::Start, message).without_engine());
    }
    let uses_existing = request
        .options
        .get("conflict_policy")
        .is_some_and(|it| it == "use-existing");
    if let Some(run) = earlier_start(provider, ask, &of, &message).await? {
        check_same(provider, ask, &run, &message).await?;
        return reader.get_after_write(ask, &of).await;
    }
    match reader
        .client
        .start_workflow_execution(ask, message.clone())
        .await
    {
        // Another request began the execution.
        Ok(answer) if uses_existing && !answer.started => {}
        Ok(answer) => check_same(provider, ask, &of.run(&answer.run_id), &message).await?,
        Err(error) if error.kind == ErrorKind::AlreadyExists => {
            let first = first_run(provider, ask, &of, &message.request_id).await?;
            let first = first.ok_or_else(|| Error::execution_exists(&id))?;
            check_same(provider, ask, &first, &message).await?;
        }
        Err(error) => return Err(error),
    }
    provider.nudge(&of);
    reader.get_after_write(ask, &of).await
}

/// The run that this request began before, if the id may be used again: the server compares the request id only with
/// that of the current run, and would begin another execution.
async fn earlier_start(
    provider: &TemporalProvider,
    ask: Ask<'_>,
    of: &WorkflowRef,
    message: &StartWorkflowExecutionRequest,
) -> Result<Option<WorkflowRef>> {
    if message.workflow_id_reuse_policy() == WorkflowIdReusePolicy::RejectDuplicate {
        return Ok(None);
    }
    let query = query::chain_of(&of.workflow_id);
    let page = provider.reader.runs(ask, &query, MOST_RUNS, Vec::new());
    for row in page.await?.rows {
        let run = of.run(run_id(&row));
        if began(provider, ask, &run, &message.request_id).await? {
            return Ok(Some(run));
        }
    }
    Ok(None)
}

/// Whether this request began a run that the server still has.
async fn began(
    provider: &TemporalProvider,
    ask: Ask<'_>,
    run: &WorkflowRef,
    request_id: &str,
) -> Result<bool> {
    match provider.reader.describe(ask, run).await {
        Ok(described) => {
            let extended = described.workflow_extended_info.unwrap_or_default();
            Ok(extended.request_id_infos.contains_key(request_id))
        }
        Err(error) if error.kind == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// The first run of the current chain, if this request began it.
async fn first_run(
    provider: &TemporalProvider,
    ask: Ask<'_>,
    of: &WorkflowRef,
    request_id: &str,
) -> Result<Option<WorkflowRef>> {
    let current = match provider.reader.describe(ask, of).await {
        Ok(current) => current,
        // It was deleted, but the server has not finished that.
        Err(error) if error.kind == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let current = info(ask.verb, &current)?;
    let first = match current.first_run_id.as_str() {
        "" => of.run(run_id(current)),
        first => of.run(first),
    };
    let is_ours = began(provider, ask, &first, request_id).await?;
    Ok(is_ours.then_some(first))
}

/// The server answers the first run whatever the later body says. What the first one was started with
/// stands in its first event.
async fn check_same(
    provider: &TemporalProvider,
    ask: Ask<'_>,
    run: &WorkflowRef,
    message: &StartWorkflowExecutionRequest,
) -> Result<()> {
    let first = provider.reader.first_event(ask, run).await?;
    match &first.attributes {
        Some(Attributes::WorkflowExecutionStartedEventAttributes(started))
            if !request::is_same_start(message, started) =>
        {
            Err(Error::request_id_reused(Verb::Start))
        }
        _ => Ok(()),
    }
}
