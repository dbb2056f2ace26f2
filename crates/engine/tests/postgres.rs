//! The engine through its handle, on a real PostgreSQL server: the tests of the engine that need no file, and what
//! only a shared store has.

// What a test stages must succeed.
#![allow(clippy::unwrap_used)]
// Helpers of the tests on files are not all used here.
#![allow(dead_code)]

#[path = "postgres/access.rs"]
mod access;
#[path = "engine/branch.rs"]
mod branch;
#[path = "engine/child.rs"]
mod child;
#[path = "engine/definitions.rs"]
mod definitions;
#[path = "engine/inbox.rs"]
mod inbox;
#[path = "engine/lab.rs"]
mod lab;
#[path = "postgres/place.rs"]
mod place;
#[path = "postgres/proxy.rs"]
mod proxy;
#[path = "engine/rollback.rs"]
mod rollback;
#[path = "engine/run.rs"]
mod run;
#[path = "postgres/shared.rs"]
mod shared;
#[path = "engine/time.rs"]
mod time;
#[path = "engine/trigger.rs"]
mod trigger;
#[path = "postgres/webhooks.rs"]
mod webhooks;
