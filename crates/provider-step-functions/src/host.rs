//! Portable executions on Step Functions, driven by the gateway.
//!
//! Each object of [`stateway_hosted`] is one execution of a generic state machine, which Step Functions keeps open
//! at a gate. The gateway reads the newest turn and the token of the gate from the history, carries out the
//! request with the pure object, and completes the task with what the object wrote. There is no host process, and no
//! gateway has a state of its own: any of them can carry out any request.
//!
//! - `machine`: the state machine. `name`: the names of its executions.
//! - `envelope`: what one turn stores. `gate`: objects from histories.
//! - `mirror`: what this gateway knows of the objects.
//! - `store`: reads and writes objects. `port`: the port of [`stateway_hosted`] over it.
//! - `controller`: alarms, messages between objects and ends, and the objects of other gateways.

mod config;
mod controller;
mod envelope;
mod gate;
mod machine;
mod mirror;
mod name;
mod port;
mod store;

use std::sync::Arc;

use aws_credential_types::Credentials;
use jiff::Timestamp;
pub use stateway_hosted::provider::HttpSteps;
use stateway_hosted::provider::{Clock, HostedProvider};
use stateway_provider_api::Table;

pub use config::HostConfig;
pub(crate) use gate::GateEvent;
pub use port::StepFunctionsPort;

use crate::ConfigError;

/// A provider of portable executions on Step Functions.
pub type StepFunctionsHostedProvider = HostedProvider<StepFunctionsPort>;

/// A provider with the credentials of the SDK's chain. Nothing is asked of the service yet.
///
/// # Errors
/// A configuration that cannot be used.
pub fn hosted_provider(
    config: &HostConfig,
    table: Arc<Table>,
) -> Result<StepFunctionsHostedProvider, ConfigError> {
    make(config, table, (None, Arc::new(Timestamp::now)))
}

/// The same with fixed credentials. For tests.
///
/// # Errors
/// A configuration that cannot be used.
#[doc(hidden)]
pub fn hosted_provider_with_keys(
    config: &HostConfig,
    table: Arc<Table>,
    keys: (&str, &str),
) -> Result<StepFunctionsHostedProvider, ConfigError> {
    hosted_provider_with_clock(config, table, keys, Arc::new(Timestamp::now))
}

/// The same, whose requests have the times of another clock. For tests.
///
/// # Errors
/// A configuration that cannot be used.
#[doc(hidden)]
pub fn hosted_provider_with_clock(
    config: &HostConfig,
    table: Arc<Table>,
    (id, secret): (&str, &str),
    clock: Clock,
) -> Result<StepFunctionsHostedProvider, ConfigError> {
    let keys = Credentials::new(id, secret, None, None, "fixed");
    make(config, table, (Some(keys), clock))
}

fn make(
    config: &HostConfig,
    table: Arc<Table>,
    (credentials, clock): (Option<Credentials>, Clock),
) -> Result<StepFunctionsHostedProvider, ConfigError> {
    config.check()?;
    let roles = config.roles()?;
    let port = StepFunctionsPort::new(config, credentials);
    let provider = HostedProvider::with_clock(port, table, clock);
    Ok(provider.with_escalation_roles(roles))
}
