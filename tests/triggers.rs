//! Events of the outside start what they trigger, once.

use serde_json::json;
use stateway_proto::v1;
use stateway_proto::v1::triggers_client::TriggersClient;
use tonic::Code;

use crate::support::{BuiltInRig, by, reason_of};

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
        event: event.into(),
        id: id.into(),
        payload: Some(v1::Payload {
            data: data.to_owned().into(),
            content_type: String::new(),
        }),
        labels: [("team".to_owned(), "shop".to_owned())].into(),
        ..v1::PublishEventRequest::default()
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
    let view = rig.engine.get(id.into()).await.unwrap();
    assert_eq!(*view.input, json!({"total": 120}));
    assert_eq!((&*view.initiator, &*view.labels["team"]), ("ada", "shop"));
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
