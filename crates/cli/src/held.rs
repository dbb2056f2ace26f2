//! Why an execution does not continue: a limit keeps it in the queue, or a person paused it.
//!
//! An execution says that it waits; what it waits behind is read here, for people only.

use futures::{StreamExt, TryStreamExt};
use stateway_client::{Call, Events, GetDefinition, List, v1};

use crate::context::Context;
use crate::view::{Execution, Pause, Text, Wait};
use crate::visible::visible;

/// The most executions that are counted, and events that are read.
const MOST: usize = 10_000;

/// One sentence about why an execution does not continue; `None` if it continues. Data that cannot be
/// read is left out.
pub async fn held(context: &Context, execution: &Execution) -> Option<String> {
    let queued = |wait: &Wait| (wait.kind.raw(), wait.name.raw()) == ("capacity", "slot");
    if execution.waits.iter().any(queued) {
        return match by_concurrency(context, execution).await {
            None => by_engine(context, execution).await,
            known => known,
        };
    }
    if let Some(pause) = &execution.pause {
        return Some(paused(pause));
    }
    match execution.reason.as_ref().map(Text::raw) {
        Some("PAUSED") => by_someone(context, execution).await,
        _ => None,
    }
}

/// Who paused it and why, or why it cannot adopt a revision.
fn paused(pause: &Pause) -> String {
    if let Some(step) = &pause.step {
        return format!("paused after the failure of step `{step}`");
    }
    if let Some(revision) = &pause.offered_revision {
        let conflicts: Vec<_> = pause.conflicts.iter().map(ToString::to_string).collect();
        let conflicts = conflicts.join("; ");
        return format!("paused: it cannot adopt revision {revision}: {conflicts}");
    }
    let by = pause.paused_by.as_ref();
    let by = by.map_or_else(String::new, |by| format!(" by {by}"));
    let cause = pause.cause.as_ref();
    let cause = cause.map_or_else(String::new, |cause| format!(": {cause}"));
    format!("paused{by}{cause}")
}

/// What the history of an engine that does not report the pause says of the last one.
async fn by_someone(context: &Context, execution: &Execution) -> Option<String> {
    let events = Events::new(execution.name.raw()).page_size(1_000);
    let events = context.client.events(events).take(MOST);
    let last = events.try_fold(None, async |last, event| {
        let held = event.native_type.to_ascii_lowercase().contains("paused");
        Ok(if held { Some(event) } else { last })
    });
    let last = last.await.ok()??;
    Some(visible(&last.summary).into_owned()).filter(|said| !said.is_empty())
}

/// The `concurrency` of the definition is reached.
async fn by_concurrency(context: &Context, execution: &Execution) -> Option<String> {
    let definition = execution.definition.raw();
    let name = format!("{definition}/revisions/{}", execution.revision.raw());
    let get = GetDefinition::from_message(v1::GetDefinitionRequest { name });
    let found = context.client.definition(context.call(get)).await.ok()?;
    let parsed = stateway_definition::parse(&found.source, "definition").ok()?;
    let most = usize::try_from(parsed.definition.concurrency?).ok()?;
    let provider = execution.name.raw().split("/executions/").next()?;
    let filter = format!(
        "definition = \"{definition}\" AND NOT native_state = queued AND NOT native_state = created \
         AND NOT (sub_state = succeeded OR sub_state = failed)"
    );
    let list = List::new(provider).filter(filter).page_size(1_000);
    let running = context.client.list(list).take(MOST).count().await;
    let short = definition.trim_start_matches("definitions/");
    (running >= most).then(|| {
        format!(
            "waits for a free place: {running} of {most} executions of {} run (concurrency)",
            visible(short)
        )
    })
}

/// The engine's `max_active` or `max_memory_bytes` is reached.
async fn by_engine(context: &Context, execution: &Execution) -> Option<String> {
    let name = execution
        .name
        .raw()
        .split("/executions/")
        .next()?
        .to_owned();
    let call = Call::from_message(v1::GetQueueRequest { name });
    let queue = context.client.queue(context.call(call)).await.ok()?;
    if queue.memory_full {
        let (bytes, most) = (queue.memory_bytes, queue.max_memory_bytes);
        return Some(format!(
            "waits for memory: the active executions have {bytes} bytes (max_memory_bytes = {most})"
        ));
    }
    let (active, most) = (queue.active, queue.max_active);
    (active >= most)
        .then(|| format!("waits for a free place: {active} of {most} executions run (max_active)"))
}
