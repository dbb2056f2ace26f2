//! The provider on recorded histories and on a server in memory, over gRPC.

#![allow(clippy::unwrap_used)] // In a test, a wrong value is meant to end it.

mod chains;
mod codec;
mod count;
mod front;
mod limits;
mod mock;
mod races;
mod recordings;
mod scenes;
mod servers;
mod support;
mod tls;
mod upstream;
mod verbs;
