//! The provider for AWS Step Functions.
//!
//! The service reports `RUNNING` for nearly everything that is not over, and no event reports a retry.
//! Where an open execution is follows from its history and its definition, and that part is pure:
//! events are folded into open visits (`fold`), as many pages as it takes (`pages`), and `steps` shows
//! what they mean with what the `definition` promises. Around it is the adapter, with the same file
//! names as every adapter; `reader` decides what is read from the service for an answer, `quota` has
//! the service's limits, `inbox` holds tasks that people answer.
//!
//! `host` is another provider: portable executions, stored in executions of one generic state machine.

mod cache;
mod capability;
mod client;
mod config;
mod definition;
mod definitions;
mod error;
mod event;
mod fold;
mod history;
mod host;
mod id;
mod inbox;
mod machines;
mod pages;
mod provider;
mod qualifier;
mod quota;
mod reader;
mod request;
mod response;
mod retrier;
mod signal;
mod start;
mod steer;
mod steps;
mod watch;

pub use capability::{CAPABILITIES, EXPRESS_CAPABILITIES};
pub use config::{Config, ConfigError};
pub use host::{
    HostConfig, HttpSteps, StepFunctionsHostedProvider, StepFunctionsPort, hosted_provider,
    hosted_provider_with_clock, hosted_provider_with_keys,
};
pub use provider::StepFunctionsProvider;
pub use quota::Api;

use crate::definition::Definition;
use crate::event::Event;
use crate::fold::Fold;
use crate::pages::HistoryPages;
use crate::steps::steps;
use stateway_provider_api::adapter::SkippingClock as Clock;

/// For the tests beside this crate: the pure part.
#[doc(hidden)]
pub mod pure {
    pub use crate::definition::{Addressing, Definition, State, WaitTime};
    pub use crate::error::NAMES as ERROR_NAMES;
    pub use crate::event::{Detail, ENDS, Event};
    pub use crate::fold::{Ending, Failure, Fold};
    pub use crate::id::{ExecutionArn, ExecutionKind};
    pub use crate::pages::HistoryPages;
    pub use crate::retrier::{Answer, Promise, Retrier, answer, takes};
    pub use crate::steps::steps;
}
