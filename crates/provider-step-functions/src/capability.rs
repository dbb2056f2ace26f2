//! What the provider can do, less what the operator turned off.

use stateway_provider_api::Capabilities;

use crate::{Config, ConfigError};

/// Standard executions. There is no pause, no resume, no early retry, no delayed start, tags belong
/// to state machines and not to executions, and AWS alone forgets an execution, after 90 days.
const STANDARD: Capabilities = Capabilities {
    start: true,
    start_idempotent: true,
    start_delayed: false,
    list: true,
    list_hints: true,
    history: true,
    watch_one: false,
    watch_end: false,
    // The service pushes nothing: the adapter lists what is new and what is open.
    watch_all: true,
    signal: true,
    signal_idempotent: false,
    cancel: true,
    kill: true,
    pause: false,
    resume: false,
    retry_now: false,
    retry_from: true,
    steps: true,
    retries: true,
    payloads: true,
    labels: false,
    purge: false,
    definitions: true,
    apply_definition: true,
    // There is no call that counts, and listing everything would use up the quota.
    count: false,
    // A stopped execution runs no further state, so nothing is compensated.
    cancel_compensation: false,
    ..Capabilities::NONE
};

pub(crate) fn of(config: &Config) -> Result<Capabilities, ConfigError> {
    // An Express execution can be started and then only be found in logs; its name can be used
    // again at once, so a start is not idempotent either.
    let mut capabilities = match config.express {
        true => Capabilities {
            start: true,
            definitions: true,
            apply_definition: true,
            ..Capabilities::default()
        },
        false => STANDARD,
    };
    for name in &config.disable {
        capabilities = capabilities
            .without(name)
            .ok_or_else(|| ConfigError::Capability(name.clone()))?;
    }
    Ok(capabilities)
}
