//! The objects of `stateway-hosted` inside Temporal.
//!
//! A host is a worker of Temporal's own protocol, without an SDK. One workflow is one object. A workflow task is
//! one call of a pure function: the events of the history and the updates go in, commands go out. What
//! a request changed is recorded as a marker in the same answer, so a host never repeats a decision: there is
//! no replay that could differ, and a host of another version can take over at any event.
//!
//! | of the object | in Temporal |
//! |---|---|
//! | request and answer | an update; one that changes nothing is rejected and leaves no event |
//! | stored values | markers; the view and the current revision of a definition are fields of the memo |
//! | alarm | a timer |
//! | message to another object | an activity that signals the other workflow, and starts it if need be |
//! | lists and counts | tags in a search attribute that every namespace has |
//! | a long history | continue-as-new; the next run copies the values |
//! | more than fits into one answer | another task; a marker names the first input that it handles |
//!
//! - `task`: one workflow task. No IO, no clock.
//! - `command`: the commands of an answer.
//! - `delivery`: a message to another object.
//! - `cache`: executions in memory.
//! - `worker`: the polls around them.

mod cache;
mod command;
mod delivery;
mod task;
mod worker;

pub use worker::{Host, ServeError};
