//! The words of five other systems: whole tables, histories in those words, and forbidden moves refused.
#![allow(clippy::unwrap_used)] // In a test, a wrong value is meant to end it.

use crate::kit;

use std::sync::Arc;

use kit::Run;
use kit::history::{escalated_rollback, histories, reopened};
use stateway_machine::ExecutionState::Completed;
use stateway_machine::{CancelMode, PolicyDecision, Redo, StepTimer, Task, Verb, later};
use stateway_model::ErrorCategory::{AgentError, Transient};
use stateway_model::Usage;
use stateway_replay::{
    MoveKind, Projection, Transition, Vocabulary, VocabularyError, project, vocabularies,
    vocabulary,
};

#[test]
fn there_are_five_vocabularies_each_with_the_kind_of_its_system() {
    let all = vocabularies().unwrap();
    let names: Vec<_> = all
        .iter()
        .map(|v| (v.name.as_str(), v.system.as_str()))
        .collect();
    let expected = [
        ("ioa", "agent orchestrator"),
        ("buquet", "workflow engine"),
        ("connectsoft", "software factory"),
        ("workflowmanager", "workflow manager"),
        ("landlord", "tenant control plane"),
    ];
    assert_eq!(names, expected);
}

#[test]
fn the_tables_have_as_many_states_and_moves_as_their_systems() {
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

/// The lists as the systems document them: a table that differs fails here.
#[test]
fn the_moves_are_those_of_the_systems() {
    let moves = |rows: &[Transition]| -> String {
        let mut lines: Vec<_> = rows
            .iter()
            .map(|r| format!("{} {}", r.from, r.to))
            .collect();
        lines.sort_unstable();
        lines.join("\n")
    };
    let documented = |text: &str| -> String {
        let mut lines: Vec<_> = text.lines().map(|line| line.trim().to_owned()).collect();
        lines.sort_unstable();
        lines.join("\n")
    };
    let ioa = vocabulary("ioa").unwrap();
    assert_eq!(moves(&ioa.execution.transition), documented(IOA));
    assert_eq!(moves(&ioa.execution.forbidden), documented(IOA_FORBIDDEN));
    assert_eq!(moves(&ioa.step.unwrap().transition), documented(IOA_STEPS));
    let buquet = vocabulary("buquet").unwrap();
    assert_eq!(moves(&buquet.execution.transition), documented(BUQUET));
    assert_eq!(
        moves(&buquet.step.unwrap().transition),
        documented(BUQUET_STEPS)
    );
    let connectsoft = vocabulary("connectsoft").unwrap();
    assert_eq!(
        moves(&connectsoft.execution.transition),
        documented(CONNECTSOFT)
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

/// `*` stands for states from which something can follow; only a reopening leaves a terminal state.
#[test]
fn nothing_but_a_reopening_leaves_a_terminal_state_in_any_vocabulary() {
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
        assert!(machine.reopening.is_some(), "{}", v.name);
    }
}

#[test]
fn the_lists_of_moves_outside_stay_short_and_each_has_a_reason() {
    for v in vocabularies().unwrap() {
        let steps = v.step.as_ref().map_or(&[][..], |step| &step.outside);
        assert!(
            v.execution.outside.len() <= 3 && steps.len() <= 5,
            "{}",
            v.name
        );
        let mut all = v.execution.outside.iter().chain(steps);
        assert!(all.all(|row| row.why.len() > 20), "{}", v.name);
    }
}

#[test]
fn no_history_makes_a_move_that_a_vocabulary_neither_lists_nor_explains() {
    for v in vocabularies().unwrap() {
        for run in histories() {
            let projection = projection(&run, &v.name);
            let steps = projection.steps.values().flatten();
            for one in projection.execution.iter().chain(steps) {
                assert_ne!(one.kind, MoveKind::Illegal, "{}: {one:?}", v.name);
            }
        }
    }
}

fn projection(run: &Run, name: &str) -> Projection {
    let words = vocabulary(name).unwrap();
    project(&words, Arc::clone(&run.plan), &run.events)
}

/// The states one after the other, as the command line shows them: `~>` leads over a bridge, `!>` is a
/// move that the other system does not list.
fn path(moves: &[stateway_replay::Move]) -> String {
    let mut text = String::new();
    for one in moves {
        text.push_str(match one.kind {
            MoveKind::Begin => "",
            MoveKind::Legal => " > ",
            MoveKind::Bridged => " ~> ",
            MoveKind::Outside => " !> ",
            MoveKind::Illegal => " ILLEGAL ",
        });
        text.push_str(&one.to);
    }
    text
}

fn execution(run: &Run, name: &str) -> String {
    path(&projection(run, name).execution)
}

fn step(run: &Run, name: &str, step: &str) -> String {
    path(&projection(run, name).steps[step])
}

const SAGA: &str = "failurePolicy: compensate\nsteps: [{name: a}, {name: b, dependsOn: [a]}, {name: c, \
                    dependsOn: [b]}]\ncompensation: [{step: a}]";

/// Workers complete `a`, fail `b` and compensate `a`.
fn rolled_back() -> Run {
    let mut run = Run::started(SAGA);
    run.assign("a", "w");
    run.done("a");
    run.assign("b", "w");
    run.fail("b", AgentError);
    run.assign("a", "w");
    run.done("a");
    run
}

#[test]
fn a_rollback_in_the_words_of_each_system() {
    let run = rolled_back();
    for (name, moves) in [
        (
            "ioa",
            "idle > queued > executing > compensating > completed",
        ),
        ("buquet", "pending > running > compensating > failed"),
        (
            "connectsoft",
            "Created > Running > AssigningTask > AwaitingAgent > Running > AssigningTask > \
             AwaitingAgent ~> Running ~> Compensating > Failed",
        ),
        ("workflowmanager", "created > processing > error"),
        ("landlord", "waiting > running > error > running > failed"),
    ] {
        assert_eq!(execution(&run, name), moves, "{name}");
    }
}

/// Nobody corrected anything: the first failure was final.
#[test]
fn a_first_failure_that_is_final_shows_no_correction() {
    let mut run = Run::started("steps: [{name: a}]");
    run.assign("a", "w");
    run.fail("a", AgentError);
    assert_eq!(
        execution(&run, "connectsoft"),
        "Created > Running > AssigningTask > AwaitingAgent !> Failed"
    );
}

#[test]
fn a_failure_after_retries_leads_through_the_correction() {
    let mut run = Run::started("steps: [{name: a, retryPolicy: {maxRetries: 1}}]");
    run.assign("a", "w");
    run.fail("a", Transient);
    run.fire("a", StepTimer::Retry);
    run.assign("a", "w");
    run.fail("a", Transient);
    assert_eq!(
        execution(&run, "connectsoft"),
        "Created > Running > AssigningTask > AwaitingAgent > Correcting > AwaitingAgent > Correcting \
         > Failed"
    );
    let yaml = "steps: [{name: a, retryPolicy: {maxRetries: 1}, onFailure: compensate}]";
    let mut run = Run::started(yaml);
    run.assign("a", "w");
    run.fail("a", Transient);
    run.fire("a", StepTimer::Retry);
    run.assign("a", "w");
    run.fail("a", Transient);
    assert_eq!(
        execution(&run, "connectsoft"),
        "Created > Running > AssigningTask > AwaitingAgent > Correcting > AwaitingAgent ~> Running ~> \
         Compensating > Failed"
    );
}

#[test]
fn a_step_that_a_person_resumes_is_assigned_and_not_corrected() {
    let mut run = Run::started("steps: [{name: a, onFailure: escalate}]");
    run.assign("a", "w");
    run.fail("a", AgentError);
    run.resolve("a", stateway_machine::Resolution::Resume);
    run.assign("a", "w");
    assert_eq!(
        execution(&run, "connectsoft"),
        "Created > Running > AssigningTask > AwaitingAgent !> Escalated > Running > AssigningTask > \
         AwaitingAgent"
    );
}

#[test]
fn steps_that_have_not_started_are_shown_in_every_vocabulary_with_steps() {
    let run = rolled_back();
    for v in vocabularies().unwrap() {
        let steps = projection(&run, &v.name).steps;
        if v.step.is_none() {
            assert!(steps.is_empty(), "{}", v.name);
            continue;
        }
        assert_eq!(steps.keys().collect::<Vec<_>>(), ["a", "b", "c"]);
        assert_eq!(path(&steps["c"]), "pending", "{}", v.name);
    }
    let created = Run::created("steps: [{name: a}]");
    assert_eq!(step(&created, "ioa", "a"), "pending");
    let absent = Run::absent("steps: [{name: a}]");
    assert!(projection(&absent, "ioa").steps.is_empty());
}

#[test]
fn an_execution_that_is_cancelling_stays_where_it_was_until_it_is_cancelled() {
    let mut run = Run::started("steps: [{name: a}]");
    run.assign("a", "w");
    run.cancel(CancelMode::Stop);
    let before = [
        "executing",
        "running",
        "AwaitingAgent",
        "processing",
        "running",
    ];
    for (v, state) in vocabularies().unwrap().iter().zip(before) {
        let moves = projection(&run, &v.name).execution;
        assert_eq!(moves.last().unwrap().to, state, "{}", v.name);
    }
    run.done("a");
    for (name, moves) in [
        ("ioa", "idle > queued > executing > failed"),
        ("buquet", "pending > running > cancelled"),
        (
            "connectsoft",
            "Created > Running > AssigningTask > AwaitingAgent !> Cancelled",
        ),
        ("workflowmanager", "created > processing > error"),
        ("landlord", "waiting > running > failed"),
    ] {
        assert_eq!(execution(&run, name), moves, "{name}");
    }
}

/// The end is shown as it was on the branch before, then the move that no other system has.
#[test]
fn a_reopened_execution_shows_its_end_and_leaves_it_outside_of_every_vocabulary() {
    let run = reopened();
    assert_eq!(run.at(), Completed);
    for (name, moves) in [
        (
            "ioa",
            "idle > queued > executing > failed !> executing > completed",
        ),
        (
            "buquet",
            "pending > running > failed !> running > completed",
        ),
        (
            "connectsoft",
            "Created > Running > AssigningTask ~> AwaitingAgent ~> Running !> Failed !> Running > \
             AssigningTask ~> AwaitingAgent ~> Running > Completed",
        ),
        (
            "workflowmanager",
            "created > processing > error !> processing > completed",
        ),
        (
            "landlord",
            "waiting > running > failed !> running > succeeded",
        ),
    ] {
        assert_eq!(execution(&run, name), moves, "{name}");
    }
    assert_eq!(step(&run, "ioa", "b"), "pending > running > completed");
}

#[test]
fn a_reopened_rollback_shows_the_rollback_first() {
    let run = rolled_back().retried_from(3, "a", "bob");
    assert_eq!(
        execution(&run, "ioa"),
        "idle > queued > executing > compensating > completed !> executing"
    );
    assert_eq!(
        execution(&run, "buquet"),
        "pending > running > compensating > failed !> running"
    );
}

/// Compensated, then a person decides, then everything runs again and is cancelled.
#[test]
fn an_escalation_after_a_rollback_in_the_words_of_each_system() {
    let run = escalated_rollback();
    for (name, moves) in [
        (
            "ioa",
            "idle > queued > executing > blocked > executing > compensating !> blocked > executing > \
             failed",
        ),
        (
            "buquet",
            "pending > running > waiting_signal > running > compensating !> paused > running > \
             cancelled",
        ),
        (
            "connectsoft",
            "Created > Running > AssigningTask ~> AwaitingAgent ~> Running ~> AwaitingApproval ~> \
             Running ~> AssigningTask > AwaitingAgent > Running > AssigningTask > AwaitingAgent ~> \
             Running ~> Compensating !> Escalated > Running > AssigningTask > AwaitingAgent !> \
             Cancelled",
        ),
        (
            "workflowmanager",
            "created > processing > awaiting_input > processing > awaiting_input > processing > error",
        ),
        (
            "landlord",
            "waiting > running > waiting > running > error > running > failed",
        ),
    ] {
        assert_eq!(execution(&run, name), moves, "{name}");
    }
    for (name, of, moves) in [
        (
            "ioa",
            "a",
            "pending > running > completed !> running > completed",
        ),
        ("ioa", "b", "pending > running > failed !> running"),
        ("ioa", "busy", "pending > running > failed !> running"),
        (
            "buquet",
            "a",
            "pending > running > completed !> pending > running > completed",
        ),
        ("buquet", "b", "pending > running > failed > pending"),
        ("buquet", "busy", "pending > running > cancelled !> pending"),
    ] {
        assert_eq!(step(&run, name, of), moves, "{name} {of}");
    }
}

#[test]
fn events_have_the_names_of_the_other_system() {
    let run = rolled_back();
    assert_eq!(
        projection(&run, "connectsoft").events,
        [
            "WorkflowInstanceStarted",
            "AgentTaskAssigned",
            "AgentTaskCompleted",
            "WorkflowStepCompleted",
            "AgentTaskAssigned",
            "AgentTaskFailed",
            "CompensationStarted",
            "AgentTaskAssigned",
            "WorkflowInstanceFailed",
        ]
    );
}

#[test]
fn only_steps_that_an_agent_runs_are_agent_tasks() {
    let mut run = Run::started("steps: [{name: s, signal: go}]");
    run.signal("go", "m").unwrap();
    assert_eq!(
        projection(&run, "connectsoft").events,
        [
            "WorkflowInstanceStarted",
            "WorkflowStepCompleted",
            "WorkflowInstanceCompleted"
        ]
    );
}

#[test]
fn a_policy_decision_and_the_approval_it_asks_for_are_recorded() {
    let mut run = Run::started("steps: [{name: a}]");
    run.ok(Verb::DecidePolicy {
        task: Task::of("a", 1),
        rule: "spending".into(),
        decision: PolicyDecision::RequireApproval {
            role: "boss".into(),
            due: Some(later(run.now, std::time::Duration::from_secs(60))),
        },
    });
    run.vote("a", 1, true, "bob").unwrap();
    assert_eq!(
        projection(&run, "connectsoft").events,
        [
            "WorkflowInstanceStarted",
            "PolicyDecisionRecorded",
            "ApprovalRequested",
            "AuditEntryRecorded",
            "ApprovalGranted",
        ]
    );
    assert_eq!(
        projection(&run, "workflowmanager").events[2..],
        ["interaction_requested", "interaction_response"]
    );
}

fn audited(run: &Run) -> usize {
    let events = projection(run, "connectsoft").events;
    let entry = |name: &&String| name.as_str() == "AuditEntryRecorded";
    events.iter().filter(entry).count()
}

#[test]
fn every_decision_of_a_person_is_one_audit_entry_and_its_consequences_are_none() {
    use stateway_machine::Resolution::{Cancel, Resume};
    let yaml = "failurePolicy: compensate\nsteps: [{name: a, onFailure: escalate}, {name: g, approval: \
                {role: boss}}]\ncompensation: [{step: a}]";
    let mut run = Run::started(yaml);
    assert_eq!(audited(&run), 0, "starting it is no decision");
    run.vote("g", 1, true, "bob").unwrap();
    assert_eq!(
        audited(&run),
        1,
        "the approval, not the completion of its step"
    );
    run.pause();
    run.resume();
    assert_eq!(audited(&run), 3);
    run.fail("a", Transient);
    run.ok(Verb::RetryNow {
        step: "a".into(),
        by: "bob".into(),
    });
    assert_eq!(audited(&run), 4, "a retry now");
    run.fail("a", AgentError);
    run.resolve("a", Resume);
    assert_eq!(audited(&run), 5, "the escalation, not the new attempt");
    run.fail("a", AgentError);
    run.resolve("a", Cancel);
    assert_eq!(audited(&run), 6, "the escalation, not the cancellation");

    let mut run = Run::started("steps: [{name: a}]");
    run.assign("a", "w");
    run.cancel(CancelMode::Stop);
    run.done("a");
    assert_eq!(audited(&run), 1, "the request to cancel, not its end");
    let again = run.retried_from(3, "a", "bob");
    assert_eq!(audited(&again), 1, "the retry-from");
}

#[test]
fn a_cancel_before_the_start_is_outside_of_ioa() {
    let mut run = Run::created("steps: [{name: a}]");
    run.cancel(CancelMode::Stop);
    assert_eq!(execution(&run, "ioa"), "idle !> failed");
}

/// idle → executing, completed → any, failed → executing, compensating → executing.
#[test]
fn every_move_that_ioa_forbids_is_refused() {
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
            by: "eve".into(),
        });
    }
    for mode in CancelMode::ALL {
        completed.refused(Verb::Cancel {
            mode: *mode,
            by: "eve".into(),
            comment: "".into(),
        });
    }
    // Running a step again begins on a state before the end, never on the end itself.
    for run in [&mut completed, &mut failed] {
        for reopened in [None, Some(run.at())] {
            run.refused(Verb::OpenBranch {
                branch: 1,
                cutoff: 3,
                by: "eve".into(),
                redo: Some(Box::new(Redo::from("a"))),
                reopened,
                spent: Usage::default(),
                spent_by_step: std::collections::BTreeMap::new(),
            });
        }
        run.refused(Verb::Fork {
            from: "e1".into(),
            branch: 0,
            cutoff: 3,
            by: "eve".into(),
            redo: Box::new(Redo::from("a")),
        });
    }
    let forbidden = vocabulary("ioa").unwrap().execution.forbidden;
    assert_eq!(forbidden.len(), 4, "each of them is tried above");
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
    let version = broken("version = 2", "version = 9");
    assert!(matches!(
        version,
        VocabularyError::UnknownVersion { found: 9, .. }
    ));
    assert!(matches!(
        broken("system =", "sistem ="),
        VocabularyError::Malformed(_)
    ));
    let unmapped = broken("native = \"queued\", state", "native = \"created\", state");
    assert_eq!(
        unmapped.to_string(),
        "vocabulary `ioa`: `queued` is not mapped"
    );
}
