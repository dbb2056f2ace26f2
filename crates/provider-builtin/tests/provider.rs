//! The provider of the built-in engine: what it reports and what it changes.

#![allow(clippy::unwrap_used)] // In a test, a wrong value is meant to end it.

mod mapping;
mod steer;
mod trajectories;
