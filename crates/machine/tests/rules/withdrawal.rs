//! Which events withdraw which tasks from workers, for which reason, and end which children.

use stateway_machine::{
    CancelMode, Command, Event, OpenWork, StepTimer, Task, TaskKey, Verb, Withdrawal, Withdrawn,
    decide, evolve,
};
use stateway_model::ErrorCategory::{AgentError, Transient};

use crate::kit::Run;

const TWO: &str = "timeout: 1h\nsteps: [{name: a, timeout: 1m, retryPolicy: {maxRetries: 3}}, {name: \
                   b, onFailure: abort}, {name: k, workflow: child}]";

/// Two steps with workers, and a child.
fn busy() -> Run {
    let mut run = Run::started(TWO);
    run.assign("a", "w1");
    run.assign("b", "w2");
    run
}

/// The withdrawn tasks and the ended children of one command.
fn after(run: &mut Run, verb: Verb) -> (Vec<Withdrawn>, Vec<TaskKey>) {
    let events = decide(&run.state, Command::new("c", verb), run.now).unwrap();
    applied(run, &events)
}

fn applied(run: &mut Run, events: &[Event]) -> (Vec<Withdrawn>, Vec<TaskKey>) {
    let open = OpenWork::before(&run.state, events);
    for event in events {
        run.state = evolve(run.state.clone(), event);
    }
    let withdrawn = open.withdrawn(&run.state, events);
    (withdrawn, open.ended_children(&run.state, events))
}

fn key(step: &str) -> TaskKey {
    TaskKey {
        execution: "e1".into(),
        branch: 0,
        task: Task::of(step, 1),
    }
}

fn withdrawn(step: &str, worker: &str, why: Withdrawal) -> Withdrawn {
    Withdrawn {
        key: key(step),
        worker: Some(worker.into()).filter(|_| !worker.is_empty()),
        why,
    }
}

#[test]
fn an_answer_withdraws_its_own_task_only() {
    let mut run = busy();
    let verb = Verb::complete(run.task("a"), stateway_machine::Data::default());
    let expected = vec![withdrawn("a", "w1", Withdrawal::NotNeeded)];
    assert_eq!(after(&mut run, verb), (expected, vec![]));
}

#[test]
fn a_task_that_no_worker_has_is_withdrawn_too() {
    let mut run = Run::started(TWO);
    let failure = stateway_machine::Failure::reported(Transient, "no");
    let verb = Verb::fail(run.task("a"), failure);
    let expected = vec![withdrawn("a", "", Withdrawal::NotNeeded)];
    assert_eq!(after(&mut run, verb), (expected, vec![]));
}

#[test]
fn an_attempt_that_times_out_is_withdrawn_for_that_and_the_rest_is_not_needed() {
    let mut run = busy();
    let (timer, due) = run.timer("a", StepTimer::Timeout).unwrap();
    run.now = due;
    let expected = vec![
        withdrawn("a", "w1", Withdrawal::TimedOut),
        withdrawn("b", "w2", Withdrawal::NotNeeded),
    ];
    let fired = after(&mut run, Verb::fire(timer));
    assert_eq!(fired, (expected, vec![key("k")]));
}

#[test]
fn a_lost_worker_loses_its_task_and_the_task_stays_open() {
    let mut run = busy();
    let task = run.task("a");
    let expected = vec![withdrawn("a", "w1", Withdrawal::WorkerLost)];
    let verb = Verb::ReleaseTask { task, lost: true };
    assert_eq!(after(&mut run, verb), (expected, vec![]));
    assert_eq!(run.task("a"), Task::of("a", 1));
}

#[test]
fn taking_a_task_withdraws_nothing() {
    let mut run = Run::started(TWO);
    let verb = Verb::AssignTask {
        task: run.task("a"),
        worker: "w1".into(),
        identity: "".into(),
    };
    assert_eq!(after(&mut run, verb), (vec![], vec![]));
}

#[test]
fn a_failed_execution_takes_all_work_back_and_ends_its_children() {
    let mut run = busy();
    let failure = stateway_machine::Failure::reported(AgentError, "no");
    let verb = Verb::fail(run.task("b"), failure);
    let expected = vec![
        withdrawn("a", "w1", Withdrawal::NotNeeded),
        withdrawn("b", "w2", Withdrawal::NotNeeded),
    ];
    assert_eq!(after(&mut run, verb), (expected, vec![key("k")]));
}

#[test]
fn a_child_that_reports_its_end_is_not_ended_again() {
    for outcome in [
        Ok(stateway_machine::Data::default()),
        Err(stateway_machine::Failure::reported(Transient, "no")),
    ] {
        let mut run = Run::started("steps: [{name: k, workflow: child}]");
        let verb = Verb::FinishChild {
            step: "k".into(),
            attempt: 1,
            outcome,
            usage: stateway_model::Usage::default(),
        };
        assert_eq!(after(&mut run, verb), (vec![], vec![]));
    }
}

#[test]
fn the_timeout_of_an_execution_withdraws_its_tasks_as_timed_out() {
    let mut run = busy();
    let (timer, due) = run.timers().remove(0);
    run.now = due;
    let expected = vec![
        withdrawn("a", "w1", Withdrawal::TimedOut),
        withdrawn("b", "w2", Withdrawal::TimedOut),
    ];
    assert_eq!(
        after(&mut run, Verb::fire(timer)),
        (expected, vec![key("k")])
    );
}

#[test]
fn a_kill_withdraws_as_cancelled_and_a_graceful_cancellation_waits() {
    let cancel = |mode| Verb::Cancel {
        mode,
        by: "bob".into(),
        comment: "".into(),
    };
    let mut run = busy();
    assert_eq!(after(&mut run, cancel(CancelMode::Stop)), (vec![], vec![]));
    let mut run = busy();
    let expected = vec![
        withdrawn("a", "w1", Withdrawal::Cancelled),
        withdrawn("b", "w2", Withdrawal::Cancelled),
    ];
    let killed = after(&mut run, cancel(CancelMode::Kill));
    assert_eq!(killed, (expected, vec![key("k")]));
}

#[test]
fn work_of_the_branch_that_is_left_is_withdrawn() {
    let mut run = busy();
    let verb = Verb::OpenBranch {
        branch: 1,
        cutoff: run.state.sequence(),
        by: "bob".into(),
        redo: None,
        reopened: None,
        spent: stateway_model::Usage::default(),
        spent_by_step: std::collections::BTreeMap::new(),
    };
    let expected = vec![
        withdrawn("a", "w1", Withdrawal::NotNeeded),
        withdrawn("b", "w2", Withdrawal::NotNeeded),
    ];
    assert_eq!(after(&mut run, verb), (expected, vec![key("k")]));
}
