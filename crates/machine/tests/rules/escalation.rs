//! Escalations: who may decide, about which attempt, and what follows; and an escalation after a
//! rollback.

use std::sync::Arc;

use serde_json::json;
use stateway_machine::ExecutionState::{
    Cancelled, Compensating, Completed, Escalated, Failed, RolledBack, Running,
};
use stateway_machine::{
    Awaited, CancelMode, Fact, Rejection, Resolution, Resolver, StepState, StepTimer, Task, Verb,
    awaited, check_resolves_all, last_error, sub_state, waits,
};
use stateway_model::ErrorCategory::{AgentError, Governance, Transient};
use stateway_model::{Reason, SubState, WaitKind};

use crate::kit::Run;

const PLAIN: &str = "steps: [{name: a, agent: clerk}, {name: b}]";

fn escalated(yaml: &str) -> Run {
    let mut run = Run::started(yaml);
    run.fail("a", Governance);
    run
}

fn reassign() -> Resolution {
    Resolution::Reassign {
        role: "chief".into(),
    }
}

#[test]
fn a_person_resumes_reassigns_or_cancels_an_escalated_step() {
    let mut run = escalated(PLAIN);
    run.resolve("a", Resolution::Resume);
    assert_eq!((run.at(), run.task("a")), (Running, Task::of("a", 2)));

    let mut run = escalated(PLAIN);
    run.resolve("a", reassign());
    assert_eq!(&*run.order("a").role, "chief");

    let mut run = escalated(PLAIN);
    let events = run.resolve("a", Resolution::Cancel);
    assert_eq!(events, ["EscalationResolved", "ExecutionCancelled"]);
    assert_eq!(run.at(), Cancelled);
}

#[test]
fn a_step_that_is_not_escalated_is_not_resolved() {
    let mut run = escalated(PLAIN);
    let mut verb = run.resolution("a", Resolution::Resume, "bob", &["operator"]);
    if let Verb::ResolveEscalation { step, .. } = &mut verb {
        *step = "b".into();
    }
    assert_eq!(
        run.refused(verb),
        Rejection::NotEscalated { step: "b".into() }
    );
}

/// A decision that comes late must not hit a newer escalation of the same step.
#[test]
fn a_decision_names_the_attempt_that_was_escalated() {
    let mut run = escalated(PLAIN);
    let late = run.resolution("a", Resolution::Cancel, "eve", &["operator"]);
    run.resolve("a", Resolution::Resume);
    run.fail("a", Governance);
    let stale = Rejection::StaleEscalation {
        step: "a".into(),
        attempt: 1,
    };
    assert_eq!(run.refused(late), stale);
    let open = awaited(&run.state);
    assert_eq!(
        open,
        [Awaited::Person {
            step: "a".into(),
            attempt: 2,
            branch: 0,
            role: None
        }]
    );
}

#[test]
fn an_escalation_is_recorded_with_its_attempt_and_role() {
    let run = escalated("escalation: {role: lead}\nsteps: [{name: a}]");
    assert_eq!(
        *run.fact("ExecutionEscalated"),
        Fact::ExecutionEscalated {
            step: "a".into(),
            reason: Reason::Governance,
            attempt: 1,
            role: "lead".into()
        }
    );
    let wait = waits(&run.state).remove(0);
    assert_eq!(
        (wait.kind, wait.name.as_str()),
        (WaitKind::Escalation, "lead")
    );
}

#[test]
fn the_steps_role_decides_before_the_definitions() {
    let yaml = "escalation: {role: lead}\nsteps: [{name: a, escalation: {role: owner}}]";
    let mut run = escalated(yaml);
    let needs = |role: &str| Rejection::RoleRequired {
        step: "a".into(),
        role: role.into(),
    };
    let by_lead = run.resolution("a", Resolution::Resume, "bob", &["lead", "operator"]);
    assert_eq!(run.refused(by_lead), needs("owner"));
    let by_owner = run.resolution("a", Resolution::Resume, "bob", &["owner"]);
    run.ok(by_owner);

    let mut run = escalated("escalation: {role: lead}\nsteps: [{name: a}]");
    let by_operator = run.resolution("a", Resolution::Resume, "bob", &["operator"]);
    assert_eq!(run.refused(by_operator), needs("lead"));
}

#[test]
fn without_a_role_in_the_definition_the_configured_operators_decide_and_nobody_else() {
    let mut run = escalated(PLAIN);
    let needs = |role: &str| Rejection::RoleRequired {
        step: "a".into(),
        role: role.into(),
    };
    let nobody = run.resolution("a", Resolution::Resume, "bob", &[]);
    assert_eq!(run.refused(nobody), needs("operator"));
    let mut unconfigured = run.resolution("a", Resolution::Resume, "bob", &["operator"]);
    if let Verb::ResolveEscalation { operators, .. } = &mut unconfigured {
        operators.clear();
    }
    assert_eq!(run.refused(unconfigured), needs(""));
    run.resolve("a", Resolution::Resume);
}

#[test]
fn the_same_separation_of_duties_holds_for_escalations() {
    let every = |run: &Run, by: &str| {
        [Resolution::Resume, reassign(), Resolution::Cancel]
            .map(|resolution| run.resolution("a", resolution, by, &["operator"]))
    };
    let mut run = escalated(PLAIN);
    for name in ["ada", "ADA"] {
        for verb in every(&run, name) {
            let own = Rejection::SelfApproval { by: name.into() };
            assert_eq!(run.refused(verb), own);
        }
    }
    let mut run = Run::started(PLAIN).retried_from(3, "a", "Bob");
    run.fail("a", Governance);
    for verb in every(&run, "bob") {
        let own = Rejection::RedoneBySelf { by: "bob".into() };
        assert_eq!(run.refused(verb), own);
    }
    let mut run = Run::started(PLAIN);
    run.assign("a", "bob");
    run.fail("a", Governance);
    for verb in every(&run, "bob") {
        let own = Rejection::OwnWork {
            by: "bob".into(),
            step: "a".into(),
        };
        assert_eq!(run.refused(verb), own);
    }
}

/// Whoever started the execution must not hand its expired approval to a role of their choice.
#[test]
fn an_expired_approval_is_not_reassigned_by_whoever_started_the_execution() {
    let mut run = Run::started("steps: [{name: g, approval: {role: boss, expiresAfter: 1h}}]");
    run.fire("g", StepTimer::Expiry);
    let verb = run.resolution("g", reassign(), "ada", &["operator"]);
    let own = Rejection::SelfApproval { by: "ada".into() };
    assert_eq!(run.refused(verb), own);
    run.resolve("g", reassign());
    let open = awaited(&run.state);
    assert!(
        matches!(&open[..], [Awaited::Approval { role, .. }] if &**role == "chief"),
        "{open:?}"
    );
}

fn resolves_all(run: &Run, by: &str, roles: &[&str]) -> Result<(), Rejection> {
    let roles: Vec<Arc<str>> = roles.iter().map(|role| Arc::from(*role)).collect();
    let resolver = Resolver {
        by: &by.into(),
        roles: &roles,
        operators: &["operator".into()],
    };
    check_resolves_all(&run.state, &resolver)
}

/// `retry-from` asks for this right, because it replaces the decision about the escalation.
#[test]
fn the_right_to_resolve_covers_every_open_escalation() {
    let yaml = "steps: [{name: a, escalation: {role: owner}}, {name: b}]";
    let mut run = Run::started(yaml);
    assert_eq!(resolves_all(&run, "ada", &[]), Ok(()), "nothing to resolve");
    run.assign("a", "tom");
    run.fail("a", Governance);
    let own = Rejection::SelfApproval { by: "Ada".into() };
    assert_eq!(resolves_all(&run, "Ada", &["owner"]), Err(own));
    let own = Rejection::OwnWork {
        by: "tom".into(),
        step: "a".into(),
    };
    assert_eq!(resolves_all(&run, "tom", &["owner"]), Err(own));
    let role = Rejection::RoleRequired {
        step: "a".into(),
        role: "owner".into(),
    };
    assert_eq!(resolves_all(&run, "bob", &["operator"]), Err(role));
    assert_eq!(resolves_all(&run, "bob", &["owner"]), Ok(()));
}

#[test]
fn an_escalation_that_was_open_at_the_end_stays_unresolved() {
    let mut run = escalated(PLAIN);
    run.cancel(CancelMode::Kill);
    let own = Rejection::SelfApproval { by: "ada".into() };
    assert_eq!(resolves_all(&run, "ada", &["operator"]), Err(own));
    assert_eq!(resolves_all(&run, "bob", &["operator"]), Ok(()));

    let mut run = escalated(PLAIN);
    run.resolve("a", Resolution::Cancel);
    assert_eq!(run.at(), Cancelled);
    assert_eq!(resolves_all(&run, "ada", &[]), Ok(()), "bob decided");
}

#[test]
fn an_execution_with_two_escalations_continues_after_both_are_resolved() {
    let yaml = "steps: [{name: a, onFailure: escalate}, {name: b, onFailure: escalate}]";
    let mut run = Run::started(yaml);
    run.fail("a", AgentError);
    assert_eq!(run.fail("b", AgentError), ["AttemptFailed"]);
    run.resolve("a", Resolution::Resume);
    assert_eq!(
        run.at(),
        Escalated,
        "the failure of b has its consequence now"
    );
    run.resolve("b", Resolution::Resume);
    assert_eq!(run.at(), Running);
    assert_eq!(run.tasks(), [Task::of("a", 2), Task::of("b", 2)]);
}

const THEN: &str = "steps: [{name: a}, {name: note, dependsOn: [a], readOnly: true}, {name: b, \
                    dependsOn: [note], onFailure: compensate, then: escalate}, {name: c, dependsOn: \
                    [b]}]\ncompensation: [{step: a}]";

fn rolled_back_and_escalated() -> Run {
    let mut run = Run::started(THEN);
    run.complete("a", json!({"n": 1}));
    run.done("note");
    run.fail("b", AgentError);
    assert_eq!(run.at(), Compensating);
    assert_eq!(run.done("a"), ["StepCompensated", "ExecutionEscalated"]);
    run
}

#[test]
fn compensate_then_escalate_asks_a_person_after_the_rollback() {
    let run = rolled_back_and_escalated();
    assert_eq!(
        (run.at(), sub_state(&run.state)),
        (Escalated, (SubState::Error, Some(Reason::Escalated)))
    );
    let Fact::ExecutionEscalated { step, reason, .. } = run.fact("ExecutionEscalated") else {
        unreachable!()
    };
    assert_eq!((&**step, *reason), ("b", Reason::RolledBack));
    assert_eq!(run.step("a"), StepState::Compensated);
}

#[test]
fn resuming_after_a_rollback_runs_what_was_rolled_back_again() {
    let mut run = rolled_back_and_escalated();
    assert_eq!(
        run.resolve("b", Resolution::Resume),
        ["EscalationResolved", "StepStarted"]
    );
    assert_eq!(run.at(), Running);
    assert_eq!(run.tasks(), [Task::of("a", 2)], "note and b depend on a");
    run.done("a");
    assert_eq!(run.tasks(), [Task::of("note", 2)], "its input may differ");
    run.done("note");
    assert_eq!(run.tasks(), [Task::of("b", 2)]);
    run.done("b");
    run.done("c");
    assert_eq!(run.at(), Completed);
}

#[test]
fn a_second_rollback_after_a_resume_compensates_again() {
    let mut run = rolled_back_and_escalated();
    run.resolve("b", Resolution::Resume);
    run.done("a");
    run.done("note");
    run.fail("b", AgentError);
    assert_eq!(
        run.tasks(),
        [Task::undo("a", 2)],
        "a new attempt, a new key"
    );
    run.done("a");
    assert_eq!(run.at(), Escalated);
}

const PARALLEL: &str = "steps: [{name: a}, {name: x}, {name: b, dependsOn: [a, x], onFailure: \
                        compensate, then: escalate}]\ncompensation: [{step: a}, {step: x}]";

#[test]
fn a_second_rollback_follows_the_second_order_of_completion() {
    let mut run = Run::started(PARALLEL);
    run.done("a");
    run.done("x");
    run.fail("b", AgentError);
    assert_eq!(run.tasks(), [Task::undo("x", 1)]);
    run.done("x");
    run.done("a");
    run.resolve("b", Resolution::Resume);
    run.done("x");
    run.done("a");
    run.fail("b", AgentError);
    assert_eq!(run.tasks(), [Task::undo("a", 2)]);
    run.done("a");
    assert_eq!(run.tasks(), [Task::undo("x", 2)]);
    run.done("x");
    assert_eq!(run.at(), Escalated);
    assert_eq!(run.state.left_behind(), []);
}

#[test]
fn a_second_rollback_has_all_its_retries_again() {
    let mut run = Run::started(THEN);
    run.done("a");
    run.done("note");
    run.fail("b", AgentError);
    for _ in 0..3 {
        run.fail("a", Transient);
        run.fire("a", StepTimer::UndoRetry);
    }
    run.done("a");
    run.resolve("b", Resolution::Resume);
    run.done("a");
    run.done("note");
    run.fail("b", AgentError);
    assert_eq!(run.fail("a", Transient), ["StepCompensationFailed"]);
    assert_eq!(run.at(), Compensating);
}

#[test]
fn cancelling_after_a_rollback_ends_cancelled() {
    let mut run = rolled_back_and_escalated();
    run.resolve("b", Resolution::Cancel);
    assert_eq!((run.at(), run.reason().as_str()), (Cancelled, "CANCELLED"));
    assert_eq!(run.step("a"), StepState::Compensated);
}

#[test]
fn a_rollback_that_fails_is_not_escalated_and_a_cancelled_one_neither() {
    let mut run = Run::started(THEN);
    run.done("a");
    run.done("note");
    run.fail("b", AgentError);
    run.fail("a", Governance);
    assert_eq!(
        (run.at(), run.reason().as_str()),
        (Failed, "PARTIALLY_ROLLED_BACK")
    );
    assert_eq!(last_error(&run.state).unwrap().step, "a");
    let mut run = Run::started(THEN);
    run.done("a");
    run.cancel(stateway_machine::CancelMode::Compensate);
    run.done("a");
    assert_eq!(run.at(), Cancelled);
}

#[test]
fn without_then_a_rollback_ends_rolled_back() {
    let mut run = Run::started(&THEN.replace(", then: escalate", ""));
    run.done("a");
    run.done("note");
    run.fail("b", AgentError);
    run.fail("a", Transient);
    run.fire("a", StepTimer::UndoRetry);
    run.done("a");
    assert_eq!(run.at(), RolledBack);
}
