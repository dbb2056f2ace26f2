//! The rules of the machine, and its data that outlives a process.

#![allow(clippy::unwrap_used)] // In a test, a wrong value is meant to end it.

mod commands;
mod events;
mod kit;
mod rules;
mod snapshot;
mod table;
