//! The provider in front of another process: streams, TLS, hostile bytes, and how it stops.

#![allow(clippy::unwrap_used)] // In a test, a wrong value is meant to end it.

mod flood;
mod live;
mod log;
mod random_bytes;
mod raw;
mod stop;
mod streams;
mod tls;
