//! An external event starts each definition that it triggers once.

use serde_json::json;
use stateway_client::v1;
use stateway_client::v1::triggers_client::TriggersClient;
use tonic::Code;

use crate::support::{BuiltInRig, by, json_of, reason_of};

const ORDERS: &str = "\
name: orders
trigger:
  event: order.created
steps:
  - name: rest
    sleep: 1h
";

fn publish(event: &str, id: &str, data: &str) -> v1::PublishEventRequest {
    v1::PublishEventRequest {
        parent: "providers/-".into(),
        event: event.into(),
        request_id: id.into(),
        payload: Some(v1::Payload {
            data: data.to_owned().into(),
            content_type: String::new(),
        }),
        labels: [("team".to_owned(), "shop".to_owned())].into(),
    }
}

#[tokio::test]
async fn an_event_starts_what_it_triggers_once() {
    let rig = BuiltInRig::start().await;
    rig.apply(ORDERS).await;
    let mut client = TriggersClient::new(rig.gateway.channel().await);
    let told = publish("order.created", "o-17", r#"{"total": 120}"#);
    let first = client.publish_event(by("ada", "", told.clone())).await;
    let first = first.unwrap().into_inner();
    let [name] = first.executions.as_slice() else {
        panic!("{first:#?}");
    };
    let id = name
        .strip_prefix("providers/b/executions/")
        .expect("a name");
    let started = rig.get(id).await;
    assert_eq!(json_of(started.input.as_ref()), json!({"total": 120}));
    assert_eq!(started.labels["team"], "shop");
    assert_eq!(rig.initiator(id).await, "ada");
    let again = client.publish_event(by("ada", "", told)).await;
    assert_eq!(again.unwrap().into_inner().executions, first.executions);
    let other = publish("order.deleted", "o-18", "{}");
    let none = client.publish_event(other).await.unwrap().into_inner();
    assert_eq!(none.executions, [] as [&str; 0]);
}

#[tokio::test]
async fn what_is_no_event_is_refused() {
    let rig = BuiltInRig::start().await;
    let mut client = TriggersClient::new(rig.gateway.channel().await);
    for wrong in [
        publish("", "a", "{}"),
        publish("e", "not an id", "{}"),
        publish("e", "a", "{broken"),
    ] {
        let status = client.publish_event(wrong).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        assert_eq!(reason_of(&status), "INVALID_ARGUMENT");
    }
}

const NIGHTLY: &str = "\
name: nightly
trigger: {event: dusk, condition: '${event.dark} == true', schedule: '0 2 * * *', timezone: Europe/Berlin}
steps:
  - name: rest
    sleep: 1h
";

fn disable(name: &str) -> v1::DisableTriggerRequest {
    v1::DisableTriggerRequest {
        name: format!("definitions/{name}/trigger"),
        comment: "maintenance".into(),
        ..v1::DisableTriggerRequest::default()
    }
}

fn enable(name: &str) -> v1::EnableTriggerRequest {
    v1::EnableTriggerRequest {
        name: format!("definitions/{name}/trigger"),
        ..v1::EnableTriggerRequest::default()
    }
}

async fn trigger_of(rig: &BuiltInRig, name: &str) -> v1::Trigger {
    let name = format!("definitions/{name}");
    let request = v1::GetDefinitionRequest { name };
    let found = rig.definitions().await.get_definition(request).await;
    found.unwrap().into_inner().trigger.expect("a trigger")
}

#[tokio::test]
async fn a_definition_shows_its_trigger_and_the_next_start() {
    let rig = BuiltInRig::start().await;
    rig.apply(NIGHTLY).await;
    let trigger = trigger_of(&rig, "nightly").await;
    assert!(trigger.next_start_time.is_some());
    let expected = v1::Trigger {
        name: "definitions/nightly/trigger".into(),
        event: "dusk".into(),
        condition: "${event.dark} == true".into(),
        schedule: "0 2 * * *".into(),
        timezone: "Europe/Berlin".into(),
        next_start_time: trigger.next_start_time,
        disabled: None,
    };
    assert_eq!(trigger, expected);
}

#[tokio::test]
async fn a_disabled_trigger_is_shown_with_who_when_and_why_until_it_is_enabled() {
    let rig = BuiltInRig::start().await;
    rig.apply(NIGHTLY).await;
    let mut client = TriggersClient::new(rig.gateway.channel().await);
    let disabled = client.disable_trigger(by("ada", "", disable("nightly")));
    let disabled = disabled.await.unwrap().into_inner();
    let mark = disabled.disabled.clone().unwrap();
    assert_eq!(
        (mark.disabled_by.as_str(), mark.comment.as_str()),
        ("ada", "maintenance")
    );
    assert!(mark.disable_time.is_some() && disabled.next_start_time.is_none());
    // A new revision leaves it disabled.
    rig.apply(&NIGHTLY.replace("1h", "2h")).await;
    assert_eq!(trigger_of(&rig, "nightly").await, disabled);
    let listed = v1::ListDefinitionsRequest::default();
    let listed = rig.definitions().await.list_definitions(listed).await;
    let listed = listed.unwrap().into_inner().definitions;
    assert_eq!(listed[0].trigger, Some(disabled));
    let queue = rig
        .workers()
        .await
        .get_queue(v1::GetQueueRequest {
            name: "providers/-/queue".into(),
        })
        .await;
    let scheduled = queue.unwrap().into_inner().scheduled;
    assert_eq!(scheduled[0].disabled, Some(mark));
    assert_eq!(scheduled[0].next_start_time, None);

    let told = publish("dusk", "d-1", r#"{"dark": true}"#);
    let answer = client.publish_event(told).await.unwrap().into_inner();
    assert_eq!(answer.executions, [] as [&str; 0]);
    assert_eq!(answer.refused[0].definition, "definitions/nightly");
    assert_eq!(answer.refused[0].message, "the trigger is disabled");

    let enabled = client.enable_trigger(enable("nightly")).await.unwrap();
    let enabled = enabled.into_inner();
    assert_eq!(enabled.disabled, None);
    assert!(enabled.next_start_time.is_some());
    let told = publish("dusk", "d-2", r#"{"dark": true}"#);
    let answer = client.publish_event(told).await.unwrap().into_inner();
    assert_eq!(answer.executions.len(), 1);
}

#[tokio::test]
async fn a_trigger_that_cannot_be_switched_is_refused_and_a_request_counts_once() {
    let rig = BuiltInRig::start().await;
    rig.apply("name: plain\nsteps: [{name: rest, sleep: 1h}]\n")
        .await;
    rig.apply(NIGHTLY).await;
    let mut client = TriggersClient::new(rig.gateway.channel().await);
    let refused = client.disable_trigger(disable("plain")).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert_eq!(reason_of(&refused), "NO_TRIGGER");
    let missing = client.enable_trigger(enable("nobody")).await.unwrap_err();
    assert_eq!(missing.code(), Code::NotFound);
    let wrong = v1::DisableTriggerRequest {
        name: "providers/b/definitions/nightly/trigger".into(),
        ..v1::DisableTriggerRequest::default()
    };
    let wrong = client.disable_trigger(wrong).await.unwrap_err();
    assert_eq!(wrong.code(), Code::InvalidArgument);

    let request = v1::DisableTriggerRequest {
        request_id: "disable-1".into(),
        ..disable("nightly")
    };
    client.disable_trigger(request.clone()).await.unwrap();
    client.enable_trigger(enable("nightly")).await.unwrap();
    // Repeated, it does not disable again.
    let again = client.disable_trigger(request).await.unwrap().into_inner();
    assert_eq!(again.disabled, None);
}
