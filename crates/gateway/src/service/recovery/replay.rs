//! Replaying an execution: its state at an event, or its outcome under another definition.

use stateway_access::Permission;
use stateway_proto::v1;
use stateway_proto::v1::replay_execution_request::Variant;
use stateway_provider_api::{ReplayRequest, ReplayUnder, Verb};
use tonic::Status;

use super::super::validate;
use super::Recovery;
use crate::access::ApiCall;
use crate::branch::one_branch_of;
use crate::replay;
use crate::status::Refusal;
use crate::upstream::Topic;

/// The newest revision of the execution's definition.
const LATEST: &str = "latest";

impl Recovery {
    pub(super) async fn replay(
        &self,
        call: ApiCall,
        request: v1::ReplayExecutionRequest,
    ) -> Result<v1::ReplayExecutionResponse, Status> {
        let name = validate::execution_name("name", &request.name)?;
        let upstream = self
            .directory
            .of(&call.access, &name.provider, Topic::EVENT_LOG)?;
        let authorized = self
            .executions
            .authorize(&call, &name, Permission::ReadPayloads);
        authorized.await?;
        let replay = ReplayRequest {
            id: name.id.clone(),
            branch: one_branch_of(&name, &request.branch)?,
            under: under(request.variant)?,
        };
        let guarded = upstream.until_deadline(&call);
        let replayed = guarded.event_log(Verb::Replay, |log, call| log.replay(call, replay));
        let show = |seen| upstream.execution(seen);
        Ok(replay::response(&name, show, replayed.await?))
    }
}

fn under(variant: Option<Variant>) -> Result<ReplayUnder, Status> {
    match variant {
        None => Ok(ReplayUnder::Recorded { until: 0 }),
        Some(Variant::AtSequence(at)) => Ok(ReplayUnder::Recorded {
            until: sequence(at)?,
        }),
        Some(Variant::Source(source)) => Ok(ReplayUnder::Source(source)),
        Some(Variant::Revision(revision)) if revision == LATEST => Ok(ReplayUnder::Latest),
        Some(Variant::Revision(revision)) => {
            validate::required("revision", &revision)?;
            Ok(ReplayUnder::Revision(revision))
        }
    }
}

/// The number of an event, from 1.
fn sequence(at: i64) -> Result<u64, Status> {
    u64::try_from(at).ok().filter(|at| *at > 0).ok_or_else(|| {
        Refusal::invalid("at_sequence", "`at_sequence` must be greater than zero").into()
    })
}
