//! A success is final. An execution that failed, was cancelled or was rolled back can be reopened on a
//! new branch; a succeeded one can only be forked into another execution.

use std::time::Duration;

use stateway_machine::ExecutionState::{
    Cancelled, Compensating, Completed, Failed, RolledBack, Running,
};
use stateway_machine::{
    CancelMode, Fact, Redo, Rejection, StepState, StepTimer, Task, Verb, abandoned_usage,
    step_usage, sub_state, usage,
};
use stateway_model::ErrorCategory::AgentError;
use stateway_model::{SubState, Usage};

use crate::kit::Run;

const CHAIN: &str = "steps: [{name: a, timeout: 5m}, {name: b, dependsOn: [a]}]\ncompensation: \
                     [{step: a}]";

fn open_branch(reopened: bool) -> Verb {
    Verb::OpenBranch {
        branch: 1,
        cutoff: 3,
        by: "bob".into(),
        redo: Some(Box::new(Redo::from("a"))),
        reopened: reopened.then_some(Completed),
        spent: Usage::default(),
        spent_by_step: std::collections::BTreeMap::new(),
    }
}

fn fork() -> Verb {
    Verb::Fork {
        from: "e1".into(),
        branch: 0,
        cutoff: 5,
        by: "eve".into(),
        redo: Box::new(Redo::from("b")),
    }
}

fn ended() -> [Run; 4] {
    let mut completed = Run::started(CHAIN);
    completed.done("a");
    completed.done("b");
    let mut failed = Run::started(CHAIN);
    failed.fail("a", AgentError);
    let mut cancelled = Run::started(CHAIN);
    cancelled.cancel(CancelMode::Stop);
    let mut rolled_back = Run::started(&format!("failurePolicy: compensate\n{CHAIN}"));
    rolled_back.fail("a", AgentError);
    [completed, failed, cancelled, rolled_back]
}

#[test]
fn an_execution_that_has_ended_takes_no_branch_and_no_fork_itself() {
    let states = [Completed, Failed, Cancelled, RolledBack];
    for (mut run, state) in ended().into_iter().zip(states) {
        assert_eq!(run.at(), state);
        let finished = Rejection::AlreadyFinished { state };
        for verb in [open_branch(false), open_branch(true), fork()] {
            assert_eq!(run.refused(verb), finished);
        }
    }
}

fn failed_at_b() -> Run {
    let mut run = Run::started(CHAIN);
    run.done("a");
    run.fail("b", AgentError);
    assert_eq!(run.at(), Failed);
    run
}

#[test]
fn reopening_is_an_event_of_its_own_that_names_the_end() {
    let mut run = failed_at_b();
    run.wait(Duration::from_secs(60));
    let again = run.retried_from(5, "b", "bob");
    let names: Vec<_> = again.events[5..].iter().map(|e| e.fact.name()).collect();
    assert_eq!(names, ["BranchOpened", "ExecutionReopened", "StepStarted"]);
    assert_eq!(
        *again.fact("ExecutionReopened"),
        Fact::ExecutionReopened {
            by: "bob".into(),
            from: Failed
        }
    );
    let reopened = again.state.reopened().unwrap();
    assert_eq!(
        (reopened.count, &*reopened.by, reopened.from, reopened.at),
        (1, "bob", Failed, run.now)
    );
    assert_eq!(
        (again.at(), sub_state(&again.state).0),
        (Running, SubState::Running)
    );
    assert_eq!(again.order("b").key.to_string(), "e1/1/b/1");
}

#[test]
fn reopening_again_counts() {
    let mut run = failed_at_b().retried_from(5, "b", "bob");
    run.fail("b", AgentError);
    let again = run.retried_from(7, "b", "eve");
    let reopened = again.state.reopened().unwrap();
    assert_eq!((reopened.count, &*reopened.by), (2, "eve"));
}

#[test]
fn a_branch_of_an_open_execution_is_not_a_reopening() {
    let mut run = Run::started(CHAIN);
    run.done("a");
    let again = run.retried_from(5, "b", "bob");
    assert_eq!(again.state.reopened(), None);
    assert_eq!(again.events[5].fact.name(), "BranchOpened");
    assert_eq!(again.events[6].fact.name(), "StepStarted");
}

#[test]
fn a_branch_has_a_number_above_the_present_one() {
    let mut run = Run::started(CHAIN).retried_from(3, "a", "bob");
    let stale = Rejection::StaleBranch {
        branch: 1,
        present: 1,
    };
    assert_eq!(run.refused(open_branch(false)), stale);
}

#[test]
fn a_branch_runs_a_step_again_that_exists() {
    let mut run = Run::started(CHAIN);
    let verb = Verb::OpenBranch {
        branch: 1,
        cutoff: 3,
        by: "bob".into(),
        redo: Some(Box::new(Redo::from("z"))),
        reopened: None,
        spent: Usage::default(),
        spent_by_step: std::collections::BTreeMap::new(),
    };
    let unknown = Rejection::UnknownStep { step: "z".into() };
    assert_eq!(run.refused(verb), unknown);
}

fn tokens(count: u64) -> Usage {
    Usage {
        input_tokens: count,
        ..Usage::default()
    }
}

fn complete(run: &mut Run, step: &str, usage: Usage) {
    let task = run.task(step);
    run.ok(Verb::CompleteTask {
        task,
        output: serde_json::json!({}).into(),
        usage: Some(usage),
    });
}

#[test]
fn usage_of_the_branch_that_was_left_is_kept() {
    let mut run = Run::started(CHAIN);
    complete(&mut run, "a", tokens(100));
    complete(&mut run, "b", tokens(20));
    let mut again = run.retried_from(6, "b", "bob");
    assert_eq!(again.step("a"), StepState::Completed);
    assert_eq!(usage(&again.state), tokens(120));
    assert_eq!(abandoned_usage(&again.state), tokens(20));
    complete(&mut again, "b", tokens(7));
    assert_eq!(usage(&again.state), tokens(127));
    assert_eq!(step_usage(&again.state, "b"), tokens(7));
}

fn forked() -> (Run, Vec<&'static str>) {
    let mut run = Run::started(CHAIN);
    complete(&mut run, "a", tokens(100));
    run.assign("b", "w");
    complete(&mut run, "b", tokens(20));
    assert_eq!(run.at(), Completed);
    run.wait(Duration::from_secs(600));
    let mut fork_of = run.rewound(6);
    let events = fork_of.ok(fork());
    (fork_of, events)
}

#[test]
fn a_fork_continues_a_copy_as_an_execution_of_its_own() {
    let (mut run, events) = forked();
    assert_eq!(events, ["ExecutionForked", "StepStarted"]);
    assert_eq!(run.state.forked_from().map(|from| &**from), Some("e1"));
    assert_eq!(run.state.reopened(), None);
    assert_eq!(run.state.branch(), 0);
    assert_eq!(
        (run.step("a"), run.tasks()),
        (StepState::Completed, vec![Task::of("b", 1)])
    );
    run.done("b");
    assert_eq!(run.at(), Completed);
}

#[test]
fn a_fork_starts_with_no_usage_of_its_own() {
    let (mut run, _) = forked();
    assert_eq!(usage(&run.state), Usage::default());
    assert_eq!(step_usage(&run.state, "a"), Usage::default());
    complete(&mut run, "b", tokens(3));
    assert_eq!(usage(&run.state), tokens(3));
}

#[test]
fn whoever_forked_an_execution_does_not_decide_about_it() {
    let yaml = "steps: [{name: a}, {name: b, dependsOn: [a], approval: {role: boss}}]";
    let mut first = Run::started(yaml);
    first.done("a");
    let mut run = first.rewound(5);
    run.ok(fork());
    let own = Rejection::RedoneBySelf { by: "eve".into() };
    assert_eq!(run.vote("b", 1, true, "eve"), Err(own));
    assert!(run.vote("b", 1, true, "bob").is_ok());
}

/// What an open step has left of its time is left again on the branch.
#[test]
fn time_stands_still_between_the_last_shared_event_and_the_branch() {
    let mut run = Run::started(CHAIN);
    run.assign("a", "w");
    run.wait(Duration::from_secs(100));
    run.cancel(CancelMode::Kill);
    run.wait(Duration::from_secs(10_000));
    let again = run.retried_from(5, "a", "bob");
    assert_eq!(again.due_in("a", StepTimer::Timeout), Some(300));
}

#[test]
fn a_rollback_can_be_left_by_a_branch_and_its_compensation_is_reported_first() {
    let mut run = Run::started(&format!("failurePolicy: compensate\n{CHAIN}"));
    run.done("a");
    run.fail("b", AgentError);
    run.assign("a", "w");
    assert_eq!(run.at(), Compensating);
    assert_eq!(
        run.state.compensation_in_hands(),
        Some(("a".into(), "w".into())),
        "the host refuses to leave the branch while a worker compensates"
    );
    run.done("a");
    assert_eq!(run.at(), RolledBack);
    let again = run.retried_from(3, "a", "bob");
    assert_eq!(again.tasks(), [Task::of("a", 1)]);
    assert_eq!(
        again.state.reopened().map(|reopened| reopened.from),
        Some(RolledBack)
    );
}
