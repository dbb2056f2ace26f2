//! An execution's whole log and the plan it began with: what a state at rest is rebuilt from.

use std::sync::Arc;

use stateway_engine::View;
use stateway_machine::{Event, Fact, Plan, State, replay};
use stateway_provider_api::Call;
use tonic::{Code, Status};

use crate::engines::Chosen;
use crate::status::Refusal;

const EVENTS_PER_READ: usize = 1_000;
/// The longest log that is read as a whole for one answer.
const MOST_EVENTS: usize = 100_000;

/// An execution as it shows, and how it got there.
pub(super) struct Log {
    pub(super) view: View,
    pub(super) events: Vec<Event>,
    pub(super) plan: Arc<Plan>,
}

impl Log {
    /// Reads the present branch.
    pub(super) async fn read(
        call: &Call,
        chosen: Chosen<'_>,
        id: &Arc<str>,
    ) -> Result<Self, Status> {
        Self::of_branch(call, chosen, id, None).await
    }

    /// Reads the log of a branch, its beginning on earlier branches included. The view is read first,
    /// so that the log is never older than the view.
    pub(super) async fn of_branch(
        call: &Call,
        chosen: Chosen<'_>,
        id: &Arc<str>,
        branch: Option<u32>,
    ) -> Result<Self, Status> {
        let view = chosen.answer(call, chosen.engine.get(id.clone())).await?;
        let events = events(call, chosen, id, branch).await?;
        let plan = plan(call, chosen, &view, &events).await?;
        Ok(Self { view, events, plan })
    }

    /// The state the log leads to.
    pub(super) fn state(&self, chosen: Chosen<'_>) -> Result<State, Status> {
        replay(self.plan.clone(), &self.events)
            .map_err(|error| unreadable(chosen, &error.to_string()))
    }
}

async fn events(
    call: &Call,
    chosen: Chosen<'_>,
    id: &Arc<str>,
    mut branch: Option<u32>,
) -> Result<Vec<Event>, Status> {
    let mut events: Vec<Event> = Vec::new();
    loop {
        let after = events.last().map_or(0, |last| last.sequence);
        let page = chosen
            .engine
            .lineage(id.clone(), branch, after, EVENTS_PER_READ);
        let (read, page) = chosen.answer(call, page).await?;
        // What was the present branch on the first page is read to its end.
        branch = Some(read);
        let last = page.len() < EVENTS_PER_READ;
        events.extend(page.into_iter().map(|record| record.event));
        if last {
            return Ok(events);
        }
        if events.len() > MOST_EVENTS {
            let message = format!("execution `{id}` has more than {MOST_EVENTS} events");
            return Err(
                Refusal::new(Code::FailedPrecondition, "HISTORY_TOO_LONG", message)
                    .with("provider", chosen.id.to_string())
                    .hint("ListEvents reads it a page at a time.")
                    .into(),
            );
        }
    }
}

/// The plan of the revision the log began with; later ones are in the log itself.
async fn plan(
    call: &Call,
    chosen: Chosen<'_>,
    view: &View,
    events: &[Event],
) -> Result<Arc<Plan>, Status> {
    let revision = match events.first().map(|event| &event.fact) {
        Some(Fact::ExecutionCreated { revision, .. }) => revision.clone(),
        _ => return Err(unreadable(chosen, "the log has no beginning")),
    };
    let record = chosen
        .engine
        .definition(view.definition.clone(), Some(revision));
    let record = chosen.answer(call, record).await?;
    let parsed = stateway_definition::parse(&record.source, &record.name)
        .map_err(|error| unreadable(chosen, &error.to_string()))?;
    let plan = Plan::new(parsed.definition);
    plan.map(Arc::new)
        .map_err(|error| unreadable(chosen, &error.to_string()))
}

fn unreadable(chosen: Chosen<'_>, why: &str) -> Status {
    let message = format!("provider {}: {why}", chosen.id);
    Refusal::new(Code::DataLoss, "LOG_UNREADABLE", message)
        .with("provider", chosen.id.to_string())
        .hint("Nothing was changed. Check the file, or restore a backup.")
        .into()
}
