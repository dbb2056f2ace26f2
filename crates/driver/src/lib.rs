//! What a host of the machine does next.
//!
//! A host stores events, hands out tasks, starts children, sets timers and answers callers. [`handle`]
//! takes a command and the time, changes the state of the execution, and returns a [`Step`]: the work
//! that the host carries out. The built-in engine, a handler inside another engine, the shadow replay
//! and the random worlds all use it, so the rules about work that begins or ends are written once.
//!
//! ```
//! use std::sync::Arc;
//! use stateway_driver::{Answer, handle};
//! use stateway_machine::{Command, Data, Plan, State, Verb};
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
//! let now = jiff::Timestamp::UNIX_EPOCH;
//! handle(&mut state, Command::new("r1", create), now).unwrap();
//! let trigger = Verb::Trigger { by: "ada".into() };
//! let queued = handle(&mut state, Command::new("r2", trigger), now).unwrap();
//! assert!(queued.slot);
//! let started = handle(&mut state, Command::new("r3", Verb::GrantSlot), now).unwrap();
//! assert_eq!(started.answer(), Answer::Accepted);
//! assert_eq!(&*started.start[0].key.task.step, "a");
//! ```
//!
//! A host stores the events of a step before it carries the rest of the step out. After a crash it
//! evolves the stored events into a state, and [`resume`] returns everything that is open.
//! The host never decides again about an old command.
//!
//! [`View`] is an execution as a host shows it, [`refusal_of`] how a host refuses a command.
//!
//! The crate has no IO, no clock and no randomness.

mod handle;
mod payload;
mod refusal;
mod step;
mod summary;
mod view;

pub use handle::{apply, handle, leave, next_timer, open_keys, resume, timers};
pub use payload::parse_payload;
pub use refusal::refusal_of;
pub use step::{Answer, EndedChild, Outcome, Step, TimerOrder};
pub use summary::{MOST_PAGE_BYTES, again, detailed, summary};
pub use view::{
    Parent, PauseKind, QueueCause, TaskCoverage, UnknownCoverage, View, ViewOrigin,
    revision_conflict,
};
