//! The real binary against a real gateway: one file per command, named after it.

#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps an error has failed"
)]

mod approvals;
mod binary;
mod built_in;
mod completions;
mod config;
mod definitions;
mod demo;
mod documentation;
mod explain;
mod get;
mod history;
mod hostile;
mod list;
mod operate;
mod otlp;
mod providers;
mod pty;
mod replay;
mod restarts;
mod scripts;
mod serve;
mod start;
mod steer;
mod store_file;
mod terminal;
mod verify;
mod wait;
mod watch;
mod worker;
