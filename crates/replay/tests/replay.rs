//! Replays of recorded histories: trajectories, shadows, and the page of the vocabulary.

#![allow(clippy::unwrap_used)] // In a test, a wrong value is meant to end it.

mod histories;
#[path = "../../machine/tests/kit/mod.rs"]
mod kit;
mod page;
mod shadow;
mod trajectory;
mod vocabulary;
