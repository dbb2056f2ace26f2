//! A browser without a script, and plain HTTP/1.1: for tests of pages. A test sends the bytes that it names, and sees the
//! bytes that come back; a client library would add, follow and hide some of them.
//!
//! Everything here ends a test when it goes wrong.

#![allow(clippy::missing_panics_doc, reason = "a panic is a failed test")]

mod exchange;
mod live;
mod page;
mod visitor;

use std::time::Duration;

pub use exchange::{exchange, exchange_blocking};
pub use live::Live;
pub use page::Page;
pub use visitor::Visitor;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(60);
