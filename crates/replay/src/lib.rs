//! Readings of a recorded history. Every function takes a log and changes nothing.
//!
//! [`rederive`] runs a log again under another definition and reports where the result differs.
//! [`project`] shows a log in the states of five other systems; their tables are data, in
//! `provider-tables/vocabularies/`. [`Trajectory`] is the sequence of sub-states on which all engines
//! must agree. [`EXECUTION_MOVES`] and [`STEP_MOVES`] list the legal moves that checks compare with.
//!
//! A host that runs executions does not need this crate: it links `machine` and `driver` only.

mod moves;
mod shadow;
mod trajectory;
mod vocabulary;

pub use moves::{EXECUTION_MOVES, STEP_MOVES, execution_may_move, step_may_move};
pub use shadow::{Divergence, DivergenceKind, Shadow, StepRow, Unrecorded, rederive};
pub use trajectory::{Point, Trajectory};
pub use vocabulary::{
    Bridge, Emitted, Machine, Mapping, Move, MoveKind, Outside, Projection, StateRow, Transition,
    Vocabulary, VocabularyError, project, vocabularies, vocabulary,
};
