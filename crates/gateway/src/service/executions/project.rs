//! An execution in the terms of another system's state machine.

use stateway_access::Permission;
use stateway_proto::v1;
use stateway_proto::v1::projected_move::Kind;
use stateway_provider_api::{ProjectedMove, ProjectedMoveKind, ProjectedStep, Verb};
use tonic::Status;

use super::super::validate;
use super::Executions;
use crate::access::ApiCall;
use crate::convert;
use crate::upstream::Topic;

impl Executions {
    pub(super) async fn project(
        &self,
        call: ApiCall,
        request: v1::ProjectExecutionRequest,
    ) -> Result<v1::ProjectedExecution, Status> {
        let name = validate::execution_name("name", &request.name)?;
        let upstream = self
            .directory
            .of(&call.access, &name.provider, Topic::EVENT_LOG)?;
        self.authorize(&call, &name, Permission::Read).await?;
        let guarded = upstream.until_deadline(&call);
        let projected = guarded.event_log(Verb::Project, |log, call| {
            log.project(call, &name.id, &request.vocabulary)
        });
        let projected = projected.await?;
        Ok(v1::ProjectedExecution {
            name: name.to_string(),
            vocabulary: projected.vocabulary,
            source: projected.system,
            status: projected.status,
            terminal: projected.terminal,
            current_steps: projected.current_steps,
            last_error: projected.last_error.map(convert::error),
            moves: projected.moves.into_iter().map(of_move).collect(),
            steps: projected.steps.into_iter().map(of_step).collect(),
            events: projected.events,
        })
    }
}

fn of_step(from: ProjectedStep) -> v1::ProjectedStep {
    v1::ProjectedStep {
        step: from.step,
        status: from.status,
        moves: from.moves.into_iter().map(of_move).collect(),
    }
}

fn of_move(from: ProjectedMove) -> v1::ProjectedMove {
    let kind = match from.kind {
        ProjectedMoveKind::Begin => Kind::Begin,
        ProjectedMoveKind::Legal => Kind::Legal,
        ProjectedMoveKind::Bridged => Kind::Bridged,
        ProjectedMoveKind::Outside => Kind::Outside,
    };
    v1::ProjectedMove {
        from: from.from,
        to: from.to,
        kind: kind.into(),
    }
}
