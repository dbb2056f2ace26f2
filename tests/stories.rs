//! What a client sees, told in gRPC only: one test per rule, each on a gateway of its own.

#![cfg(test)]

mod support;

mod crate_edges;
mod deadline;
mod errors;
mod explain;
mod health;
mod isolation;
mod list;
mod pages;
mod providers;
mod reflection;
mod resilience;
mod shutdown;
mod start;
mod steer;
mod unbacked;
mod wait;
mod watch;
