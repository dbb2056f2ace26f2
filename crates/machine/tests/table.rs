//! Every (state, verb) pair has an answer, and this is the list of them.
#![allow(clippy::unwrap_used)] // In a test, a wrong value is meant to end it.

use crate::kit;

use std::fmt::Write as _;
use std::sync::Arc;

use kit::Run;
use serde_json::json;
use stateway_machine::{
    CancelMode, ExecutionState, Failure, PolicyDecision, Redo, Rejection, Resolution, StepTimer,
    Task, Timer, Verb, VerbName, admit,
};
use stateway_model::ErrorCategory::{AgentError, Governance};
use stateway_model::Usage;

const SAMPLE: &str = "timeout: 1h\nsteps: [{name: a, onFailure: compensate}, {name: s, dependsOn: \
                      [a], signal: go}, {name: g, dependsOn: [s], approval: {role: boss}}, {name: k, \
                      dependsOn: [g], workflow: child}]\ncompensation: [{step: a}, {step: s}]";

/// An execution in each state, and one that is not created.
fn in_state(state: Option<ExecutionState>) -> Run {
    use ExecutionState as S;
    let Some(state) = state else {
        return Run::absent(SAMPLE);
    };
    let mut run = match state {
        S::Created => Run::created(SAMPLE),
        S::Queued => Run::queued(SAMPLE),
        _ => Run::started(SAMPLE),
    };
    match state {
        S::Created | S::Queued | S::Running => {}
        S::AwaitingSignal => drop(run.done("a")),
        S::AwaitingApproval => {
            run.done("a");
            run.signal("go", "m").unwrap();
        }
        S::Paused => drop(run.pause()),
        S::Escalated => drop(run.fail("a", Governance)),
        S::Cancelling => {
            run.assign("a", "w");
            run.cancel(CancelMode::Stop);
        }
        S::Compensating => {
            run.done("a");
            run.cancel(CancelMode::Compensate);
        }
        S::Completed => {
            run = Run::started("steps: [{name: a}]");
            run.done("a");
        }
        S::RolledBack => drop(run.fail("a", AgentError)),
        S::Failed => drop(run.expire()),
        S::Cancelled => drop(run.cancel(CancelMode::Stop)),
    }
    run
}

/// A sensible use of each verb on the sample.
fn sample(verb: VerbName, run: &Run) -> Verb {
    let step: Arc<str> = "a".into();
    let undo = run.tasks().first().is_some_and(|task| task.undo);
    let task = Task {
        step: Arc::clone(&step),
        attempt: 1,
        undo,
    };
    let (by, comment): (Arc<str>, Arc<str>) = ("bob".into(), "".into());
    let output = Arc::new(json!({}));
    match verb {
        VerbName::Create => Verb::Create {
            execution: "e".into(),
            correlation: "c".into(),
            initiator: "ada".into(),
            input: output,
            redone_by: Vec::new(),
        },
        VerbName::Trigger => Verb::Trigger { by },
        VerbName::GrantSlot => Verb::GrantSlot,
        VerbName::AssignTask => Verb::AssignTask {
            task,
            worker: "w".into(),
            identity: "".into(),
        },
        VerbName::ReleaseTask => Verb::ReleaseTask { task, lost: true },
        VerbName::DecidePolicy => Verb::DecidePolicy {
            task,
            rule: "spending".into(),
            decision: PolicyDecision::Allow,
        },
        VerbName::RecordHeartbeat => Verb::heartbeat(step, 1),
        VerbName::CompleteTask => Verb::complete(task, output),
        VerbName::FailTask => Verb::fail(task, Failure::reported(AgentError, "broke")),
        VerbName::FinishChild => Verb::FinishChild {
            step: "k".into(),
            attempt: 1,
            outcome: Ok(output),
            usage: Usage::default(),
        },
        VerbName::FireTimer => Verb::fire(Timer::Step {
            step,
            attempt: 1,
            kind: StepTimer::Timeout,
        }),
        VerbName::SendSignal => Verb::SendSignal {
            name: "go".into(),
            id: "m9".into(),
            payload: output,
            by,
        },
        VerbName::DecideApproval => Verb::DecideApproval {
            step: "g".into(),
            attempt: 1,
            grant: true,
            by,
            roles: vec!["boss".into()],
            comment,
        },
        VerbName::Pause => Verb::Pause { by, comment },
        VerbName::Resume => Verb::Resume { by },
        VerbName::RetryNow => Verb::RetryNow { step, by },
        VerbName::RetryAll => Verb::RetryAll { by },
        VerbName::ResolveEscalation => Verb::ResolveEscalation {
            step,
            attempt: 1,
            resolution: Resolution::Resume,
            by,
            roles: vec!["operator".into()],
            operators: vec!["operator".into()],
            comment,
            compensate: None,
        },
        VerbName::Cancel => Verb::Cancel {
            mode: CancelMode::Stop,
            by,
            comment,
        },
        VerbName::Kill => Verb::Cancel {
            mode: CancelMode::Kill,
            by,
            comment,
        },
        VerbName::OfferDefinition => Verb::OfferDefinition {
            definition: Arc::new(run.plan.definition().clone()),
            by,
        },
        VerbName::OpenBranch => Verb::OpenBranch {
            branch: 1,
            cutoff: 1,
            by,
            redo: None,
            reopened: None,
            spent: Usage::default(),
            spent_by_step: std::collections::BTreeMap::new(),
        },
        VerbName::Fork => Verb::Fork {
            from: "e0".into(),
            branch: 0,
            cutoff: 1,
            by,
            redo: Box::new(Redo::from(step)),
        },
        VerbName::Recover => Verb::Recover {
            reason: comment,
            from: 0,
            cutoff: 1,
            again: Vec::new(),
            left: Vec::new(),
            by,
        },
    }
}

fn rows() -> Vec<Option<ExecutionState>> {
    std::iter::once(None)
        .chain(ExecutionState::ALL.iter().copied().map(Some))
        .collect()
}

#[test]
fn every_pair_of_state_and_verb_has_its_answer() {
    let mut table = String::new();
    for state in rows() {
        let name = state.map_or("(absent)", ExecutionState::as_str);
        for verb in VerbName::ALL {
            let mut run = in_state(state);
            assert_eq!(run.at(), state.unwrap_or(ExecutionState::Created));
            let before = run.state.clone();
            let wanted = sample(*verb, &run);
            let answer = match run.send(wanted) {
                Ok(events) if events.is_empty() => "nothing changes".to_owned(),
                Ok(events) => events.join(", "),
                Err(rejection) => {
                    assert_eq!(run.state, before, "a refused command writes nothing");
                    assert!(!rejection.hint().is_empty());
                    format!("refused: {rejection}")
                }
            };
            let _ = writeln!(table, "{name:17} {verb:18} {answer}");
        }
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/table.txt");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(path, &table).unwrap();
    }
    assert_eq!(std::fs::read_to_string(path).unwrap(), table);
    assert_eq!(table.lines().count(), 14 * VerbName::ALL.len());
}

#[test]
fn the_admission_table_is_what_decide_does() {
    for state in rows() {
        for verb in VerbName::ALL {
            let mut run = in_state(state);
            let admitted = admit(&run.state, *verb);
            let wanted = sample(*verb, &run);
            let answer = run.send(wanted);
            match admitted {
                Err(rejection) => assert_eq!(answer, Err(rejection)),
                Ok(()) => assert!(!matches!(
                    answer,
                    Err(Rejection::WrongState { .. }
                        | Rejection::AlreadyFinished { .. }
                        | Rejection::NotCreated)
                )),
            }
        }
    }
}
