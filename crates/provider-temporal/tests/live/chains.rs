//! Executions that are more than one run, children, and executions that are gone.

use serde_json::json;
use stateway_model::{Reason, SubState, WaitKind};
use stateway_provider_api::filter::Hints;
use stateway_provider_api::{
    CancelMode, ErrorKind, ListRequest, Provider, PurgeRequest, StartDefinition, StartRequest, View,
};

use crate::rig::{Rig, call, execution_id, shown};

/// How often a list shows this execution.
async fn listed(rig: &Rig, id: &str) -> usize {
    let mut found = 0;
    let mut cursor = None;
    for _ in 0..100 {
        let request = ListRequest {
            hints: Hints::none(),
            page_size: 50,
            cursor,
        };
        let page = rig.provider.list(&call(), request).await.unwrap();
        found += page
            .observations
            .iter()
            .filter(|row| row.id.as_str() == id)
            .count();
        cursor = page.next;
        if cursor.is_none() {
            return found;
        }
    }
    panic!("the list has no end");
}

pub(crate) async fn runs_that_continue_as_new_are_one_execution(rig: &Rig) {
    let name = rig.id("chain");
    let second = json!({"steps": [{"signal": "go"}, {"return": "second"}]});
    let first = rig.at.start(&name, json!([{"continue_as_new": second}]));
    let id = execution_id(&name);
    // A signal that the first run received would be lost with it.
    rig.at.until(&name, "in its second run", |shown| {
        shown["workflowExecutionInfo"]["execution"]["runId"] != first.as_str()
    });
    rig.until_shown(&id, SubState::Waiting).await;
    assert_eq!(listed(rig, &name).await, 1);
    let run = execution_id(&format!("{name}~run:{first}"));
    let run = shown(rig.provider.get(&call(), &run, View::Full).await.unwrap());
    assert_eq!(
        (run.sub_state, run.reason),
        (SubState::Running, Some(Reason::Superseded))
    );
    rig.signal(&id, "go", None).await.unwrap();
    rig.until_shown(&id, SubState::Succeeded).await;
    assert_eq!(listed(rig, &name).await, 1);
}

pub(crate) async fn a_workflow_that_retries_itself_backs_off(rig: &Rig) {
    let name = rig.id("retry");
    let policy = json!({"retryPolicy": {"initialInterval": "600s", "maximumAttempts": 3}});
    rig.at.start_with(
        &name,
        json!([{"fail": {"message": "order rejected"}}]),
        &policy,
    );
    let id = execution_id(&name);
    let resting = rig.until_shown(&id, SubState::BackingOff).await;
    assert_eq!(resting.retry.attempt, 1);
    assert_eq!(resting.retry.max_attempts, Some(3));
    assert!(resting.retry.next_attempt_time.is_some());
    let error = resting.retry.last_error.unwrap();
    assert!(
        error.message.contains("order rejected"),
        "{}",
        error.message
    );
    assert_eq!(listed(rig, &name).await, 1);
    rig.cancel(&id, CancelMode::Kill).await.unwrap();
}

pub(crate) async fn a_child_is_an_execution_of_its_own(rig: &Rig) {
    let (name, child) = (rig.id("parent"), rig.id("child"));
    let steps = json!([{"child": {"id": child, "steps": [{"signal": "go"}]}}]);
    let id = rig.start(&name, steps).await;
    let waiting = rig.until_shown(&id, SubState::Waiting).await;
    assert_eq!(waiting.reason, Some(Reason::AwaitingChild));
    let wait = waiting
        .waits
        .iter()
        .find(|wait| wait.kind == WaitKind::Child)
        .unwrap();
    assert!(wait.name.contains(&child), "{wait:?}");
    let child = execution_id(&child);
    rig.until_shown(&child, SubState::Waiting).await;
    rig.signal(&child, "go", None).await.unwrap();
    rig.until_shown(&id, SubState::Succeeded).await;
}

pub(crate) async fn a_repeated_start_is_the_same_execution(rig: &Rig) {
    let steps = json!([{"return": 1}]);
    let request = rig.start_request(&rig.id("once"), &steps);
    let id = rig
        .provider
        .start(&call(), request.clone())
        .await
        .unwrap()
        .id;
    rig.until_shown(&id, SubState::Succeeded).await;
    // Also after its end.
    let again = rig.provider.start(&call(), request.clone()).await.unwrap();
    assert_eq!((again.id, again.native.state.as_str()), (id, "COMPLETED"));
    let other = StartRequest {
        request_id: rig.request_id(),
        ..request
    };
    let refused = rig.provider.start(&call(), other).await.unwrap_err();
    assert_eq!(refused.reason(), "EXECUTION_ALREADY_EXISTS");
}

pub(crate) async fn a_deleted_execution_is_not_found(rig: &Rig) {
    let name = rig.id("gone");
    let id = rig.start(&name, json!([{"return": 1}])).await;
    rig.until_shown(&id, SubState::Succeeded).await;
    let purge = || PurgeRequest {
        id: id.clone(),
        request_id: rig.request_id(),
    };
    rig.provider.purge(&call(), purge()).await.unwrap();
    let gone = rig
        .provider
        .get(&call(), &id, View::Basic)
        .await
        .unwrap_err();
    assert_eq!(gone.kind, ErrorKind::NotFound);
    assert_eq!(listed(rig, &name).await, 0);
}

pub(crate) async fn a_schedule_is_shown_and_cannot_be_started(rig: &Rig) {
    let name = rig.id("nightly");
    let workflow = json!({
        "workflowId": rig.id("scheduled"), "workflowType": {"name": "Script"},
        "taskQueue": {"name": "lab"},
    });
    let schedule = json!({
        "spec": {"interval": [{"interval": "86400s"}]},
        "action": {"startWorkflow": workflow},
    });
    let body = json!({"schedule": schedule, "requestId": name});
    rig.at.post(&format!("schedules/{name}"), &body);
    let definition = format!("schedule:{name}");
    let shown = rig
        .provider
        .definition(&call(), &definition, None)
        .await
        .unwrap();
    assert!(shown.source.contains("Script"), "{}", shown.source);
    let request = StartRequest {
        definition: StartDefinition::native(definition),
        ..rig.start_request(&rig.id("by-schedule"), &json!([]))
    };
    rig.provider.start(&call(), request).await.unwrap_err();
}
