//! The provider on recorded histories, on random ones and on a service in memory.

#![allow(clippy::unwrap_used)] // In a test, a wrong value is meant to end it.

mod account;
mod again;
mod answering;
mod definitions;
mod economy;
mod etag;
mod hosting;
mod items;
mod listing;
mod mock;
mod model;
mod noticing;
mod random_histories;
#[path = "support/recorded.rs"]
mod recorded;
mod recordings;
#[path = "random/simulation.rs"]
mod simulation;
mod wire;
