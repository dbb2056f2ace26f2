//! An execution in the terms of another system. `status`, `current_steps` and `last_error` have the names
//! of buquet's `state.json`.

use jiff::Timestamp;
use serde::Serialize;
use stateway_client::v1;

use super::{Text, timestamp};

/// An execution in the terms of another system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Projection {
    /// The execution's full name.
    pub name: Text,
    /// The name of the vocabulary.
    pub vocabulary: Text,
    /// The kind of system that uses it.
    pub source: Text,
    /// The current state.
    pub status: Text,
    /// Whether the state is final.
    pub terminal: bool,
    /// The steps that are open now.
    pub current_steps: Vec<Text>,
    /// The last error.
    pub last_error: Option<LastError>,
    /// The moves that led to the current state.
    pub moves: Vec<Move>,
    /// Every step, steps that have not started included.
    pub steps: Vec<StepProjection>,
    /// The events that the other system has names for.
    pub events: Vec<Text>,
}

/// The last error, in the form of buquet's `state.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LastError {
    /// The step.
    pub step: Text,
    /// The message of the error.
    pub message: Text,
    /// The number of the attempt.
    pub attempt: i32,
    /// The time of the error.
    pub at: Option<Timestamp>,
}

/// One move.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Move {
    /// The state before; empty for the first move.
    pub from: Text,
    /// The state after.
    pub to: Text,
    /// `begin`; `legal`; `bridged` for a part of one move that the other system makes in several; or
    /// `outside` for a move that the other system does not have.
    pub kind: String,
}

/// One step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StepProjection {
    /// Its name.
    pub step: Text,
    /// The current state.
    pub status: Text,
    /// The moves that led to it.
    pub moves: Vec<Move>,
}

impl From<&v1::ProjectedExecution> for Projection {
    fn from(wire: &v1::ProjectedExecution) -> Self {
        Self {
            name: (&wire.name).into(),
            vocabulary: (&wire.vocabulary).into(),
            source: (&wire.source).into(),
            status: (&wire.status).into(),
            terminal: wire.terminal,
            current_steps: wire.current_steps.iter().map(Text::from).collect(),
            last_error: wire.last_error.as_ref().map(|error| LastError {
                step: (&error.step).into(),
                message: (&error.message).into(),
                attempt: error.attempt,
                at: timestamp(error.occur_time.as_ref()),
            }),
            moves: wire.moves.iter().map(Move::from).collect(),
            steps: wire
                .steps
                .iter()
                .map(|step| StepProjection {
                    step: (&step.step).into(),
                    status: (&step.status).into(),
                    moves: step.moves.iter().map(Move::from).collect(),
                })
                .collect(),
            events: wire.events.iter().map(Text::from).collect(),
        }
    }
}

impl From<&v1::ProjectedMove> for Move {
    fn from(wire: &v1::ProjectedMove) -> Self {
        Self {
            from: (&wire.from).into(),
            to: (&wire.to).into(),
            kind: wire.kind().as_str_name().to_ascii_lowercase(),
        }
    }
}
