//! An execution's whole log and the plan it began with: what an earlier state is rebuilt from.

use std::sync::Arc;

use stateway_engine::View;
use stateway_machine::{Event, Fact, Plan, State, replay};
use stateway_model::ExecutionId;
use stateway_provider_api::{Call, Error, ErrorKind, Result, Verb};

use crate::BuiltinProvider;

const EVENTS_PER_READ: usize = 1_000;
/// The longest log that is read as a whole for one answer.
const MOST_EVENTS: usize = 100_000;

/// An execution as it shows, and how it got there.
pub(crate) struct Log {
    pub(crate) view: View,
    pub(crate) events: Vec<Event>,
    pub(crate) plan: Arc<Plan>,
}

impl Log {
    /// Reads the log of a branch, its beginning on earlier branches included; of the current branch when
    /// none is named. The view is read first, so that the log is never older than the view.
    pub(crate) async fn read(
        provider: &BuiltinProvider,
        call: &Call,
        verb: Verb,
        id: &ExecutionId,
        branch: Option<u32>,
    ) -> Result<Self> {
        let id: Arc<str> = id.as_str().into();
        let view = provider.engine.get(Arc::clone(&id));
        let view = provider.line.carry(call, verb, view).await?;
        let events = events(provider, call, verb, (&id, branch)).await?;
        let plan = plan(provider, call, verb, (&view, &events)).await?;
        Ok(Self { view, events, plan })
    }

    /// The state the log leads to; none where the log contradicts itself.
    pub(crate) fn state(&self) -> Option<State> {
        replay(Arc::clone(&self.plan), &self.events).ok()
    }
}

async fn events(
    provider: &BuiltinProvider,
    call: &Call,
    verb: Verb,
    (id, mut branch): (&Arc<str>, Option<u32>),
) -> Result<Vec<Event>> {
    let mut events: Vec<Event> = Vec::new();
    loop {
        let after = events.last().map_or(0, |last| last.sequence);
        let page = provider
            .engine
            .lineage(Arc::clone(id), branch, after, EVENTS_PER_READ);
        let (read, page) = provider.line.carry(call, verb, page).await?;
        // The branch that was current on the first page is read to its end.
        branch = Some(read);
        let last = page.len() < EVENTS_PER_READ;
        events.extend(page.into_iter().map(|record| record.event));
        if last {
            return Ok(events);
        }
        if events.len() > MOST_EVENTS {
            let message = format!("execution `{id}` has more than {MOST_EVENTS} events");
            return Err(Error::new(ErrorKind::FailedPrecondition, verb, message)
                .with_reason("HISTORY_TOO_LONG")
                .with_hint("{ListEvents} reads it a page at a time."));
        }
    }
}

/// The plan of the revision the log began with; later ones are in the log itself.
async fn plan(
    provider: &BuiltinProvider,
    call: &Call,
    verb: Verb,
    (view, events): (&View, &[Event]),
) -> Result<Arc<Plan>> {
    let revision = match events.first().map(|event| &event.fact) {
        Some(Fact::ExecutionCreated { revision, .. }) => revision.clone(),
        _ => {
            return Err(unreadable(
                verb,
                "the log does not begin with its first event",
            ));
        }
    };
    let record = provider
        .engine
        .definition(Arc::clone(&view.definition), Some(revision));
    let record = provider.line.carry(call, verb, record).await?;
    let plan = stateway_engine::recording::plan_of(&record.source, &record.name);
    plan.map_err(|error| unreadable(verb, &error.to_string()))
}

/// The error of a log that contradicts itself.
pub(crate) fn unreadable(verb: Verb, why: &str) -> Error {
    Error::new(ErrorKind::DataLoss, verb, why)
        .with_reason("LOG_UNREADABLE")
        .with_hint("Nothing was changed. {VerifyExecution} shows what is wrong with the log.")
}
