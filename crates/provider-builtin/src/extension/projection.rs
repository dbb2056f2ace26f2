//! An execution in the terms of another system's state machine.

use stateway_model::{ExecutionId, Reason};
use stateway_provider_api::{
    Call, Error, ErrorKind, ProjectedMove, ProjectedMoveKind, ProjectedStep, Projection, Result,
    Verb,
};
use stateway_replay::{Machine, Move, MoveKind, VocabularyError, project, vocabulary};

use crate::BuiltinProvider;
use crate::log::Log;

pub(super) async fn of(
    provider: &BuiltinProvider,
    call: &Call,
    id: &ExecutionId,
    wanted: &str,
) -> Result<Projection> {
    let words = vocabulary(wanted).map_err(|error| unknown(&error))?;
    let log = Log::read(provider, call, Verb::Project, id, None).await?;
    let projection = project(&words, log.plan.clone(), &log.events);
    let status = last(&projection.execution);
    let steps = projection
        .steps
        .into_iter()
        .map(|(step, moves)| ProjectedStep {
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
    Ok(Projection {
        terminal: is_terminal(&words.execution, &status),
        status,
        current_steps: open.map(|step| step.name.clone()).collect(),
        last_error: log.view.last_error,
        moves: projection.execution.into_iter().map(of_move).collect(),
        steps: steps.collect(),
        events: projection.events,
        vocabulary: words.name,
        system: words.system,
    })
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

fn of_move(from: Move) -> ProjectedMove {
    // The soak checks that no move is illegal.
    let kind = match from.kind {
        MoveKind::Begin => ProjectedMoveKind::Begin,
        MoveKind::Legal => ProjectedMoveKind::Legal,
        MoveKind::Bridged => ProjectedMoveKind::Bridged,
        MoveKind::Outside | MoveKind::Illegal => ProjectedMoveKind::Outside,
    };
    ProjectedMove {
        from: from.from,
        to: from.to,
        kind,
    }
}

fn unknown(error: &VocabularyError) -> Error {
    Error::new(ErrorKind::InvalidArgument, Verb::Project, error.to_string())
        .with_reason("UNKNOWN_VOCABULARY")
        .with_hint("The vocabularies are ioa, buquet, connectsoft, workflowmanager and landlord.")
}
