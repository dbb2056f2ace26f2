//! Executions of the machine on whatever engine hosts them.
//!
//! An engine that has durable objects can host portable executions: one object per execution, whose
//! handlers are short and exclusive. This crate holds what does not depend on the engine:
//!
//! - [`object`]: the object of an execution as a pure function. Stored values and a request in; writes,
//!   the next alarm and the answer out. [`definition_object`] is the same for a portable definition.
//! - [`message`]: requests to the objects, their answers, and the stored view that lists and reads use.
//! - [`observation`]: a view as an observation of the provider contract. The built-in engine uses it too,
//!   so an execution shows the same states, reasons, steps and evidence on every engine.
//! - [`inbox`]: the approvals and escalations of an execution, from its view and its log. The built-in
//!   engine uses it too.
//! - [`portability`]: what of a definition a host cannot do, as sentences.
//! - [`replay`]: replays of recordings and projections as the provider contract has them. The built-in
//!   engine uses it too.
//! - [`provider`]: a [`Provider`](stateway_provider_api::Provider) over any engine that hosts these
//!   objects; an adapter implements [`HostPort`](provider::HostPort) only.
//!
//! # The object of an execution
//!
//! | key | value | read by |
//! |---|---|---|
//! | `x` | a line of JSON (the time of the armed alarm, remembered request ids, the origin), then a snapshot of the state | every command |
//! | `d` | the source of the definition | a command, when the plan is not in memory |
//! | `v` | the view and the open tasks as JSON | providers, by queries; never by the object |
//! | `i`, `o` | input and output | providers, for the full view |
//! | `e/{sequence}` | the events of one command, a line each | providers, for the history; never by the object |
//!
//! Rules that keep an object from getting stuck:
//!
//! - Time and ids arrive in the request. The same request on the same values gives the same writes, so
//!   an engine may run a handler again.
//! - There is one alarm. An object asks for another one only when it is due earlier than the armed one;
//!   the handler fires every timer that is due and arms the alarm again. A late or a stale alarm is
//!   harmless.
//! - A request that cannot be read, a refused command and a value that is too large are answers, not
//!   failures of the handler, and write nothing.

pub mod definition_object;
mod http_config;
pub mod inbox;
pub mod message;
pub mod object;
mod observation;
mod plans;
pub mod portability;
pub mod provider;
mod qualifier;
pub mod replay;

pub use http_config::Http;
pub use observation::{id_of, observation, payload, version};
pub use plans::Plans;
pub use stateway_definition::digest;
