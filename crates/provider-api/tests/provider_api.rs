//! Tables of states, and the classification by them.

#![allow(clippy::unwrap_used)] // In a test, a wrong value is meant to end it.

mod mapper;
mod tables;
