//! The form of commands: one golden file with every verb, and what is refused.
#![allow(clippy::unwrap_used)] // In a test, a wrong value is meant to end it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use stateway_definition::parse;
use stateway_machine::{
    CancelMode, Command, CommandError, Data, ExecutionState, Failure, MAX_COMMAND_BYTES,
    PolicyDecision, Redo, Resolution, StepTimer, Task, Timer, Verb, VerbName, decode_command,
    encode_command,
};
use stateway_model::{ErrorCategory, Fraction, Progress, Usage};

const VERSION_1: &str = include_str!("golden/commands-v1.jsonl");

const COST: Usage = Usage {
    input_tokens: 1,
    output_tokens: 2,
    cost_micros: 3,
};

fn failure() -> Failure {
    Failure {
        code: "E1".into(),
        no_retry: true,
        effects_unknown: true,
        retry_after: Some(Duration::from_secs(5)),
        ..Failure::reported(ErrorCategory::External, "broke")
    }
}

fn redo() -> Redo {
    Redo {
        input: Some(Data::new(json!({"n": 2}))),
        feedback: "shorter".into(),
        ..Redo::from("a")
    }
}

/// Examples of each verb: every field has a value, and every alternative of a field occurs. The match
/// has no wildcard arm, so a new verb needs examples.
fn examples(verb: VerbName) -> Vec<Verb> {
    let (step, by): (Arc<str>, Arc<str>) = ("a".into(), "ada".into());
    let comment: Arc<str> = "because".into();
    let data = || Data::new(json!({"n": 1.5, "list": [null, "x"]}));
    let task = Task::of("a", 2);
    match verb {
        VerbName::Create => vec![Verb::Create {
            execution: "e1".into(),
            correlation: "c1".into(),
            initiator: by,
            input: data(),
            redone_by: vec!["bob".into()],
        }],
        VerbName::Trigger => vec![Verb::Trigger { by }],
        VerbName::GrantSlot => vec![Verb::GrantSlot],
        VerbName::AssignTask => vec![Verb::AssignTask {
            task,
            worker: "w1".into(),
            identity: "robot".into(),
        }],
        VerbName::ReleaseTask => vec![Verb::ReleaseTask {
            task: Task::undo("a", 1),
            lost: true,
        }],
        VerbName::DecidePolicy => policies(&task),
        VerbName::RecordHeartbeat => vec![
            Verb::heartbeat("a", 1),
            Verb::RecordHeartbeat {
                step,
                attempt: 1,
                progress: Some(Progress {
                    fraction: Fraction::new(0.5).unwrap(),
                    detail: "half".to_owned(),
                }),
            },
        ],
        VerbName::CompleteTask => vec![
            Verb::complete(task.clone(), data()),
            Verb::CompleteTask {
                task,
                output: data(),
                usage: Some(COST),
            },
        ],
        VerbName::FailTask => vec![Verb::FailTask {
            task,
            failure: failure(),
            usage: Some(COST),
        }],
        VerbName::FinishChild => [Ok(data()), Err(failure())]
            .into_iter()
            .map(|outcome| Verb::FinishChild {
                step: Arc::clone(&step),
                attempt: 1,
                outcome,
                usage: COST,
            })
            .collect(),
        VerbName::FireTimer => timers(),
        VerbName::SendSignal => vec![Verb::SendSignal {
            name: "go".into(),
            id: "m1".into(),
            payload: data(),
            by,
        }],
        VerbName::DecideApproval => vec![Verb::DecideApproval {
            step,
            attempt: 1,
            grant: true,
            by,
            roles: vec!["boss".into()],
            comment,
        }],
        VerbName::Pause => vec![Verb::Pause { by, comment }],
        VerbName::Resume => vec![Verb::Resume { by }],
        VerbName::RetryNow => vec![Verb::RetryNow { step, by }],
        VerbName::RetryAll => vec![Verb::RetryAll { by }],
        VerbName::ResolveEscalation => resolutions(),
        VerbName::Cancel | VerbName::Kill => cancellations(verb),
        VerbName::OfferDefinition => {
            let parsed = parse("steps: [{name: a}]", "a.yaml").unwrap();
            vec![Verb::OfferDefinition {
                definition: Arc::new(parsed.definition),
                by,
            }]
        }
        VerbName::OpenBranch => [(None, None), (Some(redo()), Some(ExecutionState::Failed))]
            .into_iter()
            .map(|(redo, reopened)| Verb::OpenBranch {
                branch: 1,
                cutoff: 7,
                by: Arc::clone(&by),
                redo: redo.map(Box::new),
                reopened,
                spent: COST,
                spent_by_step: BTreeMap::from([(Arc::clone(&step), COST)]),
            })
            .collect(),
        VerbName::Fork => vec![Verb::Fork {
            from: "e0".into(),
            branch: 1,
            cutoff: 7,
            by,
            redo: Box::new(redo()),
        }],
        VerbName::Recover => vec![Verb::Recover {
            reason: "D2".into(),
            from: 0,
            cutoff: 7,
            again: vec![step],
            left: vec![3],
            by,
        }],
    }
}

fn policies(task: &Task) -> Vec<Verb> {
    let decisions = [
        PolicyDecision::Allow,
        PolicyDecision::Deny {
            message: "no".into(),
        },
        PolicyDecision::RequireApproval {
            role: "boss".into(),
            due: Some(Timestamp::from_second(1_800_000_000).unwrap()),
        },
    ];
    let decide = |decision| Verb::DecidePolicy {
        task: task.clone(),
        rule: "spending".into(),
        decision,
    };
    decisions.into_iter().map(decide).collect()
}

fn timers() -> Vec<Verb> {
    let of_step = StepTimer::ALL.iter().map(|kind| {
        Verb::fire(Timer::Step {
            step: "a".into(),
            attempt: 1,
            kind: *kind,
        })
    });
    let whole = Verb::FireTimer {
        timer: Timer::Execution,
        note: "no worker is connected".into(),
    };
    std::iter::once(whole).chain(of_step).collect()
}

fn resolutions() -> Vec<Verb> {
    let all = [
        (Resolution::Resume, None),
        (Resolution::Reassign { role: "w2".into() }, None),
        (Resolution::Cancel, Some(true)),
    ];
    let resolve = |(resolution, compensate)| Verb::ResolveEscalation {
        step: "a".into(),
        attempt: 1,
        resolution,
        by: "bob".into(),
        roles: vec!["operator".into()],
        operators: vec!["admin".into()],
        comment: "because".into(),
        compensate,
    };
    all.into_iter().map(resolve).collect()
}

fn cancellations(verb: VerbName) -> Vec<Verb> {
    let modes = CancelMode::ALL.iter();
    modes
        .map(|mode| Verb::Cancel {
            mode: *mode,
            by: "ada".into(),
            comment: "because".into(),
        })
        .filter(|example| example.name() == verb)
        .collect()
}

fn commands() -> Vec<Command> {
    let verbs = VerbName::ALL.iter().flat_map(|verb| {
        let found = examples(*verb);
        assert!(!found.is_empty(), "{verb} has no example");
        assert!(found.iter().all(|example| example.name() == *verb));
        found
    });
    verbs.map(|verb| Command::new("request-1", verb)).collect()
}

#[test]
fn version_1_is_written_as_it_always_was() {
    let line = |command: &Command| String::from_utf8(encode_command(command).unwrap()).unwrap();
    let written: String = commands().iter().map(|one| line(one) + "\n").collect();
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/golden/commands-v1.jsonl"
    );
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(path, &written).unwrap();
    }
    assert_eq!(std::fs::read_to_string(path).unwrap(), written);
}

#[test]
fn version_1_is_read_and_holds_every_verb() {
    let lines = VERSION_1.lines();
    let read: Vec<Command> = lines
        .map(|line| decode_command(line.as_bytes()).unwrap_or_else(|e| panic!("{e}: {line}")))
        .collect();
    assert_eq!(read, commands());
    let names: BTreeSet<VerbName> = read.iter().map(|one| one.verb.name()).collect();
    assert_eq!(names, VerbName::ALL.iter().copied().collect());
}

#[test]
fn an_unknown_version_is_refused_by_its_number() {
    let newer = br#"{"v":2,"id":"r","verb":{"fly":{}},"more":1}"#;
    let refused = decode_command(newer).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "command version 2 is unknown; this build reads version 1"
    );
}

#[test]
fn an_unknown_verb_or_field_is_refused() {
    let first = VERSION_1.lines().next().unwrap();
    let unknown = [
        first.replacen("\"create\"", "\"destroy\"", 1),
        first.replacen("\"initiator\"", "\"starter\"", 1),
        first.replacen("\"v\":1,", "\"v\":1,\"more\":1,", 1),
    ];
    for text in unknown {
        let refused = decode_command(text.as_bytes());
        assert!(matches!(refused, Err(CommandError::Malformed(_))), "{text}");
    }
}

fn signal(payload: Value) -> Command {
    let verb = Verb::SendSignal {
        name: "go".into(),
        id: "m1".into(),
        payload: Data::new(payload),
        by: "ada".into(),
    };
    Command::new("request-1", verb)
}

#[test]
fn a_command_that_is_too_long_is_neither_written_nor_read() {
    let long = signal(Value::from("x".repeat(MAX_COMMAND_BYTES)));
    let refused = encode_command(&long);
    assert!(matches!(refused, Err(CommandError::TooLong { .. })));
    let bytes = vec![b' '; MAX_COMMAND_BYTES + 1];
    let refused = decode_command(&bytes);
    assert!(matches!(refused, Err(CommandError::TooLong { .. })));
}

#[test]
fn every_nesting_that_is_written_can_be_read_again() {
    let nested = |levels| (0..levels).fold(json!("[{\\\"{["), |inner, _| json!([inner]));
    let mut written = 0;
    for levels in 100..140 {
        let command = signal(nested(levels));
        match encode_command(&command) {
            Ok(bytes) => {
                assert_eq!(decode_command(&bytes).unwrap(), command);
                written = levels;
            }
            Err(refused) => {
                assert!(matches!(refused, CommandError::TooDeep { .. }), "{refused}");
                assert!(levels > written);
            }
        }
    }
    // The command itself is an object with a verb with its fields: three levels.
    assert_eq!(written, 124);
}
