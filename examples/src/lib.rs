//! Five worked examples. Each has a folder: what is to be done (`*.yaml`), who does it
//! (`worker.rs`), and what it comes to (`trajectory.txt`). The [`stage`] is the same for all: a
//! gateway with the built-in engine, a worker and a client that talk to it over gRPC.

pub mod catalogue;
pub mod live;
pub mod stage;

/// Whatever went wrong.
pub type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;
