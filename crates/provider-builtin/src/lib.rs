//! The adapter to the built-in durable engine.
//!
//! It is what `stateway serve` offers when nothing else is configured. The engine runs in the same
//! process and keeps everything in one file; this crate asks it ([`BuiltinProvider`]) and shows
//! what it shows, in its own words. Workers, people and definitions reach the engine past the
//! provider, through [`BuiltinProvider::engine`]: no other engine has them.

mod capability;
mod config;
mod error;
mod line;
mod policy;
mod provider;
mod reach;
mod request;
mod response;
mod watch;

pub use config::{Config, ConfigError};
pub use line::Disturb;
pub use policy::{Amount, PolicyCondition, PolicyField, Rule, Rules};
pub use provider::BuiltinProvider;
pub use reach::{From, Http, Webhook};
pub use response::observation;
