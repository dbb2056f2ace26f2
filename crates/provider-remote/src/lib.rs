//! The adapter to a provider in another process, by the contract in `proto/stateway/provider/v1`.
//!
//! The provider is a server that runs on its own. The adapter connects when it is called, asks the provider
//! to describe itself after every connect, and checks everything that the provider answers: a provider
//! that breaks a rule gets a clear reason, and only its own calls fail.
//!
//! The pure part is `description`, `request`, `response`, `error` and `pace`; the shell is `address`,
//! `client`, `connection`, `watch` and `provider`. The other side is `stateway-provider-server`.

mod address;
mod capability;
mod client;
mod config;
mod connection;
mod description;
mod error;
mod pace;
mod provider;
mod request;
mod response;
mod violation;
mod watch;

pub use address::Address;
pub use capability::CAPABILITIES;
pub use client::channel;
pub use config::{Config, ConfigError};
pub use provider::RemoteProvider;
