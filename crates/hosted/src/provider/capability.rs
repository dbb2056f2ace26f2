//! What the provider can do.

use stateway_provider_api::Capabilities;

/// What is missing: an engine that hosts objects pushes nothing (the gateway polls); counting would be
/// reading everything; running again from a step needs the log inside the object; approvals,
/// triggers, the event log by branch and recovery are not hosted yet.
pub const CAPABILITIES: Capabilities = Capabilities {
    start: true,
    start_idempotent: true,
    start_delayed: true,
    list: true,
    list_hints: true,
    history: true,
    signal: true,
    signal_idempotent: true,
    cancel: true,
    kill: true,
    pause: true,
    resume: true,
    retry_now: true,
    retry_now_idempotent: true,
    steps: true,
    retries: true,
    payloads: true,
    labels: true,
    purge: true,
    cancel_compensation: true,
    portable_definitions: true,
    approvals: true,
    workers: true,
    ..Capabilities::NONE
};
