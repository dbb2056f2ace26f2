//! An execution in the words of another system's state machine.

use stateway_model::Reason;
use stateway_proto::v1;
use stateway_proto::v1::projected_move::Kind;
use stateway_provider_api::Call;
use stateway_replay::{Machine, Move, MoveKind, VocabularyError, project, vocabulary};
use tonic::Status;

use super::super::log::Log;
use super::super::validate;
use super::Executions;
use crate::convert;
use crate::status::Refusal;

impl Executions {
    pub(super) async fn project(
        &self,
        call: Call,
        request: v1::ProjectExecutionRequest,
    ) -> Result<v1::ProjectedExecution, Status> {
        let name = validate::execution_name("name", &request.name)?;
        let words = vocabulary(&request.vocabulary).map_err(|error| unknown(&error))?;
        let chosen = self
            .directory
            .of(&name.provider, "executions in other systems' words")?;
        let log = Log::read(&call, chosen, &name.id.as_str().into()).await?;
        let projection = project(&words, log.plan.clone(), &log.events);
        let status = last(&projection.execution);
        let steps = projection
            .steps
            .into_iter()
            .map(|(step, moves)| v1::ProjectedStep {
                status: last(&moves),
                step,
                moves: moves.into_iter().map(of_move).collect(),
            });
        let open = log
            .view
            .steps
            .iter()
            .filter(|step| !step.sub_state.is_terminal())
            .filter(|step| step.reason != Some(Reason::NotStarted));
        Ok(v1::ProjectedExecution {
            name: name.to_string(),
            terminal: is_terminal(&words.execution, &status),
            status,
            current_steps: open.map(|step| step.name.clone()).collect(),
            last_error: log.view.last_error.map(convert::error),
            moves: projection.execution.into_iter().map(of_move).collect(),
            steps: steps.collect(),
            events: projection.events,
            vocabulary: words.name,
            source: words.system,
        })
    }
}

fn last(moves: &[Move]) -> String {
    moves.last().map(|last| last.to.clone()).unwrap_or_default()
}

fn is_terminal<S>(machine: &Machine<S>, status: &str) -> bool {
    machine
        .state
        .iter()
        .any(|row| row.name == status && row.terminal)
}

fn of_move(from: Move) -> v1::ProjectedMove {
    // The soak checks that no move is illegal.
    let kind = match from.kind {
        MoveKind::Begin => Kind::Begin,
        MoveKind::Legal => Kind::Legal,
        MoveKind::Bridged => Kind::Bridged,
        MoveKind::Outside | MoveKind::Illegal => Kind::Outside,
    };
    v1::ProjectedMove {
        from: from.from,
        to: from.to,
        kind: kind.into(),
    }
}

fn unknown(error: &VocabularyError) -> Status {
    Refusal::invalid("vocabulary", error.to_string())
        .reason("UNKNOWN_VOCABULARY")
        .hint("The vocabularies are ioa, buquet, connectsoft, workflowmanager and landlord.")
        .into()
}
