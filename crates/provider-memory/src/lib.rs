//! The reference provider: scripted executions that live in memory.
//!
//! It is what `stateway serve` offers when nothing else is configured, what clients can be tested
//! against, and what a provider author may read to see a whole provider. It has every capability
//! and keeps nothing beyond the process.
//!
//! An execution follows a [`Script`]. Where it is is a pure function of the script, of what was
//! asked of it and when, and of the time ([`script`]); the rest is a shell: [`Upstream`] stands in
//! for an engine, and can be disturbed as a real one would be; [`MemoryProvider`] is the adapter
//! to it, with the same file names as every adapter.

mod capability;
mod clock;
mod config;
mod error;
mod line;
mod provider;
mod qualifier;
mod request;
mod response;
pub mod script;
mod store;
mod upstream;
mod watch;

pub use capability::CAPABILITIES;
pub use clock::Clock;
pub use config::{Config, ConfigError};
pub use line::LineFault;
pub use provider::MemoryProvider;
pub use script::Script;
pub use upstream::Upstream;
