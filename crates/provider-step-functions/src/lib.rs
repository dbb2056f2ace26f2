//! The provider for AWS Step Functions.
//!
//! The service says `RUNNING` for nearly everything that is not over, and no event tells of a
//! retry. Where an open execution really is follows from its history and its definition, and that
//! part is pure: [`Event`]s are folded into open visits ([`Fold`]), as many as it takes
//! ([`Reader`]), and what they show is said by [`steps`] with what the [`Definition`] promises.
//! Around it is the adapter, with the same file names as every adapter.

mod definition;
mod event;
mod fold;
mod reader;
mod retrier;
mod steps;

pub use definition::{Definition, State, WaitTime};
pub use event::{Detail, ENDS, Event};
pub use fold::{Ending, Failure, Fold};
pub use reader::Reader;
pub use retrier::{Answer, Promise, Retrier, answer, takes};
pub use steps::{TokenWait, steps, token_waits};
