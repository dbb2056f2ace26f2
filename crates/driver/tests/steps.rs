//! Whole steps: what a host does after each kind of command. The name of a test is the rule.
#![allow(clippy::unwrap_used)] // In a test, a wrong value is meant to end it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;
use stateway_definition::parse;
use stateway_driver::{
    Answer, EndedChild, Outcome, Step, TimerOrder, handle, leave, next_timer, open_keys, resume,
};
use stateway_machine::{
    CancelMode, ChildOrder, Command, Data, Failure, Plan, Rejection, State, StepTimer, Task,
    TaskKey, TaskOrder, Timer, Verb, Withdrawal, Withdrawn, later,
};
use stateway_model::{ErrorCategory, Usage};

const BUSY: &str = "timeout: 1h\nsteps: [{name: a, agent: coder, timeout: 1m, retryPolicy: {maxRetries: \
                    1, initialDelay: 10s, backoff: constant}}, {name: k, workflow: child}]";

struct Host {
    state: State,
    now: Timestamp,
}

impl Host {
    fn new(yaml: &str) -> Self {
        let parsed = parse(yaml, "test.yaml").unwrap_or_else(|invalid| panic!("{invalid}"));
        let mut host = Self {
            state: State::new(Arc::new(Plan::new(parsed.definition).unwrap())),
            now: Timestamp::from_second(1_800_000_000).unwrap(),
        };
        host.send(Verb::Create {
            execution: "e1".into(),
            correlation: "c1".into(),
            initiator: "ada".into(),
            input: Data::default(),
            redone_by: Vec::new(),
        });
        host
    }

    fn started(yaml: &str) -> Self {
        let mut host = Self::new(yaml);
        host.send(Verb::Trigger { by: "ada".into() });
        host.send(Verb::GrantSlot);
        host
    }

    /// A worker has the task of `a`.
    fn busy() -> Self {
        let mut host = Self::started(BUSY);
        host.send(assign("a"));
        host
    }

    /// Sends a command; the step, and the names of its events.
    #[track_caller]
    fn send(&mut self, verb: Verb) -> (Vec<&'static str>, Step) {
        let command = Command::new("request", verb);
        let mut step = handle(&mut self.state, command, self.now).unwrap();
        let events = std::mem::take(&mut step.events);
        (events.iter().map(|event| event.fact.name()).collect(), step)
    }

    fn after(&self, seconds: u64) -> Timestamp {
        later(self.now, Duration::from_secs(seconds))
    }
}

fn assign(step: &str) -> Verb {
    Verb::AssignTask {
        task: Task::of(step, 1),
        worker: "w1".into(),
        identity: "".into(),
    }
}

fn key(task: Task) -> TaskKey {
    TaskKey {
        execution: "e1".into(),
        branch: 0,
        task,
    }
}

fn order(task: Task) -> TaskOrder {
    TaskOrder {
        key: key(task),
        role: "coder".into(),
        worker: None,
        hand_out: 0,
        identity: None,
        feedback: None,
        due: None,
        cancel: false,
        unknown: false,
    }
}

fn child(cancel: bool) -> ChildOrder {
    ChildOrder {
        key: key(Task::of("k", 1)),
        definition: "child".into(),
        cancel,
    }
}

fn timer(step: &str, kind: StepTimer, due: Timestamp) -> TimerOrder {
    let timer = Timer::Step {
        step: step.into(),
        attempt: 1,
        kind,
    };
    TimerOrder { timer, due }
}

fn withdrawn(step: &str, why: Withdrawal) -> Withdrawn {
    Withdrawn {
        key: key(Task::of(step, 1)),
        worker: Some("w1".into()),
        why,
    }
}

fn ended_child(kill: bool) -> EndedChild {
    EndedChild {
        key: key(Task::of("k", 1)),
        id: "e1~k~1".into(),
        kill,
    }
}

fn cancel(mode: CancelMode) -> Verb {
    Verb::Cancel {
        mode,
        by: "bob".into(),
        comment: "".into(),
    }
}

#[test]
fn a_triggered_execution_wants_a_slot() {
    let mut host = Host::new(BUSY);
    let (events, step) = host.send(Verb::Trigger { by: "ada".into() });
    let expected = Step {
        slot: true,
        ..Step::default()
    };
    assert_eq!((events, step), (vec!["ExecutionQueued"], expected));
}

#[test]
fn an_execution_with_a_slot_starts_tasks_children_and_its_own_timer() {
    let mut host = Host::new(BUSY);
    host.send(Verb::Trigger { by: "ada".into() });
    let (events, step) = host.send(Verb::GrantSlot);
    let expected = Step {
        started: true,
        start: vec![order(Task::of("a", 1))],
        start_children: vec![child(false)],
        timers: vec![TimerOrder {
            timer: Timer::Execution,
            due: host.after(3_600),
        }],
        ..Step::default()
    };
    let names = vec!["ExecutionStarted", "StepStarted", "StepWaiting"];
    assert_eq!((events, step), (names, expected));
}

#[test]
fn a_task_that_a_worker_takes_gets_its_timeout() {
    let mut host = Host::started(BUSY);
    let (events, step) = host.send(assign("a"));
    let due = host.after(60);
    let expected = Step {
        start: vec![TaskOrder {
            worker: Some("w1".into()),
            hand_out: 1,
            due: Some(due),
            ..order(Task::of("a", 1))
        }],
        timers: vec![timer("a", StepTimer::Timeout, due)],
        ..Step::default()
    };
    assert_eq!((events, step), (vec!["TaskAssigned"], expected));
    assert_eq!(
        next_timer(&host.state),
        Some(timer("a", StepTimer::Timeout, due))
    );
}

#[test]
fn a_failed_attempt_is_withdrawn_and_its_retry_has_a_timer() {
    let mut host = Host::busy();
    let failure = Failure::reported(ErrorCategory::Transient, "no");
    let (events, step) = host.send(Verb::fail(Task::of("a", 1), failure));
    let expected = Step {
        withdraw: vec![withdrawn("a", Withdrawal::NotNeeded)],
        timers: vec![timer("a", StepTimer::Retry, host.after(10))],
        ..Step::default()
    };
    assert_eq!(
        (events, step),
        (vec!["AttemptFailed", "RetryScheduled"], expected)
    );
}

#[test]
fn the_task_of_a_lost_worker_is_withdrawn_and_started_again() {
    let mut host = Host::busy();
    let task = Task::of("a", 1);
    let (events, step) = host.send(Verb::ReleaseTask { task, lost: true });
    let expected = Step {
        withdraw: vec![withdrawn("a", Withdrawal::WorkerLost)],
        start: vec![TaskOrder {
            hand_out: 1,
            ..order(Task::of("a", 1))
        }],
        ..Step::default()
    };
    assert_eq!((events, step), (vec!["TaskReleased"], expected));
}

#[test]
fn a_graceful_cancellation_asks_workers_and_children_to_stop_and_waits() {
    let mut host = Host::busy();
    let due = host.after(60);
    let (events, step) = host.send(cancel(CancelMode::Stop));
    let expected = Step {
        start: vec![TaskOrder {
            worker: Some("w1".into()),
            hand_out: 1,
            due: Some(due),
            cancel: true,
            ..order(Task::of("a", 1))
        }],
        cancel_children: vec![child(true)],
        timers: vec![timer("a", StepTimer::Timeout, due)],
        ..Step::default()
    };
    assert_eq!((events, step), (vec!["CancellationStarted"], expected));
}

#[test]
fn a_kill_withdraws_everything_kills_children_and_ends_the_execution() {
    let mut host = Host::busy();
    let (events, step) = host.send(cancel(CancelMode::Kill));
    let message = "the child execution `e1` ended as cancelled";
    let expected = Step {
        withdraw: vec![withdrawn("a", Withdrawal::Cancelled)],
        end_children: vec![ended_child(true)],
        ended: Some(Outcome {
            result: Err(Failure::reported(ErrorCategory::External, message)),
            usage: Usage::default(),
        }),
        ..Step::default()
    };
    assert_eq!((events, step), (vec!["ExecutionCancelled"], expected));
    assert_eq!(resume(&host.state).start, []);
}

#[test]
fn a_completed_execution_has_an_outcome_for_its_parent() {
    let mut host = Host::started("steps: [{name: a}]");
    host.send(assign("a"));
    let (_, step) = host.send(Verb::complete(Task::of("a", 1), Data::new(json!(7))));
    let expected = Step {
        withdraw: vec![withdrawn("a", Withdrawal::NotNeeded)],
        ended: Some(Outcome {
            result: Ok(Data::new(json!({"a": 7}))),
            usage: Usage::default(),
        }),
        ..Step::default()
    };
    assert_eq!(step, expected);
}

#[test]
fn a_repeated_command_has_no_further_effect() {
    let mut host = Host::busy();
    host.send(cancel(CancelMode::Kill));
    let before = host.state.clone();
    let command = Command::new("again", cancel(CancelMode::Kill));
    let step = handle(&mut host.state, command, host.now).unwrap();
    assert_eq!(
        (step.answer(), &step),
        (Answer::NothingNew, &Step::default())
    );
    assert_eq!(host.state, before);
}

#[test]
fn a_rejected_command_changes_nothing() {
    let mut host = Host::busy();
    let before = host.state.clone();
    let command = Command::new("r", Verb::GrantSlot);
    let refused = handle(&mut host.state, command, host.now).unwrap_err();
    assert!(matches!(refused, Rejection::WrongState { .. }));
    assert_eq!(host.state, before);
}

#[test]
fn a_host_that_loads_an_execution_gets_everything_that_is_open() {
    let host = Host::busy();
    let due = host.after(60);
    let whole = TimerOrder {
        timer: Timer::Execution,
        due: host.after(3_600),
    };
    let expected = Step {
        start: vec![TaskOrder {
            worker: Some("w1".into()),
            hand_out: 1,
            due: Some(due),
            ..order(Task::of("a", 1))
        }],
        start_children: vec![child(false)],
        timers: vec![whole, timer("a", StepTimer::Timeout, due)],
        ..Step::default()
    };
    assert_eq!(resume(&host.state), expected);
}

#[test]
fn a_host_that_leaves_a_log_takes_all_its_work_back() {
    let host = Host::busy();
    let expected = Step {
        withdraw: vec![withdrawn("a", Withdrawal::NotNeeded)],
        end_children: vec![ended_child(false)],
        ..Step::default()
    };
    assert_eq!(leave(&host.state), expected);
}

#[test]
fn a_new_branch_asks_the_host_to_compare_and_gives_its_work_new_keys() {
    let mut host = Host::busy();
    let (_, step) = host.send(Verb::OpenBranch {
        branch: 1,
        cutoff: 7,
        by: "eve".into(),
        redo: None,
        reopened: None,
        spent: Usage::default(),
        spent_by_step: BTreeMap::new(),
    });
    assert!(step.reconcile);
    assert_eq!(step.withdraw, [withdrawn("a", Withdrawal::NotNeeded)]);
    assert_eq!(step.end_children, [ended_child(false)]);
    let branches: Vec<u32> = open_keys(&host.state)
        .iter()
        .map(|key| key.branch)
        .collect();
    assert_eq!(branches, [1, 1]);
}
