//! The definitions that schedules start.

/// Definitions that every disk has: their names and their sources.
pub(crate) const KNOWN: &[(&str, &str)] = &[
    (
        "chain",
        "name: chain
steps:
  - {name: a, agent: r1, timeout: 5m, retryPolicy: {maxRetries: 2, initialDelay: 2s}}
  - {name: b, agent: r2, dependsOn: [a], timeout: 5m}
  - {name: c, agent: r1, dependsOn: [b], timeout: 5m}
",
    ),
    (
        "parallel",
        "name: parallel
steps:
  - {name: a, agent: r1, timeout: 5m}
  - {name: b, agent: r2, timeout: 5m, onFailure: skip}
  - {name: c, agent: r1, timeout: 5m}
  - {name: join, agent: r2, dependsOn: [a, b, c], timeout: 5m}
",
    ),
    (
        "saga",
        "name: saga
failurePolicy: compensate
steps:
  - {name: a, agent: r1, timeout: 5m}
  - {name: b, agent: r2, dependsOn: [a], timeout: 5m}
  - {name: c, agent: r1, dependsOn: [b], timeout: 5m, retryPolicy: {maxRetries: 1, initialDelay: 1s}}
compensation:
  - {step: a, agent: r1, action: undo-a, timeout: 1m}
  - {step: b, agent: r2, action: undo-b, timeout: 1m}
",
    ),
    (
        "release",
        "name: release
steps:
  - {name: build, agent: r1, timeout: 5m}
  - {name: approve, dependsOn: [build], approval: {role: boss, expiresAfter: 2m, onExpiry: escalate, onReject: cancel}}
  - {name: deploy, agent: r2, dependsOn: [approve], timeout: 5m}
",
    ),
    (
        "gate",
        "name: gate
steps:
  - {name: wait, signal: go}
  - {name: work, agent: r1, dependsOn: [wait], timeout: 5m}
  - {name: again, signal: go, dependsOn: [work], timeout: 10m}
",
    ),
    (
        "parent",
        "name: parent
failurePolicy: compensate
steps:
  - {name: first, workflow: chain, timeout: 1h}
  - {name: second, workflow: gate, timeout: 1h}
  - {name: end, agent: r1, dependsOn: [first, second], timeout: 5m}
",
    ),
    (
        "sleepy",
        "name: sleepy
steps:
  - {name: nap, sleep: 30s}
  - {name: work, agent: r1, dependsOn: [nap], timeout: 5m}
  - {name: rest, sleep: 5s, dependsOn: [work]}
",
    ),
    (
        "single",
        "name: single
concurrency: 1
steps:
  - {name: work, agent: r1, timeout: 5m}
",
    ),
    (
        "pair",
        "name: pair
concurrency: 2
steps:
  - {name: wait, signal: go, timeout: 20m}
  - {name: work, agent: r2, dependsOn: [wait], timeout: 5m}
",
    ),
    (
        "watched",
        "name: watched
timeout: 1h
steps:
  - {name: work, agent: r1, timeout: 40s, heartbeatTimeout: 20s, queueTimeout: 2m, retryPolicy: {maxRetries: 3, initialDelay: 1s}}
  - {name: more, agent: r2, dependsOn: [work], timeout: 20s, onTimeout: escalate}
",
    ),
    (
        "order",
        "name: order
trigger: {event: order}
steps:
  - {name: work, agent: r2, timeout: 5m}
",
    ),
    (
        "wide",
        "name: wide
steps:
  - {name: s0, agent: r1, timeout: 5m}
  - {name: s1, agent: r1, timeout: 5m}
  - {name: s2, agent: r2, timeout: 5m}
  - {name: s3, agent: r1, timeout: 5m}
  - {name: s4, agent: r2, timeout: 5m}
  - {name: s5, agent: r1, timeout: 5m}
  - {name: s6, agent: r2, timeout: 5m}
  - {name: s7, agent: r1, timeout: 5m}
  - {name: s8, agent: r1, timeout: 5m}
  - {name: s9, agent: r2, timeout: 5m}
  - {name: child, workflow: single, timeout: 1h}
",
    ),
];

/// Definitions that ask for too much. Every disk has them too.
pub(crate) const HOSTILE: &[(&str, &str)] = &[
    // Starts itself three times: the limit of a tree ends it.
    (
        "bomb",
        "name: bomb
steps:
  - {name: a, workflow: bomb, timeout: 1h}
  - {name: b, workflow: bomb, timeout: 1h}
  - {name: c, workflow: bomb, timeout: 1h}
",
    ),
    // Waits for itself.
    (
        "selfish",
        "name: selfish
concurrency: 1
steps:
  - {name: again, workflow: selfish, timeout: 1h}
",
    ),
    // Its output is three times as large as the output of its step.
    (
        "swollen",
        "name: swollen
steps:
  - {name: a, agent: r1, timeout: 5m}
output: {x: '${steps.a.output}', y: '${steps.a.output}', z: '${steps.a.output}'}
",
    ),
    // The input of its second step may be too large for a message.
    (
        "greedy",
        "name: greedy
steps:
  - {name: a, agent: r1, timeout: 5m}
  - {name: b, agent: r2, dependsOn: [a], timeout: 5m, input: {x: '${steps.a.output}', y: '${steps.a.output}',
     z: '${steps.a.output}', w: '${input}', v: '${input}'}}
",
    ),
    // Retries without a pause.
    (
        "impatient",
        "name: impatient
steps:
  - {name: a, agent: r1, timeout: 1s, retryPolicy: {maxRetries: 50, backoff: constant, initialDelay: 1ms, maxDelay: 1ms}}
",
    ),
];

/// Definitions that a client may apply during a schedule, also over a known one.
pub(crate) const APPLIED: &[(&str, &str)] = &[
    (
        "scheduled",
        "name: scheduled
trigger: {schedule: \"*/10 * * * *\"}
concurrency: 1
steps:
  - {name: work, agent: r1, timeout: 5m}
",
    ),
    (
        "recursive",
        "name: recursive
steps:
  - {name: again, workflow: recursive, timeout: 1h}
",
    ),
    (
        "chain",
        "name: chain
steps:
  - {name: a, agent: r2, timeout: 5m}
  - {name: d, agent: r2, dependsOn: [a], timeout: 5m}
",
    ),
    (
        "nonsense",
        "name: nonsense\nsteps:\n  - {name: a, agent: r1, dependsOn: [a]}\n",
    ),
];
