//! Replaying an execution: its state at an event, or its outcome under another definition.

use stateway_proto::v1;
use stateway_provider_api::{Call, ReplayRequest, ReplayUnder, Verb};
use tonic::Status;

use super::super::validate;
use super::Recovery;
use crate::replay;
use crate::status::Refusal;
use crate::upstream::Topic;

/// The newest revision of the execution's definition.
const LATEST: &str = "latest";

impl Recovery {
    pub(super) async fn replay(
        &self,
        call: Call,
        request: v1::ReplayExecutionRequest,
    ) -> Result<v1::ReplayExecutionResponse, Status> {
        let name = validate::execution_name("name", &request.name)?;
        let upstream = self.directory.of(&name.provider, Topic::EVENT_LOG)?;
        let replay = ReplayRequest {
            id: name.id.clone(),
            branch: validate::branch(&request.branch)?,
            under: under(&request)?,
        };
        let guarded = upstream.until_deadline(&call);
        let replayed = guarded.event_log(Verb::Replay, |log, call| log.replay(call, replay));
        Ok(replay::response(
            |seen| upstream.execution(seen),
            replayed.await?,
        ))
    }
}

fn under(request: &v1::ReplayExecutionRequest) -> Result<ReplayUnder, Status> {
    let shadow = !request.revision.is_empty() || !request.source.is_empty();
    if shadow && request.at_sequence != 0 {
        let message = "another definition runs to its end; `at_sequence` has no place there";
        return Err(Refusal::invalid("at_sequence", message).into());
    }
    match (request.revision.as_str(), request.source.as_str()) {
        ("", "") => Ok(ReplayUnder::Recorded {
            until: request.at_sequence,
        }),
        ("", source) => Ok(ReplayUnder::Source(source.to_owned())),
        (LATEST, "") => Ok(ReplayUnder::Latest),
        (revision, "") => Ok(ReplayUnder::Revision(revision.to_owned())),
        (_, _) => {
            let message = "name a revision or give a definition, not both";
            Err(Refusal::invalid("source", message).into())
        }
    }
}
