//! The audit log: one [`Record`] per mutation and per refusal, each in one line that contains the hash of
//! the line before it.
//!
//! [`Chain`] makes lines, [`Verifier`] checks them, [`Head`] is the anchor that shows a removed end, and
//! [`mod@file`] has the rules for the names of rotated files. Reading and writing files is the business of the
//! gateway and of the command line.

mod chain;
mod cloud_event;
pub mod file;
mod head;
mod key;
mod record;
mod verify;

pub use chain::{Chain, Line, LineError, MAX_LINE, parse};
pub use cloud_event::cloud_event;
pub use head::{Head, HeadError};
pub use key::{ChainKey, KeyError};
pub use record::{OPENED, Record, SUPPRESSED};
pub use verify::{Problem, ProblemKind, Report, Verifier};
