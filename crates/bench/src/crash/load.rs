//! The load: lanes that start executions and repeat a start until it is acknowledged.

use std::sync::Arc;
use std::time::Duration;

use stateway_proto::v1;
use stateway_proto::v1::definitions_client::DefinitionsClient;
use stateway_proto::v1::executions_client::ExecutionsClient;
use tonic::transport::Endpoint;

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

/// One lane. It never gives up: what it could not start it starts again, under the same id.
pub(super) async fn run(url: String, lane: usize, book: Arc<Book>) {
    let Ok(endpoint) = Endpoint::from_shared(url) else {
        return;
    };
    let endpoint = endpoint.timeout(Duration::from_secs(5));
    let mut client = ExecutionsClient::new(endpoint.connect_lazy());
    for number in 0_u64.. {
        while book.is_closed() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
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
                    book.started(answer.into_inner().name);
                    break;
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
}
