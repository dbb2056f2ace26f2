//! The object of an execution: what it writes, when it asks for an alarm, what it answers.

#![allow(clippy::unwrap_used)]

use crate::lab;

use std::time::Duration;

use jiff::SignedDuration;
use lab::Lab;
use serde_json::json;
use stateway_hosted::message::{
    Claim, Done, HandOut, ObjectAnswer, ObjectRequest, StartWork, VERSION, Work,
};
use stateway_hosted::object::{EVENTS, MAX_CLAIM_BYTES, OUTPUT, STATE, VIEW};
use stateway_machine::{Data, ExecutionState, Failure, Verb};
use stateway_model::ErrorCategory;

const ID: &str = "e1";
const SECOND: SignedDuration = SignedDuration::from_secs(1);

fn send(lab: &Lab, id: &str, body: Option<&str>, work: Work, claim: Option<Claim>) -> ObjectAnswer {
    let request = ObjectRequest {
        v: VERSION,
        id: id.into(),
        at: lab.now(),
        body: body.map(Into::into),
        work,
        claim,
    };
    let request = serde_json::to_vec(&request).unwrap();
    serde_json::from_slice(&lab.send_raw(ID, &request)).unwrap()
}

#[track_caller]
fn done(answer: ObjectAnswer) -> Done {
    match answer {
        ObjectAnswer::Done(done) => *done,
        ObjectAnswer::Refused(refusal) => panic!("{refusal:?}"),
    }
}

#[track_caller]
fn reason(answer: ObjectAnswer) -> String {
    match answer {
        ObjectAnswer::Refused(refusal) => refusal.reason,
        ObjectAnswer::Done(_) => panic!("it was carried out"),
    }
}

fn start(source: &str) -> Work {
    Work::Start(Box::new(StartWork {
        definition: "test".into(),
        source: source.into(),
        labels: Default::default(),
        not_before: None,
        input: Data::new(json!({"n": 1})),
        by: "ada".into(),
        child: None,
    }))
}

fn signal(id: &str) -> Work {
    Work::Verb(Box::new(Verb::SendSignal {
        name: "go".into(),
        id: id.into(),
        payload: Data::new(json!("now")),
        by: "ada".into(),
    }))
}

fn claim(worker: &str) -> Option<Claim> {
    Some(Claim {
        worker: worker.into(),
        roles: vec!["packer".into()],
        most: 8,
        lease: Duration::from_secs(30),
        ..Claim::default()
    })
}

fn settle(hand_out: HandOut, verb: Verb) -> Work {
    Work::Settle {
        hand_out,
        verb: Box::new(verb),
    }
}

const WAIT: &str = "name: test\nsteps:\n  - {name: nap, sleep: 5s}\n  - {name: go, signal: go, timeout: 1h, dependsOn: [nap]}";
const CHAIN: &str = "name: test\nsteps:\n  - {name: a, agent: packer, timeout: 1m}\n  - {name: b, agent: packer, timeout: 1m, dependsOn: [a]}";

#[test]
fn an_execution_sleeps_waits_for_a_signal_and_ends() {
    let lab = Lab::default();
    done(send(&lab, "r1", Some("b1"), start(WAIT), None));
    assert_eq!(lab.alarms(), [lab.now() + 5 * SECOND]);
    lab.pass(6 * SECOND);
    assert_eq!(lab.view(ID).view.state, ExecutionState::AwaitingSignal);
    done(send(&lab, "r2", Some("b2"), signal("r2"), None));
    let seen = lab.view(ID);
    assert_eq!(seen.view.state, ExecutionState::Completed);
    assert_eq!((seen.o, seen.tasks.len()), (0, 0));
    let stored = lab.stored(ID);
    let output: serde_json::Value = serde_json::from_slice(&stored[OUTPUT]).unwrap();
    assert_eq!(output, json!({"go": "now"}));
    // The log has every event once, in order.
    let mut sequences = Vec::new();
    for (_, value) in stored.iter().filter(|(key, _)| key.starts_with(EVENTS)) {
        for line in value
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
        {
            sequences.push(stateway_machine::decode(line).unwrap().sequence);
        }
    }
    assert_eq!(sequences, (1..=sequences.len() as u64).collect::<Vec<_>>());
    assert_eq!(seen.view.sequence, sequences.len() as u64);
}

#[test]
fn the_same_request_on_the_same_values_gives_the_same_writes() {
    let (one, other) = (Lab::default(), Lab::default());
    for lab in [&one, &other] {
        done(send(lab, "r1", Some("b1"), start(CHAIN), claim("w")));
    }
    assert_eq!(one.stored(ID), other.stored(ID));
    // Queries select and order by the first bytes of a view.
    let text = String::from_utf8(one.stored(ID)[VIEW].clone()).unwrap();
    assert!(
        text.starts_with("{\"n\":1800000000000,\"o\":2,\"s\":\"running\","),
        "{text}"
    );
}

#[test]
fn a_repeated_request_has_no_further_effect_and_another_body_is_refused() {
    let lab = Lab::default();
    done(send(&lab, "r1", Some("b1"), start(WAIT), None));
    let before = lab.stored(ID);
    done(send(&lab, "r1", Some("b1"), start(WAIT), None));
    assert_eq!(lab.stored(ID), before);
    assert_eq!(
        reason(send(&lab, "r1", Some("b2"), start(WAIT), None)),
        "REQUEST_ID_REUSED"
    );
    assert_eq!(
        reason(send(&lab, "r2", Some("b1"), start(WAIT), None)),
        "EXECUTION_ALREADY_EXISTS"
    );
    let pause = || {
        let (by, comment) = ("ada".into(), "".into());
        Work::Verb(Box::new(Verb::Pause { by, comment }))
    };
    let resume = Work::Verb(Box::new(Verb::Resume { by: "ada".into() }));
    done(send(&lab, "r3", Some("b3"), pause(), None));
    done(send(&lab, "r4", Some("b4"), resume, None));
    // The pause comes again, late: the execution stays resumed.
    let seen = done(send(&lab, "r3", Some("b3"), pause(), None)).seen;
    assert_ne!(seen.view.state, ExecutionState::Paused);
}

#[test]
fn a_result_brings_the_next_task_to_the_same_worker() {
    let lab = Lab::default();
    let started = done(send(&lab, "r1", Some("b1"), start(CHAIN), claim("w")));
    let first = &started.claimed[0];
    assert_eq!((&*first.open.task.step, first.open.hand_out), ("a", 1));
    assert_eq!(*first.input, json!({"n": 1}));
    let complete = Verb::complete(first.open.task.clone(), Data::new(json!(1)));
    let work = settle(first.open.hand_out().unwrap(), complete);
    let settled = done(send(&lab, "w1", None, work.clone(), claim("w")));
    assert_eq!(&*settled.claimed[0].open.task.step, "b");
    // The worker did not see the answer and sends the result again: accepted, without effect.
    let sequence = lab.view(ID).view.sequence;
    done(send(&lab, "w1", None, work, None));
    assert_eq!(lab.view(ID).view.sequence, sequence);
}

#[test]
fn a_worker_that_is_silent_loses_its_task_and_its_late_result_is_refused() {
    let lab = Lab::default();
    let started = done(send(&lab, "r1", Some("b1"), start(CHAIN), claim("w1")));
    let first = started.claimed[0].open.hand_out().unwrap();
    lab.pass(20 * SECOND);
    let renew = Work::Renew {
        worker: "w1".into(),
        lease: Duration::from_secs(30),
    };
    done(send(&lab, "w1", None, renew, None));
    lab.pass(20 * SECOND);
    assert_eq!(lab.view(ID).o, 2, "the lease was renewed");
    lab.pass(15 * SECOND);
    assert_eq!(lab.view(ID).o, 1, "the lease has ended");
    let again = done(send(&lab, "c", None, Work::Claim, claim("w2"))).claimed;
    assert_eq!((again[0].open.task.attempt, again[0].open.hand_out), (1, 2));
    let complete = Verb::complete(first.task.clone(), Data::new(json!(1)));
    assert_eq!(
        reason(send(&lab, "w1", None, settle(first, complete), None)),
        "STALE_TASK"
    );
}

#[test]
fn another_alarm_is_armed_only_for_an_earlier_time() {
    let lab = Lab::default();
    let source = "name: test\nsteps:\n  - {name: long, sleep: 1h}\n  - {name: a, agent: packer, timeout: 1m}";
    done(send(&lab, "r1", Some("b1"), start(source), None));
    assert_eq!(lab.alarms(), [lab.now() + 3_600 * SECOND]);
    // The lease of the task ends before its timeout: one more alarm, not two.
    done(send(&lab, "c", None, Work::Claim, claim("w")));
    assert_eq!(lab.alarms().len(), 2);
    assert_eq!(lab.alarms()[0], lab.now() + 30 * SECOND);
    let renew = Work::Renew {
        worker: "w".into(),
        lease: Duration::from_secs(30),
    };
    lab.pass(SECOND);
    done(send(&lab, "w", None, renew, None));
    assert_eq!(lab.alarms().len(), 2, "the armed alarm is early enough");
}

#[test]
fn a_failed_attempt_is_retried_by_the_alarm() {
    let lab = Lab::default();
    let source = "name: test\nsteps:\n  - name: a\n    agent: packer\n    timeout: 1m\n    retryPolicy: {maxRetries: 1, backoff: constant, initialDelay: 2s}";
    let started = done(send(&lab, "r1", Some("b1"), start(source), claim("w")));
    let first = started.claimed[0].open.hand_out().unwrap();
    let failure = Failure::reported(ErrorCategory::Transient, "no paper");
    let fail = Verb::fail(first.task.clone(), failure);
    done(send(&lab, "w", None, settle(first, fail), None));
    assert_eq!(lab.view(ID).o, 0, "nothing is open between two attempts");
    lab.pass(3 * SECOND);
    let again = done(send(&lab, "c", None, Work::Claim, claim("w"))).claimed;
    assert_eq!(again[0].open.task.attempt, 2);
}

#[test]
fn what_is_no_request_is_refused_and_writes_nothing() {
    let lab = Lab::default();
    for (request, wanted) in [
        (&b"{"[..], "INVALID_REQUEST"),
        (b"{\"v\":2}", "HOST_VERSION"),
        (b"{\"v\":1}", "INVALID_REQUEST"),
    ] {
        let answer: ObjectAnswer = serde_json::from_slice(&lab.send_raw(ID, request)).unwrap();
        assert_eq!(reason(answer), wanted);
    }
    assert_eq!(
        reason(send(&lab, "r", None, signal("r"), None)),
        "EXECUTION_NOT_FOUND"
    );
    assert!(lab.stored(ID).is_empty());
}

#[test]
fn a_definition_that_a_host_cannot_run_is_refused_with_the_words_of_the_report() {
    let lab = Lab::default();
    let source = "name: test\nconcurrency: 2\nsteps: [{name: nap, sleep: 5s}]";
    let ObjectAnswer::Refused(refusal) = send(&lab, "r1", Some("b1"), start(source), None) else {
        panic!("it was started");
    };
    let parsed = stateway_definition::parse(source, "test").unwrap();
    let all = stateway_hosted::portability::HostAbilities {
        http: true,
        schedules: true,
        ..stateway_hosted::portability::HostAbilities::default()
    };
    let definition = (&parsed.definition, source);
    let report = stateway_hosted::portability::report(definition, &all);
    assert_eq!(refusal.message, report.reasons[0]);
    assert!(lab.stored(ID).is_empty());
}

#[test]
fn a_purge_removes_only_what_has_finished() {
    let lab = Lab::default();
    done(send(&lab, "r1", Some("b1"), start(WAIT), None));
    assert_eq!(
        reason(send(&lab, "p", None, Work::Purge, None)),
        "NOT_FINISHED"
    );
    let kill = Verb::Cancel {
        mode: stateway_machine::CancelMode::Kill,
        by: "ada".into(),
        comment: "".into(),
    };
    done(send(
        &lab,
        "r2",
        Some("b2"),
        Work::Verb(Box::new(kill)),
        None,
    ));
    done(send(&lab, "p", None, Work::Purge, None));
    assert!(lab.stored(ID).is_empty());
}

#[test]
fn timers_fire_again_after_an_alarm_was_refused() {
    let lab = Lab::default();
    done(send(&lab, "r1", Some("b1"), start(WAIT), None));
    let good = lab.replace(ID, STATE, b"{\"v\":9}\n".to_vec());
    lab.pass(6 * SECOND);
    // Restate has consumed the alarm. Another one is armed, and it finds a host that can read the state.
    assert_eq!(lab.alarms(), [lab.now() + 59 * SECOND]);
    lab.replace(ID, STATE, good);
    lab.pass(60 * SECOND);
    assert_eq!(lab.view(ID).view.state, ExecutionState::AwaitingSignal);
}

#[test]
fn a_command_arms_an_alarm_when_the_armed_one_never_came() {
    let lab = Lab::default();
    done(send(&lab, "r1", Some("b1"), start(WAIT), None));
    lab.lose_alarms();
    lab.pass(6 * SECOND);
    done(send(&lab, "c", None, Work::Claim, claim("w")));
    assert_eq!(lab.alarms().len(), 1);
    lab.pass(SECOND);
    assert_eq!(lab.view(ID).view.state, ExecutionState::AwaitingSignal);
}

#[test]
fn an_answer_has_inputs_up_to_a_limit_and_the_next_one_the_rest() {
    let lab = Lab::default();
    let steps: Vec<_> = (0..20)
        .map(|step| format!("  - {{name: s{step}, agent: packer, timeout: 1m}}"))
        .collect();
    let source = format!("name: test\nsteps:\n{}", steps.join("\n"));
    let Work::Start(mut work) = start(&source) else {
        unreachable!()
    };
    work.input = Data::new(json!("x".repeat(1024 * 1024)));
    done(send(&lab, "r1", Some("b1"), Work::Start(work), None));
    let wide = |again, has| {
        let one = claim("w").unwrap();
        Some(Claim {
            most: 64,
            again,
            has,
            ..one
        })
    };
    let mut claimed = Vec::new();
    while claimed.len() < 20 {
        let answer = done(send(&lab, "c", None, Work::Claim, wide(false, Vec::new())));
        let bytes: usize = answer
            .claimed
            .iter()
            .map(|task| serde_json::to_vec(&*task.input).unwrap().len())
            .sum();
        assert!(0 < bytes && bytes <= MAX_CLAIM_BYTES, "{bytes}");
        claimed.extend(answer.claimed);
    }
    // A worker that lost its tasks gets all of them, in parts as well.
    let mut has = Vec::new();
    while has.len() < 20 {
        let answer = done(send(&lab, "c", None, Work::Claim, wide(true, has.clone())));
        assert!(!answer.claimed.is_empty() && answer.claimed.len() < 10);
        let sent = answer.claimed.iter();
        has.extend(sent.filter_map(|task| task.open.hand_out()));
    }
}

#[test]
fn an_engine_with_less_room_in_an_answer_gets_fewer_inputs_and_at_least_one() {
    let lab = Lab::default();
    let steps: Vec<_> = (0..6)
        .map(|step| format!("  - {{name: s{step}, agent: packer, timeout: 1m}}"))
        .collect();
    let source = format!("name: test\nsteps:\n{}", steps.join("\n"));
    let Work::Start(mut work) = start(&source) else {
        unreachable!()
    };
    work.input = Data::new(json!("x".repeat(100_000)));
    done(send(&lab, "r1", Some("b1"), Work::Start(work), None));
    let claimed = |most_bytes| {
        let claim = Claim {
            most: 64,
            most_bytes: Some(most_bytes),
            ..claim("w").unwrap()
        };
        let answer = send(&lab, "c", None, Work::Claim, Some(claim));
        done(answer).claimed.len()
    };
    assert_eq!(claimed(250_000), 2);
    assert_eq!(claimed(1), 1);
    assert_eq!(claimed(usize::MAX), 3);
}
