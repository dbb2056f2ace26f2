//! Messages as version 1 of the contract writes them, recorded once and never again: later builds read what
//! today's programs send, and today's builds read what later programs send. (`src/observation.rs` has the
//! same for the largest message.)

#![allow(clippy::unwrap_used)]

use std::fmt::Debug;
use std::time::Duration;

use prost::Message;
use stateway_provider_api::{Error, ErrorKind, Verb};
use stateway_wire::convert::{
    read_detail, read_history_page, read_history_request, read_list_page,
};
use stateway_wire::v1::watch_executions_response::Item;
use stateway_wire::v1::{self, event, list_events_request, watch_executions_request};

/// What was recorded is read as this message, also when a later version has added a field.
fn is_read_as<M: Message + Default + PartialEq + Debug>(recorded: &[u8], message: &M) {
    let read = M::decode(recorded).unwrap();
    assert_eq!(&read, message);
    let mut newer = recorded.to_vec();
    newer.extend([0xfa, 0x3e, 3, b'n', b'e', b'w']);
    assert_eq!(&M::decode(newer.as_slice()).unwrap(), message);
}

macro_rules! recorded {
    ($name:literal) => {
        include_bytes!(concat!("../recorded/", $name, ".binpb")).as_slice()
    };
}

fn time(seconds: i64) -> Option<prost_types::Timestamp> {
    let nanos = 5;
    Some(prost_types::Timestamp { seconds, nanos })
}

fn span(seconds: i64) -> Option<prost_types::Duration> {
    let nanos = 0;
    Some(prost_types::Duration { seconds, nanos })
}

fn context() -> Option<v1::CallContext> {
    Some(v1::CallContext {
        correlation_id: "c-1".into(),
        actor: "ann".into(),
        roles: vec!["admin".into(), "ops".into()],
    })
}

fn observation() -> v1::Observation {
    v1::Observation {
        id: "a".into(),
        version: Some(v1::Version { parts: vec![1, 2] }),
        native_state: Some(v1::NativeState {
            state: "ACTIVE".into(),
            ..v1::NativeState::default()
        }),
        ..v1::Observation::default()
    }
}

fn describe_request() -> v1::DescribeRequest {
    v1::DescribeRequest {
        min_contract_version: 1,
        max_contract_version: 2,
        capabilities: vec!["start".into(), "list".into()],
        reasons: vec!["STUCK".into()],
        provider_id: "jobs".into(),
        gateway_version: "0.1.0".into(),
        max_table_version: 1,
    }
}

fn describe_response() -> v1::DescribeResponse {
    v1::DescribeResponse {
        name: "acme-jobs".into(),
        version: "1.2".into(),
        min_contract_version: 1,
        max_contract_version: 3,
        capabilities: vec!["start".into(), "watch_all".into()],
        instance_id: "i-1".into(),
        start_time: time(10),
        state_table: "version = 1\n".into(),
    }
}

fn error_detail() -> v1::ErrorDetail {
    v1::ErrorDetail {
        kind: v1::ErrorKind::Throttled.into(),
        reason: "SLOW_DOWN".into(),
        hint: "Wait.".into(),
        native_code: "429".into(),
        retry_after: span(3),
        suggestion: "order".into(),
        component: "store".into(),
        metadata: [("queue".to_owned(), "a".to_owned())].into(),
        engine_answered: Some(true),
        message: "too many requests".into(),
    }
}

fn watch_request() -> v1::WatchExecutionsRequest {
    v1::WatchExecutionsRequest {
        context: context(),
        scope: watch_executions_request::Scope::End.into(),
        id: "a".into(),
        open_timeout: span(10),
        heartbeat_interval: span(5),
    }
}

fn watch_response(item: Item) -> v1::WatchExecutionsResponse {
    v1::WatchExecutionsResponse { item: Some(item) }
}

fn list_request() -> v1::ListExecutionsRequest {
    v1::ListExecutionsRequest {
        context: context(),
        page_size: 50,
        cursor: "next".into(),
        hints: Some(v1::ListHints {
            excluded_native_states: vec!["DONE".into()],
            definitions: vec!["order".into()],
            min_start_time: time(20),
            max_start_time: time(30),
        }),
    }
}

fn list_response() -> v1::ListExecutionsResponse {
    v1::ListExecutionsResponse {
        observations: vec![observation()],
        next_cursor: "more".into(),
    }
}

fn history_request() -> v1::ListEventsRequest {
    v1::ListEventsRequest {
        context: context(),
        id: "a".into(),
        page_size: 50,
        cursor: "next".into(),
        view: v1::View::Full.into(),
        order: list_events_request::Order::NewestFirst.into(),
    }
}

fn history_response() -> v1::ListEventsResponse {
    let detail = v1::EventDetail {
        payload: Some(v1::Payload {
            data: "{}".into(),
            content_type: "application/json".into(),
        }),
        payload_truncated: true,
        correlation_id: "c-1".into(),
        request_id: "r-1".into(),
        cause_sequence: 6,
        actor: "ann".into(),
    };
    v1::ListEventsResponse {
        events: vec![v1::Event {
            sequence: 7,
            occur_time: time(40),
            native_type: "TaskFailed".into(),
            step: "charge".into(),
            attempt: 2,
            summary: "failed".into(),
            phase: event::Phase::CompensationFailed.into(),
            detail: Some(detail),
        }],
        next_cursor: "more".into(),
    }
}

#[test]
fn recorded_descriptions_are_read_for_ever() {
    is_read_as(recorded!("describe_request"), &describe_request());
    is_read_as(recorded!("describe_response"), &describe_response());
}

#[test]
fn a_recorded_error_is_read_for_ever() {
    is_read_as(recorded!("error_detail"), &error_detail());
    let error = read_detail(error_detail(), Verb::Get, ErrorKind::Internal);
    let expected = Error::new(ErrorKind::Throttled, Verb::Get, "too many requests")
        .with_reason("SLOW_DOWN")
        .with_hint("Wait.")
        .with_retry_after(Duration::from_secs(3))
        .with_component("store");
    assert_eq!((error.kind, error.reason()), (expected.kind, "SLOW_DOWN"));
    assert_eq!(
        (&error.message, &error.hint),
        (&expected.message, &expected.hint)
    );
    assert_eq!(error.retry_after, expected.retry_after);
    assert_eq!(error.component, expected.component);
    assert!(error.engine_answered());
}

#[test]
fn a_recorded_watch_is_read_for_ever() {
    is_read_as(recorded!("watch_request"), &watch_request());
    let seen = watch_response(Item::Seen(observation()));
    is_read_as(recorded!("watch_seen"), &seen);
    let gone = watch_response(Item::Gone("a".into()));
    is_read_as(recorded!("watch_gone"), &gone);
    let in_sync = watch_response(Item::InSync(v1::InSync {}));
    is_read_as(recorded!("watch_in_sync"), &in_sync);
    let heartbeat = watch_response(Item::Heartbeat(v1::Heartbeat {}));
    is_read_as(recorded!("watch_heartbeat"), &heartbeat);
}

#[test]
fn a_recorded_list_is_read_for_ever() {
    is_read_as(recorded!("list_request"), &list_request());
    is_read_as(recorded!("list_response"), &list_response());
    let page = read_list_page(list_response(), 50).unwrap();
    assert_eq!(page.observations[0].id.as_str(), "a");
    assert_eq!(page.next.as_deref(), Some("more"));
}

#[test]
fn a_recorded_history_is_read_for_ever() {
    is_read_as(recorded!("history_request"), &history_request());
    is_read_as(recorded!("history_response"), &history_response());
    let request = read_history_request(history_request()).unwrap();
    assert_eq!((request.id.as_str(), request.page_size), ("a", 50));
    let page = read_history_page(history_response(), 50).unwrap();
    assert_eq!(page.events[0].sequence, 7);
    assert_eq!(page.next.as_deref(), Some("more"));
}
