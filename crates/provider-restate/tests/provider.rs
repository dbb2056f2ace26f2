//! The provider on recorded answers and on a server in memory.

#![allow(clippy::unwrap_used)] // In a test, a wrong value is meant to end it.

mod fake;
mod ingress;
mod recordings;
mod replay;
mod steering;
mod tls;
