//! The build server, and the release manager who grants the approval.

use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use stateway_client::{Client, DecideApproval, ListApprovals, Task, Worker, v1};

use crate::Outcome;

pub(super) fn worker(gateway: &str) -> Worker {
    Worker::new(gateway)
        .role("ci")
        .role("ops")
        .capacity(2)
        .on("build", |task: Task| async move {
            let given: Value = task.input()?;
            task.heartbeat(0.5, "compiling");
            Ok(json!({"image": format!("shop:{}", given["version"].as_str().unwrap_or("latest"))}))
        })
        .on("check", |_: Task| async move { Ok(json!({"passed": 128})) })
        .on("deploy", |task: Task| async move {
            let given: Value = task.input()?;
            Ok(json!({"version": given["image"]}))
        })
}

/// Reads the pending approvals until the approval of the release appears, then grants it.
pub(super) fn person(client: Client, execution: String) -> BoxFuture<'static, Outcome<()>> {
    async move {
        let grace = client.acting_as("grace", ["release-manager"])?;
        loop {
            let inbox = ListApprovals::from_message(v1::ListApprovalsRequest {
                parent: "providers/-".to_owned(),
                ..v1::ListApprovalsRequest::default()
            });
            let waiting = grace.approvals_page(inbox).await?.approvals;
            if let Some(found) = waiting.iter().find(|found| found.execution == execution) {
                let decide = DecideApproval::from_message(v1::DecideApprovalRequest {
                    name: found.name.clone(),
                    decision: v1::decide_approval_request::Choice::Grant.into(),
                    comment: "looks good".to_owned(),
                    ..v1::DecideApprovalRequest::default()
                });
                grace.decide_approval(decide).await?;
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    .boxed()
}
