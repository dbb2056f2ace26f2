//! Budgets: what an execution or a step may cost before its next task is handed out.

use std::collections::BTreeMap;

use stateway_machine::ExecutionState::{Completed, Escalated, Running};
use stateway_machine::{
    Fact, FailureCause, Resolution, StepState, StepTimer, Task, Verb, WaitFor, last_error,
};
use stateway_model::ErrorCategory::{AgentError, Governance, Transient};
use stateway_model::Usage;

use crate::kit::Run;

const CHAIN: &str = "steps: [{name: a}, {name: b, dependsOn: [a]}]";

fn tokens(count: u64) -> Usage {
    Usage {
        input_tokens: count / 2,
        output_tokens: count - count / 2,
        cost_micros: 0,
    }
}

fn cost(micros: u64) -> Usage {
    Usage {
        cost_micros: micros,
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

fn spent_on_a(budget: &str, usage: Usage) -> Run {
    let mut run = Run::started(&format!("{budget}\n{CHAIN}"));
    run.assign("a", "w");
    complete(&mut run, "a", usage);
    run
}

#[test]
fn a_task_is_not_handed_out_once_the_executions_tokens_are_used_up() {
    let mut run = spent_on_a("maxTokens: 100", tokens(99));
    assert_eq!(run.assign("b", "w"), ["TaskAssigned"]);
    let mut run = spent_on_a("maxTokens: 100", tokens(100));
    assert_eq!(
        run.assign("b", "w"),
        ["AttemptFailed", "ExecutionEscalated"]
    );
    assert_eq!(run.at(), Escalated);
    let error = last_error(&run.state).unwrap();
    assert_eq!(
        error.message,
        "the execution has used 100 of at most 100 tokens"
    );
    assert_eq!(
        (error.category, error.native_code.as_str()),
        (Some(Governance), FailureCause::BudgetExceeded.as_str())
    );
}

#[test]
fn a_task_is_not_handed_out_once_the_executions_cost_is_reached() {
    let mut run = spent_on_a("maxCost: 2.5", cost(2_499_999));
    assert_eq!(run.assign("b", "w"), ["TaskAssigned"]);
    let mut run = spent_on_a("maxCost: 2.5", cost(2_750_000));
    run.assign("b", "w");
    let error = last_error(&run.state).unwrap();
    assert_eq!(error.message, "the execution has cost 2.75 of at most 2.5");
}

#[test]
fn a_step_has_its_own_budget_over_all_its_attempts() {
    let mut run = Run::started("steps: [{name: a, maxTokens: 10}, {name: b}]");
    run.assign("a", "w");
    let task = run.task("a");
    run.ok(Verb::FailTask {
        task,
        failure: stateway_machine::Failure::reported(Transient, "blip"),
        usage: Some(tokens(10)),
    });
    run.fire("a", StepTimer::Retry);
    assert_eq!(run.assign("b", "w"), ["TaskAssigned"], "another step");
    run.assign("a", "w");
    let error = last_error(&run.state).unwrap();
    assert_eq!(error.message, "the step has used 10 of at most 10 tokens");
}

/// One attempt for each decision of a person who may decide about the step.
#[test]
fn a_person_lets_one_attempt_run_over_the_budget() {
    let mut run = spent_on_a("maxTokens: 100", tokens(100));
    run.assign("b", "w");
    assert_eq!(run.at(), Escalated);
    run.resolve("b", Resolution::Resume);
    run.assign("b", "w");
    assert_eq!(run.at(), Running);
    run.fail("b", Transient);
    run.fire("b", StepTimer::Retry);
    run.assign("b", "w");
    assert_eq!(run.at(), Escalated, "the retry asks again");
    run.resolve(
        "b",
        Resolution::Reassign {
            role: "chief".into(),
        },
    );
    run.assign("b", "w");
    assert_eq!(
        run.at(),
        Escalated,
        "another role of workers is no approval"
    );
}

#[test]
fn a_childs_usage_counts_against_its_parents_budget() {
    let yaml = "maxTokens: 100\nsteps: [{name: kid, workflow: child}, {name: b, dependsOn: [kid]}]";
    let mut run = Run::started(yaml);
    run.ok(Verb::FinishChild {
        step: "kid".into(),
        attempt: 1,
        outcome: Ok(serde_json::json!({}).into()),
        usage: tokens(100),
    });
    assert_eq!(
        run.assign("b", "w"),
        ["AttemptFailed", "ExecutionEscalated"]
    );
}

#[test]
fn what_left_branches_cost_counts_against_the_executions_budget() {
    let first = spent_on_a("maxTokens: 100", tokens(100));
    let mut run = first.retried_from(3, "a", "bob");
    assert_eq!(
        run.assign("a", "w"),
        ["AttemptFailed", "ExecutionEscalated"]
    );
}

const PARENT: &str = "steps: [{name: a}, {name: kid, workflow: child, dependsOn: [a]}]";

#[test]
fn a_child_is_not_started_once_the_executions_budget_is_used_up() {
    for (used, state) in [(99, StepState::Waiting), (100, StepState::Failed)] {
        let mut run = Run::started(&format!("maxTokens: 100\n{PARENT}"));
        run.assign("a", "w");
        complete(&mut run, "a", tokens(used));
        let children = run.events.iter().filter(|event| {
            matches!(&event.fact, Fact::StepWaiting { wait, .. } if *wait == WaitFor::Child("child".into()))
        });
        assert_eq!(children.count() == 1, state == StepState::Waiting);
        assert_eq!(run.at() == Escalated, state == StepState::Failed);
    }
}

#[test]
fn a_refused_child_is_an_attempt_that_failed_and_a_person_lets_it_start() {
    let mut run = Run::started(&format!("maxTokens: 100\n{PARENT}"));
    run.assign("a", "w");
    complete(&mut run, "a", tokens(100));
    let error = last_error(&run.state).unwrap();
    assert_eq!(
        (error.step.as_str(), error.native_code.as_str()),
        ("kid", FailureCause::BudgetExceeded.as_str())
    );
    assert_eq!(
        run.resolve("kid", Resolution::Resume),
        ["EscalationResolved", "StepWaiting"]
    );
}

#[test]
fn what_a_step_cost_on_abandoned_branches_counts_against_its_budget() {
    let mut first = Run::started("steps: [{name: a, maxTokens: 100}, {name: b, dependsOn: [a]}]");
    first.assign("a", "w");
    complete(&mut first, "a", tokens(60));
    let mut second = first.retried_from(3, "a", "bob");
    let spent = BTreeMap::from([("a".into(), tokens(60))]);
    let Fact::BranchOpened { spent_by_step, .. } = second.fact("BranchOpened") else {
        panic!();
    };
    assert_eq!(*spent_by_step, spent);
    assert_eq!(second.assign("a", "w"), ["TaskAssigned"], "40 are left");
    complete(&mut second, "a", tokens(40));
    let mut third = second.retried_from(3, "a", "bob");
    third.assign("a", "w");
    let error = last_error(&third.state).unwrap();
    assert_eq!(error.message, "the step has used 100 of at most 100 tokens");
}

#[test]
fn a_fork_has_the_whole_budget_of_each_step_again() {
    let mut first = Run::started("steps: [{name: a, maxTokens: 10}, {name: b, dependsOn: [a]}]");
    first.assign("a", "w");
    complete(&mut first, "a", tokens(10));
    let mut fork = first.retried_from(3, "a", "bob");
    fork.ok(Verb::Fork {
        from: "e1".into(),
        branch: 1,
        cutoff: 4,
        by: "bob".into(),
        redo: Box::new(stateway_machine::Redo::from("a")),
    });
    assert_eq!(fork.assign("a", "w"), ["TaskAssigned"]);
}

#[test]
fn compensations_are_handed_out_whatever_they_cost() {
    let yaml = "maxTokens: 100\nsteps: [{name: a}, {name: b, dependsOn: [a], onFailure: \
                compensate}]\ncompensation: [{step: a}]";
    let mut run = Run::started(yaml);
    run.assign("a", "w");
    complete(&mut run, "a", tokens(500));
    run.fail("b", AgentError);
    assert_eq!(run.task("a"), Task::undo("a", 1));
    assert_eq!(run.assign("a", "w"), ["TaskAssigned"]);
}

#[test]
fn the_budget_does_not_stop_what_is_in_a_workers_hands() {
    let mut run = Run::started("maxTokens: 100\nsteps: [{name: a}, {name: b}]");
    run.assign("a", "w1");
    run.assign("b", "w2");
    complete(&mut run, "a", tokens(500));
    complete(&mut run, "b", tokens(500));
    assert_eq!(run.at(), Completed);
}
