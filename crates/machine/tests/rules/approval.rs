//! Approvals: who may decide, about which request, and until when.

use std::time::Duration;

use stateway_machine::ExecutionState::{Completed, Escalated};
use stateway_machine::{Awaited, Data, Rejection, Resolution, StepTimer, Verb, awaited};

use stateway_model::ErrorCategory::Transient;

use crate::kit::Run;

const GATE: &str = "steps: [{name: g, approval: {role: boss, expiresAfter: 1h}}]";
const JUDGED: &str = "steps: [{name: a}, {name: b}, {name: g, dependsOn: [a], approval: {role: \
                      boss}}]";

fn stale(step: &str, attempt: u32) -> Rejection {
    Rejection::StaleApproval {
        step: step.into(),
        attempt,
    }
}

#[test]
fn an_approval_needs_the_role() {
    let mut run = Run::started(GATE);
    let without = Verb::DecideApproval {
        step: "g".into(),
        attempt: 1,
        grant: true,
        by: "bob".into(),
        roles: vec!["clerk".into()],
        comment: "".into(),
    };
    let rejection = run.refused(without);
    assert_eq!(
        rejection,
        Rejection::RoleRequired {
            step: "g".into(),
            role: "boss".into()
        }
    );
    let granted = vec!["ApprovalGranted", "StepCompleted", "ExecutionCompleted"];
    assert_eq!(run.vote("g", 1, true, "bob"), Ok(granted));
}

#[test]
fn whoever_started_the_execution_does_not_decide() {
    let mut run = Run::started(GATE);
    for grant in [true, false] {
        let own = Rejection::SelfApproval { by: "ada".into() };
        assert_eq!(run.vote("g", 1, grant, "ada"), Err(own));
    }
}

#[test]
fn another_spelling_of_a_name_is_the_same_person() {
    let mut run = Run::started(GATE);
    for name in ["Ada", "ADA", " ada "] {
        let own = Rejection::SelfApproval { by: name.into() };
        assert_eq!(run.vote("g", 1, true, name), Err(own));
    }
    assert!(run.vote("g", 1, true, "adam").is_ok());
}

#[test]
fn whoever_had_a_part_run_again_does_not_decide() {
    let mut run = Run::started(GATE).retried_from(3, "g", "bob");
    for name in ["bob", "Bob"] {
        let own = Rejection::RedoneBySelf { by: name.into() };
        assert_eq!(run.vote("g", 1, true, name), Err(own));
    }
    assert!(run.vote("g", 1, true, "eve").is_ok());
}

#[test]
fn whoever_had_a_part_of_the_parent_run_again_does_not_decide_in_the_child() {
    let mut run = Run::absent(GATE);
    run.ok(Verb::Create {
        execution: "parent~call~1~b1".into(),
        correlation: "parent".into(),
        initiator: "ada".into(),
        input: Data::default(),
        redone_by: vec!["bob".into()],
    });
    run.ok(Verb::Trigger { by: "ada".into() });
    run.ok(Verb::GrantSlot);
    let own = Rejection::RedoneBySelf { by: "BOB".into() };
    assert_eq!(run.vote("g", 1, true, "BOB"), Err(own));
    assert!(run.vote("g", 1, true, "eve").is_ok());
}

#[test]
fn the_worker_of_a_judged_step_does_not_decide() {
    let mut run = Run::started(JUDGED);
    run.assign("a", "bob");
    run.assign("b", "eve");
    run.done("a");
    let own = Rejection::OwnWork {
        by: "BOB".into(),
        step: "a".into(),
    };
    assert_eq!(run.vote("g", 1, true, "BOB"), Err(own));
    assert!(
        run.vote("g", 1, true, "eve").is_ok(),
        "the approval does not depend on step b"
    );
}

/// A signal is the result of its step: whoever sent it does not decide about it, whether the step
/// waited for the signal or the signal for the step.
#[test]
fn the_sender_of_a_judged_signal_does_not_decide() {
    let judged = "steps: [{name: a}, {name: s, dependsOn: [a], signal: paid}, {name: g, dependsOn: \
                  [s], approval: {role: boss}}]";
    let signal = |by: &str| Verb::SendSignal {
        name: "paid".into(),
        id: "m1".into(),
        payload: Data::new(serde_json::Value::Null),
        by: by.into(),
    };
    for is_early in [true, false] {
        let mut run = Run::started(judged);
        if is_early {
            run.ok(signal("bob"));
            run.done("a");
        } else {
            run.done("a");
            run.ok(signal("bob"));
        }
        assert_eq!(run.vote("g", 1, true, "BOB"), Err(own_work("BOB", "s")));
        assert!(run.vote("g", 1, true, "eve").is_ok());
    }
}

fn own_work(by: &str, step: &str) -> Rejection {
    Rejection::OwnWork {
        by: by.into(),
        step: step.into(),
    }
}

/// Worker ids are often random; the person behind the worker counts.
#[test]
fn the_person_in_whose_name_a_worker_works_does_not_decide() {
    let mut run = Run::started(JUDGED);
    run.assign_as("a", "worker-1f3a", "bob@example.org");
    run.done("a");
    let bob = "Bob@Example.org";
    assert_eq!(run.vote("g", 1, true, bob), Err(own_work(bob, "a")));
    let id = "worker-1f3a";
    assert_eq!(run.vote("g", 1, true, id), Err(own_work(id, "a")));
    assert!(run.vote("g", 1, true, "eve").is_ok());
}

#[test]
fn everyone_who_ever_had_an_attempt_of_a_judged_step_does_not_decide() {
    let retried = "steps: [{name: a, retryPolicy: {maxRetries: 3}}, {name: g, dependsOn: [a], \
                   approval: {role: boss}}]";
    let mut run = Run::started(retried);
    run.assign_as("a", "w1", "tom");
    run.release("a");
    run.assign_as("a", "w2", "dan");
    run.lose("a");
    run.assign_as("a", "w3", "kim");
    run.fail("a", Transient);
    run.fire("a", StepTimer::Retry);
    run.assign_as("a", "w4", "lea");
    run.done("a");
    for name in ["tom", "w1", "dan", "w2", "kim", "w3", "lea", "w4"] {
        assert_eq!(run.vote("g", 1, true, name), Err(own_work(name, "a")));
    }
    let before = run
        .events
        .iter()
        .position(|event| event.fact.name() == "RetryScheduled");
    let mut again = run.retried_from(before.unwrap() + 1, "a", "eve");
    again.fire("a", StepTimer::Retry);
    again.done("a");
    let tom = again.vote("g", 1, true, "tom");
    assert_eq!(tom, Err(own_work("tom", "a")), "the shared log counts");
    again.vote("g", 1, true, "lea").unwrap();
}

#[test]
fn every_step_upstream_is_judged() {
    let chain = "steps: [{name: a}, {name: b, dependsOn: [a]}, {name: c, dependsOn: [b]}, {name: g, \
                 dependsOn: [c], approval: {role: boss}}]";
    let mut run = Run::started(chain);
    for (step, person) in [("a", "tom"), ("b", "dan"), ("c", "kim")] {
        run.assign_as(step, "w", person);
        run.done(step);
    }
    for (step, person) in [("a", "tom"), ("b", "dan"), ("c", "kim")] {
        assert_eq!(run.vote("g", 1, true, person), Err(own_work(person, step)));
    }
    assert!(run.vote("g", 1, true, "eve").is_ok());
}

#[test]
fn the_first_decision_stands_and_its_repetition_changes_nothing() {
    let mut run = Run::started(&GATE.replace("]", ", {name: b}]"));
    run.vote("g", 1, true, "bob").unwrap();
    assert_eq!(run.vote("g", 1, true, "bob"), Ok(vec![]));
    let decided = || Rejection::AlreadyDecided {
        step: "g".into(),
        by: "bob".into(),
    };
    assert_eq!(run.vote("g", 1, false, "eve"), Err(decided()));
    assert_eq!(run.vote("g", 1, false, "bob"), Err(decided()));
}

#[test]
fn an_approval_that_expires_is_never_granted_but_escalated() {
    let mut run = Run::started(GATE);
    assert_eq!(
        run.fire("g", StepTimer::Expiry),
        ["ApprovalExpired", "ExecutionEscalated"]
    );
    assert_eq!(run.at(), Escalated);
    assert_eq!(run.vote("g", 1, true, "bob"), Err(stale("g", 1)));
}

#[test]
fn a_decision_about_a_step_that_asks_for_no_approval_names_the_step() {
    let mut run = Run::started(JUDGED);
    let none = Rejection::NoApproval { step: "a".into() };
    assert_eq!(none.to_string(), "step `a` asks for no approval");
    assert_eq!(run.vote("a", 1, true, "bob"), Err(none));
}

#[test]
fn a_decision_after_the_expiry_is_refused_however_late_the_timer_is() {
    let mut run = Run::started(GATE);
    run.wait(Duration::from_secs(3600));
    let expired = Rejection::ApprovalExpired { step: "g".into() };
    assert_eq!(run.vote("g", 1, true, "bob"), Err(expired.clone()));
    assert_eq!(run.vote("g", 1, false, "bob"), Err(expired));
    run.fire("g", StepTimer::Expiry);
    assert_eq!(run.at(), Escalated);
}

#[test]
fn an_expired_approval_is_requested_again_when_a_person_resumes() {
    let mut run = Run::started(GATE);
    run.fire("g", StepTimer::Expiry);
    assert_eq!(
        run.resolve("g", Resolution::Resume),
        ["EscalationResolved", "StepWaiting"]
    );
    assert_eq!(
        run.vote("g", 1, true, "bob"),
        Err(stale("g", 1)),
        "the first request stays closed"
    );
    run.vote("g", 2, true, "bob").unwrap();
    assert_eq!(run.at(), Completed);
}

/// An operator must not give an expired request to a role of their own and grant it.
#[test]
fn whoever_reassigned_a_request_does_not_decide_it() {
    let mut run = Run::started(GATE);
    run.fire("g", StepTimer::Expiry);
    let reassign = Resolution::Reassign {
        role: "boss".into(),
    };
    run.resolve("g", reassign);
    let own = |by: &str| Rejection::ReassignedBySelf {
        by: by.into(),
        step: "g".into(),
    };
    for grant in [true, false] {
        assert_eq!(run.vote("g", 2, grant, "bob"), Err(own("bob")));
        assert_eq!(run.vote("g", 2, grant, " Bob"), Err(own(" Bob")));
    }
    run.fire("g", StepTimer::Expiry);
    let resume = run.resolution("g", Resolution::Resume, "eve", &["operator"]);
    run.ok(resume);
    assert_eq!(
        run.vote("g", 3, true, "bob"),
        Err(own("bob")),
        "the request still goes to the role that bob chose"
    );
    run.vote("g", 3, true, "eve").unwrap();
    assert_eq!(run.at(), Completed);
}

fn request(run: &Run) -> (u32, u32) {
    let open = awaited(&run.state);
    let [
        Awaited::Approval {
            attempt, branch, ..
        },
    ] = &open[..]
    else {
        panic!("{open:?}");
    };
    (*branch, *attempt)
}

/// The attempt alone repeats when a branch opens the same request again.
#[test]
fn a_request_is_named_by_branch_and_attempt() {
    let mut first = Run::started(GATE);
    assert_eq!(request(&first), (0, 1));
    let again = first.retried_from(3, "g", "eve");
    assert_eq!(request(&again), (1, 1));
    first.fire("g", StepTimer::Expiry);
    first.resolve("g", Resolution::Resume);
    assert_eq!(request(&first), (0, 2));
}
