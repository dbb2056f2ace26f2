//! A history for golden files.

use std::sync::Arc;

use serde_json::json;
use stateway_machine::{Resolution, StepTimer, Task, Verb};
use stateway_model::ErrorCategory::{AgentError, Governance, Transient};

use super::Run;

const EVERY_FACT: &str = include_str!("../every-fact.yaml");

/// One history with every fact but the other endings.
pub(crate) fn long_history() -> Run {
    let mut run = Run::created(EVERY_FACT);
    run.ok(Verb::Trigger { by: "ada".into() });
    run.ok(Verb::GrantSlot);
    let task = Task::of("a", 1);
    run.ok(Verb::AssignTask {
        task: task.clone(),
        worker: "w1".into(),
    });
    run.ok(Verb::ReleaseTask { task });
    run.wait(std::time::Duration::from_secs(1));
    run.ok(Verb::heartbeat("a", 1));
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
    definition.steps.last_mut().unwrap().timeout = Some(std::time::Duration::from_secs(9));
    run.ok(Verb::OfferDefinition {
        definition: Arc::new(definition),
    });
    run.ok(Verb::OpenBranch {
        branch: 1,
        cutoff: 9,
        by: "bob".into(),
        redo: None,
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
