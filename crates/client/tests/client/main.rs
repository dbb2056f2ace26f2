//! The client against small gateways on real sockets.

#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps an error has failed"
)]

mod call;
mod fake;
mod wait;
mod watch;
mod watch_approvals;
mod worker;
