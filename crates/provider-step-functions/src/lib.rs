//! The provider for AWS Step Functions.
//!
//! The service says `RUNNING` for nearly everything that is not over, and no event tells of a
//! retry. Where an open execution really is follows from its history and its definition, and that
//! part is pure: [`Event`]s are folded into open visits ([`Fold`]), as many as it takes
//! ([`Reader`]), and what they show is said by [`steps`] with what the [`Definition`] promises.
//! Around it is the adapter, with the same file names as every adapter; `look` decides what is
//! asked of the service for an answer, `quota` keeps it within the service's limits, `inbox` holds
//! tasks that people answer.

mod arn;
mod book;
mod capability;
mod client;
mod clock;
mod config;
mod definition;
mod error;
mod event;
mod fold;
mod inbox;
mod look;
mod machines;
mod provider;
mod quota;
mod reader;
mod request;
mod response;
mod retrier;
mod steps;
mod telling;
mod watch;

pub use arn::{ExecutionArn, ExecutionKind};
pub use clock::Clock;
pub use config::{Config, ConfigError};
pub use definition::{Addressing, Definition, State, WaitTime};
pub use error::NAMES as ERROR_NAMES;
pub use event::{Detail, ENDS, Event};
pub use fold::{Ending, Failure, Fold};
pub use provider::StepFunctionsProvider;
pub use quota::{Api, Quota};
pub use reader::Reader;
pub use retrier::{Answer, Promise, Retrier, answer, takes};
pub use steps::steps;
