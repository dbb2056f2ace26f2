//! Readings of a recorded history. Every function takes a log and changes nothing.
//!
//! [`rederive`] runs a log again under another definition and reports where the result differs.
//! [`project`] shows a log in the states of five other systems; their tables are data, in
//! `provider-tables/vocabularies/`. [`Trajectory`] is the sequence of sub-states on which all engines
//! must agree. [`EXECUTION_MOVES`] and [`STEP_MOVES`] list the legal moves that checks compare with.
//! [`recording`] is a whole log with its chain of hashes, as a value and as a file; [`Attempts`] gathers
//! the attempts of one step, [`Numbering`] numbers the events of all branches.
//!
//! Running an execution needs none of it: that takes `machine` and `driver`. Providers use it to answer
//! questions about a log.

mod attempts;
mod chain;
mod lineage;
mod moves;
mod numbering;
pub mod recording;
mod shadow;
mod trajectory;
mod vocabulary;

pub use attempts::{AttemptOutcome, AttemptRecord, Attempts, BranchStart, error_of};
pub use chain::{BEGINNING, Hash, link};
pub use lineage::{Segment, lineage};
pub use moves::{EXECUTION_MOVES, STEP_MOVES, execution_may_move, step_may_move};
pub use numbering::Numbering;
pub use shadow::{Divergence, DivergenceKind, Shadow, StepRow, Unrecorded, rederive};
pub use trajectory::{Point, Trajectory};
pub use vocabulary::{
    Bridge, Emitted, Machine, Mapping, Move, MoveKind, Outside, Projection, StateRow, Transition,
    Vocabulary, VocabularyError, project, vocabularies, vocabulary,
};
