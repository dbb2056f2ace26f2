//! The load: lanes that start executions, each with a few executions open at a time.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use stateway_proto::v1;
use stateway_proto::v1::definitions_client::DefinitionsClient;
use stateway_proto::v1::executions_client::ExecutionsClient;
use tonic::transport::{Channel, Endpoint};

use super::OPEN_PER_LANE;
use super::book::Book;
use crate::Outcome;

pub(super) const CHAIN: &str = "crash-chain";
pub(super) const SAGA: &str = "crash-saga";
pub(super) const PARENT: &str = "crash-parent";

const SOURCES: [&str; 3] = [
    "name: crash-chain
steps:
  - {name: a, agent: crash, timeout: 1h}
  - {name: b, agent: crash, timeout: 1h, dependsOn: [a]}
  - {name: c1, agent: crash, timeout: 1h, dependsOn: [b]}
  - {name: c2, agent: crash, timeout: 1h, dependsOn: [b]}
  - {name: d, agent: crash, timeout: 1h, dependsOn: [c1, c2]}
",
    "name: crash-saga
failurePolicy: compensate
steps:
  - {name: a, agent: crash, timeout: 1h}
  - {name: b, agent: crash, timeout: 1h, dependsOn: [a]}
  - {name: broken, agent: crash, action: fail, timeout: 1h, dependsOn: [b]}
compensation:
  - {step: a, agent: crash, action: undo}
  - {step: b, agent: crash, action: undo}
",
    "name: crash-parent
timeout: 2h
steps:
  - {name: nap, sleep: 20ms}
  - {name: kid, workflow: crash-chain, timeout: 1h, dependsOn: [nap]}
  - {name: shaky, agent: crash, action: shaky, timeout: 1h, dependsOn: [nap],
     retryPolicy: {maxRetries: 20, backoff: constant, initialDelay: 10ms, maxDelay: 10ms}}
",
];

pub(super) async fn apply(url: &str) -> Outcome<()> {
    let mut client = DefinitionsClient::connect(url.to_owned()).await?;
    for source in SOURCES {
        let request = v1::ApplyDefinitionRequest {
            source: source.to_owned(),
            source_name: "crash.yaml".to_owned(),
            ..Default::default()
        };
        client.apply_definition(request).await?;
    }
    Ok(())
}

/// One lane. A start that fails is repeated under the same id until it is acknowledged.
pub(super) async fn run(url: String, lane: usize, book: Arc<Book>) {
    let Ok(endpoint) = Endpoint::from_shared(url) else {
        return;
    };
    let endpoint = endpoint.timeout(Duration::from_secs(5));
    let mut client = ExecutionsClient::new(endpoint.connect_lazy());
    let mut open = VecDeque::new();
    for number in 0_u64.. {
        while book.is_closed() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        open.push_back(start(&mut client, lane, number, &book).await);
        if open.len() >= OPEN_PER_LANE
            && let Some(name) = open.pop_front()
        {
            end(&mut client, name).await;
        }
    }
}

/// Starts an execution; its name.
async fn start(
    client: &mut ExecutionsClient<Channel>,
    lane: usize,
    number: u64,
    book: &Book,
) -> String {
    let definition = match number % 4 {
        2 => PARENT,
        3 => SAGA,
        _ => CHAIN,
    };
    let request = v1::StartExecutionRequest {
        parent: "providers/builtin".to_owned(),
        definition: format!("definitions/{definition}"),
        execution_id: format!("crash-{lane}-{number}"),
        request_id: format!("crash-{lane}-{number}"),
        ..Default::default()
    };
    loop {
        match client.start_execution(request.clone()).await {
            Ok(answer) => {
                let name = answer.into_inner().name;
                book.started(name.clone());
                return name;
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

/// Waits for the end of an execution, over as many restarts as that takes.
async fn end(client: &mut ExecutionsClient<Channel>, name: String) {
    let request = v1::WaitExecutionRequest {
        name,
        ..Default::default()
    };
    loop {
        match client.wait_execution(request.clone()).await {
            Ok(answer) if answer.get_ref().reached => return,
            // The gateway was killed, or the call has reached its deadline.
            _ => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}
