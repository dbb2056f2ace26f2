//! Tasks against a history that grows as the server lets it grow.

use std::sync::Arc;

use prost_types::Any;
use stateway_hosted::definition_object::{DefinitionRequest, DefinitionWork};
use stateway_hosted::message::{ObjectAnswer, StartWork};
use stateway_machine::Data;
use stateway_provider_temporal::api::command::v1::command::Attributes as Ordered;
use stateway_provider_temporal::api::enums::v1::CommandType;
use stateway_provider_temporal::api::history::v1 as history;
use stateway_provider_temporal::api::history::v1::HistoryEvent;
use stateway_provider_temporal::api::history::v1::history_event::Attributes;
use stateway_provider_temporal::api::update::v1::{Input as Arguments, Meta};
use stateway_provider_temporal::host::{Keep, SIGNAL};

use super::*;

mod limits;

const START: i64 = 1_800_000_000;

/// One run of one workflow.
struct Run {
    object: (ObjectKind, &'static str),
    name: &'static str,
    events: Vec<HistoryEvent>,
    /// What came in up to this event was handled.
    handled: i64,
    seconds: i64,
    is_long: bool,
    size: i64,
    /// The bytes of the events.
    bytes: usize,
    shared: Shared,
}

fn shared() -> Shared {
    Shared {
        plans: Plans::default(),
        queue: TaskQueue::default(),
    }
}

impl Run {
    fn new(
        object: (ObjectKind, &'static str),
        name: &'static str,
        started: history::WorkflowExecutionStartedEventAttributes,
    ) -> Self {
        let mut run = Self {
            object,
            name,
            events: Vec::new(),
            handled: 0,
            seconds: START,
            is_long: false,
            size: 0,
            bytes: 0,
            shared: shared(),
        };
        run.add(Attributes::WorkflowExecutionStartedEventAttributes(started));
        run
    }

    /// The run of an execution that begins with a request.
    fn execution(request: &ObjectRequest) -> Self {
        let started = history::WorkflowExecutionStartedEventAttributes {
            input: Some(payloads(serde_json::to_vec(request).unwrap())),
            ..Default::default()
        };
        Self::new((ObjectKind::Execution, "e1"), "run-1", started)
    }

    fn add(&mut self, attributes: Attributes) {
        let event_id = i64::try_from(self.events.len()).unwrap() + 1;
        let event = HistoryEvent {
            event_id,
            event_time: Some(prost_types::Timestamp {
                seconds: self.seconds,
                nanos: 500_000_000,
            }),
            attributes: Some(attributes),
            ..Default::default()
        };
        self.bytes += event.encoded_len();
        assert!(self.bytes < limits::HISTORY_BYTES, "it is terminated");
        self.events.push(event);
    }

    fn signal(&mut self, request: &ObjectRequest) {
        self.add(Attributes::WorkflowExecutionSignaledEventAttributes(
            history::WorkflowExecutionSignaledEventAttributes {
                signal_name: SIGNAL.to_owned(),
                input: Some(payloads(serde_json::to_vec(request).unwrap())),
                ..Default::default()
            },
        ));
    }

    fn record(&self) -> Record {
        let mut record = Record::keeping(Keep::Read);
        for event in &self.events {
            record.apply(event);
        }
        record
    }

    fn values(&self) -> BTreeMap<String, Bytes> {
        let mut record = Record::keeping(Keep::All);
        for event in &self.events {
            record.apply(event);
        }
        record.values
    }

    /// One workflow task with these requests as updates.
    fn task(&mut self, requests: &[&ObjectRequest]) -> Answer {
        self.task_after(requests, None)
    }

    fn task_after(
        &mut self,
        requests: &[&ObjectRequest],
        earlier: Option<&BTreeMap<String, Bytes>>,
    ) -> Answer {
        let updates = requests.iter().enumerate().map(|(n, it)| update(n, it));
        self.task_with(updates.collect(), earlier)
    }

    fn task_with(
        &mut self,
        updates: Vec<ProtocolMessage>,
        earlier: Option<&BTreeMap<String, Bytes>>,
    ) -> Answer {
        self.seconds += 1;
        self.add(Attributes::WorkflowTaskStartedEventAttributes(
            history::WorkflowTaskStartedEventAttributes {
                suggest_continue_as_new: self.is_long,
                history_size_bytes: self.size + i64::try_from(self.bytes).unwrap(),
                ..Default::default()
            },
        ));
        let started = i64::try_from(self.events.len()).unwrap();
        let mut record = Record::keeping(Keep::Read);
        for event in &self.events {
            record.apply(event);
        }
        let inputs = record.inputs(self.handled).to_vec();
        let task = Task {
            object: self.object,
            run: self.name,
            record: &record,
            earlier,
            inputs,
            updates,
        };
        let answer = handle(&task, &self.shared);
        limits::check(&answer, record.deliveries.len());
        // A task without commands leaves nothing.
        if answer.commands.is_empty() {
            let dropped = self.events.pop().unwrap();
            self.bytes -= dropped.encoded_len();
            return answer;
        }
        self.handled = started;
        for command in &answer.commands {
            self.carry_out(command);
        }
        answer
    }

    fn carry_out(&mut self, command: &Command) {
        match command.attributes.clone().unwrap() {
            Ordered::RecordMarkerCommandAttributes(it) => {
                self.add(Attributes::MarkerRecordedEventAttributes(
                    history::MarkerRecordedEventAttributes {
                        marker_name: it.marker_name,
                        details: it.details,
                        ..Default::default()
                    },
                ));
            }
            Ordered::ModifyWorkflowPropertiesCommandAttributes(it) => {
                self.add(Attributes::WorkflowPropertiesModifiedEventAttributes(
                    history::WorkflowPropertiesModifiedEventAttributes {
                        upserted_memo: it.upserted_memo,
                    },
                ));
            }
            Ordered::UpsertWorkflowSearchAttributesCommandAttributes(it) => {
                self.add(Attributes::UpsertWorkflowSearchAttributesEventAttributes(
                    history::UpsertWorkflowSearchAttributesEventAttributes {
                        search_attributes: it.search_attributes,
                    },
                ));
            }
            Ordered::StartTimerCommandAttributes(it) => {
                self.add(Attributes::TimerStartedEventAttributes(
                    history::TimerStartedEventAttributes {
                        timer_id: it.timer_id,
                        ..Default::default()
                    },
                ));
            }
            Ordered::CancelTimerCommandAttributes(it) => {
                self.add(Attributes::TimerCanceledEventAttributes(
                    history::TimerCanceledEventAttributes {
                        timer_id: it.timer_id,
                        ..Default::default()
                    },
                ));
            }
            Ordered::ScheduleActivityTaskCommandAttributes(_) => {
                self.add(Attributes::ActivityTaskScheduledEventAttributes(
                    history::ActivityTaskScheduledEventAttributes::default(),
                ));
            }
            Ordered::ProtocolMessageCommandAttributes(it) if it.message_id.ends_with("/accept") => {
                self.add(Attributes::WorkflowExecutionUpdateAcceptedEventAttributes(
                    history::WorkflowExecutionUpdateAcceptedEventAttributes::default(),
                ));
            }
            _ => {}
        }
    }
}

fn update(number: usize, request: &impl serde::Serialize) -> ProtocolMessage {
    let request = Request {
        meta: Some(Meta {
            update_id: format!("u{number}"),
            ..Default::default()
        }),
        input: Some(Arguments {
            name: UPDATE.to_owned(),
            args: Some(payloads(serde_json::to_vec(request).unwrap())),
        }),
    };
    ProtocolMessage {
        id: format!("u{number}/request"),
        protocol_instance_id: format!("u{number}"),
        sequencing_id: Some(SequencingId::EventId(2)),
        body: Some(Any {
            type_url: String::new(),
            value: request.encode_to_vec(),
        }),
    }
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

fn request(id: &str, work: Work) -> ObjectRequest {
    ObjectRequest {
        v: VERSION,
        id: id.into(),
        at: at(START + 5),
        body: Some(format!("body of {id}").into()),
        work,
        claim: None,
    }
}

fn start(steps: &str) -> ObjectRequest {
    let start = StartWork {
        definition: "order".into(),
        source: format!("name: order\nsteps: [{steps}]").into(),
        labels: Default::default(),
        not_before: None,
        input: Data::default(),
        by: "alice".into(),
        child: None,
    };
    request("start", Work::Start(Box::new(start)))
}

fn signal(id: &str, payload: &str) -> ObjectRequest {
    let signal = Verb::SendSignal {
        name: "go".into(),
        id: id.into(),
        payload: Arc::new(serde_json::Value::from(payload)),
        by: "alice".into(),
    };
    request(id, Work::Verb(Box::new(signal)))
}

fn kinds(answer: &Answer) -> Vec<CommandType> {
    answer.commands.iter().map(Command::command_type).collect()
}

/// The answers to the updates, each with whether it was accepted.
fn answers(answer: &Answer) -> Vec<(bool, ObjectAnswer)> {
    let said = answer.messages.iter().filter_map(|message| {
        let body = message.body.as_ref().unwrap();
        let (accepted, data) = match body.type_url.rsplit('.').next().unwrap() {
            "Response" => {
                let response = Response::decode(&*body.value).unwrap();
                let Some(Value::Success(answer)) = response.outcome.unwrap().value else {
                    panic!("a response without an answer");
                };
                (true, answer.payloads[0].data.clone())
            }
            "Rejection" => {
                let rejection = Rejection::decode(&*body.value).unwrap();
                let answer = rejection.failure.unwrap().encoded_attributes;
                (false, answer.unwrap().data)
            }
            _ => return None,
        };
        Some((accepted, serde_json::from_slice(&data).unwrap()))
    });
    said.collect()
}

#[track_caller]
fn state(answer: &ObjectAnswer) -> String {
    match answer {
        ObjectAnswer::Done(done) => done.seen.view.state.as_str().to_owned(),
        ObjectAnswer::Refused(refusal) => refusal.reason.clone(),
    }
}

const WAIT: &str = "{name: wait, signal: go, timeout: 10m}";

#[test]
fn the_first_argument_starts_the_execution_and_the_update_only_asks_for_the_answer() {
    let start = start(WAIT);
    let mut run = Run::execution(&start);
    let answer = run.task(&[&start]);
    assert_eq!(
        kinds(&answer),
        [
            CommandType::RecordMarker,
            CommandType::ModifyWorkflowProperties,
            CommandType::UpsertWorkflowSearchAttributes,
            CommandType::StartTimer,
        ]
    );
    let said = answers(&answer);
    assert_eq!(said.len(), 1);
    assert!(!said[0].0, "a repetition changes nothing");
    assert_eq!(state(&said[0].1), "awaiting_signal");
    // Created when the workflow started, to the millisecond: lists are ordered by that.
    let view: StoredView = serde_json::from_slice(&run.values()[VIEW]).unwrap();
    assert_eq!(view.n, START * 1_000 + 500);
    assert_eq!(
        run.record().tags,
        ["run:first", "state:waiting", "definition:order"]
    );
}

#[test]
fn a_request_is_recorded_before_its_answer_counts() {
    let start = start(WAIT);
    let mut run = Run::execution(&start);
    run.task(&[]);
    let answer = run.task(&[&signal("s1", "x")]);
    assert_eq!(
        kinds(&answer),
        [
            CommandType::ProtocolMessage,
            CommandType::ProtocolMessage,
            CommandType::RecordMarker,
            CommandType::ModifyWorkflowProperties,
            CommandType::UpsertWorkflowSearchAttributes,
        ]
    );
    let said = answers(&answer);
    assert_eq!((said[0].0, &*state(&said[0].1)), (true, "completed"));
    // The same request again, and one that is refused, leave no event.
    let before = run.events.len();
    let again = run.task(&[&signal("s1", "x"), &signal("s2", "y")]);
    assert_eq!(kinds(&again), []);
    let said = answers(&again);
    assert_eq!((said[0].0, &*state(&said[0].1)), (false, "completed"));
    assert!(!said[1].0);
    assert_eq!(run.events.len(), before);
}

#[test]
fn a_record_is_the_same_whether_it_is_kept_in_memory_or_read_again() {
    let start = start(WAIT);
    let mut run = Run::execution(&start);
    run.task(&[&start]);
    let mut kept = run.record();
    let known = run.events.len();
    run.task(&[&signal("s1", "x")]);
    for event in &run.events[known..] {
        kept.apply(event);
    }
    assert_eq!(kept, run.record());
}

#[test]
fn a_timer_fires_the_alarm_for_which_it_was_started() {
    let start = start("{name: rest, sleep: 4s}");
    let mut run = Run::execution(&start);
    let answer = run.task(&[]);
    let timer = answer.commands.last().unwrap().attributes.clone();
    let Some(Ordered::StartTimerCommandAttributes(timer)) = timer else {
        panic!("no timer: {timer:?}");
    };
    assert_eq!(timer.timer_id, ((START + 4) * 1_000 + 500).to_string());
    // One second has passed since the workflow started.
    assert_eq!(timer.start_to_fire_timeout.unwrap().seconds, 3);
    run.seconds = START + 4;
    run.add(Attributes::TimerFiredEventAttributes(
        history::TimerFiredEventAttributes {
            timer_id: timer.timer_id,
            started_event_id: 0,
        },
    ));
    run.task(&[]);
    assert!(run.record().tags.contains(&"state:succeeded".to_owned()));
}

/// The run of a definition, whose schedule has a time at every full hour, at half past eight.
fn hourly() -> (Run, Answer) {
    let started = history::WorkflowExecutionStartedEventAttributes::default();
    let mut run = Run::new((ObjectKind::Definition, "report"), "run-1", started);
    run.seconds = START + 1_800;
    let answer = run.define(DefinitionWork::Apply {
        source: "name: report\ntrigger: {schedule: '0 * * * *'}\nsteps: [{name: a, sleep: 4s}]"
            .into(),
        source_name: "report.yaml".into(),
        never_scheduled: false,
    });
    (run, answer)
}

impl Run {
    /// One workflow task with a request to a definition.
    fn define(&mut self, work: DefinitionWork) -> Answer {
        let request = DefinitionRequest {
            v: VERSION,
            id: format!("r{}", self.seconds).into(),
            body: format!("{work:?}").into(),
            at: at(self.seconds),
            work,
        };
        self.task_with(vec![update(0, &request)], None)
    }

    /// The timer of the record fires now, and a host takes the task so many seconds later.
    fn fire(&mut self, late: i64) -> Answer {
        let due = self.record().timer.unwrap();
        self.seconds = due / 1_000;
        self.add(Attributes::TimerFiredEventAttributes(
            history::TimerFiredEventAttributes {
                timer_id: due.to_string(),
                started_event_id: 0,
            },
        ));
        self.seconds += late;
        self.task(&[])
    }
}

/// The executions that an answer starts.
fn started(answer: &Answer) -> Vec<String> {
    let commands = answer.commands.iter();
    let started = commands.filter_map(|command| match command.attributes.clone()? {
        Ordered::ScheduleActivityTaskCommandAttributes(it) => {
            let delivery = serde_json::from_slice(&it.input?.payloads[0].data).unwrap();
            let Delivery::Execution(to, request) = delivery else {
                panic!("not to an execution: {delivery:?}");
            };
            assert!(matches!(request.work, Work::Start(_)));
            Some(to.to_string())
        }
        _ => None,
    });
    started.collect()
}

#[test]
fn the_timer_of_a_definition_starts_the_execution_of_its_time_and_the_next_timer() {
    let (mut run, applied) = hourly();
    assert_eq!(started(&applied), [""; 0]);
    let nine = (START + 3_600) * 1_000;
    assert_eq!(run.record().timer, Some(nine));
    let fired = run.fire(0);
    assert_eq!(started(&fired), ["report~20270115T090000Z"]);
    assert_eq!(run.record().timer, Some(nine + 3_600_000));
    // A disabled trigger starts nothing, and no timer runs any more.
    run.define(DefinitionWork::Switch {
        enabled: false,
        by: "olga".into(),
        comment: "".into(),
    });
    assert_eq!(started(&run.fire(0)), [""; 0]);
    assert_eq!(run.record().timer, None);
    // Times that passed meanwhile are skipped.
    run.seconds += 7_200;
    run.define(DefinitionWork::Switch {
        enabled: true,
        by: "olga".into(),
        comment: "".into(),
    });
    assert_eq!(run.record().timer, Some(nine + 4 * 3_600_000));
}

#[test]
fn of_the_times_of_a_schedule_that_passed_without_a_host_the_newest_starts_an_execution() {
    let (mut run, _) = hourly();
    let fired = run.fire(5 * 3_600 + 1_200);
    assert_eq!(started(&fired), ["report~20270115T140000Z"]);
    let fifteen = (START + 7 * 3_600) * 1_000;
    assert_eq!(run.record().timer, Some(fifteen));
    assert_eq!(started(&run.task(&[])), [""; 0]);
    assert_eq!(started(&run.fire(0)), ["report~20270115T150000Z"]);
}

#[test]
fn a_start_that_is_refused_leaves_no_open_workflow() {
    let start = start("{name: a, sleep: 4s}], concurrency: 2, x: [");
    let mut run = Run::execution(&start);
    let answer = run.task(&[&start]);
    assert_eq!(kinds(&answer), [CommandType::CompleteWorkflowExecution]);
    assert!(answer.closes);
    assert_eq!(state(&answers(&answer)[0].1), "INVALID_DEFINITION");
}

#[test]
fn a_purge_ends_the_workflow() {
    let start = start(WAIT);
    let mut run = Run::execution(&start);
    run.task(&[&start]);
    let early = run.task(&[&request("p0", Work::Purge)]);
    assert_eq!(state(&answers(&early)[0].1), "NOT_FINISHED");
    run.task(&[&signal("s1", "x")]);
    let purge = ObjectRequest {
        body: None,
        ..request("p1", Work::Purge)
    };
    let answer = run.task(&[&purge, &signal("s3", "late")]);
    assert_eq!(
        kinds(&answer).last(),
        Some(&CommandType::CompleteWorkflowExecution)
    );
    let said = answers(&answer);
    assert_eq!(state(&said[0].1), "completed");
    assert_eq!(state(&said[1].1), "EXECUTION_NOT_FOUND");
}

#[test]
fn a_child_is_ordered_by_an_activity_and_its_end_comes_as_a_signal() {
    let start = start("{name: sub, workflow: other, timeout: 10m, retryPolicy: {maxRetries: 0}}");
    let mut run = Run::execution(&start);
    let answer = run.task(&[&start]);
    let order = answer.commands.iter().find_map(|it| match &it.attributes {
        Some(Ordered::ScheduleActivityTaskCommandAttributes(it)) => it.input.clone(),
        _ => None,
    });
    let order: Delivery = serde_json::from_slice(&order.unwrap().payloads[0].data).unwrap();
    let Delivery::Definition(name, order) = order else {
        panic!("not to a definition: {order:?}");
    };
    assert_eq!(&*name, "other");
    // Without the definition the parent gets the answer that the child cannot be started.
    let sent = crate::delivery::start_child(&name, &order, None);
    let [(to, message)] = &sent[..] else {
        panic!("not one message: {sent:?}");
    };
    assert_eq!(&**to, "e1");
    assert!(matches!(message.work, Work::FinishChild { .. }));
    run.signal(message);
    run.task(&[]);
    assert!(run.record().tags.contains(&"state:failed".to_owned()));
}

#[test]
fn a_workflow_that_is_cancelled_in_temporal_cancels_the_execution() {
    let start = start(WAIT);
    let mut run = Run::execution(&start);
    run.task(&[&start]);
    run.add(Attributes::WorkflowExecutionCancelRequestedEventAttributes(
        history::WorkflowExecutionCancelRequestedEventAttributes {
            cause: "no longer needed".to_owned(),
            identity: "tctl".to_owned(),
        },
    ));
    run.task(&[]);
    let view: StoredView = serde_json::from_slice(&run.values()[VIEW]).unwrap();
    assert_eq!(view.view.state.as_str(), "cancelled");
    assert_eq!(&*view.view.cancellation.unwrap().by, "tctl");
}

#[test]
fn a_value_that_temporal_would_refuse_is_refused_before() {
    let start = start(
        "{name: a, signal: go, timeout: 9m}, {name: b, signal: go, timeout: 9m, dependsOn: [a]}, \
         {name: c, signal: go, timeout: 9m, dependsOn: [b]}, {name: d, signal: go, timeout: 9m, dependsOn: [c]}",
    );
    let mut run = Run::execution(&start);
    run.task(&[&start]);
    let text = "x".repeat(600_000);
    let mut states = Vec::new();
    for number in 0..4 {
        let before = run.events.len();
        let answer = run.task(&[&signal(&format!("s{number}"), &text)]);
        let closes = answer.closes;
        let (accepted, answer) = answers(&answer).remove(0);
        assert_eq!(run.events.len() > before, accepted || closes);
        states.push(state(&answer));
    }
    assert_eq!(states[0], "awaiting_signal");
    assert_eq!(states.last().unwrap(), "EXECUTION_TOO_LARGE");
}

#[test]
fn a_long_history_continues_in_another_run_that_copies_every_value() {
    let start = start(WAIT);
    let mut run = Run::execution(&start);
    run.task(&[&start]);
    for number in 0..600 {
        let renew = Work::Renew {
            worker: "w".into(),
            lease: Duration::from_secs(30),
        };
        run.task(&[&request(&format!("r{number}"), renew)]);
    }
    (run.is_long, run.size) = (true, 5_000_000);
    let answer = run.task(&[&request(
        "last",
        Work::Renew {
            worker: "w".into(),
            lease: Duration::from_secs(30),
        },
    )]);
    let last = answer.commands.last().unwrap().attributes.clone();
    let Some(Ordered::ContinueAsNewWorkflowExecutionCommandAttributes(next)) = last else {
        panic!("it does not continue: {:?}", kinds(&answer));
    };
    assert!(answer.closes);
    let before = run.values();
    let alarm = run.record().alarm;
    assert!(alarm.is_some());
    let mut later = Run::new(
        run.object,
        "run-2",
        history::WorkflowExecutionStartedEventAttributes {
            input: next.input,
            memo: next.memo,
            search_attributes: next.search_attributes,
            continued_execution_run_id: "run-1".to_owned(),
            ..Default::default()
        },
    );
    assert_eq!(later.record().earlier.as_deref(), Some("run-1"));
    assert_eq!(
        later.record().tags,
        ["run:later", "state:waiting", "definition:order"]
    );
    // A request that comes first is handled with the values of the run before.
    let answer = later.task_after(&[&signal("s1", "x")], Some(&before));
    assert_eq!(state(&answers(&answer)[0].1), "completed");
    assert!(!answer.wants_another_task);
    let record = later.record();
    assert_eq!((record.earlier, record.timer), (None, alarm));
    let after = later.values();
    for (key, value) in &before {
        if ![VIEW, object::STATE].contains(&key.as_str()) {
            assert_eq!(after.get(key), Some(value), "{key}");
        }
    }
    assert!(after.len() > before.len(), "the new events are there too");
}

#[test]
fn many_values_are_copied_in_several_tasks() {
    let start = start(WAIT);
    let mut run = Run::execution(&start);
    run.task(&[&start]);
    let mut before = run.values();
    for number in 0..5 {
        before.insert(format!("e/b00001/{number:010}"), vec![b'x'; 700_000].into());
    }
    let continued = Continued {
        from: "run-1".to_owned(),
        alarm: None,
    };
    let mut later = Run::new(
        run.object,
        "run-2",
        history::WorkflowExecutionStartedEventAttributes {
            input: Some(payloads(serde_json::to_vec(&continued).unwrap())),
            continued_execution_run_id: "run-1".to_owned(),
            ..Default::default()
        },
    );
    let mut tasks = 1;
    while later.task_after(&[], Some(&before)).wants_another_task {
        tasks += 1;
    }
    assert_eq!(tasks, 2);
    before.retain(|key, _| !in_memo(key));
    assert_eq!(later.values(), before);
}
