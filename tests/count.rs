//! Counts by sub-state, over one provider and over all.

use stateway_client::v1::{CountExecutionsRequest, CountExecutionsResponse, SubState};
use tonic::Code;

use crate::support::{BuiltInRig, Puppet, TestGateway, clock, reason_of};

const GATE: &str = "name: gate\nsteps:\n  - {name: wait, kind: signal, signal: go}\n";

async fn counted(rig: &crate::support::Running, parent: &str) -> CountExecutionsResponse {
    let request = CountExecutionsRequest {
        parent: parent.into(),
    };
    let answer = rig.executions().await.count_executions(request).await;
    answer.expect("it counts").into_inner()
}

fn of(answer: &CountExecutionsResponse, sub_state: SubState) -> i64 {
    let found = answer
        .counts
        .iter()
        .find(|count| count.sub_state() == sub_state);
    found.expect("all six are there").execution_count
}

#[tokio::test]
async fn executions_are_counted_as_they_move() {
    let rig = BuiltInRig::start().await;
    rig.apply(GATE).await;
    for id in ["one", "two"] {
        rig.begin("gate", id, "ada", serde_json::json!({})).await;
    }
    let before = counted(&rig.gateway, "providers/b").await;
    assert_eq!(of(&before, SubState::Waiting), 2);
    assert_eq!(of(&before, SubState::Succeeded), 0);
    let signal = stateway_client::v1::SignalExecutionRequest {
        name: "providers/b/executions/one".into(),
        signal: "go".into(),
        ..Default::default()
    };
    let mut client = rig.gateway.executions().await;
    client.signal_execution(signal).await.expect("it is taken");
    let after = counted(&rig.gateway, "providers/-").await;
    assert_eq!(of(&after, SubState::Waiting), 1);
    assert_eq!(of(&after, SubState::Succeeded), 1);
    assert!(after.uncounted.is_empty() && after.counts.iter().all(|count| !count.at_least));
}

#[tokio::test]
async fn a_provider_that_cannot_count_is_named() {
    let gateway = TestGateway::new()
        .with_puppet("mute", &Puppet::new())
        .with_memory("m", &clock())
        .start()
        .await;
    let all = counted(&gateway, "providers/-").await;
    assert_eq!(all.uncounted, ["providers/mute"]);
    assert_eq!(all.counts.len(), 6);
    let alone = CountExecutionsRequest {
        parent: "providers/mute".into(),
    };
    let refused = gateway.executions().await.count_executions(alone).await;
    let status = refused.expect_err("it cannot");
    assert_eq!(status.code(), Code::Unimplemented);
    assert_eq!(reason_of(&status), "CAPABILITY_NOT_SUPPORTED");
}
