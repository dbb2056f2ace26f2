//! Checks the invariants of the machine.
//!
//! A `world` is one execution of a random definition with random workers, people, clocks and
//! mistakes around it; `invariant` says what must hold after each event and each command, and
//! `coverage` what has been reached. `soak` runs many worlds; `exhaustive` visits every state of a
//! small one; `fuzz` throws broken bytes at the readers. The machine itself knows nothing of this
//! crate.

pub mod coverage;
pub mod definitions;
pub mod exhaustive;
pub mod fuzz;
pub mod invariant;
pub mod soak;
pub mod world;
