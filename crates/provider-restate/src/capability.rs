//! What Restate lets an adapter do.

use stateway_provider_api::Capabilities;

/// What is missing: Restate pushes nothing (the gateway polls, and a hundred invocations are one
/// query); resolving an awakeable twice with another body is not refused; there are no labels;
/// the request id of a retry is known only while the process that made it runs; handlers are known by
/// their deployments; counting would be reading everything, because what a row
/// means may depend on its journal; the handler's own code decides about compensation.
pub const CAPABILITIES: Capabilities = Capabilities {
    start: true,
    start_idempotent: true,
    start_delayed: true,
    list: true,
    list_hints: true,
    history: true,
    history_newest_first: true,
    signal: true,
    cancel: true,
    kill: true,
    pause: true,
    resume: true,
    retry_now: true,
    retry_from: true,
    steps: true,
    retries: true,
    payloads: true,
    purge: true,
    ..Capabilities::NONE
};
