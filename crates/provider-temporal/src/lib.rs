//! The adapter to Temporal: an execution is a workflow id, whatever run it is in.
//!
//! Everything is the gRPC API of the frontend, in the selection of `proto/`. The adapter keeps no state
//! of its own; what it remembers saves calls and can be lost.

#[doc(hidden)]
pub mod api;
mod capability;
mod client;
mod config;
mod error;
mod id;
mod provider;
mod qualifier;
mod quota;
mod response;
mod steps;
mod time;

pub use capability::CAPABILITIES;
pub use config::{Codec, Config, ConfigError, RequestQuotas, Tls};
pub use provider::TemporalProvider;
