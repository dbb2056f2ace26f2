//! The adapter to Restate: an execution is an invocation.
//!
//! Reading is SQL over the admin API, starting and signalling is the ingress, everything else is an
//! admin verb. The adapter holds nothing that matters: what it remembers (what a journal said, how
//! many attempts were made before Restate began to count anew) it can do without.
//!
//! The pure part is `sql`, `response`, `journal`, `request` and `error`; the shell is `client`,
//! `reader`, `start`, `steer` and `provider`. What was seen of the real server is in
//! `tests/recordings/`.

mod capability;
mod client;
mod config;
mod error;
mod id;
mod journal;
mod provider;
mod pulse;
mod reader;
mod recall;
mod request;
mod response;
mod row;
mod server;
mod service;
mod sql;
mod start;
mod steer;
mod step;

pub use config::{Config, ConfigError, Endpoint};
pub use provider::RestateProvider;

/// For the wire tests beside this crate: recorded rows in, observation out.
#[doc(hidden)]
pub mod wire {
    pub use crate::response::recorded;
}
