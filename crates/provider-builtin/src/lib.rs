//! The adapter to the built-in durable engine.
//!
//! It is what `stateway serve` offers when nothing else is configured. The engine runs in the same
//! process and keeps everything in one file; this crate asks it ([`BuiltinProvider`]) and shows
//! what it shows, in its own words. What the engine offers beyond executions (portable definitions,
//! approvals, workers, triggers, its log and its store) is in `extension`.

mod capability;
mod config;
mod error;
mod extension;
mod history;
mod line;
mod log;
mod policy;
mod provider;
mod reach;
mod request;
mod watch;

pub use capability::CAPABILITIES;
pub use config::{Config, ConfigError};
pub use line::Disturb;
pub use policy::{Amount, PolicyCondition, PolicyField, Rule, Rules};
pub use provider::BuiltinProvider;
pub use reach::{From, Http, Webhook, http_settings};
pub use stateway_hosted::observation;
pub use stateway_hosted::replay::{ReplayAsk, ReplayStep, replay_recording, replay_steps};
