//! What a real server does with an answer, a history and pending activities that are too large.

use stateway_hosted::message::{ChildOf, ChildStart};
use stateway_provider_temporal::api::workflowservice::v1::RespondWorkflowTaskCompletedRequest;

use super::*;

/// The longest message that a server reads, and the largest batch of events that it writes.
const MESSAGE_BYTES: usize = 4 * 1024 * 1024;
/// The longest payload.
const PAYLOAD_BYTES: usize = 2 * 1024 * 1024;
/// The largest history. A server terminates a workflow that exceeds it.
pub(super) const HISTORY_BYTES: usize = 50 * 1024 * 1024;
/// The most pending activities of a workflow.
const PENDING_ACTIVITIES: usize = 2_000;

/// The limits of one answer.
pub(super) fn check(answer: &Answer, pending: usize) {
    let request = RespondWorkflowTaskCompletedRequest {
        commands: answer.commands.clone(),
        messages: answer.messages.clone(),
        ..Default::default()
    };
    let bytes = request.encoded_len();
    assert!(bytes < MESSAGE_BYTES, "an answer of {bytes} bytes");
    let mut started = 0;
    for command in &answer.commands {
        let attributes = command.attributes.as_ref().unwrap();
        let bytes = match attributes {
            Ordered::RecordMarkerCommandAttributes(it) => it
                .details
                .values()
                .map(prost::Message::encoded_len)
                .sum::<usize>(),
            Ordered::ModifyWorkflowPropertiesCommandAttributes(it) => {
                it.upserted_memo.as_ref().unwrap().encoded_len()
            }
            Ordered::ScheduleActivityTaskCommandAttributes(it) => {
                started += 1;
                it.input.as_ref().unwrap().encoded_len()
            }
            Ordered::ContinueAsNewWorkflowExecutionCommandAttributes(it) => {
                let memo = it.memo.as_ref().unwrap().encoded_len();
                memo.max(it.input.as_ref().unwrap().encoded_len())
            }
            _ => 0,
        };
        assert!(bytes < PAYLOAD_BYTES, "a command of {bytes} bytes");
    }
    assert!(pending + started <= PENDING_ACTIVITIES);
}

/// A workflow over all its runs.
struct Flow {
    run: Run,
    runs: usize,
    /// All values of the runs before.
    before: BTreeMap<String, Bytes>,
}

impl Flow {
    fn new(request: &ObjectRequest) -> Self {
        Self {
            run: Run::execution(request),
            runs: 1,
            before: BTreeMap::new(),
        }
    }

    fn values(&self) -> BTreeMap<String, Bytes> {
        let mut values = self.run.values();
        if self.run.record().earlier.is_some() {
            for (key, value) in &self.before {
                values.entry(key.clone()).or_insert(value.clone());
            }
        }
        values
    }

    /// One task. Continues in another run if the answer does.
    fn task(&mut self, requests: &[&ObjectRequest]) -> Answer {
        let is_copying = self.run.record().earlier.is_some();
        let before = is_copying.then_some(&self.before);
        let answer = self.run.task_after(requests, before);
        let last = answer.commands.last().and_then(|it| it.attributes.clone());
        if let Some(Ordered::ContinueAsNewWorkflowExecutionCommandAttributes(next)) = last {
            self.before = self.values();
            self.runs += 1;
            let seconds = self.run.seconds;
            self.run = Run::new(
                self.run.object,
                self.run.name,
                history::WorkflowExecutionStartedEventAttributes {
                    input: next.input,
                    memo: next.memo,
                    search_attributes: next.search_attributes,
                    continued_execution_run_id: "before".to_owned(),
                    ..Default::default()
                },
            );
            self.run.seconds = seconds;
        }
        answer
    }

    /// Tasks until the host asks for no other one.
    fn settle(&mut self) {
        for _ in 0..100 {
            if !self.task(&[]).wants_another_task {
                return;
            }
        }
        panic!("it always asks for another task");
    }
}

fn renew(number: usize) -> ObjectRequest {
    let renew = Work::Renew {
        worker: "w".into(),
        lease: Duration::from_secs(30),
    };
    request(&format!("r{number}"), renew)
}

/// A start whose input has so many bytes.
fn start_with(steps: &str, bytes: usize) -> ObjectRequest {
    let mut start = start(steps);
    if let Work::Start(it) = &mut start.work {
        it.input = Arc::new(serde_json::Value::from("x".repeat(bytes)));
    }
    start
}

#[test]
fn a_large_state_continues_in_another_run_before_the_server_terminates_the_workflow() {
    let start = start_with(WAIT, 700_000);
    let mut flow = Flow::new(&start);
    flow.task(&[&start]);
    let (mut turns, mut turns_of_run, mut fewest) = (0, 0, usize::MAX);
    for number in 0..100 {
        let runs = flow.runs;
        let answer = flow.task(&[&renew(number)]);
        if answer.wants_another_task {
            flow.settle();
        }
        let (accepted, answer) = answers(&answer).remove(0);
        assert!(accepted, "{}", state(&answer));
        (turns, turns_of_run) = (turns + 1, turns_of_run + 1);
        if flow.runs > runs {
            fewest = fewest.min(turns_of_run);
            turns_of_run = 0;
        }
    }
    assert_eq!(turns, 100);
    assert!(flow.runs > 2, "{} runs", flow.runs);
    assert!(fewest >= 3, "a run of {fewest} turns");
}

#[test]
fn an_execution_that_one_run_cannot_hold_is_refused_and_can_be_cancelled() {
    let steps: Vec<_> = (0..40)
        .map(|n| {
            let after = (n > 0).then(|| format!(", dependsOn: [s{}]", n - 1));
            let after = after.unwrap_or_default();
            format!(
                "{{name: s{n}, signal: go, timeout: 10m{after}, retryPolicy: {{maxRetries: 0}}}}"
            )
        })
        .collect();
    let start = start(&steps.join(", "));
    let mut flow = Flow::new(&start);
    flow.task(&[&start]);
    // The log of another branch, which stays when work is done again.
    for number in 0..15 {
        let value = Bytes::from(vec![b'x'; 1024 * 1024]);
        let details = BTreeMap::from([(format!("e/b00001/{number:010}"), value)]);
        for marker in command::record(&details) {
            flow.run.carry_out(&marker);
        }
    }
    let text = "x".repeat(400_000);
    let mut last = String::new();
    for number in 0..6 {
        let answer = flow.task(&[&signal(&format!("s{number}"), &text)]);
        if answer.closes || answer.wants_another_task {
            flow.settle();
        }
        last = state(&answers(&answer).remove(0).1);
        if last == "EXECUTION_TOO_LARGE" {
            break;
        }
    }
    assert_eq!(last, "EXECUTION_TOO_LARGE");
    let cancel = request(
        "c",
        Work::Verb(Box::new(Verb::Cancel {
            mode: CancelMode::Kill,
            by: "alice".into(),
            comment: "".into(),
        })),
    );
    let answer = flow.task(&[&cancel]);
    let (accepted, answer) = answers(&answer).remove(0);
    assert!(accepted, "{}", state(&answer));
}

/// Steps that wait for a signal each and start a child with its payload.
fn children(number: usize) -> String {
    let steps = (0..number).map(|n| {
        format!(
            "{{name: w{n}, signal: go{n}, timeout: 10m}}, \
             {{name: c{n}, workflow: other, timeout: 10m, dependsOn: [w{n}], input: \"${{input}}\"}}"
        )
    });
    let steps: Vec<_> = steps.collect();
    steps.join(", ")
}

/// The signal of a step of [`children`].
fn go(number: usize) -> ObjectRequest {
    let mut request = signal(&format!("s{number}"), "x");
    if let Work::Verb(verb) = &mut request.work
        && let Verb::SendSignal { name, .. } = &mut **verb
    {
        *name = format!("go{number}").into();
    }
    request
}

/// The messages of an answer.
fn deliveries(answer: &Answer) -> Vec<Delivery> {
    let commands = answer.commands.iter();
    let sent = commands.filter_map(|it| match &it.attributes {
        Some(Ordered::ScheduleActivityTaskCommandAttributes(it)) => {
            let input = &it.input.as_ref().unwrap().payloads[0].data;
            Some(serde_json::from_slice(input).unwrap())
        }
        _ => None,
    });
    sent.collect()
}

#[test]
fn what_does_not_fit_into_one_answer_comes_with_the_next_one() {
    let start = start_with(&children(6), 600_000);
    let mut flow = Flow::new(&start);
    flow.task(&[&start]);
    for number in 0..6 {
        flow.run.signal(&go(number));
    }
    let (mut sent, mut tasks) = (0, 0);
    loop {
        let answer = flow.task(&[]);
        sent += deliveries(&answer).len();
        tasks += 1;
        if !answer.wants_another_task {
            break;
        }
        assert!(tasks < 20, "it always asks for another task");
    }
    assert_eq!(sent, 6);
    assert!(tasks > 1);
    // Nothing is handled twice.
    assert_eq!(kinds(&flow.task(&[])), []);
}

#[test]
fn requests_that_are_too_large_together_are_sent_again() {
    let start = start_with(&children(6), 600_000);
    let mut flow = Flow::new(&start);
    flow.task(&[&start]);
    let requests: Vec<_> = (0..6).map(go).collect();
    let requests: Vec<_> = requests.iter().collect();
    let first = answers(&flow.task(&requests));
    assert!(first[0].0);
    let (busy, last) = first.last().unwrap();
    assert_eq!((*busy, &*state(last)), (false, "EXECUTION_BUSY"));
    let again = flow.task(&requests[5..]);
    assert!(answers(&again)[0].0);
}

#[test]
fn requests_without_effect_are_a_part_of_the_answer_too() {
    let start = start_with(WAIT, 600_000);
    let mut flow = Flow::new(&start);
    flow.task(&[&start]);
    let answer = flow.task(&[&start; 10]);
    let repeated = answers(&answer);
    // The server rejects the other ones.
    assert!((1..10).contains(&repeated.len()), "{}", repeated.len());
    assert_eq!(state(&repeated[0].1), "awaiting_signal");
}

#[test]
fn a_large_value_is_copied_when_there_is_room_for_it() {
    let start = start(WAIT);
    let mut flow = Flow::new(&start);
    flow.task(&[&start]);
    for number in 0..3 {
        let value = Bytes::from(vec![b'x'; 1_900_000]);
        let details = BTreeMap::from([(format!("e/b00001/{number:010}"), value)]);
        for marker in command::record(&details) {
            flow.run.carry_out(&marker);
        }
    }
    flow.task(&[]);
    assert_eq!(flow.runs, 2);
    let before = flow.before.clone();
    // It needs more than what is left beside a copied value.
    let large = signal("s1", &"x".repeat(400_000));
    let mut tasks = 0;
    loop {
        let (accepted, answer) = answers(&flow.task(&[&large])).remove(0);
        tasks += 1;
        if accepted {
            assert_eq!(state(&answer), "completed");
            break;
        }
        assert_eq!(state(&answer), "EXECUTION_BUSY");
        assert!(tasks < 10, "it is never handled");
    }
    flow.settle();
    let after = flow.run.values();
    assert_eq!(flow.run.record().earlier, None);
    for (key, value) in before.iter().filter(|(key, _)| key.starts_with("e/")) {
        assert_eq!(after.get(key), Some(value), "{key}");
    }
}

/// The request that starts a child with an input of so many bytes.
fn child_with(bytes: usize) -> ObjectRequest {
    let mut child = start_with(WAIT, bytes);
    if let Work::Start(start) = &mut child.work {
        start.child = Some(ChildStart {
            of: ChildOf {
                parent: "p".into(),
                branch: 0,
                step: "sub".into(),
                attempt: 1,
            },
            depth: 1,
            correlation: "p".into(),
            redone_by: Vec::new(),
        });
    }
    child
}

/// The only message of an answer, which carries the failure of a child, and to whom it goes.
#[track_caller]
fn failed(answer: &Answer) -> (Arc<str>, stateway_machine::Failure) {
    let mut sent = deliveries(answer);
    assert_eq!(sent.len(), 1, "{sent:?}");
    let Delivery::Execution(to, request) = sent.remove(0) else {
        panic!("not to an execution");
    };
    match request.work {
        Work::FinishChild {
            outcome: Err(failure),
            ..
        } => (to, failure),
        work => panic!("not a failure: {work:?}"),
    }
}

/// The messages that are under way arrive.
fn arrive(run: &mut Run) {
    for scheduled_event_id in run.record().deliveries {
        run.add(Attributes::ActivityTaskCompletedEventAttributes(
            history::ActivityTaskCompletedEventAttributes {
                scheduled_event_id,
                ..Default::default()
            },
        ));
    }
}

#[test]
fn the_parent_of_a_child_that_is_too_large_does_not_wait_for_ever() {
    let started = history::WorkflowExecutionStartedEventAttributes::default();
    let mut run = Run::new((ObjectKind::Execution, "p~sub"), "run-1", started);
    run.signal(&child_with(1_500_000));
    let answer = run.task(&[]);
    let (to, failure) = failed(&answer);
    assert_eq!((&*to, &*failure.code), ("p", "EXECUTION_TOO_LARGE"));
    // The workflow has no values, and stays open until the message has arrived.
    assert!(!answer.closes);
    arrive(&mut run);
    assert!(run.task(&[]).closes);
}

#[test]
fn a_message_that_is_too_long_for_the_server_is_a_failure_of_the_child() {
    let child = Box::new(child_with(MAX_VALUE_BYTES));
    let (to, small) = crate::delivery::sendable("p~sub".into(), child);
    assert_eq!(&*to, "p");
    assert!(matches!(
        small.work,
        Work::FinishChild {
            outcome: Err(_),
            ..
        }
    ));
    let child = Box::new(child_with(1_000));
    let sent = crate::delivery::sendable("p~sub".into(), child.clone());
    assert_eq!(sent, ("p~sub".into(), child));
}

#[test]
fn an_outcome_that_the_parent_cannot_store_fails_the_step() {
    let steps = "{name: sub, workflow: other, timeout: 10m, retryPolicy: {maxRetries: 0}}";
    let start = start_with(steps, 900_000);
    let mut flow = Flow::new(&start);
    flow.task(&[&start]);
    flow.run.signal(&request(
        "child",
        Work::FinishChild {
            child: ChildOf {
                parent: "e1".into(),
                branch: 0,
                step: "sub".into(),
                attempt: 1,
            },
            outcome: Ok(Arc::new("x".repeat(1_200_000).into())),
            usage: Default::default(),
        },
    ));
    flow.task(&[]);
    let tags = flow.run.record().tags;
    assert!(tags.contains(&"state:failed".to_owned()), "{tags:?}");
}

#[test]
fn children_whose_inputs_are_too_large_together_fail_and_the_others_start() {
    let steps: Vec<_> = (0..8)
        .map(|n| {
            format!(
                "{{name: c{n}, workflow: other, timeout: 10m, dependsOn: [w], input: \"${{input}}\"}}"
            )
        })
        .collect();
    let steps = format!(
        "{{name: w, signal: go, timeout: 10m}}, {}",
        steps.join(", ")
    );
    let start = start_with(&steps, 400_000);
    let mut flow = Flow::new(&start);
    flow.task(&[&start]);
    let answer = flow.task(&[&signal("s1", "x")]);
    assert!(answers(&answer)[0].0);
    let sent = deliveries(&answer);
    assert_eq!(sent.len(), 8);
    let started = sent
        .iter()
        .filter(|it| matches!(it, Delivery::Definition(..)));
    assert!((3..8).contains(&started.count()));
    // The order of a child that is not started comes back as its failure.
    let failed = sent.into_iter().filter_map(|it| match it {
        Delivery::Execution(to, request) => {
            assert_eq!(&*to, "e1");
            Some(request)
        }
        Delivery::Definition(..) => None,
    });
    let failed: Vec<_> = failed.collect();
    arrive(&mut flow.run);
    for message in &failed {
        flow.run.signal(message);
    }
    flow.settle();
    let view: StoredView = serde_json::from_slice(&flow.values()[VIEW]).unwrap();
    let error = view.view.last_error.unwrap();
    assert_eq!(error.native_code, "EXECUTION_TOO_LARGE");
}

#[test]
fn an_alarm_that_is_too_large_comes_again() {
    let start = start("{name: rest, sleep: 4s}");
    let mut flow = Flow::new(&start);
    flow.task(&[&start]);
    let mut full = 0;
    while full < MAX_OBJECT_BYTES {
        let value = Bytes::from(vec![b'x'; 1024 * 1024]);
        let details = BTreeMap::from([(format!("e/b00001/{full:010}"), value)]);
        for marker in command::record(&details) {
            flow.run.carry_out(&marker);
        }
        full += 1024 * 1024;
    }
    let due = flow.run.record().timer.unwrap();
    flow.run.seconds = START + 4;
    flow.run.add(Attributes::TimerFiredEventAttributes(
        history::TimerFiredEventAttributes {
            timer_id: due.to_string(),
            started_event_id: 0,
        },
    ));
    assert_eq!(flow.run.record().timer, None);
    flow.task(&[]);
    flow.settle();
    assert_eq!(flow.run.record().alarm, Some(due + 60_000));
    assert_eq!(flow.run.record().timer, Some(due + 60_000));
}

#[test]
fn a_purge_waits_for_the_messages_of_the_execution() {
    let start = start("{name: sub, workflow: other, timeout: 10m}");
    let mut flow = Flow::new(&start);
    flow.task(&[&start]);
    arrive(&mut flow.run);
    let kill = request(
        "k",
        Work::Verb(Box::new(Verb::Cancel {
            mode: CancelMode::Kill,
            by: "alice".into(),
            comment: "".into(),
        })),
    );
    let purge = ObjectRequest {
        body: None,
        ..request("p", Work::Purge)
    };
    // In one task, and in the next one while the message to the child is under way.
    let answer = flow.task(&[&kill, &purge]);
    assert_eq!(deliveries(&answer).len(), 1);
    let first = answers(&answer);
    assert_eq!((first[0].0, &*state(&first[0].1)), (true, "cancelled"));
    assert_eq!(state(&first[1].1), "EXECUTION_BUSY");
    let answer = flow.task(&[&purge]);
    assert_eq!(state(&answers(&answer)[0].1), "EXECUTION_BUSY");
    assert!(!answer.closes);
    arrive(&mut flow.run);
    let answer = flow.task(&[&purge]);
    assert_eq!(state(&answers(&answer)[0].1), "cancelled");
    assert!(answer.closes);
}
