//! Portable executions inside Restate.
//!
//! Restate calls this endpoint; the endpoint runs the pure objects of [`stateway_hosted`] and answers. It
//! keeps nothing: any number of endpoints can run, and any of them can handle any invocation.
//!
//! | object | key | handlers | does |
//! |---|---|---|---|
//! | `stateway.Execution` | the execution id | `command`, `alarm`: exclusive | [`stateway_hosted::object`] |
//! | `stateway.Definition` | the name | `command`, `alarm`: exclusive; `start_child`: shared | [`stateway_hosted::definition_object`] |
//!
//! # The service protocol instead of the SDK
//!
//! A handler here is one function from stored values and input to writes, one delayed send and an
//! output. That is a small part of Restate's service protocol (versions 5 and 6): eleven messages in
//! `frame.rs` and `protocol.rs`, and one function in `invocation.rs`. The crate `restate-sdk` was the
//! alternative. It brings a runtime for handlers that wait in the middle, which this host does not have, and
//! 46 crates that the workspace does not use otherwise (by the lock files; 88 s for a release build of a
//! service with it on two shared cores). This crate adds no dependency. Own code also answers three traps
//! of the SDK: its server does not set TCP_NODELAY (249 ms instead of 33 ms for a chain of five steps, in a
//! prototype), a value that cannot be decoded fails the handler for ever, and a clock that is read in a
//! handler can wedge the object.
//!
//! The mode is request and response: Restate sends the whole journal, the endpoint answers everything at
//! once. A value that Restate does not send eagerly (the state of an object is larger than
//! `eager-state-size-limit`) is requested, and the invocation suspends until it arrives.
//!
//! # Running a handler again
//!
//! Restate runs an invocation again when a connection or a process ends, with the commands that it has
//! stored. The writes depend on stored values and input alone. The one exception is the time at which an
//! alarm fires: it is the first write of the invocation (the key `a`), and is read from there when the
//! invocation runs again. Which values are requested also depends on the definitions that a host has in memory,
//! so requests are not compared. Commands that Restate has are compared with those that are computed; a
//! difference is answered with Restate's own code for it (570) and changes nothing.

mod endpoint;
mod frame;
mod invocation;
mod manifest;
mod protocol;

pub use endpoint::{Endpoint, ListenError};
pub use manifest::deployment_path;
