//! Invocations as a function: the frames of a request in, the frames of the answer out. No server.

use serde_json::{Value as Json, json};
use stateway_hosted::message::{ChildOf, ChildStart, ObjectRequest, StartWork, VERSION, Work};

use super::*;
use crate::protocol::{StateEntry, Void};

const NOW: i64 = 1_800_000_000_000;

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millisecond(millis).unwrap()
}

fn start() -> Vec<u8> {
    start_of("name: nap\nsteps: [{name: nap, sleep: 5s}]", None)
}

fn start_of(source: &str, child: Option<ChildStart>) -> Vec<u8> {
    let request = ObjectRequest {
        v: VERSION,
        id: "r1".into(),
        at: at(NOW),
        body: Some("b1".into()),
        work: Work::Start(Box::new(StartWork {
            definition: "nap".into(),
            source: source.into(),
            labels: Default::default(),
            not_before: None,
            input: std::sync::Arc::new(json!(null)),
            by: "ada".into(),
            child,
        })),
        claim: None,
    };
    serde_json::to_vec(&request).unwrap()
}

/// What Restate sends.
#[derive(Clone)]
struct Sent {
    input: Vec<u8>,
    state: Vec<(Bytes, Bytes)>,
    partial: bool,
    /// The commands and notifications after the input.
    journal: Vec<Frame>,
}

impl Sent {
    fn new(input: Vec<u8>) -> Self {
        Self {
            input,
            state: Vec::new(),
            partial: false,
            journal: Vec::new(),
        }
    }

    fn answer(&self, handler: Handler, now: i64) -> Vec<Frame> {
        self.answer_with(handler, now, &Plans::default())
    }

    fn answer_with(&self, handler: Handler, now: i64, plans: &Plans) -> Vec<Frame> {
        let start = Start {
            known_entries: u32::try_from(1 + self.journal.len()).unwrap(),
            key: "e1".to_owned(),
            partial_state: self.partial,
            state_map: self
                .state
                .iter()
                .map(|(key, value)| StateEntry {
                    key: key.clone(),
                    value: value.clone(),
                })
                .collect(),
            ..Start::default()
        };
        let input = Input {
            value: Some(Value {
                content: self.input.clone().into(),
            }),
        };
        let mut body = BytesMut::new();
        Frame::of(START, &start).write(&mut body);
        Frame::of(INPUT, &input).write(&mut body);
        self.journal.iter().for_each(|frame| frame.write(&mut body));
        let answer = respond(handler, body.freeze(), at(now), plans);
        frames(answer).unwrap()
    }
}

fn types(frames: &[Frame]) -> Vec<u16> {
    frames.iter().map(|frame| frame.ty).collect()
}

/// The values that the commands set.
fn values(frames: &[Frame]) -> Vec<(Bytes, Bytes)> {
    let sets = frames.iter().filter(|frame| frame.ty == SET_STATE);
    let sets = sets.map(|frame| SetState::decode(frame.body.clone()).unwrap());
    sets.map(|set| (set.key, set.value.unwrap().content))
        .collect()
}

fn output(frames: &[Frame]) -> Json {
    let output = frames.iter().find(|frame| frame.ty == OUTPUT).unwrap();
    let output = Output::decode(output.body.clone()).unwrap();
    serde_json::from_slice(&output.value.unwrap().content).unwrap()
}

#[test]
fn a_start_writes_everything_arms_one_alarm_and_answers() {
    let answer = Sent::new(start()).answer(Handler::Command, NOW);
    let keys: Vec<_> = values(&answer).into_iter().map(|(key, _)| key).collect();
    assert_eq!(keys, ["d", "e/0000000001", "i", "v", "x"].map(Bytes::from));
    let rest = types(&answer)[keys.len()..].to_vec();
    assert_eq!(rest, [ONE_WAY_CALL, OUTPUT, END]);
    let call = answer
        .iter()
        .find(|frame| frame.ty == ONE_WAY_CALL)
        .unwrap();
    let call = OneWayCall::decode(call.body.clone()).unwrap();
    assert_eq!(call.invoke_time, 1_800_000_005_000);
    assert_eq!((&*call.key, &*call.handler_name), ("e1", "alarm"));
    assert!(output(&answer)["done"]["seen"]["view"].is_object());
}

/// The calls without a response.
fn calls(frames: &[Frame]) -> Vec<OneWayCall> {
    let calls = frames.iter().filter(|frame| frame.ty == ONE_WAY_CALL);
    let calls = calls.map(|frame| OneWayCall::decode(frame.body.clone()).unwrap());
    calls.collect()
}

fn child() -> ChildStart {
    ChildStart {
        of: ChildOf {
            parent: "p1".into(),
            branch: 0,
            step: "sub".into(),
            attempt: 1,
        },
        depth: 1,
        correlation: "p1".into(),
        redone_by: Vec::new(),
    }
}

#[test]
fn children_are_ordered_from_their_definitions_and_every_call_has_an_id_of_its_own() {
    let source = "name: nap\nsteps:\n  - {name: a, workflow: one, timeout: 1m}\n  - {name: b, workflow: two, timeout: 1m}";
    let answer = Sent::new(start_of(source, None)).answer(Handler::Command, NOW);
    let calls = calls(&answer);
    let to: Vec<_> = calls
        .iter()
        .map(|call| (&*call.service_name, &*call.handler_name, &*call.key))
        .collect();
    assert_eq!(
        to,
        [
            (DEFINITION_OBJECT, "start_child", "one"),
            (DEFINITION_OBJECT, "start_child", "two"),
            (EXECUTION_OBJECT, "alarm", "e1"),
        ]
    );
    let ids: Vec<_> = calls
        .iter()
        .map(|call| call.invocation_id_notification_idx)
        .collect();
    assert_eq!(ids, [1, 2, 3]);
}

#[test]
fn a_message_has_the_time_of_its_first_delivery_also_when_it_is_delivered_again() {
    let source = "name: nap\nsteps: [{name: nap, sleep: 5s}]";
    let mut sent = Sent::new(start_of(source, Some(child())));
    let whole = sent.answer(Handler::Deliver, NOW + 60_000);
    let (key, time) = values(&whole).remove(0);
    assert_eq!((&key[..], &time[..]), (&b"a"[..], &b"1800000060000"[..]));
    assert_eq!(calls(&whole)[0].invoke_time, 1_800_000_065_000);
    for stored in 1..whole.len() - 1 {
        sent.journal = whole[..stored].to_vec();
        let rest = sent.answer(Handler::Deliver, NOW + 90_000);
        assert_eq!(rest, whole[stored..], "with {stored} commands stored");
    }
}

#[test]
fn an_end_before_the_start_of_a_child_leaves_a_note_and_nothing_else() {
    let end = ObjectRequest {
        v: VERSION,
        id: "parent".into(),
        at: at(NOW),
        body: None,
        work: Work::EndChild { kill: true },
        claim: None,
    };
    let sent = Sent::new(serde_json::to_vec(&end).unwrap());
    let answer = sent.answer(Handler::Deliver, NOW);
    assert_eq!(values(&answer), [(Bytes::from("t"), Bytes::from("kill"))]);
    // The start finds it: the child ends and reports its end.
    let source = "name: nap\nsteps: [{name: nap, sleep: 5s}]";
    let mut sent = Sent::new(start_of(source, Some(child())));
    sent.state = values(&answer);
    let answer = sent.answer(Handler::Deliver, NOW);
    let calls = calls(&answer);
    let to: Vec<_> = calls
        .iter()
        .map(|call| (&*call.handler_name, &*call.key))
        .collect();
    assert_eq!(to, [("deliver", "p1")]);
    let told: ObjectRequest = serde_json::from_slice(&calls[0].parameter).unwrap();
    assert!(
        matches!(
            told.work,
            Work::FinishChild {
                outcome: Err(_),
                ..
            }
        ),
        "{told:?}"
    );
}

#[test]
fn commands_that_restate_has_are_not_sent_again() {
    let mut sent = Sent::new(start());
    let whole = sent.answer(Handler::Command, NOW);
    // The end is not part of the journal.
    for stored in 0..whole.len() - 1 {
        sent.journal = whole[..stored].to_vec();
        let rest = sent.answer(Handler::Command, NOW + 60_000);
        assert_eq!(rest, whole[stored..], "with {stored} commands stored");
    }
}

#[test]
fn a_journal_of_other_commands_is_refused() {
    let mut sent = Sent::new(start());
    sent.journal = vec![Frame::of(SET_STATE, &SetState::new("x", b"other".to_vec()))];
    let answer = sent.answer(Handler::Command, NOW);
    assert_eq!(types(&answer), [ERROR]);
    let failure = Failure::decode(answer[0].body.clone()).unwrap();
    assert_eq!(failure.code, JOURNAL_MISMATCH);
}

#[test]
fn an_alarm_keeps_its_time_when_it_runs_again() {
    let stored = values(&Sent::new(start()).answer(Handler::Command, NOW));
    let mut alarm = Sent::new(b"1800000005000".to_vec());
    alarm.state = stored;
    let first = alarm.answer(Handler::Alarm, NOW + 5_003);
    assert_eq!(values(&first)[0], ("a".into(), "1800000005003".into()));
    assert_eq!(output(&first)["done"]["seen"]["view"]["state"], "completed");
    // The host dies after the first command; another one runs the alarm a minute later.
    alarm.journal = first[..1].to_vec();
    let again = alarm.answer(Handler::Alarm, NOW + 65_000);
    assert_eq!(again, first[1..]);
}

#[test]
fn a_value_that_was_not_sent_is_requested_and_awaited() {
    let stored = values(&Sent::new(start()).answer(Handler::Command, NOW));
    let mut sent = Sent::new(b"1800000005000".to_vec());
    sent.partial = true;
    let mut commands = Vec::new();
    // First the state, then the definition, because the plan is not in memory.
    for key in ["x", "d"] {
        let answer = sent.answer(Handler::Alarm, NOW + 5_000);
        assert_eq!(types(&answer), [GET_LAZY_STATE, SUSPENSION]);
        let request = GetLazyState::decode(answer[0].body.clone()).unwrap();
        assert_eq!(request.key, key);
        let id = request.result_completion_id;
        let suspended = Suspension::decode(answer[1].body.clone()).unwrap();
        assert_eq!(suspended.waiting_completions, [id]);
        // Asked again before the value is there, the host waits and requests nothing.
        sent.journal.push(answer[0].clone());
        assert_eq!(
            types(&sent.answer(Handler::Alarm, NOW + 5_000)),
            [SUSPENSION]
        );
        let value = stored.iter().find(|(name, _)| name == key).unwrap();
        let completion = GetLazyStateCompletion {
            completion_id: id,
            void: None::<Void>,
            value: Some(Value {
                content: value.1.clone(),
            }),
        };
        sent.journal
            .push(Frame::of(GET_LAZY_STATE_COMPLETION, &completion));
        commands = sent.answer(Handler::Alarm, NOW + 5_000);
    }
    assert_eq!(
        output(&commands)["done"]["seen"]["view"]["state"],
        "completed"
    );
}

#[test]
fn what_cannot_be_read_is_answered() {
    let nonsense = Sent::new(b"{".to_vec()).answer(Handler::Command, NOW);
    assert_eq!(types(&nonsense), [OUTPUT, END]);
    assert_eq!(output(&nonsense)["refused"]["reason"], "INVALID_REQUEST");
    let answer = respond(
        Handler::Command,
        Bytes::from("x"),
        at(NOW),
        &Plans::default(),
    );
    assert_eq!(types(&frames(answer).unwrap()), [ERROR]);
}

#[test]
fn another_host_goes_on_although_it_has_to_request_the_definition() {
    // The host that starts the execution has the definition in memory afterwards.
    let plans = Plans::default();
    let stored = values(&Sent::new(start()).answer_with(Handler::Command, NOW, &plans));
    let value = |key: &str| stored.iter().find(|(name, _)| name == key).unwrap().clone();
    let completion = |id: u32, key: &str| {
        let completion = GetLazyStateCompletion {
            completion_id: id,
            void: None::<Void>,
            value: Some(Value {
                content: value(key).1,
            }),
        };
        Frame::of(GET_LAZY_STATE_COMPLETION, &completion)
    };
    // The alarm comes early, before the sleep ends, and arms the next one.
    let mut sent = Sent::new(b"1800000005000".to_vec());
    sent.partial = true;
    let request = sent.answer(Handler::Alarm, NOW + 1_000);
    sent.journal = vec![request[0].clone(), completion(1, "x")];
    // The first host requests nothing more.
    let whole = sent.answer_with(Handler::Alarm, NOW + 1_000, &plans);
    assert!(types(&whole).contains(&ONE_WAY_CALL));
    // The connection breaks after some of its commands. A host that does not have the definition continues.
    for kept in 0..whole.len() - 1 {
        let mut other = sent.clone();
        other.journal.extend_from_slice(&whole[..kept]);
        let asked = other.answer(Handler::Alarm, NOW + 2_000);
        assert_eq!(types(&asked), [GET_LAZY_STATE, SUSPENSION], "after {kept}");
        let request = GetLazyState::decode(asked[0].body.clone()).unwrap();
        let id = request.result_completion_id;
        other.journal.push(asked[0].clone());
        other.journal.push(completion(id, "d"));
        let rest = other.answer(Handler::Alarm, NOW + 2_000);
        assert_eq!(
            types(&rest).last(),
            Some(&END),
            "after {kept}: {:?}",
            types(&rest)
        );
    }
}

#[test]
fn an_alarm_of_a_purged_execution_writes_nothing() {
    let answer = Sent::new(b"1800000005000".to_vec()).answer(Handler::Alarm, NOW + 5_000);
    assert_eq!(types(&answer), [OUTPUT, END]);
    assert_eq!(output(&answer)["refused"]["reason"], "EXECUTION_NOT_FOUND");
}
