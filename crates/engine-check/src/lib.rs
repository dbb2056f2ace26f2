//! A simulation of the built-in engine.
//!
//! A *schedule* is a short story that follows from one seed: clients, workers, clocks, failures of the
//! store, crashes. The engine in it is the real one ([`stateway_engine::simulation`]); everything
//! around the engine is here. When the story is over, all faults stop, and `check`
//! compares the log with what was acknowledged to clients and workers.
//!
//! `world` is the surroundings, `act` chooses what happens, `settle` is the end of a story, `soak` runs
//! many stories.

mod check;
mod client;
mod clock;
mod definitions;
mod fault;
mod settle;
pub mod soak;
mod totals;
mod trace;
mod worker;
mod world;

pub use fault::CrashAt;
pub use totals::Totals;
pub use world::{Broken, Schedule, Story, Template};
