//! Events and schedules that start hosted executions.

use jiff::SignedDuration;
use stateway_model::Payload;
use stateway_provider_api::{
    ApplyPortableRequest, PortableDefinitions as _, Provider as _, PublishRequest, Published,
    SetHomeRequest, SwitchTriggerRequest, Triggers as _, View, Workers as _,
};

use crate::lab::Lab;
use crate::provider::{call, provider};

async fn apply(lab: &Lab, source: &str, request: &str) {
    let request = ApplyPortableRequest {
        source: source.to_owned(),
        source_name: "test.yaml".to_owned(),
        request_id: request.parse().unwrap(),
    };
    let applied = provider(lab).apply_portable(&call(), request).await;
    applied.unwrap();
}

fn switch(enabled: bool, request: &str) -> SwitchTriggerRequest {
    SwitchTriggerRequest {
        definition: "order".to_owned(),
        enabled,
        comment: "maintenance".to_owned(),
        request_id: request.parse().unwrap(),
    }
}

async fn publish(lab: &Lab, payload: &str, request: &str) -> Published {
    let event = PublishRequest {
        event: "order.placed".to_owned(),
        payload: Some(Payload::json(payload.to_owned())),
        labels: [("shop".to_owned(), "berlin".to_owned())].into(),
        request_id: request.parse().unwrap(),
    };
    provider(lab).publish(&call(), event).await.unwrap()
}

const ORDER: &str = "name: order\n\
    trigger: {event: order.placed, condition: '${event.total} > 100'}\n\
    steps: [{name: pay, agent: x, timeout: 1m}]";

#[tokio::test]
async fn an_event_starts_what_it_fits_once() {
    let lab = Lab::default();
    apply(&lab, ORDER, "a1").await;
    apply(
        &lab,
        "name: other\nsteps: [{name: pay, agent: x, timeout: 1m}]",
        "a2",
    )
    .await;
    assert_eq!(
        publish(&lab, "{\"total\":50}", "e0").await,
        Published::default()
    );
    let first = publish(&lab, "{\"total\":200}", "e1").await;
    assert_eq!((first.started.len(), first.refused.len()), (1, 0));
    assert_eq!(publish(&lab, "{\"total\":200}", "e1").await, first);
    let shown = provider(&lab)
        .get(&call(), &first.started[0], View::Full)
        .await;
    let shown = shown.unwrap();
    assert_eq!(shown.labels.get("shop").map(String::as_str), Some("berlin"));
    // Values that cannot be compared are a reason, and not a failure of the event.
    let wrong = publish(&lab, "{\"total\":\"many\"}", "e2").await;
    assert_eq!((wrong.started.len(), wrong.refused.len()), (0, 1));
    // A disabled trigger starts nothing; what was started before is still the answer.
    provider(&lab)
        .switch(&call(), switch(false, "s1"))
        .await
        .unwrap();
    let refused = publish(&lab, "{\"total\":200}", "e3").await;
    assert_eq!(refused.refused[0].reason, "the trigger is disabled");
    assert_eq!(publish(&lab, "{\"total\":200}", "e1").await, first);
    provider(&lab)
        .switch(&call(), switch(true, "s2"))
        .await
        .unwrap();
    assert_eq!(
        publish(&lab, "{\"total\":200}", "e4").await.started.len(),
        1
    );
}

#[tokio::test]
async fn a_definition_that_cannot_be_started_does_not_stop_the_event_for_others() {
    let lab = Lab::default();
    let large = format!("{ORDER}\n# {}", "x".repeat(20_000));
    apply(
        &lab,
        &large.replace("name: order\n", "name: a-large\n"),
        "a1",
    )
    .await;
    apply(&lab, ORDER, "a2").await;
    lab.limit_requests(10_000);
    let published = publish(&lab, "{\"total\":200}", "e1").await;
    assert_eq!(published.started.len(), 1);
    let [refused] = &published.refused[..] else {
        panic!("{:?}", published.refused)
    };
    assert_eq!(refused.definition, "a-large");
    assert!(refused.reason.contains("too large"), "{}", refused.reason);
    // A request id that was used for another event is the error of the caller, and not of a definition.
    let event = PublishRequest {
        event: "order.placed".to_owned(),
        payload: Some(Payload::json("{\"total\":300}".to_owned())),
        labels: Default::default(),
        request_id: "e1".parse().unwrap(),
    };
    let reused = provider(&lab).publish(&call(), event).await.unwrap_err();
    assert_eq!(reused.reason(), "REQUEST_ID_REUSED");
}

#[tokio::test]
async fn a_schedule_starts_executions_while_it_is_enabled() {
    let lab = Lab::default();
    let source = "name: order\ntrigger: {schedule: '0 * * * *'}\n\
                  steps: [{name: nap, sleep: 1s}]";
    apply(&lab, source, "a1").await;
    let count = |lab: &Lab| lab.executions();
    lab.pass(SignedDuration::from_hours(3));
    assert_eq!(count(&lab), 3);
    let queue = provider(&lab).queue(&call()).await.unwrap();
    let [scheduled] = &queue.scheduled[..] else {
        panic!("{:?}", queue.scheduled)
    };
    assert_eq!(scheduled.definition, "order");
    assert!(scheduled.next_time.unwrap() > lab.now());
    provider(&lab)
        .switch(&call(), switch(false, "s1"))
        .await
        .unwrap();
    lab.pass(SignedDuration::from_hours(3));
    assert_eq!(count(&lab), 3);
    let found = provider(&lab)
        .get_portable(&call(), "order", None)
        .await
        .unwrap();
    assert_eq!(found.disabled_trigger.unwrap().comment, "maintenance");
    provider(&lab)
        .switch(&call(), switch(true, "s2"))
        .await
        .unwrap();
    lab.pass(SignedDuration::from_hours(2));
    assert_eq!(count(&lab), 5);
}

#[tokio::test]
async fn the_default_of_a_definition_is_stored_with_it() {
    let lab = Lab::default();
    apply(&lab, ORDER, "a1").await;
    let home = |home, request: &str| SetHomeRequest {
        name: "order".to_owned(),
        home,
        request_id: request.parse().unwrap(),
    };
    for (set, request) in [(true, "h1"), (false, "h2"), (true, "h3")] {
        let done = provider(&lab).set_home(&call(), home(set, request)).await;
        done.unwrap();
        let found = provider(&lab).get_portable(&call(), "order", None).await;
        assert_eq!(found.unwrap().home, set);
    }
    // Another revision does not change it.
    apply(&lab, &ORDER.replace("name: pay", "name: ship"), "a2").await;
    let found = provider(&lab).get_portable(&call(), "order", None).await;
    assert!(found.unwrap().home);
}
