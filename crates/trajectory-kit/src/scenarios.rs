//! The scenarios. Times are short, because real engines play them in real time.

use stateway_model::ErrorCategory::{
    AgentError, External, Governance, Timeout, Transient, Validation,
};
use stateway_model::Reason;
use stateway_model::SubState::{BackingOff, Error, Waiting};
use stateway_provider_api::CancelMode::{Graceful, Kill};
use stateway_provider_api::CompensationChoice::{AsDefined, Compensate, Skip};

use crate::Answer::{Complete, Fail, FailForGood, Hang};
use crate::{Act, Resolve, Scenario};

/// The scenario of this name.
#[must_use]
pub fn scenario(name: &str) -> Option<&'static Scenario> {
    SCENARIOS.iter().find(|scenario| scenario.name == name)
}

const BASE: Scenario = Scenario {
    name: "",
    definition: "",
    others: &[],
    answers: &[],
    script: &[],
    children: &[],
};

/// Two steps that complete, a third one that fails without a retry, and compensations.
const SAGA: &str = "failurePolicy: compensate
steps:
  - {name: a, agent: '@', timeout: 1m}
  - {name: b, agent: '@', timeout: 1m, dependsOn: [a]}
  - {name: c, agent: '@', timeout: 1m, dependsOn: [b], retryPolicy: {maxRetries: 0}}
compensation:
  - {step: a, agent: '@', action: undo, timeout: 1m, retryPolicy: {maxRetries: 0}}
  - {step: b, agent: '@', action: undo, timeout: 1m, retryPolicy: {maxRetries: 1, backoff: constant, initialDelay: 50ms}}
";

/// A completed step, and a wait that can be cancelled.
const CANCELLABLE: &str = "failurePolicy: compensate
steps:
  - {name: a, agent: '@', timeout: 1m}
  - {name: wait, signal: go, timeout: 10m, dependsOn: [a]}
compensation:
  - {step: a, agent: '@', action: undo, timeout: 1m}
";

const ESCALATES: &str = "steps:
  - {name: a, agent: '@', timeout: 1m, onFailure: escalate, retryPolicy: {maxRetries: 0}}
";

const RETRIES: &str = "steps:
  - {name: a, agent: '@', timeout: 1m, retryPolicy: {maxRetries: 2, backoff: constant, initialDelay: 50ms}}
";

const CORRECTS: &str = "steps:
  - name: a
    agent: '@'
    timeout: 1m
    outputSchema: {type: object, required: [ok]}
    maxCorrectionAttempts: 1
    retryPolicy: {maxRetries: 0}
";

const CHILD: &str = "steps:
  - {name: sub, workflow: '@-child', timeout: 5m, input: {n: '${input.n}'}, retryPolicy: {maxRetries: 0}}
  - {name: z, agent: '@', timeout: 1m, dependsOn: [sub], input: '${steps.sub.output}'}
";

/// Every scenario.
pub const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "chain",
        definition: "steps:
  - {name: a, agent: '@', timeout: 1m}
  - {name: b, agent: '@', timeout: 1m, dependsOn: [a], input: '${steps.a.output}'}
  - {name: c, agent: '@', timeout: 1m, dependsOn: [b]}
",
        answers: &[("a.1", Complete("{\"x\":1}"))],
        ..BASE
    },
    Scenario {
        name: "parallel",
        definition: "steps:
  - {name: a, agent: '@', timeout: 1m}
  - {name: b, agent: '@', timeout: 1m}
  - {name: c, signal: go, timeout: 10m}
  - {name: d, agent: '@', timeout: 1m, dependsOn: [a, b, c]}
",
        script: &[
            Act::Until("", Waiting, Some(Reason::AwaitingInput)),
            Act::Signal("", "go"),
        ],
        ..BASE
    },
    Scenario {
        name: "when",
        definition: "steps:
  - {name: a, agent: '@', timeout: 1m}
  - {name: b, agent: '@', timeout: 1m, dependsOn: [a], when: '${input.n} > 1'}
  - {name: c, agent: '@', timeout: 1m, dependsOn: [b]}
",
        ..BASE
    },
    Scenario {
        name: "sleep",
        definition: "steps: [{name: a, sleep: 100ms}, {name: b, agent: '@', timeout: 1m, dependsOn: [a]}]\n",
        ..BASE
    },
    Scenario {
        name: "signal",
        definition: "steps: [{name: a, signal: go, timeout: 10m}]\n",
        script: &[
            Act::Until("", Waiting, Some(Reason::AwaitingInput)),
            Act::Signal("", "go"),
        ],
        ..BASE
    },
    Scenario {
        name: "signal-early",
        definition: "steps: [{name: a, sleep: 2s}, {name: b, signal: go, timeout: 10m, dependsOn: [a]}]\n",
        script: &[Act::Signal("", "go")],
        ..BASE
    },
    Scenario {
        name: "signal-timeout",
        definition: "steps: [{name: a, signal: go, timeout: 100ms}]\n",
        ..BASE
    },
    Scenario {
        name: "signal-timeout-escalates",
        definition: "steps: [{name: a, signal: go, timeout: 100ms, onTimeout: escalate}]\n",
        script: &[
            Act::Until("", Error, Some(Reason::Escalated)),
            Act::Resolve("a~1", Resolve::Cancel),
        ],
        ..BASE
    },
    Scenario {
        name: "approval-granted",
        definition: "steps:
  - {name: sign, approval: {role: boss, expiresAfter: 1h}}
  - {name: b, agent: '@', timeout: 1m, dependsOn: [sign]}
",
        script: &[
            Act::Until("", Waiting, Some(Reason::AwaitingInput)),
            Act::Decide("sign~1", true),
        ],
        ..BASE
    },
    Scenario {
        name: "approval-rejected",
        definition: "steps: [{name: sign, approval: {role: boss, expiresAfter: 1h}}]\n",
        script: &[Act::Decide("sign~1", false)],
        ..BASE
    },
    Scenario {
        name: "approval-rejected-fails",
        definition: "steps: [{name: sign, approval: {role: boss, expiresAfter: 1h, onReject: fail}}]\n",
        script: &[Act::Decide("sign~1", false)],
        ..BASE
    },
    Scenario {
        name: "approval-expires",
        definition: "steps: [{name: sign, approval: {role: boss, expiresAfter: 100ms, onExpiry: fail}}]\n",
        ..BASE
    },
    Scenario {
        name: "approval-expiry-escalates",
        definition: "steps: [{name: sign, approval: {role: boss, expiresAfter: 100ms}}]\n",
        script: &[
            Act::Until("", Error, Some(Reason::Escalated)),
            Act::Resolve("sign~1", Resolve::Cancel),
        ],
        ..BASE
    },
    Scenario {
        name: "child",
        definition: CHILD,
        others: &[("child", "steps: [{name: x, agent: '@', timeout: 1m}]\n")],
        answers: &[("x.1", Complete("{\"y\":2}"))],
        children: &["~sub~1"],
        ..BASE
    },
    Scenario {
        name: "child-fails",
        definition: CHILD,
        others: &[("child", "steps: [{name: x, agent: '@', timeout: 1m}]\n")],
        answers: &[("x.1", FailForGood(External))],
        children: &["~sub~1"],
        ..BASE
    },
    Scenario {
        name: "child-missing",
        definition: CHILD,
        ..BASE
    },
    Scenario {
        name: "child-cancelled",
        definition: CHILD,
        others: &[("child", CANCELLABLE)],
        script: &[
            Act::Until("~sub~1", Waiting, Some(Reason::AwaitingInput)),
            Act::Cancel(Graceful, AsDefined),
        ],
        children: &["~sub~1"],
        ..BASE
    },
    Scenario {
        name: "child-killed",
        definition: CHILD,
        others: &[("child", CANCELLABLE)],
        script: &[
            Act::Until("~sub~1", Waiting, Some(Reason::AwaitingInput)),
            Act::Cancel(Kill, AsDefined),
        ],
        children: &["~sub~1"],
        ..BASE
    },
    Scenario {
        name: "grandchild",
        definition: CHILD,
        others: &[
            (
                "child",
                "steps: [{name: sub, workflow: '@-inner', timeout: 5m}]\n",
            ),
            ("inner", "steps: [{name: x, agent: '@', timeout: 1m}]\n"),
        ],
        children: &["~sub~1", "~sub~1~sub~1"],
        ..BASE
    },
    Scenario {
        name: "retry",
        definition: RETRIES,
        answers: &[("a.1", Fail(Transient)), ("a.2", Fail(External))],
        ..BASE
    },
    Scenario {
        name: "retries-exhausted",
        definition: RETRIES,
        answers: &[
            ("a.1", Fail(Transient)),
            ("a.2", Fail(AgentError)),
            ("a.3", Fail(Timeout)),
        ],
        ..BASE
    },
    Scenario {
        name: "not-retryable",
        definition: RETRIES,
        answers: &[("a.1", FailForGood(Transient))],
        ..BASE
    },
    Scenario {
        name: "validation",
        definition: RETRIES,
        answers: &[("a.1", Fail(Validation))],
        ..BASE
    },
    Scenario {
        name: "correction",
        definition: CORRECTS,
        answers: &[
            ("a.1", Complete("{}")),
            ("a.2", Complete("{\"ok\":true}")),
        ],
        ..BASE
    },
    Scenario {
        name: "correction-exhausted",
        definition: CORRECTS,
        answers: &[("a.1", Complete("{}")), ("a.2", Complete("{}"))],
        ..BASE
    },
    Scenario {
        name: "attempt-timeout",
        definition: "steps:
  - {name: a, agent: '@', timeout: 2s, retryPolicy: {maxRetries: 1, backoff: constant, initialDelay: 50ms, retryOn: [timeout]}}
",
        answers: &[("a.1", Hang)],
        ..BASE
    },
    Scenario {
        name: "queue-timeout",
        definition: "steps:
  - {name: a, agent: nobody-has-this-role, timeout: 1m, queueTimeout: 150ms, retryPolicy: {maxRetries: 0}}
",
        ..BASE
    },
    Scenario {
        name: "workflow-timeout",
        definition: "timeout: 200ms\nsteps: [{name: a, signal: go, timeout: 10m}]\n",
        ..BASE
    },
    Scenario {
        name: "on-failure-skip",
        definition: "steps:
  - {name: a, agent: '@', timeout: 1m, onFailure: skip, retryPolicy: {maxRetries: 0}}
  - {name: b, agent: '@', timeout: 1m, dependsOn: [a]}
",
        answers: &[("a.1", Fail(External))],
        ..BASE
    },
    Scenario {
        name: "on-failure-abort",
        definition: "steps:
  - {name: a, agent: '@', timeout: 1m}
  - {name: b, agent: '@', timeout: 1m, dependsOn: [a], onFailure: abort, retryPolicy: {maxRetries: 0}}
  - {name: c, agent: '@', timeout: 1m, dependsOn: [b]}
",
        answers: &[("b.1", Fail(External))],
        ..BASE
    },
    Scenario {
        name: "on-failure-pause",
        definition: "steps:
  - {name: a, agent: '@', timeout: 1m, onFailure: pause, retryPolicy: {maxRetries: 0}}
",
        answers: &[("a.1", Fail(External))],
        script: &[
            Act::Until("", Error, Some(Reason::Paused)),
            Act::Resume,
        ],
        ..BASE
    },
    Scenario {
        name: "escalation-resumed",
        definition: ESCALATES,
        answers: &[("a.1", Fail(External))],
        script: &[
            Act::Until("", Error, Some(Reason::Escalated)),
            Act::Resolve("a~1", Resolve::Resume),
        ],
        ..BASE
    },
    Scenario {
        name: "escalation-reassigned",
        definition: "steps:
  - {name: a, agent: nobody-has-this-role, timeout: 1m, queueTimeout: 5s, onFailure: escalate, retryPolicy: {maxRetries: 0}}
",
        script: &[
            Act::Until("", Error, Some(Reason::Escalated)),
            Act::Resolve("a~1", Resolve::Reassign),
        ],
        ..BASE
    },
    Scenario {
        name: "governance",
        definition: "steps: [{name: a, agent: '@', timeout: 1m}]\n",
        answers: &[("a.1", Fail(Governance))],
        script: &[
            Act::Until("", Error, Some(Reason::Escalated)),
            Act::Resolve("a~1", Resolve::Cancel),
        ],
        ..BASE
    },
    Scenario {
        name: "saga",
        definition: SAGA,
        answers: &[("c.1", Fail(External)), ("b.undo.1", Fail(Transient))],
        ..BASE
    },
    Scenario {
        name: "saga-partly",
        definition: SAGA,
        answers: &[("c.1", Fail(External)), ("a.undo.1", Fail(External))],
        ..BASE
    },
    Scenario {
        name: "saga-read-only",
        definition: "failurePolicy: compensate
steps:
  - {name: a, agent: '@', timeout: 1m, readOnly: true}
  - {name: b, agent: '@', timeout: 1m, dependsOn: [a]}
  - {name: c, agent: '@', timeout: 1m, dependsOn: [b], retryPolicy: {maxRetries: 0}}
compensation:
  - {step: b, agent: '@', action: undo, timeout: 1m}
",
        answers: &[("c.1", Fail(External))],
        ..BASE
    },
    Scenario {
        name: "cancel",
        definition: CANCELLABLE,
        script: &[
            Act::Until("", Waiting, Some(Reason::AwaitingInput)),
            Act::Cancel(Graceful, AsDefined),
        ],
        ..BASE
    },
    Scenario {
        name: "cancel-without-compensation",
        definition: CANCELLABLE,
        script: &[
            Act::Until("", Waiting, Some(Reason::AwaitingInput)),
            Act::Cancel(Graceful, Skip),
        ],
        ..BASE
    },
    Scenario {
        name: "cancel-with-compensation",
        definition: "steps:
  - {name: a, agent: '@', timeout: 1m}
  - {name: wait, signal: go, timeout: 10m, dependsOn: [a]}
compensation:
  - {step: a, agent: '@', action: undo, timeout: 1m}
",
        script: &[
            Act::Until("", Waiting, Some(Reason::AwaitingInput)),
            Act::Cancel(Graceful, Compensate),
        ],
        ..BASE
    },
    Scenario {
        name: "cancel-in-hands",
        definition: "steps: [{name: a, agent: '@', timeout: 1m}]\n",
        answers: &[("a.1", Hang)],
        script: &[
            Act::Taken("a"),
            Act::Cancel(Graceful, AsDefined),
        ],
        ..BASE
    },
    Scenario {
        name: "kill",
        definition: CANCELLABLE,
        script: &[
            Act::Until("", Waiting, Some(Reason::AwaitingInput)),
            Act::Cancel(Kill, AsDefined),
        ],
        ..BASE
    },
    Scenario {
        name: "pause",
        definition: "steps:
  - {name: a, signal: go, timeout: 10m}
  - {name: b, agent: '@', timeout: 1m, dependsOn: [a]}
",
        script: &[
            Act::Until("", Waiting, Some(Reason::AwaitingInput)),
            Act::Pause,
            Act::Until("", Waiting, Some(Reason::Paused)),
            Act::Resume,
            Act::Until("", Waiting, Some(Reason::AwaitingInput)),
            Act::Signal("", "go"),
        ],
        ..BASE
    },
    Scenario {
        name: "retry-now",
        definition: "steps:
  - {name: a, agent: '@', timeout: 1m, retryPolicy: {maxRetries: 1, backoff: constant, initialDelay: 10m, maxDelay: 10m}}
",
        answers: &[("a.1", Fail(Transient))],
        script: &[Act::Until("", BackingOff, None), Act::RetryNow],
        ..BASE
    },
    Scenario {
        name: "retry-from",
        definition: "steps:
  - {name: a, signal: go, timeout: 10m}
  - {name: b, signal: on, timeout: 10m, dependsOn: [a]}
",
        script: &[
            Act::Signal("", "go"),
            Act::Until("", Waiting, Some(Reason::AwaitingInput)),
            Act::Cancel(Graceful, AsDefined),
            Act::RetryFrom("b"),
            Act::Signal("", "on"),
        ],
        ..BASE
    },
    Scenario {
        name: "concurrency",
        definition: "concurrency: 2\nsteps: [{name: a, sleep: 50ms}]\n",
        ..BASE
    },
    Scenario {
        name: "http",
        definition: "steps: [{name: a, http: {method: GET, url: 'https://not-allowed.example/'}, timeout: 5s, retryPolicy: {maxRetries: 0}}]\n",
        script: &[
            Act::Until("", Error, Some(Reason::Escalated)),
            Act::Resolve("a~1", Resolve::Cancel),
        ],
        ..BASE
    },
];
