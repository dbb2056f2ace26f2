//! A server with its default settings, and the options of a start.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stateway_model::{Reason, SubState};
use stateway_provider_api::{
    ErrorKind, PauseRequest, Provider, PurgeRequest, ResumeRequest, StartRequest, View,
};

use crate::NAMESPACE;
use crate::lab::{Lab, Settings, activity};
use crate::rig::{Rig, call, config, execution_id, provider, shown};

pub(crate) async fn a_server_that_cannot_pause_workflows_pauses_activities(rig: &Rig) {
    let lab = Lab::start_with(&rig.peers, &[NAMESPACE.to_owned()], Settings::Default);
    lab.worker.begin(NAMESPACE);
    let at = lab.namespace(NAMESPACE);
    let provider = provider(&config(lab.server.address(), NAMESPACE));
    let health = provider.health(&call()).await.unwrap();
    assert!(health.detail.contains("activities only"), "{health:?}");
    let resting = activity(json!({"id": "resting", "type": "fail", "retry": {"initial": 600}}));
    let input = json!({"name": "work"});
    let running = activity(json!({"id": "running", "type": "obey", "input": input}));
    at.start("work", json!([{"parallel": [resting, running]}]));
    let id = execution_id("work");
    at.until("work", "running and resting", |shown| {
        let pending = shown["pendingActivities"].as_array();
        pending.is_some_and(|it| {
            let resting = |it: &Value| it["nextAttemptScheduleTime"].is_string();
            let running = |it: &Value| it["state"] == "PENDING_ACTIVITY_STATE_STARTED";
            it.iter().any(resting) && it.iter().any(running)
        })
    });
    let request = PauseRequest {
        id: id.clone(),
        comment: "live test".to_owned(),
        request_id: rig.request_id(),
    };
    let paused = shown(provider.pause(&call(), request).await.unwrap());
    let state = |name: &str| {
        let step = paused.steps.iter().find(|step| step.name == name).unwrap();
        (step.sub_state, step.reason)
    };
    assert_eq!(state("resting"), (SubState::Waiting, Some(Reason::Paused)));
    // It runs until its attempt ends.
    assert_eq!(state("running"), (SubState::Running, None));
    let request = ResumeRequest {
        id: id.clone(),
        request_id: rig.request_id(),
    };
    provider.resume(&call(), request).await.unwrap();
    at.until("work", "resumed", |shown| {
        let pending = shown["pendingActivities"].as_array();
        pending.is_some_and(|it| it.iter().all(|it| it["paused"] != true))
    });
    at.terminate("work");
    purged_by_one_gateway(rig, &lab, &provider).await;
}

/// Another gateway shows a purged run until the server has deleted it.
async fn purged_by_one_gateway(rig: &Rig, lab: &Lab, one: &impl Provider) {
    let other = provider(&config(lab.server.address(), NAMESPACE));
    let id = execution_id("work");
    let purge = PurgeRequest {
        id: id.clone(),
        request_id: rig.request_id(),
    };
    let began = Instant::now();
    one.purge(&call(), purge).await.unwrap();
    let answered = began.elapsed();
    let gone = one.get(&call(), &id, View::Basic).await;
    assert_eq!(gone.unwrap_err().kind, ErrorKind::NotFound);
    let deadline = began + Duration::from_secs(60);
    loop {
        match other.get(&call(), &id, View::Basic).await {
            Ok(seen) => assert_eq!(seen.native.state, "TERMINATED"),
            Err(error) => {
                assert_eq!(error.kind, ErrorKind::NotFound);
                break;
            }
        }
        assert!(Instant::now() < deadline, "not deleted within a minute");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    println!(
        "summary: temporal: a purge was answered after {answered:?} and done by the server after {:?}",
        began.elapsed()
    );
}

/// What a start with these options stores in its first event; the same start again is the same execution.
async fn stored(rig: &Rig, name: &str, options: &[(&str, &str)]) -> Value {
    let name = rig.id(name);
    let mut request = rig.start_request(&name, &json!([{"signal": "go"}]));
    for (name, value) in options {
        let (name, value) = ((*name).to_owned(), (*value).to_owned());
        request.options.insert(name, value);
    }
    let began = rig.provider.start(&call(), request.clone()).await.unwrap();
    let again = rig.provider.start(&call(), request.clone()).await.unwrap();
    assert_eq!(again.notes.first(), began.notes.first(), "{options:?}");
    let other = StartRequest {
        request_id: rig.request_id(),
        ..request
    };
    let refused = rig.provider.start(&call(), other).await.unwrap_err();
    assert_eq!(refused.reason(), "EXECUTION_ALREADY_EXISTS", "{options:?}");
    let first = rig.at.events(&name).remove(0);
    rig.at.terminate(&name);
    first["workflowExecutionStartedEventAttributes"].clone()
}

pub(crate) async fn every_option_of_a_start_reaches_the_server(rig: &Rig) {
    let timeouts = [
        ("execution_timeout", "1h"),
        ("run_timeout", "30m"),
        ("task_timeout", "20s"),
    ];
    let started = stored(rig, "timeouts", &timeouts).await;
    assert_eq!(started["workflowExecutionTimeout"], "3600s");
    assert_eq!(started["workflowRunTimeout"], "1800s");
    assert_eq!(started["workflowTaskTimeout"], "20s");
    // The server shortens them to its limits.
    let too_long = [
        ("execution_timeout", "1h"),
        ("run_timeout", "2h"),
        ("task_timeout", "10m"),
    ];
    let started = stored(rig, "too-long", &too_long).await;
    assert_eq!(started["workflowRunTimeout"], "3600s");
    assert_eq!(started["workflowTaskTimeout"], "120s");
    let started = stored(rig, "cron", &[("cron_schedule", "0 3 1 1 *")]).await;
    assert_eq!(started["cronSchedule"], "0 3 1 1 *");
    let started = stored(rig, "attempts", &[("max_attempts", "3")]).await;
    assert_eq!(started["retryPolicy"]["maximumAttempts"], 3);
    let started = stored(rig, "queue", &[("task_queue", "elsewhere")]).await;
    assert_eq!(started["taskQueue"]["name"], "elsewhere");
}

pub(crate) async fn the_reuse_policy_decides_about_an_execution_that_has_ended(rig: &Rig) {
    let name = rig.id("reused");
    let start = |policy: &str, steps: Value| {
        let mut request = rig.start_request(&name, &steps);
        let option = "reuse_policy".to_owned();
        request.options.insert(option, policy.to_owned());
        request
    };
    let first = start("allow", json!([{"return": 1}]));
    let id = rig.provider.start(&call(), first.clone()).await.unwrap().id;
    rig.until_shown(&id, SubState::Succeeded).await;
    let failed_only = start("allow-failed", json!([{"return": 1}]));
    let refused = rig.provider.start(&call(), failed_only).await.unwrap_err();
    assert_eq!(refused.reason(), "EXECUTION_ALREADY_EXISTS");
    let second = start("allow", json!([{"fail": {}}]));
    rig.provider.start(&call(), second.clone()).await.unwrap();
    rig.until_shown(&id, SubState::Failed).await;
    let failed_only = start("allow-failed", json!([{"signal": "go"}]));
    rig.provider.start(&call(), failed_only).await.unwrap();
    rig.until_shown(&id, SubState::Waiting).await;
    rig.at.terminate(&name);
    rig.until_shown(&id, SubState::Failed).await;
    // The request id of an older execution of the same id does not begin another one.
    let late = rig.provider.start(&call(), first).await.unwrap();
    assert_eq!(late.native.state, "TERMINATED");
}
