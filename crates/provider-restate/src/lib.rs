//! The adapter to Restate: an execution is an invocation.
//!
//! Reading is SQL over the admin API, starting and signalling is the ingress, everything else is an
//! admin verb. The adapter keeps no state of its own; `cache` saves queries and can be lost.
//!
//! The pure part is `sql`, `response`, `journal`, `steps`, `request` and `error`; the shell is `client`,
//! `reader`, `start`, `signal`, `steer`, `history` and `provider`. Answers of the real server are in
//! `tests/recordings/`.
//!
//! `host` is another provider: portable executions that a host of Stateway runs inside Restate.

mod cache;
mod capability;
mod client;
mod config;
mod error;
mod history;
mod host;
mod host_sql;
mod id;
mod journal;
mod provider;
mod qualifier;
mod reader;
mod request;
mod response;
mod row;
mod server;
mod service;
mod signal;
mod sql;
mod start;
mod steer;
mod steps;

pub use capability::CAPABILITIES;
pub use config::{Config, ConfigError, Endpoint, HostAddress, HostConfig};
pub use host::{
    HttpSteps, RegisterError, RestateHostedProvider, RestatePort, hosted_provider,
    register_deployment,
};
pub use provider::RestateProvider;

/// For the wire tests beside this crate: recorded rows in, observation out.
#[doc(hidden)]
pub mod wire {
    pub use crate::response::recorded;
}
