//! The kit outside of this workspace, and what it skips.

#![allow(clippy::unwrap_used)] // In a test, a wrong value is meant to end it.

mod outside;
mod skips;
