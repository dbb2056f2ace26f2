//! What one read costs, compared with the call underneath.

use std::time::{Duration, Instant};

use serde_json::json;
use stateway_model::SubState;
use stateway_provider_api::{CancelMode, Provider, View};
use stateway_provider_temporal::api::common::v1::WorkflowExecution;
use stateway_provider_temporal::api::workflowservice::v1::DescribeWorkflowExecutionRequest;
use stateway_provider_temporal::api::workflowservice::v1::workflow_service_client::WorkflowServiceClient;

use crate::NAMESPACE;
use crate::lab::activity;
use crate::rig::{Rig, call};

/// Reads of each kind. They alternate, so that a busy moment slows both down.
const READS: usize = 400;

pub(crate) async fn a_get_costs_little_more_than_its_describe(rig: &Rig) {
    let name = rig.id("cost");
    let charge = json!({"type": "fail", "retry": {"initial": 600}});
    let id = rig.start(&name, json!([activity(charge)])).await;
    rig.until_shown(&id, SubState::BackingOff).await;
    let mut bare = WorkflowServiceClient::connect(rig.lab.server.address())
        .await
        .unwrap();
    let request = DescribeWorkflowExecutionRequest {
        namespace: NAMESPACE.to_owned(),
        execution: Some(WorkflowExecution {
            workflow_id: name,
            run_id: String::new(),
        }),
    };
    let (mut describes, mut gets) = (Vec::new(), Vec::new());
    for _ in 0..READS {
        let began = Instant::now();
        bare.describe_workflow_execution(request.clone())
            .await
            .unwrap();
        describes.push(began.elapsed());
        let began = Instant::now();
        rig.provider.get(&call(), &id, View::Basic).await.unwrap();
        gets.push(began.elapsed());
    }
    let (bare, full) = (median(describes), median(gets));
    let overhead = (full.as_secs_f64() / bare.as_secs_f64() - 1.0) * 100.0;
    println!("summary: temporal: get {full:?}, bare describe {bare:?}: {overhead:.1} % overhead");
    // Other tests run beside this one; alone it stays below 15 %.
    assert!(
        overhead < 60.0,
        "a get costs {overhead:.1} % more than its describe"
    );
    rig.cancel(&id, CancelMode::Kill).await.unwrap();
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}
