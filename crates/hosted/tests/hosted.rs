//! A portable definition inside another engine: the object that runs it, and its provider.

#![allow(clippy::unwrap_used)] // In a test, a wrong value is meant to end it.

mod children;
mod http;
mod lab;
mod object;
mod people;
mod provider;
mod redo;
mod trajectories;
mod triggers;
