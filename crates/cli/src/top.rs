//! The live view of all executions, on the whole terminal.
//!
//! [`Model`] has the data and what the person selected; changes and keys go in. [`render`] draws it
//! and [`snapshot`] prints it; both are pure. `command/top.rs` holds them together.

mod detail_poller;
mod frame;
mod model;
mod order;

pub use detail_poller::DetailPoller;
pub use frame::{page, render, snapshot};
pub use model::{Effect, Model};
pub use order::Sort;
