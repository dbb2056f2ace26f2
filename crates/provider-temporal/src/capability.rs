//! What Temporal lets an adapter do.

use stateway_provider_api::Capabilities;

/// What is missing: the server stores no definitions that could be applied; the request id of a reset or
/// of a retry of an activity is not compared with the rest of the request; the workflow's own code
/// decides about compensation.
///
/// `signal_idempotent` has a limit that the server sets: it compares request ids within one run. The adapter searches
/// the current run and the runs before it, at most 16 of them and of each its newest events.
pub const CAPABILITIES: Capabilities = Capabilities {
    start: true,
    start_idempotent: true,
    start_delayed: true,
    list: true,
    list_hints: true,
    count: true,
    history: true,
    history_newest_first: true,
    watch_one: true,
    watch_end: true,
    watch_all: true,
    signal: true,
    signal_idempotent: true,
    cancel: true,
    kill: true,
    pause: true,
    resume: true,
    retry_now: true,
    retry_from: true,
    steps: true,
    retries: true,
    payloads: true,
    labels: true,
    purge: true,
    definitions: true,
    ..Capabilities::NONE
};
