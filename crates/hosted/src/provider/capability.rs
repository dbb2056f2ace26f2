//! What the provider can do.

use stateway_provider_api::Capabilities;

/// What is missing: an engine that hosts objects pushes nothing (the gateway polls), and recovery and the store
/// of the built-in engine are not hosted.
pub const CAPABILITIES: Capabilities = Capabilities {
    start: true,
    start_idempotent: true,
    start_delayed: true,
    list: true,
    list_hints: true,
    history: true,
    history_newest_first: true,
    signal: true,
    signal_idempotent: true,
    cancel: true,
    kill: true,
    pause: true,
    resume: true,
    retry_now: true,
    retry_now_idempotent: true,
    retry_from: true,
    retry_from_idempotent: true,
    steps: true,
    retries: true,
    payloads: true,
    labels: true,
    purge: true,
    count: true,
    cancel_compensation: true,
    portable_definitions: true,
    triggers: true,
    approvals: true,
    workers: true,
    event_log: true,
    ..Capabilities::NONE
};
