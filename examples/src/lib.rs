//! Five examples. The folder of each contains its definitions (`*.yaml`), its worker (`worker.rs`) and the
//! expected states (`trajectory.txt`). Every example runs in the same [`stage`]: a gateway with the
//! built-in engine, and a worker and a client that call the gateway over gRPC.

pub mod catalogue;
pub mod live;
mod person;
pub mod stage;

/// The result of an example; the error is only printed.
pub type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;
