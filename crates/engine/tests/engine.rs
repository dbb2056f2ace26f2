//! The engine through its handle, on a real file.

// What a test stages must succeed.
#![allow(clippy::unwrap_used)]

#[path = "engine/adopt.rs"]
mod adopt;
#[path = "engine/bounds.rs"]
mod bounds;
#[path = "engine/branch.rs"]
mod branch;
#[path = "engine/child.rs"]
mod child;
#[path = "engine/clock.rs"]
mod clock;
#[path = "engine/defect.rs"]
mod defect;
#[path = "engine/definitions.rs"]
mod definitions;
#[path = "engine/fault.rs"]
mod fault;
#[path = "engine/file.rs"]
mod file;
#[path = "engine/histories.rs"]
mod histories;
#[path = "engine/http.rs"]
mod http;
#[path = "engine/inbox.rs"]
mod inbox;
#[path = "engine/lab.rs"]
mod lab;
#[path = "engine/limits.rs"]
mod limits;
#[path = "engine/lost.rs"]
mod lost;
#[path = "engine/many.rs"]
mod many;
#[path = "engine/migration.rs"]
mod migration;
#[path = "engine/place.rs"]
mod place;
#[path = "engine/policy.rs"]
mod policy;
#[path = "engine/recovery.rs"]
mod recovery;
#[path = "engine/rollback.rs"]
mod rollback;
#[path = "engine/run.rs"]
mod run;
#[path = "engine/sink.rs"]
mod sink;
#[path = "engine/time.rs"]
mod time;
#[path = "engine/trigger.rs"]
mod trigger;
