//! An execution in the words of another system. The fields of seed 002's `state.json` (`status`,
//! `current_steps`, `last_error`) have its names.

use jiff::Timestamp;
use serde::Serialize;
use stateway_client::v1;

use super::{Text, timestamp};

/// An execution in the words of another system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Projection {
    /// The execution's full name.
    pub name: Text,
    /// Whose words.
    pub vocabulary: Text,
    /// Where they are from.
    pub source: Text,
    /// Where it is.
    pub status: Text,
    /// Nothing follows.
    pub terminal: bool,
    /// The steps that are open now.
    pub current_steps: Vec<Text>,
    /// What went wrong last.
    pub last_error: Option<LastError>,
    /// How it got there.
    pub moves: Vec<Move>,
    /// The steps that have begun.
    pub steps: Vec<StepProjection>,
    /// What happened, where there is a word for it.
    pub events: Vec<Text>,
}

/// The last error as seed 002 writes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LastError {
    /// The step.
    pub step: Text,
    /// What went wrong.
    pub message: Text,
    /// Which attempt.
    pub attempt: u32,
    /// When.
    pub at: Option<Timestamp>,
}

/// One move.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Move {
    /// From where; empty for the first.
    pub from: Text,
    /// To where.
    pub to: Text,
    /// `begin`, `legal`, `bridged` for one of several where we make one, or `outside` where the
    /// other system has no word for it.
    pub kind: String,
}

/// One step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StepProjection {
    /// Its name.
    pub step: Text,
    /// Where it is.
    pub status: Text,
    /// How it got there.
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
                at: timestamp(error.time.as_ref()),
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
