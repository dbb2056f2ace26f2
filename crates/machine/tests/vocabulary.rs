//! The five seeds' machines: whole tables, and the forbidden moves refused.
#![allow(clippy::unwrap_used)] // In a test, a wrong value is meant to end it.

mod kit;

use std::sync::Arc;

use kit::Run;
use stateway_machine::{
    CancelMode, MoveKind, Transition, Verb, Vocabulary, VocabularyError, project, vocabularies,
    vocabulary,
};
use stateway_model::ErrorCategory::AgentError;

#[test]
fn there_is_one_vocabulary_per_seed() {
    let all = vocabularies().unwrap();
    let seeds: Vec<_> = all
        .iter()
        .map(|v| (v.seed.as_str(), v.name.as_str()))
        .collect();
    let expected = [
        ("000", "ioa"),
        ("002", "buquet"),
        ("003", "connectsoft"),
        ("004", "workflowmanager"),
        ("001", "landlord"),
    ];
    assert_eq!(seeds, expected);
}

#[test]
fn the_tables_have_as_many_states_and_moves_as_the_seeds() {
    let count = |name: &str| {
        let v = vocabulary(name).unwrap();
        (
            v.execution.state.len(),
            v.execution.transition.len(),
            v.execution.forbidden.len(),
        )
    };
    assert_eq!(count("ioa"), (7, 10, 4));
    assert_eq!(count("buquet"), (8, 14, 0));
    assert_eq!(count("connectsoft"), (11, 16, 0));
    assert_eq!(
        vocabulary("workflowmanager").unwrap().execution.state.len(),
        5
    );
    assert_eq!(vocabulary("landlord").unwrap().execution.state.len(), 6);
}

/// The lists of the seeds, copied from their text: a table that drifts from its seed fails here.
#[test]
fn the_moves_are_the_seeds_own() {
    let moves = |rows: &[Transition]| -> String {
        let mut lines: Vec<_> = rows
            .iter()
            .map(|r| format!("{} {}", r.from, r.to))
            .collect();
        lines.sort_unstable();
        lines.join("\n")
    };
    let of_seed = |text: &str| -> String {
        let mut lines: Vec<_> = text.lines().map(|line| line.trim().to_owned()).collect();
        lines.sort_unstable();
        lines.join("\n")
    };
    let ioa = vocabulary("ioa").unwrap();
    assert_eq!(moves(&ioa.execution.transition), of_seed(IOA));
    assert_eq!(moves(&ioa.execution.forbidden), of_seed(IOA_FORBIDDEN));
    assert_eq!(moves(&ioa.step.unwrap().transition), of_seed(IOA_STEPS));
    let buquet = vocabulary("buquet").unwrap();
    assert_eq!(moves(&buquet.execution.transition), of_seed(BUQUET));
    assert_eq!(
        moves(&buquet.step.unwrap().transition),
        of_seed(BUQUET_STEPS)
    );
    let connectsoft = vocabulary("connectsoft").unwrap();
    assert_eq!(
        moves(&connectsoft.execution.transition),
        of_seed(CONNECTSOFT)
    );
}

const IOA: &str = "idle queued
    queued executing
    executing blocked
    executing completed
    executing failed
    executing compensating
    blocked executing
    blocked failed
    compensating completed
    compensating failed";
const IOA_FORBIDDEN: &str = "idle executing
    completed *
    failed executing
    compensating executing";
const IOA_STEPS: &str = "pending running
    running completed
    running skipped
    running failed";
const BUQUET: &str = "pending running
    running completed
    running failed
    running cancelled
    running paused
    running waiting_signal
    running compensating
    waiting_signal running
    waiting_signal cancelled
    waiting_signal failed
    compensating failed
    compensating cancelled
    paused running
    paused cancelled";
const BUQUET_STEPS: &str = "pending running
    running completed
    running failed
    running cancelled
    failed pending";
const CONNECTSOFT: &str = "Created Running
    Running AssigningTask
    AssigningTask AwaitingAgent
    AwaitingAgent Running
    AwaitingAgent Correcting
    Correcting AwaitingAgent
    Correcting Failed
    Running AwaitingApproval
    AwaitingApproval Running
    AwaitingApproval Cancelled
    AwaitingApproval Escalated
    Running Compensating
    Compensating Failed
    Escalated Running
    Escalated Cancelled
    Running Completed";

/// `*` stands for states from which something can follow; what is terminal stays terminal.
#[test]
fn nothing_leaves_a_terminal_state_in_any_vocabulary() {
    for v in vocabularies().unwrap() {
        let machine = &v.execution;
        let names = || machine.state.iter().map(|row| row.name.as_str());
        for ended in machine.state.iter().filter(|row| row.terminal) {
            for to in names().filter(|to| *to != ended.name) {
                let open = machine.is_legal(&ended.name, to)
                    || machine.is_outside(&ended.name, to)
                    || machine.bridge(&ended.name, to).is_some();
                assert!(!open, "{}: {} → {to}", v.name, ended.name);
            }
        }
    }
}

#[test]
fn the_lists_of_what_is_outside_stay_short() {
    for v in vocabularies().unwrap() {
        let steps = v.step.as_ref().map_or(0, |step| step.outside.len());
        assert!(v.execution.outside.len() <= 3 && steps <= 2, "{}", v.name);
    }
}

fn words(run: &Run, name: &str) -> Vec<String> {
    let projection = project(
        &vocabulary(name).unwrap(),
        Arc::clone(&run.plan),
        &run.events,
    );
    projection
        .execution
        .into_iter()
        .map(|step| step.to)
        .collect()
}

fn rolled_back() -> Run {
    let mut run = Run::started(
        "failurePolicy: compensate\nsteps: [{name: a}, {name: b, dependsOn: [a]}]\ncompensation: \
         [{step: a}]",
    );
    run.done("a");
    run.fail("b", AgentError);
    run.done("a");
    run
}

#[test]
fn a_rollback_in_the_words_of_each_seed() {
    let run = rolled_back();
    let ioa = ["idle", "queued", "executing", "compensating", "completed"];
    assert_eq!(words(&run, "ioa"), ioa);
    assert_eq!(
        words(&run, "buquet"),
        ["pending", "running", "compensating", "failed"]
    );
    assert_eq!(
        words(&run, "workflowmanager"),
        ["created", "processing", "error"]
    );
    assert_eq!(words(&run, "connectsoft").last().unwrap(), "Failed");
    assert_eq!(words(&run, "landlord").last().unwrap(), "failed");
}

#[test]
fn events_have_the_names_of_the_seed() {
    let v = vocabulary("connectsoft").unwrap();
    let run = rolled_back();
    let events = project(&v, Arc::clone(&run.plan), &run.events).events;
    let expected = [
        "WorkflowInstanceStarted",
        "WorkflowStepCompleted",
        "AgentTaskFailed",
        "CompensationStarted",
        "WorkflowInstanceFailed",
    ];
    assert_eq!(events, expected);
}

#[test]
fn a_cancel_before_the_start_is_outside_of_seed_000_and_says_so() {
    let mut run = Run::created("steps: [{name: a}]");
    run.cancel(CancelMode::Stop);
    let v = vocabulary("ioa").unwrap();
    let last = project(&v, Arc::clone(&run.plan), &run.events)
        .execution
        .pop()
        .unwrap();
    assert_eq!(last.kind, MoveKind::Outside);
}

/// Seed 000: idle → executing, completed → any, failed → executing, compensating → executing.
#[test]
fn every_forbidden_move_of_seed_000_is_refused() {
    let mut idle = Run::created("steps: [{name: a}]");
    idle.refused(Verb::GrantSlot);

    let mut completed = Run::started("steps: [{name: a}]");
    completed.done("a");
    let mut failed = Run::started("steps: [{name: a}]");
    failed.fail("a", AgentError);
    let mut compensating = Run::started("steps: [{name: a}, {name: b}]\ncompensation: [{step: a}]");
    compensating.done("a");
    compensating.cancel(CancelMode::Compensate);
    for run in [&mut completed, &mut failed, &mut compensating] {
        run.refused(Verb::Trigger { by: "eve".into() });
        run.refused(Verb::GrantSlot);
        run.refused(Verb::Resume { by: "eve".into() });
        run.refused(Verb::RetryNow {
            step: "a".into(),
            by: "bob".into(),
        });
    }
    for mode in CancelMode::ALL {
        completed.refused(Verb::Cancel {
            mode: *mode,
            by: "eve".into(),
            comment: "".into(),
        });
    }
    let forbidden = vocabulary("ioa").unwrap().execution.forbidden;
    assert_eq!(forbidden.len(), 4, "each of them stands above");
}

#[test]
fn a_table_that_contradicts_itself_is_refused() {
    let ioa = include_str!("../../../provider-tables/vocabularies/ioa.toml");
    let broken = |from: &str, to: &str| Vocabulary::parse(&ioa.replacen(from, to, 1)).unwrap_err();
    let unknown = broken("state = \"blocked\"", "state = \"blokced\"");
    assert_eq!(
        unknown.to_string(),
        "vocabulary `ioa`: `blokced` is not a state"
    );
    let version = broken("version = 1", "version = 9");
    assert!(matches!(
        version,
        VocabularyError::UnknownVersion { found: 9, .. }
    ));
    assert!(matches!(
        broken("seed =", "sead ="),
        VocabularyError::Malformed(_)
    ));
    let unmapped = broken("native = \"queued\", state", "native = \"created\", state");
    assert_eq!(
        unmapped.to_string(),
        "vocabulary `ioa`: `queued` is not mapped"
    );
}
