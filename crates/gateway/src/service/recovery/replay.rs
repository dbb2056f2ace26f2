//! Looking back: the state at an event, or the outcome under another definition.

use std::sync::Arc;

use stateway_engine::recording::{Recording, RecordingError, plan_of};
use stateway_machine::Plan;
use stateway_proto::v1;
use stateway_provider_api::Call;
use tonic::{Code, Status};

use super::super::validate;
use super::export::{recording, unreadable};
use super::{REPLAY, Recovery};
use crate::engines::Chosen;
use crate::replay::{Ask, replay};
use crate::status::Refusal;

/// The newest revision of the execution's definition.
const LATEST: &str = "latest";
/// The fewest digits by which a revision may be named.
const SHORTEST_REVISION: usize = 6;

impl Recovery {
    pub(super) async fn replay(
        &self,
        call: Call,
        request: v1::ReplayExecutionRequest,
    ) -> Result<v1::ReplayExecutionResponse, Status> {
        let name = validate::execution_name("name", &request.name)?;
        let chosen = self.directory.of(&name.provider, REPLAY)?;
        let branch = validate::branch(&request.branch)?;
        let shadow = !request.revision.is_empty() || !request.source.is_empty();
        if shadow && request.at_sequence != 0 {
            let message = "another definition runs to its end; `at_sequence` has no place there";
            return Err(Refusal::invalid("at_sequence", message).into());
        }
        let id = name.id.as_str();
        let before = recording(&call, chosen, id).await?;
        let ask = Ask {
            branch,
            at: request.at_sequence,
            plan: plan(&call, chosen, &request, &before).await?,
        };
        let answer = tokio::task::spawn_blocking({
            let (before, name) = (before.clone(), name.clone());
            move || replay(&before, &name, &ask)
        });
        let answer = answer.await.map_err(|_| {
            Refusal::new(
                Code::Internal,
                "REPLAY_FAILED",
                "the replay ended unexpectedly",
            )
        })?;
        let mut answer = answer.map_err(|error| refused(chosen, &before, &error))?;
        // What has happened meanwhile is no part of what was replayed.
        let after = recording(&call, chosen, id).await?;
        answer.source_hash_after = after.up_to(&before).fingerprint();
        Ok(answer)
    }
}

/// The plan that a shadow is to run by; none without one.
async fn plan(
    call: &Call,
    chosen: Chosen<'_>,
    request: &v1::ReplayExecutionRequest,
    recording: &Recording,
) -> Result<Option<Arc<Plan>>, Status> {
    let source = match (request.revision.as_str(), request.source.as_str()) {
        ("", "") => return Ok(None),
        ("", source) => {
            let plan = plan_of(source, "source");
            let wrong = |error: RecordingError| Refusal::invalid("source", error.to_string());
            return Ok(Some(plan.map_err(wrong)?));
        }
        (_, source) if !source.is_empty() => {
            let message = "name a revision or give a definition, not both";
            return Err(Refusal::invalid("source", message).into());
        }
        (revision, _) => revision_named(call, chosen, recording, revision).await?,
    };
    let plan = plan_of(&source, &recording.definition);
    plan.map(Some)
        .map_err(|error| unreadable(chosen, &error.to_string()))
}

/// The source of a revision, which may be named by its first digits.
async fn revision_named(
    call: &Call,
    chosen: Chosen<'_>,
    recording: &Recording,
    wanted: &str,
) -> Result<String, Status> {
    let name = &recording.definition;
    if wanted == LATEST {
        let found = chosen.engine.definition(name.clone(), None);
        return Ok(chosen.answer(call, found).await?.source);
    }
    let known = chosen.answer(call, chosen.engine.revisions(name.clone()));
    let known = known.await?;
    let mut alike = known.iter().filter(|known| {
        *known.revision == *wanted
            || wanted.len() >= SHORTEST_REVISION && known.revision.starts_with(wanted)
    });
    match (alike.next(), alike.next()) {
        (Some(found), None) => Ok(found.source.clone()),
        (Some(_), Some(_)) => {
            let message = format!("more than one revision begins with `{wanted}`");
            Err(Refusal::invalid("revision", message).into())
        }
        (None, _) => {
            let message = format!("definition `{name}` has no revision `{wanted}`");
            let short = |text: &str| text.get(..12).unwrap_or(text).to_owned();
            let listed: Vec<_> = known
                .iter()
                .take(5)
                .map(|known| short(&known.revision))
                .collect();
            let refused = Refusal::new(Code::NotFound, "REVISION_NOT_FOUND", message);
            Err(refused
                .hint(format!("The newest are {}.", listed.join(", ")))
                .into())
        }
    }
}

/// Something that is not there is the caller's mistake; a log that does not hold is not.
fn refused(chosen: Chosen<'_>, recording: &Recording, error: &RecordingError) -> Status {
    if recording.check().is_err() || recording.definitions.is_empty() {
        return unreadable(chosen, &error.to_string());
    }
    Refusal::new(Code::OutOfRange, "NOT_IN_HISTORY", error.to_string())
        .with("provider", chosen.id.to_string())
        .hint("ListEvents and ListBranches show what there is.")
        .into()
}
