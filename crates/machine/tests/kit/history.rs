//! Histories for golden files: between them they hold every fact.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use stateway_machine::{
    CancelMode, PolicyDecision, Redo, Resolution, StepTimer, Task, Verb, later,
};
use stateway_model::ErrorCategory::{AgentError, Governance, Transient};
use stateway_model::Usage;

use super::Run;

pub(crate) const EVERY_FACT: &str = include_str!("../every-fact.yaml");
const SIBLINGS: &str = "queueTimeout: 5m\nfailurePolicy: compensate\nescalation: {role: operator}\n\
                        steps: [{name: a, agent: w, timeout: 1m}, {name: b, agent: w, dependsOn: [a], \
                        timeout: 1m, onFailure: compensate, then: escalate}, {name: busy, agent: w, \
                        dependsOn: [a], timeout: 1m}]\ncompensation: [{step: a, agent: undoer}, {step: \
                        busy, agent: undoer}]";

/// One history with every fact of version 1 but the other endings.
pub(crate) fn long_history() -> Run {
    let mut run = Run::created(EVERY_FACT);
    run.ok(Verb::Trigger { by: "ada".into() });
    run.ok(Verb::GrantSlot);
    run.assign("a", "w1");
    run.wait(Duration::from_secs(1));
    run.ok(Verb::heartbeat("a", 1));
    run.release("a");
    run.fail("a", Transient);
    run.fire("a", StepTimer::Retry);
    run.complete("a", json!("wrong"));
    run.complete("a", json!({"id": 7}));
    run.fail("opt", AgentError);
    run.signal("go", "m1").unwrap();
    run.vote("g", 1, true, "bob").unwrap();
    run.pause();
    run.resume();
    run.fail("risky", Governance);
    run.resolve(
        "risky",
        Resolution::Reassign {
            role: "chief".into(),
        },
    );
    let mut definition = run.plan.definition().clone();
    definition.steps.last_mut().unwrap().timeout = Some(Duration::from_secs(9));
    run.ok(Verb::OfferDefinition {
        definition: Arc::new(definition),
        by: "eve".into(),
    });
    run.ok(Verb::OpenBranch {
        branch: 1,
        cutoff: 9,
        by: "eve".into(),
        redo: None,
        reopened: None,
        spent: Usage::default(),
        spent_by_step: std::collections::BTreeMap::new(),
    });
    run.done("risky");
    run.fire("g2", StepTimer::Expiry);
    run.resolve("g2", Resolution::Resume);
    run.vote("g2", 2, false, "bob").unwrap();
    run.fail("a", Transient);
    run.fire("a", StepTimer::UndoRetry);
    run.done("a");
    run
}

/// A policy approval, a rollback with work in flight whose outcome stays unknown, an escalation after
/// the rollback, and a second run of everything that is cancelled with work in flight.
pub(crate) fn escalated_rollback() -> Run {
    let mut run = Run::started(SIBLINGS);
    run.ok(Verb::DecidePolicy {
        task: Task::of("a", 1),
        rule: "spending".into(),
        decision: PolicyDecision::RequireApproval {
            role: "boss".into(),
            due: Some(later(run.now, Duration::from_secs(3600))),
        },
    });
    run.vote("a", 1, true, "bob").unwrap();
    run.assign("a", "w1");
    run.done("a");
    run.assign("busy", "w1");
    run.assign("b", "w2");
    run.fail("b", AgentError);
    run.lose("busy");
    run.done("busy");
    run.done("a");
    run.resolve("b", Resolution::Resume);
    run.assign("a", "w1");
    run.cancel(CancelMode::Stop);
    run.done("a");
    run
}

/// An execution that failed and was reopened.
pub(crate) fn reopened() -> Run {
    let mut run = Run::started("steps: [{name: a}, {name: b, dependsOn: [a]}]");
    run.done("a");
    let task = run.task("b");
    run.ok(Verb::FailTask {
        task,
        failure: stateway_machine::Failure::reported(AgentError, "it broke"),
        usage: Some(Usage {
            input_tokens: 10,
            output_tokens: 20,
            cost_micros: 30,
        }),
    });
    let mut again = run.retried_from(5, "b", "bob");
    again.done("b");
    again
}

/// A fork of an execution that had succeeded.
pub(crate) fn forked() -> Run {
    let mut run = Run::started("steps: [{name: a}, {name: b, dependsOn: [a]}]");
    run.done("a");
    run.done("b");
    let mut fork = run.rewound(5);
    fork.ok(Verb::Fork {
        from: "e1".into(),
        branch: 0,
        cutoff: 5,
        by: "eve".into(),
        redo: Box::new(Redo::from("b")),
    });
    fork.done("b");
    fork
}

/// All of them.
pub(crate) fn histories() -> Vec<Run> {
    vec![long_history(), escalated_rollback(), reopened(), forked()]
}
