//! The `stateway` binary as a library, so that tests can use its parts.
//!
//! The composition root: here, and only here, configuration, providers, gateway, logs, traces and
//! metrics come together (`command/serve.rs`). Every other command is a thin shell around
//! `stateway-client`: read the arguments, make one call, show the answer.
//!
//! Results go to stdout, messages to stderr.

pub mod arguments;
pub mod batch;
pub mod command;
pub mod config;
pub mod confirm;
pub mod context;
pub mod contexts;
pub mod demo;
pub mod duration;
pub mod exit;
pub mod failure;
pub mod hint_commands;
pub mod hosting;
pub mod input;
pub mod matching;
pub mod observability;
pub mod outline;
pub mod paging;
pub mod program;
pub mod progress;
pub mod registry;
pub mod resource;
pub mod screen;
pub mod selection;
pub mod sign_in;
pub mod target;
pub mod temporal_host;
pub mod top;
pub mod view;
pub mod write;
