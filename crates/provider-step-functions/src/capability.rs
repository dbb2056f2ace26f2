//! What Step Functions lets an adapter do.

use stateway_provider_api::Capabilities;

/// Standard executions. There is no pause, no resume, no early retry, no delayed start and no count;
/// tags belong to state machines and not to executions; AWS alone forgets an execution, after 90 days;
/// a stopped execution runs no further state, so nothing is compensated. A redrive carries the request id
/// as its client token, which AWS recognises for 15 minutes and without comparing the body: that is less
/// than `retry_from_idempotent` promises. The step and the attempt of an event follow from the events before
/// it, so a history is read from its beginning.
pub const CAPABILITIES: Capabilities = Capabilities {
    start: true,
    start_idempotent: true,
    list: true,
    list_hints: true,
    history: true,
    // The service pushes nothing: the adapter lists what is new and what is open.
    watch_all: true,
    signal: true,
    cancel: true,
    kill: true,
    retry_from: true,
    steps: true,
    retries: true,
    payloads: true,
    definitions: true,
    apply_definition: true,
    ..Capabilities::NONE
};

/// Express executions. One can be started and then only be found in logs; its name can be used again
/// immediately, so a start is not idempotent either.
pub const EXPRESS_CAPABILITIES: Capabilities = Capabilities {
    start: true,
    definitions: true,
    apply_definition: true,
    ..Capabilities::NONE
};
