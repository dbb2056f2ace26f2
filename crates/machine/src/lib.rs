//! The pure core: it decides what a workflow does next and carries nothing out.
//!
//! Three functions. [`decide`] takes a state, a command and the time, and returns the events the
//! command leads to, or a [`Rejection`]. [`evolve`] takes a state and an event and returns the next
//! state. [`obligations`] takes a state and returns what has to be done now: tasks, children,
//! timers, a slot. A host stores the events, carries the obligations out, and sends their results
//! back as commands.
//!
//! ```
//! use std::sync::Arc;
//! use stateway_machine::{Command, Data, Plan, State, Verb, decide, evolve, obligations};
//!
//! let parsed = stateway_definition::parse("steps: [{name: a}]", "a.yaml").unwrap();
//! let mut state = State::new(Arc::new(Plan::new(parsed.definition).unwrap()));
//! let create = Verb::Create {
//!     execution: "e1".into(),
//!     correlation: "e1".into(),
//!     initiator: "ada".into(),
//!     input: Data::default(),
//!     redone_by: Vec::new(),
//! };
//! let trigger = Verb::Trigger { by: "ada".into() };
//! for verb in [create, trigger, Verb::GrantSlot] {
//!     let events = decide(&state, Command::new("request-1", verb), jiff::Timestamp::UNIX_EPOCH);
//!     state = events.unwrap().iter().fold(state, evolve);
//! }
//! assert_eq!(obligations(&state).len(), 1);
//! ```
//!
//! The crate has no async, no IO, no clock, no randomness and no hash maps. Time and ids come inside
//! the command; the jitter of a back-off follows from execution, step and attempt. The same log leads
//! to the same state on every machine, so the engine of this workspace, a handler inside another
//! engine and a replay years later agree.
//!
//! The parts: a `plan` is a definition made ready to run; `admission` lists the states in which a verb
//! is considered; `decide` answers the verb; `ledger` lets `decide` see its own events without copying
//! the steps it does not touch; `evolve` applies events. `view` shows an execution as clients see it.
//! `redo`, `child` and `withdrawal` are the
//! rules around one execution: running a part of it again, its children, and the tasks that its events
//! take from workers. `codec` is the form of the log and of commands, `snapshot` the form of a state. `inspect` gives read access to steps
//! for `stateway-replay`.

mod admission;
mod awaited;
mod backoff;
mod child;
mod codec;
mod command;
mod decide;
mod event;
mod evolve;
mod failure;
mod inspect;
mod ledger;
mod limits;
mod obligation;
mod plan;
mod redo;
mod rejection;
mod replay;
mod request;
mod scope;
mod settled;
mod snapshot;
mod spending;
mod state;
mod states;
mod timer;
mod view;
mod withdrawal;

pub use admission::{admit, admitting_states};
pub use awaited::{Awaited, awaited};
pub use backoff::later;
pub use child::{
    MAX_CHILD_DEPTH, cancel_child, check_child_depth, child_id, child_not_started, child_outcome,
    create_child, finish_child,
};
pub use codec::{
    COMMAND_VERSION, CommandError, DecodeError, EVENT_VERSION, EventHeader, MAX_COMMAND_BYTES,
    decode, decode_command, decode_row, encode, encode_after, encode_command, encode_into,
};
pub use command::{CancelMode, Command, Verb, VerbName};
pub use decide::{Resolver, check_resolves_all, decide};
pub use event::{
    Data, Event, Fact, PauseCause, PolicyDecision, Redo, Resolution, SkipCause, Task, TurnCause,
    WaitFor,
};
pub use evolve::evolve;
pub use failure::{Failure, FailureCause};
pub use inspect::StepAt;
pub use limits::{
    ENVELOPE_BYTES, Excess, Limits, MAX_EVENT_BYTES, MAX_MESSAGE_BYTES, MAX_PAYLOAD_BYTES,
    MAX_PAYLOAD_DEPTH, MAX_READ_DEPTH, MAX_READ_EVENT_BYTES, check_payload, cut_message,
};
pub use obligation::{
    ChildOrder, Obligation, TaskKey, TaskOrder, obligations, obligations_of, task_input, task_order,
};
pub use plan::{Plan, PlanError};
pub use redo::{CutOff, RedoRequest, fork, forked_events, is_forked, open_branch};
pub use rejection::Rejection;
pub use replay::{ReplayError, replay};
pub use request::{HttpRequest, RequestError, task_request};
pub use settled::is_settled;
pub use snapshot::{SNAPSHOT_VERSION, SnapshotError, restore, snapshot, snapshot_revision};
pub use spending::spent_by_step;
pub use state::{Cancellation, Reopened, State, Times};
pub use states::{ExecutionState, StepState};
pub use timer::{StepTimer, Timer};
pub use view::{
    Seeking, abandoned_usage, child_key, last_error, leaves_effects, not_retried, seeking,
    step_input, step_output, step_usage, step_views, sub_state, sub_state_where, usage, waits,
};
pub use withdrawal::{OpenWork, Withdrawal, Withdrawn};
