//! The verbs of the admin API: cancel, kill, pause, resume, retry now, retry from, purge.
//!
//! Restate accepts some of them without doing anything yet, or ever. So a request is checked against
//! the row first, and the answer is the row afterwards.

use std::time::{Duration, Instant};

use serde::Deserialize;
use stateway_model::ExecutionId;
use stateway_provider_api::{
    Call, Error, NativeState, Observation, Result, RetryFromRequest, RetryNowRequest, Verb,
};

use crate::RestateProvider;
use crate::cache::Restart;
use crate::error::{Api, already_finished, malformed, no_row, refusal};
use crate::id::InvocationId;
use crate::journal;
use crate::qualifier;
use crate::row::{Entry, Invocation};
use crate::sql;

/// How long an answer waits for what was accepted to show.
const SETTLE: Duration = Duration::from_secs(1);
/// How often it looks.
const LOOK: Duration = Duration::from_millis(25);

/// Cancels or kills.
pub(crate) async fn cancel(
    provider: &RestateProvider,
    call: &Call,
    verb: Verb,
    id: &ExecutionId,
) -> Result<Observation> {
    let invocation =
        InvocationId::of(id).ok_or_else(|| Error::not_found(verb, id).without_engine())?;
    let (action, word) = match verb {
        Verb::Kill => ("kill", "killed"),
        _ => ("cancel", "cancelled"),
    };
    let about = (invocation.as_str(), action);
    let answer = provider.reader.client.patch(call, verb, about, &[]).await;
    provider.reader.stir(&invocation);
    let answer = answer?;
    let row = match answer.status {
        200..=299 => provider.reader.row(call, verb, &invocation).await?,
        409 => return ended_before(provider, call, verb, id).await,
        404 => {
            let last_seen = provider.reader.last_status(&invocation);
            return Err(no_row(verb, id, last_seen.as_deref()));
        }
        _ => return Err(refusal(verb, Api::Admin, &answer)),
    };
    match row {
        // Still open after a cancel is an answer too: it cleans up, or cannot be reached yet.
        Some(row) => provider.reader.observation(call, verb, row).await,
        // The exception in the contract's truth clause: an invocation that had not begun is forgotten
        // in the moment it is ended. This is what a server that keeps such invocations shows of them.
        None => Ok(Observation::new(
            id.clone(),
            NativeState::new("completed")
                .with(qualifier::COMPLETION_RESULT, "failure")
                .with(qualifier::FAILURE_KIND, word),
        )),
    }
}

/// Cancelling or killing an invocation that was cancelled or killed is a success.
async fn ended_before(
    provider: &RestateProvider,
    call: &Call,
    verb: Verb,
    id: &ExecutionId,
) -> Result<Observation> {
    let (_, row) = provider.find(call, verb, id).await?;
    let seen = provider.reader.observation(call, verb, row).await?;
    let kind = seen.native.qualifiers.get(qualifier::FAILURE_KIND.as_str());
    match kind.map(String::as_str) {
        Some("cancelled" | "killed") => Ok(seen),
        _ => Err(already_finished(verb)),
    }
}

/// Pauses.
pub(crate) async fn pause(
    provider: &RestateProvider,
    call: &Call,
    id: &ExecutionId,
) -> Result<Observation> {
    let verb = Verb::Pause;
    let (invocation, row) = provider.find(call, verb, id).await?;
    let server = provider.reader.server(call, verb).await?;
    match row.status.as_str() {
        "completed" => return Err(already_finished(verb)),
        "paused" => return provider.reader.observation(call, verb, row).await,
        // The server would say yes and do nothing.
        "suspended" if !server.vqueues => {
            return Err(
                Error::precondition(verb, "a suspended invocation cannot be paused").with_hint(
                    "The invocation does not run. Pause it when it continues, or cancel it.",
                ),
            );
        }
        _ => {}
    }
    patch(provider, call, verb, &invocation, "pause").await?;
    settled(provider, call, verb, id, |row| row.status == "paused").await
}

/// Resumes a paused invocation.
pub(crate) async fn resume(
    provider: &RestateProvider,
    call: &Call,
    id: &ExecutionId,
) -> Result<Observation> {
    let verb = Verb::Resume;
    let (invocation, row) = provider.find(call, verb, id).await?;
    match row.status.as_str() {
        "paused" => {}
        "completed" => return Err(already_finished(verb)),
        "backing-off" => {
            return Err(Error::precondition(verb, "the invocation is not paused")
                .with_hint("The engine retries automatically; {RetryNow} retries immediately."));
        }
        status => {
            let message = format!("the invocation is {status}, not paused");
            return Err(Error::precondition(verb, message));
        }
    }
    patch(provider, call, verb, &invocation, "resume").await?;
    settled(provider, call, verb, id, |row| row.status != "paused").await
}

/// Makes the next attempt now.
pub(crate) async fn retry_now(
    provider: &RestateProvider,
    call: &Call,
    request: &RetryNowRequest,
) -> Result<Observation> {
    let verb = Verb::RetryNow;
    let (invocation, row) = provider.find(call, verb, &request.id).await?;
    if row.is_completed() {
        return Err(already_finished(verb));
    }
    let (status, count) = (row.status.clone(), row.retry_count);
    let seen = provider.reader.observation(call, verb, row).await?;
    let queued = seen
        .native
        .qualifiers
        .get(qualifier::VQUEUE_STATUS.as_str());
    if status != "backing-off" && queued.is_none_or(|status| status != "backing-off") {
        return Err(Error::precondition(
            verb,
            "the invocation is not backing off",
        ));
    }
    let failed = seen.retry.and_then(|retry| retry.last_error);
    let failed = failed.map(|error| error.step).unwrap_or_default();
    if !request.step.is_empty() && request.step != failed {
        return Err(Error::no_step(verb, &request.step));
    }
    patch(provider, call, verb, &invocation, "resume").await?;
    let moved = |row: &Invocation| row.status != status || row.retry_count != count;
    settled(provider, call, verb, &request.id, moved).await
}

/// Restarts a finished invocation as a new one that keeps what was done before the step.
pub(crate) async fn retry_from(
    provider: &RestateProvider,
    call: &Call,
    request: &RetryFromRequest,
) -> Result<Observation> {
    #[derive(Deserialize)]
    struct Restarted {
        new_invocation_id: String,
    }
    let verb = Verb::RetryFrom;
    if request.input.is_some() {
        return Err(Error::unsupported(verb)
            .with_hint("Restate restarts an invocation with its original input. Send no input."));
    }
    request.ensure_plain()?;
    if let Some(id) = restarted_before(provider, request)? {
        let (_, row) = provider.find(call, verb, &id).await?;
        return provider.reader.observation(call, verb, row).await;
    }
    let (invocation, row) = provider.find(call, verb, &request.id).await?;
    if !row.is_completed() {
        return Err(Error::not_finished(verb));
    }
    let client = &provider.reader.client;
    let server = provider.reader.server(call, verb).await?;
    let query = sql::journal(&server.schema, &invocation);
    let entries: Vec<Entry> = client.query(call, verb, &query).await?;
    let kept = match request.step.as_str() {
        "" => journal::keep_before_failure(&entries),
        step => journal::keep_before(step, &entries).ok_or_else(|| Error::no_step(verb, step))?,
    };
    if let Some(id) = restarted_already(provider, call, &invocation, kept).await? {
        note_restart(provider, request, &id);
        let (_, row) = provider.find(call, verb, &id).await?;
        return provider.reader.observation(call, verb, row).await;
    }
    let from = match kept {
        0 => Vec::new(),
        kept => vec![("from", kept.to_string())],
    };
    let about = (invocation.as_str(), "restart-as-new");
    let answer = client.patch(call, verb, about, &from).await?;
    match answer.status {
        200..=299 => {}
        410 => {
            return Err(Error::precondition(verb, "its journal no longer exists")
                .with_reason("HISTORY_FORGOTTEN")
                .with_native_code("410"));
        }
        422 => {
            return Err(Error::precondition(verb, answer.message()).with_native_code("422"));
        }
        _ => return Err(refusal(verb, Api::Admin, &answer)),
    }
    let restarted: Restarted = answer.json(verb, Api::Admin)?;
    let id = ExecutionId::new(restarted.new_invocation_id);
    let id = id.map_err(|why| malformed(verb, Api::Admin, why))?;
    note_restart(provider, request, &id);
    let (_, row) = provider.find(call, verb, &id).await?;
    provider.reader.observation(call, verb, row).await
}

/// The result of an earlier call with the same request id.
fn restarted_before(
    provider: &RestateProvider,
    request: &RetryFromRequest,
) -> Result<Option<ExecutionId>> {
    match provider.reader.cache.restart(&request.request_id) {
        None => Ok(None),
        Some(before) if before.of == request.id && before.step == request.step => {
            Ok(Some(before.new))
        }
        Some(_) => Err(Error::request_id_reused(Verb::RetryFrom)),
    }
}

fn note_restart(provider: &RestateProvider, request: &RetryFromRequest, new: &ExecutionId) {
    let restart = Restart {
        of: request.id.clone(),
        step: request.step.clone(),
        new: new.clone(),
    };
    let cache = &provider.reader.cache;
    cache.note_restart(request.request_id.clone(), restart);
}

/// An identical restart that is still open: the request is treated as a retry of it.
async fn restarted_already(
    provider: &RestateProvider,
    call: &Call,
    invocation: &InvocationId,
    kept: u32,
) -> Result<Option<ExecutionId>> {
    let verb = Verb::RetryFrom;
    let server = provider.reader.server(call, verb).await?;
    let Some(query) = sql::restarted(&server.schema, invocation) else {
        return Ok(None);
    };
    let client = &provider.reader.client;
    let open: Vec<Invocation> = client.query(call, verb, &query).await?;
    let ids: Vec<_> = open
        .iter()
        .filter_map(|row| InvocationId::parse(&row.id))
        .collect();
    if ids.is_empty() {
        return Ok(None);
    }
    let entries: Vec<Entry> = client.query(call, verb, &sql::written(&ids)).await?;
    let same = open.iter().find(|row| journal::kept(row, &entries) == kept);
    Ok(same.and_then(|row| ExecutionId::new(&row.id).ok()))
}

/// Removes the record of a finished invocation.
pub(crate) async fn purge(provider: &RestateProvider, call: &Call, id: &ExecutionId) -> Result<()> {
    let verb = Verb::Purge;
    let (invocation, row) = provider.find(call, verb, id).await?;
    if !row.is_completed() {
        return Err(Error::not_finished(verb));
    }
    patch(provider, call, verb, &invocation, "purge").await
}

async fn patch(
    provider: &RestateProvider,
    call: &Call,
    verb: Verb,
    invocation: &InvocationId,
    action: &str,
) -> Result<()> {
    let about = (invocation.as_str(), action);
    let answer = provider.reader.client.patch(call, verb, about, &[]).await;
    provider.reader.stir(invocation);
    let answer = answer?;
    if answer.is_success() {
        Ok(())
    } else {
        Err(refusal(verb, Api::Admin, &answer))
    }
}

/// The row as soon as it shows what was accepted, or as it is when that takes too long: what
/// was accepted may happen much later, at the handler's next boundary.
async fn settled(
    provider: &RestateProvider,
    call: &Call,
    verb: Verb,
    id: &ExecutionId,
    shows: impl Fn(&Invocation) -> bool,
) -> Result<Observation> {
    let until = Instant::now() + SETTLE.min(call.remaining() / 2);
    loop {
        let (_, row) = provider.find(call, verb, id).await?;
        if shows(&row) || Instant::now() >= until {
            return provider.reader.observation(call, verb, row).await;
        }
        tokio::time::sleep(LOOK).await;
    }
}
