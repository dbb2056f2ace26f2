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

const SOURCES: [&str; 2] = [
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
        let definition = if number % 4 == 3 { SAGA } else { CHAIN };
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
                    book.started(answer.into_inner().name, definition);
                    break;
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
}
