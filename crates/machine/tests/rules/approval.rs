//! Approvals: who may decide, about which request, and until when.

use std::time::Duration;

use stateway_machine::ExecutionState::{Completed, Escalated};
use stateway_machine::{Awaited, Rejection, Resolution, StepTimer, Verb, awaited};

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
