//! The real binary against a real gateway: one file per command, named after it.

#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps an error has failed"
)]

mod access;
mod approvals;
mod audit;
mod batch;
mod binary;
mod built_in;
mod completions;
mod config;
mod conformance;
mod definitions;
mod demo;
mod documentation;
mod explain;
mod get;
mod health;
mod held;
mod hints;
mod history;
mod hostile;
mod keys;
mod list;
mod login;
mod man;
mod operate;
mod otlp;
mod policy;
// Not everything of it is needed here.
#[allow(dead_code)]
#[path = "../../../gateway/tests/secure/provider.rs"]
mod provider;
mod providers;
mod pty;
mod replay;
mod restarts;
mod scripts;
mod secrets;
mod serve;
mod start;
mod steer;
mod store_file;
mod tenants;
mod terminal;
mod tls;
mod top;
mod unreachable;
mod verify;
mod wait;
mod watch;
mod worker;
