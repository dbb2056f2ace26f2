//! Policy rules decide before a task is handed out. The decision is recorded; the rules live in the
//! host's configuration.

use std::time::Duration;

use stateway_machine::ExecutionState::{AwaitingApproval, Cancelled, Escalated, Failed, Running};
use stateway_machine::{
    Awaited, Fact, FailureCause, PolicyDecision, Rejection, Resolution, StepState, StepTimer, Task,
    Verb, awaited, last_error, later, seeking, waits,
};
use stateway_model::ErrorCategory::{AgentError, Governance, Transient};
use stateway_model::WaitKind;

use crate::kit::Run;

const PLAIN: &str = "steps: [{name: a, queueTimeout: 5m}]";

fn judge(run: &Run, decision: PolicyDecision) -> Verb {
    Verb::DecidePolicy {
        task: run.task("a"),
        rule: "spending".into(),
        decision,
    }
}

fn deny(message: &str) -> PolicyDecision {
    PolicyDecision::Deny {
        message: message.into(),
    }
}

fn ask(run: &Run) -> PolicyDecision {
    PolicyDecision::RequireApproval {
        role: "boss".into(),
        due: Some(later(run.now, Duration::from_secs(3600))),
    }
}

fn asked(yaml: &str) -> Run {
    let mut run = Run::started(yaml);
    let verb = judge(&run, ask(&run));
    assert_eq!(run.ok(verb), ["PolicyDecided"]);
    run
}

#[test]
fn an_allowed_task_is_recorded_and_can_be_taken() {
    let mut run = Run::started(PLAIN);
    let verb = judge(&run, PolicyDecision::Allow);
    assert_eq!(run.ok(verb), ["PolicyDecided"]);
    assert_eq!(
        *run.fact("PolicyDecided"),
        Fact::PolicyDecided {
            task: Task::of("a", 1),
            rule: "spending".into(),
            decision: PolicyDecision::Allow
        }
    );
    assert_eq!(run.assign("a", "w"), ["TaskAssigned"]);
}

#[test]
fn a_denied_task_fails_as_a_governance_failure_and_escalates() {
    let mut run = Run::started("steps: [{name: a, onFailure: skip, retryPolicy: {maxRetries: 9}}]");
    let verb = judge(&run, deny("too expensive"));
    assert_eq!(
        run.ok(verb),
        ["PolicyDecided", "AttemptFailed", "ExecutionEscalated"]
    );
    let error = last_error(&run.state).unwrap();
    assert_eq!(
        error.message,
        "denied by the policy rule `spending`: too expensive"
    );
    assert_eq!(
        (error.category, error.native_code.as_str()),
        (Some(Governance), FailureCause::PolicyDenied.as_str())
    );
    assert_eq!(run.at(), Escalated);
}

#[test]
fn a_denial_without_a_message_names_the_rule() {
    let mut run = Run::started(PLAIN);
    let verb = judge(&run, deny(""));
    run.ok(verb);
    let error = last_error(&run.state).unwrap();
    assert_eq!(error.message, "denied by the policy rule `spending`");
}

#[test]
fn a_task_that_needs_an_approval_waits_for_it_and_is_not_handed_out() {
    let run = asked(PLAIN);
    assert_eq!(
        (run.at(), run.step("a")),
        (AwaitingApproval, StepState::Waiting)
    );
    assert_eq!(run.tasks(), []);
    assert_eq!(
        awaited(&run.state),
        [Awaited::Approval {
            step: "a".into(),
            attempt: 1,
            branch: 0,
            rule: Some("spending".into()),
            role: "boss".into()
        }]
    );
    let wait = waits(&run.state).remove(0);
    assert_eq!(
        (wait.kind, wait.name.as_str(), wait.deadline),
        (
            WaitKind::Approval,
            "boss",
            Some(later(run.now, Duration::from_secs(3600)))
        )
    );
    assert_eq!(
        run.timer("a", StepTimer::Queue),
        None,
        "no worker is awaited"
    );
}

#[test]
fn an_approved_task_is_ready_for_a_worker_as_the_same_attempt() {
    let mut run = asked(PLAIN);
    run.wait(Duration::from_secs(600));
    assert_eq!(run.vote("a", 1, true, "bob"), Ok(vec!["ApprovalGranted"]));
    assert_eq!((run.at(), run.step("a")), (Running, StepState::Running));
    assert_eq!(run.tasks(), [Task::of("a", 1)]);
    assert_eq!(
        run.due_in("a", StepTimer::Queue),
        Some(300),
        "waiting for a worker counts from the approval"
    );
    run.assign("a", "w");
    run.done("a");
}

#[test]
fn an_approved_rule_allows_every_further_attempt_of_the_step() {
    let mut run = asked(PLAIN);
    run.vote("a", 1, true, "bob").unwrap();
    run.fail("a", Transient);
    run.fire("a", StepTimer::Retry);
    let again = judge(&run, ask(&run));
    assert_eq!(run.ok(again), Vec::<&str>::new());
    assert_eq!(run.tasks(), [Task::of("a", 2)]);
    let other = Verb::DecidePolicy {
        task: run.task("a"),
        rule: "night".into(),
        decision: ask(&run),
    };
    assert_eq!(run.ok(other), ["PolicyDecided"], "another rule asks again");
}

#[test]
fn an_approved_rule_can_still_deny() {
    let mut run = asked(PLAIN);
    run.vote("a", 1, true, "bob").unwrap();
    let verb = judge(&run, deny("closed"));
    run.ok(verb);
    assert_eq!(run.at(), Escalated);
}

#[test]
fn a_rejected_task_follows_the_steps_failure_action() {
    let mut run = asked(PLAIN);
    assert_eq!(
        run.vote("a", 1, false, "bob"),
        Ok(vec!["ApprovalRejected", "ExecutionFailed"])
    );
    assert_eq!((run.at(), run.reason().as_str()), (Failed, "REJECTED"));
    let mut run = asked("steps: [{name: a, onFailure: skip}, {name: b}]");
    run.vote("a", 1, false, "bob").unwrap();
    assert_eq!((run.at(), run.step("a")), (Running, StepState::Skipped));
}

#[test]
fn an_approval_of_a_task_that_expires_escalates_and_is_asked_for_again_after_a_resume() {
    let mut run = asked(PLAIN);
    assert_eq!(
        run.fire("a", StepTimer::Expiry),
        ["ApprovalExpired", "ExecutionEscalated"]
    );
    assert_eq!(
        run.resolve("a", Resolution::Resume),
        ["EscalationResolved", "StepStarted", "PolicyDecided"]
    );
    assert_eq!(run.tasks(), [], "no worker gets the task");
    assert_eq!(asks(&run, "boss"), *run.fact("PolicyDecided"));
    assert_eq!(
        run.due_in("a", StepTimer::Expiry),
        Some(3600),
        "as long as the first time"
    );
    run.vote("a", 2, true, "bob").unwrap();
    assert_eq!(run.tasks(), [Task::of("a", 2)]);
    let again = judge(&run, ask(&run));
    assert_eq!(run.ok(again), Vec::<&str>::new(), "the rule is approved");
}

/// The request of the rule for the second attempt.
fn asks(run: &Run, role: &str) -> Fact {
    Fact::PolicyDecided {
        task: Task::of("a", 2),
        rule: "spending".into(),
        decision: PolicyDecision::RequireApproval {
            role: role.into(),
            due: Some(later(run.now, Duration::from_secs(3600))),
        },
    }
}

#[test]
fn reassigning_an_expired_approval_of_a_task_asks_the_other_role() {
    let mut run = asked("steps: [{name: a, agent: payer}]");
    run.fire("a", StepTimer::Expiry);
    let reassign = Resolution::Reassign {
        role: "chief".into(),
    };
    assert_eq!(
        run.resolve("a", reassign),
        ["EscalationResolved", "StepStarted", "PolicyDecided"]
    );
    assert_eq!(asks(&run, "chief"), *run.fact("PolicyDecided"));
    assert_eq!((run.at(), run.tasks()), (AwaitingApproval, vec![]));
    assert!(matches!(
        run.vote("a", 2, true, "cara"),
        Err(Rejection::RoleRequired { role, .. }) if &*role == "chief"
    ));
    run.ok(Verb::DecideApproval {
        step: "a".into(),
        attempt: 2,
        grant: true,
        by: "cara".into(),
        roles: vec!["chief".into()],
        comment: "seen".into(),
    });
    let seeks = seeking(&run.state).remove(0);
    assert_eq!(&*seeks.role, "payer", "the work stays with its role");
}

#[test]
fn a_reassigned_request_that_expires_again_stays_with_the_other_role() {
    let mut run = asked(PLAIN);
    run.fire("a", StepTimer::Expiry);
    let reassign = Resolution::Reassign {
        role: "chief".into(),
    };
    run.resolve("a", reassign);
    run.fire("a", StepTimer::Expiry);
    run.resolve("a", Resolution::Resume);
    let Fact::PolicyDecided { decision, .. } = run.fact("PolicyDecided") else {
        panic!();
    };
    assert!(matches!(
        decision,
        PolicyDecision::RequireApproval { role, .. } if &**role == "chief"
    ));
}

#[test]
fn a_step_keeps_the_approval_of_every_rule() {
    let mut run = asked(PLAIN);
    run.vote("a", 1, true, "bob").unwrap();
    let night = |run: &Run| Verb::DecidePolicy {
        task: run.task("a"),
        rule: "night".into(),
        decision: ask(run),
    };
    let verb = night(&run);
    assert_eq!(run.ok(verb), ["PolicyDecided"]);
    run.vote("a", 1, true, "bob").unwrap();
    for verb in [judge(&run, ask(&run)), night(&run)] {
        assert_eq!(run.ok(verb), Vec::<&str>::new());
    }
}

#[test]
fn the_separation_of_duties_holds_for_policy_approvals() {
    let mut run = asked(PLAIN);
    let own = Rejection::SelfApproval { by: "Ada".into() };
    assert_eq!(run.vote("a", 1, true, "Ada"), Err(own));
}

#[test]
fn a_task_in_a_workers_hands_is_not_judged_any_more() {
    let mut run = Run::started(PLAIN);
    run.assign("a", "w");
    let verb = judge(&run, deny("late"));
    assert!(matches!(
        run.refused(verb),
        Rejection::AlreadyAssigned { .. }
    ));
}

#[test]
fn compensations_are_not_stopped_by_policy() {
    let yaml = "steps: [{name: a}, {name: b, dependsOn: [a], onFailure: compensate}]\n\
                compensation: [{step: a}]";
    let mut run = Run::started(yaml);
    run.done("a");
    run.fail("b", AgentError);
    let verb = judge(&run, deny("no"));
    assert_eq!(run.ok(verb), Vec::<&str>::new());
    assert_eq!(run.tasks(), [Task::undo("a", 1)]);
}

#[test]
fn a_correction_keeps_its_feedback_while_it_waits_for_an_approval() {
    let yaml = "steps: [{name: a, outputSchema: {type: string}, maxCorrectionAttempts: 1}]";
    let mut run = Run::started(yaml);
    run.complete("a", serde_json::json!(1));
    let feedback = run.order("a").feedback;
    assert!(feedback.is_some());
    let verb = judge(&run, ask(&run));
    run.ok(verb);
    run.vote("a", 2, true, "bob").unwrap();
    assert_eq!(run.order("a").feedback, feedback);
}

#[test]
fn a_cancelled_execution_withdraws_the_request() {
    let mut run = asked(PLAIN);
    run.cancel(stateway_machine::CancelMode::Policy);
    assert_eq!(run.at(), Cancelled);
    assert_eq!(awaited(&run.state), []);
}
