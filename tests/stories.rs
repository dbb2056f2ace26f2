//! What a client sees over gRPC: one test per rule, each with its own gateway. Some stories also read the state of the
//! built-in engine.

#![cfg(test)]

mod support;

mod access;
mod admin;
mod adopt;
mod approvals;
mod audit;
mod caller;
mod capacity;
mod compensation;
mod count;
mod crate_edges;
mod dashboard;
mod deadline;
mod definitions;
mod delete_definition;
mod errors;
mod escalations;
mod events;
mod explain;
mod extensions;
mod finished;
mod health;
mod isolation;
mod limits;
mod list;
mod lost_worker;
mod pages;
mod policy;
mod project;
mod providers;
mod quotas;
mod recovery;
mod reflection;
mod remote;
mod replay;
mod resilience;
mod rollback;
mod security;
mod shutdown;
mod start;
mod steer;
mod steps;
mod triggers;
mod unbacked;
mod wait;
mod watch;
mod watch_approvals;
mod watch_pushed;
mod workers;
