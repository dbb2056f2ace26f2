//! Rules of the facts that a history shows, in order and from every cut.

use stateway_chance::Chance;

use super::*;
use crate::api::common::v1::{ActivityType, Payload, Payloads, RetryPolicy};
use crate::api::enums::v1::{
    ContinueAsNewInitiator, RetryState, StartChildWorkflowExecutionFailedCause,
    WorkflowTaskFailedCause,
};
use crate::api::failure::v1::Failure;
use crate::api::history::v1 as events;
use crate::api::history::v1::HistoryEvent;
use crate::api::history::v1::history_event::Attributes;
use crate::api::update::v1::{Input, Meta, Request};
use crate::request;

fn event(event_id: i64, attributes: Attributes) -> HistoryEvent {
    HistoryEvent {
        event_id,
        event_time: Some(prost_types::Timestamp {
            seconds: 1_000 + event_id,
            nanos: 0,
        }),
        attributes: Some(attributes),
        ..Default::default()
    }
}

fn at(second: i64) -> Option<Timestamp> {
    Timestamp::from_second(second).ok()
}

fn facts(of: &[Attributes]) -> Facts {
    let mut facts = Facts::default();
    for (number, attributes) in (1..).zip(of) {
        facts.feed(&event(number, attributes.clone()));
    }
    facts
}

fn failure(message: &str) -> Option<Failure> {
    Some(Failure {
        message: message.to_owned(),
        ..Default::default()
    })
}

fn scheduled(id: &str) -> Attributes {
    Attributes::ActivityTaskScheduledEventAttributes(events::ActivityTaskScheduledEventAttributes {
        activity_id: id.to_owned(),
        activity_type: Some(ActivityType {
            name: "charge".to_owned(),
        }),
        workflow_task_completed_event_id: 4,
        ..Default::default()
    })
}

fn task_completed() -> Attributes {
    Attributes::WorkflowTaskCompletedEventAttributes(Default::default())
}

fn task_failed(cause: WorkflowTaskFailedCause, message: &str) -> Attributes {
    Attributes::WorkflowTaskFailedEventAttributes(events::WorkflowTaskFailedEventAttributes {
        cause: cause as i32,
        failure: failure(message),
        base_run_id: "base".to_owned(),
        ..Default::default()
    })
}

fn timer(id: &str, seconds: i64) -> Attributes {
    Attributes::TimerStartedEventAttributes(events::TimerStartedEventAttributes {
        timer_id: id.to_owned(),
        start_to_fire_timeout: Some(prost_types::Duration { seconds, nanos: 0 }),
        workflow_task_completed_event_id: 4,
    })
}

#[test]
fn an_activity_ends_with_its_last_attempt_and_why_no_other_follows() {
    let seen = facts(&[
        scheduled("pay"),
        Attributes::ActivityTaskStartedEventAttributes(
            events::ActivityTaskStartedEventAttributes {
                scheduled_event_id: 1,
                attempt: 3,
                ..Default::default()
            },
        ),
        Attributes::ActivityTaskFailedEventAttributes(events::ActivityTaskFailedEventAttributes {
            scheduled_event_id: 1,
            failure: failure("card declined"),
            retry_state: RetryState::MaximumAttemptsReached as i32,
            ..Default::default()
        }),
    ]);
    let activity = &seen.activities[&1];
    assert_eq!((activity.attempt, activity.started), (3, at(1_002)));
    let ended = activity.ended.as_ref().unwrap();
    assert_eq!(ended.word, "FAILED");
    assert_eq!(
        ended.retry_state.as_deref(),
        Some("MAXIMUM_ATTEMPTS_REACHED")
    );
    let error = ended.error.as_ref().unwrap();
    assert_eq!(
        (&*error.message, error.attempt, &*error.step),
        ("card declined", 3, "pay")
    );
    assert_eq!(seen.open_activity("pay"), None);
}

#[test]
fn a_timer_is_open_until_it_fires() {
    let open = facts(&[timer("1", 60)]);
    assert_eq!(open.timers[&1].fires, at(1_061));
    let fired = facts(&[
        timer("1", 60),
        Attributes::TimerFiredEventAttributes(events::TimerFiredEventAttributes {
            timer_id: "1".to_owned(),
            started_event_id: 1,
        }),
    ]);
    assert_eq!(fired.timers[&1].ended.as_ref().unwrap().word, "FIRED");
}

#[test]
fn a_failed_workflow_task_is_an_error_until_one_completes_and_a_reset_is_none() {
    let cause = WorkflowTaskFailedCause::WorkflowWorkerUnhandledFailure;
    let failing = facts(&[task_failed(cause, "bug")]);
    let error = failing.task_error().unwrap();
    assert_eq!(error.message, "bug");
    assert_eq!(error.native_code, "WORKFLOW_WORKER_UNHANDLED_FAILURE");
    let recovered = facts(&[task_failed(cause, "bug"), task_completed()]);
    assert_eq!(recovered.task_error(), None);
    let reset = facts(&[task_failed(WorkflowTaskFailedCause::ResetWorkflow, "again")]);
    assert_eq!(reset.task_error(), None);
    assert_eq!(reset.reset.unwrap().base_run, "base");
}

#[test]
fn a_workflow_task_that_follows_another_directly_asks_for_more_time() {
    let scheduled_task = Attributes::WorkflowTaskScheduledEventAttributes(Default::default());
    let heartbeat = facts(&[task_completed(), scheduled_task.clone()]);
    assert_eq!(heartbeat.heartbeat, Some(1));
    let signalled = Attributes::WorkflowExecutionSignaledEventAttributes(Default::default());
    let other = facts(&[task_completed(), signalled, scheduled_task]);
    assert_eq!(other.heartbeat, None);
}

/// The marker of a failed local activity with this data.
fn local_failure(data: &str) -> Attributes {
    let payload = Payload {
        metadata: [("encoding".to_owned(), "json/plain".into())].into(),
        data: data.to_owned().into(),
    };
    let data = Payloads {
        payloads: vec![payload],
    };
    Attributes::MarkerRecordedEventAttributes(events::MarkerRecordedEventAttributes {
        marker_name: "core_local_activity".to_owned(),
        details: [("data".to_owned(), data)].into(),
        failure: failure("not yet"),
        workflow_task_completed_event_id: 4,
    })
}

#[test]
fn a_marker_with_a_pause_and_a_timer_is_a_local_activity_that_backs_off() {
    for pause in [
        r#"{"backoff":{"seconds":60}}"#,
        r#"{"Backoff":60000000000}"#,
    ] {
        let marker = local_failure(pause);
        let seen = facts(&[marker.clone(), timer("1", 60)]);
        let retries = seen.timers[&2].retries.as_ref().unwrap();
        assert_eq!(retries.error.message, "not yet");
        let other = facts(&[marker, task_completed(), scheduled("a"), timer("1", 60)]);
        assert!(
            other.timers[&4].retries.is_some(),
            "the workflow task is the same"
        );
    }
}

#[test]
fn a_timer_after_a_failure_that_the_workflow_got_is_a_timer() {
    for data in [r#"{"backoff":null}"#, r#"{"Backoff":0}"#, "{}"] {
        let seen = facts(&[local_failure(data), timer("1", 60)]);
        assert_eq!(seen.timers[&2].retries, None, "{data}");
    }
}

#[test]
fn a_child_that_did_not_end_well_says_why() {
    let initiated = || {
        Attributes::StartChildWorkflowExecutionInitiatedEventAttributes(
            events::StartChildWorkflowExecutionInitiatedEventAttributes {
                workflow_id: "invoice".to_owned(),
                ..Default::default()
            },
        )
    };
    let not_started = Attributes::StartChildWorkflowExecutionFailedEventAttributes(
        events::StartChildWorkflowExecutionFailedEventAttributes {
            initiated_event_id: 1,
            cause: StartChildWorkflowExecutionFailedCause::WorkflowAlreadyExists as i32,
            ..Default::default()
        },
    );
    let timed_out = Attributes::ChildWorkflowExecutionTimedOutEventAttributes(
        events::ChildWorkflowExecutionTimedOutEventAttributes {
            initiated_event_id: 1,
            ..Default::default()
        },
    );
    let terminated = Attributes::ChildWorkflowExecutionTerminatedEventAttributes(
        events::ChildWorkflowExecutionTerminatedEventAttributes {
            initiated_event_id: 1,
            ..Default::default()
        },
    );
    for (end, expected) in [
        (not_started, "WORKFLOW_ALREADY_EXISTS"),
        (timed_out, "in time"),
        (terminated, "terminated"),
    ] {
        let seen = facts(&[initiated(), end]);
        let ended = seen.children[&1].ended.clone().unwrap();
        let error = ended.error.unwrap();
        assert!(error.message.contains(expected), "{}", error.message);
        assert_eq!(error.step, "child:invoice");
    }
}

#[test]
fn a_run_that_is_a_retry_says_so() {
    let started = events::WorkflowExecutionStartedEventAttributes {
        initiator: ContinueAsNewInitiator::Retry as i32,
        attempt: 2,
        retry_policy: Some(RetryPolicy {
            maximum_attempts: 5,
            ..Default::default()
        }),
        continued_failure: failure("rejected"),
        continued_execution_run_id: "first".to_owned(),
        ..Default::default()
    };
    let seen = facts(&[Attributes::WorkflowExecutionStartedEventAttributes(started)]);
    let begin = seen.begin.unwrap();
    assert_eq!(begin.initiator, Initiator::Retry);
    assert_eq!((begin.attempt, begin.max_attempts), (2, Some(5)));
    assert_eq!(begin.error.unwrap().message, "rejected");
    assert_eq!(begin.previous_run.as_deref(), Some("first"));
}

#[test]
fn only_the_window_counts() {
    let mut seen = facts(&[scheduled("old")]);
    seen.feed(&event(WINDOW + 1, scheduled("new")));
    seen.close_window();
    let ids: Vec<_> = seen
        .activities
        .values()
        .map(|activity| &*activity.id)
        .collect();
    assert_eq!(ids, ["new"]);
}

/// A long history, the same for the same seed: rare events between many that show nothing.
fn long_history(seed: u64, length: i64) -> Vec<HistoryEvent> {
    let mut chance = Chance::new(seed);
    let mut random = |below: u64| chance.below_u64(below);
    let begin = Attributes::WorkflowExecutionStartedEventAttributes(Default::default());
    let mut history = vec![event(1, begin)];
    for number in 2..=length {
        let earlier = 1 + i64::try_from(random(number.unsigned_abs())).unwrap();
        let attributes = match random(400) {
            0 => Attributes::WorkflowExecutionCancelRequestedEventAttributes(Default::default()),
            1 => task_failed(WorkflowTaskFailedCause::ResetWorkflow, "again"),
            2 => task_failed(
                WorkflowTaskFailedCause::WorkflowWorkerUnhandledFailure,
                "bug",
            ),
            3 => Attributes::WorkflowTaskTimedOutEventAttributes(Default::default()),
            4 => task_completed(),
            5 => Attributes::WorkflowTaskScheduledEventAttributes(Default::default()),
            6 => Attributes::MarkerRecordedEventAttributes(events::MarkerRecordedEventAttributes {
                marker_name: "core_local_activity".to_owned(),
                failure: failure("not yet"),
                workflow_task_completed_event_id: 4,
                ..Default::default()
            }),
            7 => timer("1", 60),
            8 => scheduled("pay"),
            9 => Attributes::TimerFiredEventAttributes(events::TimerFiredEventAttributes {
                timer_id: "1".to_owned(),
                started_event_id: earlier,
            }),
            10 => Attributes::ActivityTaskFailedEventAttributes(
                events::ActivityTaskFailedEventAttributes {
                    scheduled_event_id: earlier,
                    failure: failure("declined"),
                    ..Default::default()
                },
            ),
            _ => Attributes::WorkflowExecutionSignaledEventAttributes(Default::default()),
        };
        history.push(event(number, attributes));
    }
    history
}

fn update(name: &str) -> Option<Request> {
    Some(Request {
        meta: Some(Meta {
            update_id: "u1".to_owned(),
            ..Default::default()
        }),
        input: Some(Input {
            name: name.to_owned(),
            args: None,
        }),
    })
}

fn update_admitted() -> Attributes {
    let attributes = events::WorkflowExecutionUpdateAdmittedEventAttributes {
        request: update("set"),
    };
    Attributes::WorkflowExecutionUpdateAdmittedEventAttributes(attributes)
}

/// As the server accepts an update that it had recorded as admitted.
fn update_accepted() -> Attributes {
    let attributes = events::WorkflowExecutionUpdateAcceptedEventAttributes {
        protocol_instance_id: "u1".to_owned(),
        accepted_request: None,
    };
    Attributes::WorkflowExecutionUpdateAcceptedEventAttributes(attributes)
}

#[test]
fn an_update_that_a_reset_applied_again_has_the_name_and_the_body_of_its_request() {
    let body = Some(request::update_body("set", None));
    let of = |facts: &Facts| facts.body_of("u1", &facts.requests["u1"]);
    let seen = facts(&[update_admitted()]);
    assert_eq!((of(&seen), seen.open_updates().count()), (body, 0));
    let seen = facts(&[update_admitted(), update_accepted()]);
    assert_eq!(of(&seen), body);
    assert!(seen.open_updates().eq([Some("set")]));
    // The event with the request is older than the window.
    let seen = facts(&[update_accepted()]);
    assert_eq!(of(&seen), None);
    assert!(seen.open_updates().eq([None]));
}

/// The facts of a process that reads the history whenever it has this number of events.
fn read_in_parts(history: &[HistoryEvent], parts: &[i64]) -> Facts {
    let mut facts = Facts::default();
    for last in parts {
        let from = facts.last.max(last - WINDOW);
        if facts.begin.is_none() && from > 0 {
            facts.feed(&history[0]);
        }
        for event in history {
            if event.event_id > from && event.event_id <= *last {
                facts.feed(event);
            }
        }
        facts.last = *last;
        facts.close_window();
    }
    facts
}

#[test]
fn every_process_computes_the_same_from_a_history() {
    let length = 2_000;
    for seed in 0..40 {
        let history = long_history(seed, length);
        let fresh = read_in_parts(&history, &[length]);
        for cut in (1..length).step_by(97) {
            let followed = read_in_parts(&history, &[cut, length]);
            assert_eq!(followed, fresh, "seed {seed}, cut after {cut}");
        }
        let often: Vec<i64> = (1..=length).step_by(7).chain([length]).collect();
        assert_eq!(read_in_parts(&history, &often), fresh, "seed {seed}");
    }
}

#[test]
fn what_is_before_the_window_is_forgotten_wherever_the_window_begins() {
    let rare = [
        Attributes::WorkflowExecutionCancelRequestedEventAttributes(Default::default()),
        task_failed(WorkflowTaskFailedCause::ResetWorkflow, "again"),
        task_failed(
            WorkflowTaskFailedCause::WorkflowWorkerUnhandledFailure,
            "bug",
        ),
        Attributes::WorkflowTaskTimedOutEventAttributes(Default::default()),
        task_completed(),
        Attributes::WorkflowTaskScheduledEventAttributes(Default::default()),
        timer("1", 60),
        update_admitted(),
        update_accepted(),
    ];
    let mut history = long_history(0, 1);
    for (number, attributes) in (2..).zip(rare) {
        history.push(event(number, attributes));
    }
    let signal = Attributes::WorkflowExecutionSignaledEventAttributes(Default::default());
    let begin = i64::try_from(history.len()).unwrap();
    for number in begin + 1..=begin + WINDOW + 2 {
        history.push(event(number, signal.clone()));
    }
    for length in WINDOW..=begin + WINDOW + 2 {
        let fresh = read_in_parts(&history, &[length]);
        let followed = read_in_parts(&history, &[begin, length]);
        assert_eq!(followed, fresh, "window of {length} events");
    }
}
