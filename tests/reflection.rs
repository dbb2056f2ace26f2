//! Reflection describes every service of `proto/`.

use tokio_stream::StreamExt;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

use crate::support::{Puppet, TestGateway};

#[tokio::test]
async fn every_service_is_described() {
    let gateway = TestGateway::new()
        .with_puppet("p", &Puppet::new())
        .start()
        .await;
    let ask = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let mut client = ServerReflectionClient::new(gateway.channel().await);
    let answers = client
        .server_reflection_info(tokio_stream::once(ask))
        .await
        .unwrap();
    let answer = answers
        .into_inner()
        .next()
        .await
        .expect("an answer")
        .unwrap();
    let Some(MessageResponse::ListServicesResponse(list)) = answer.message_response else {
        panic!("no list of services");
    };
    let mut services: Vec<_> = list
        .service
        .iter()
        .map(|service| service.name.as_str())
        .collect();
    services.retain(|name| name.starts_with("stateway."));
    services.sort_unstable();
    let expected = [
        "Admin",
        "Approvals",
        "Definitions",
        "Executions",
        "Providers",
        "Recovery",
        "Triggers",
        "Workers",
    ]
    .map(|name| format!("stateway.v1.{name}"));
    assert_eq!(services, expected);
}
