//! The pure core: what a workflow does, without doing it.
mod admission;
mod awaited;
mod backoff;
mod codec;
mod command;
mod decide;
mod event;
mod evolve;
mod failure;
mod ledger;
mod moves;
mod obligation;
mod plan;
mod rejection;
mod replay;
mod scope;
mod state;
mod timer;
mod trajectory;
mod view;
mod vocabulary;
mod words;

pub use admission::{admit, admitting_states};
pub use awaited::{Awaited, awaited};
pub use backoff::{later, pause, seed};
pub use codec::{DecodeError, EVENT_VERSION, MAX_EVENT_BYTES, decode, encode};
pub use command::{CancelMode, Command, Verb, VerbName};
pub use decide::{MAX_SIGNALS, decide};
pub use event::{Data, Event, Fact, PauseCause, Resolution, SkipCause, Task, TurnCause, WaitFor};
pub use evolve::evolve;
pub use failure::{Class, Failure, FailureCause, classify};
pub use moves::{EXECUTION_MOVES, STEP_MOVES, execution_may_move, step_may_move};
pub use obligation::{
    ChildOrder, Obligation, TaskKey, TaskOrder, obligations, obligations_of, task_input, task_url,
};
pub use plan::{Plan, PlanError};
pub use rejection::Rejection;
pub use replay::{ReplayError, replay};
pub use state::State;
pub use timer::{StepTimer, Timer};
pub use trajectory::{Point, Trajectory};
pub use view::{last_error, step_views, sub_state, waits};
pub use vocabulary::{
    Bridge, Emitted, Machine, Mapping, Move, MoveKind, Outside, Projection, StateRow, Transition,
    Vocabulary, VocabularyError, project, vocabularies, vocabulary,
};
pub use words::{ExecutionState, StepState};
