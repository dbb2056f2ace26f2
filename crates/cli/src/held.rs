//! Why an execution does not go on: who has the place it waits for, or who holds it.
//!
//! An execution says that it waits; what it waits behind is asked for here, for people only.

use futures::{StreamExt, TryStreamExt};
use stateway_client::{Call, Events, GetDefinition, List, v1};

use crate::context::Context;
use crate::view::{Execution, Text, Wait};
use crate::visible::visible;

/// The most executions that are counted, and events that are read.
const MOST: usize = 10_000;

/// One sentence about what holds an execution; none for one that nothing holds. What cannot be
/// found out is left out.
pub async fn held(context: &Context, execution: &Execution) -> Option<String> {
    let queued = |wait: &Wait| (wait.kind.raw(), wait.name.raw()) == ("capacity", "slot");
    if execution.waits.iter().any(queued) {
        return match by_concurrency(context, execution).await {
            None => by_engine(context, execution).await,
            known => known,
        };
    }
    match execution.reason.as_ref().map(Text::raw) {
        Some("PAUSED") => by_someone(context, execution).await,
        _ => None,
    }
}

/// What the history says of the last time that it was held.
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

/// The definition runs as often as it may.
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

/// The engine has as much under way as it may.
async fn by_engine(context: &Context, execution: &Execution) -> Option<String> {
    let name = execution
        .name
        .raw()
        .split("/executions/")
        .next()?
        .to_owned();
    let call = Call::from_message(v1::GetQueueRequest { name });
    let queue = context.client.queue(context.call(call)).await.ok()?;
    let (active, most) = (queue.active, queue.max_active);
    (active >= most)
        .then(|| format!("waits for a free place: {active} of {most} executions run (max_active)"))
}
