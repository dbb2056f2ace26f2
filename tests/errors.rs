//! Every error has its code, its one `ErrorInfo`, and a pause where a retry makes sense.

use std::time::Duration;

use stateway_client::v1::{
    CancelExecutionRequest, GetExecutionRequest, GetProviderRequest, StartExecutionRequest,
};
use stateway_provider_api::{Capabilities, ErrorKind};
use tonic::{Code, Request};

use crate::support::{Puppet, TestGateway, error_info, hint_of, reason_of, retry_delay_of};

fn get(name: &str) -> GetExecutionRequest {
    GetExecutionRequest {
        name: name.into(),
        view: 0,
    }
}

#[tokio::test]
async fn a_wrong_name_is_an_invalid_argument() {
    let gateway = TestGateway::new()
        .with_puppet("p", &Puppet::new())
        .start()
        .await;
    let mut client = gateway.executions().await;
    for wrong in [
        "",
        "x",
        "providers/p/executions/",
        "providers/p/executions/a b",
        "providers/-/executions/a",
    ] {
        let status = client.get_execution(get(wrong)).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{wrong}");
        assert_eq!(reason_of(&status), "INVALID_ARGUMENT");
    }
}

#[tokio::test]
async fn unknown_executions_and_providers_are_told_apart() {
    let gateway = TestGateway::new()
        .with_puppet("p", &Puppet::new())
        .start()
        .await;
    let mut client = gateway.executions().await;
    let status = client
        .get_execution(get("providers/p/executions/x"))
        .await
        .unwrap_err();
    assert_eq!(
        (status.code(), reason_of(&status)),
        (Code::NotFound, "EXECUTION_NOT_FOUND".into())
    );
    let status = client
        .get_execution(get("providers/q/executions/x"))
        .await
        .unwrap_err();
    let (reason, metadata) = error_info(&status);
    assert_eq!(
        (status.code(), reason.as_str()),
        (Code::NotFound, "PROVIDER_NOT_FOUND")
    );
    assert_eq!(hint_of(&status), "Configured: p.");
    assert!(!metadata.contains_key("hint"));
    let name = "providers/q".to_owned();
    let status = gateway
        .providers()
        .await
        .get_provider(GetProviderRequest { name })
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
}

#[tokio::test]
async fn throttling_passes_the_engines_pause_on() {
    let puppet = Puppet::new();
    puppet.fail(ErrorKind::Throttled, Some(Duration::from_secs(9)));
    let gateway = TestGateway::new().with_puppet("p", &puppet).start().await;
    let status = gateway
        .executions()
        .await
        .get_execution(get("providers/p/executions/x"))
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert_eq!(retry_delay_of(&status), Some(Duration::from_secs(9)));
    assert_eq!(error_info(&status).1["provider"], "p");
}

#[tokio::test]
async fn a_verb_without_its_capability_is_unimplemented_and_never_reaches_the_engine() {
    let puppet = Puppet::with_capabilities(Capabilities::default());
    puppet.show("x", "RUNNING");
    let gateway = TestGateway::new().with_puppet("p", &puppet).start().await;
    let name = "providers/p/executions/x".to_owned();
    let mut client = gateway.executions().await;
    let cancel = CancelExecutionRequest {
        name,
        ..Default::default()
    };
    let start = StartExecutionRequest {
        definition: "providers/p/definitions/d".into(),
        ..Default::default()
    };
    let refusals = [
        client.cancel_execution(cancel).await.unwrap_err(),
        client.start_execution(start).await.unwrap_err(),
    ];
    for status in refusals {
        assert_eq!(status.code(), Code::Unimplemented);
        assert_eq!(reason_of(&status), "CAPABILITY_NOT_SUPPORTED");
    }
    assert_eq!(puppet.asked(stateway_provider_api::Verb::Cancel), 0);
}

#[tokio::test]
async fn the_clients_request_id_comes_back_on_answers_and_errors() {
    let puppet = Puppet::new();
    puppet.show("x", "RUNNING");
    let gateway = TestGateway::new().with_puppet("p", &puppet).start().await;
    let mut client = gateway.executions().await;
    let mut request = Request::new(get("providers/p/executions/x"));
    request
        .metadata_mut()
        .insert("x-request-id", "my-id".parse().unwrap());
    let answer = client.get_execution(request).await.unwrap();
    assert_eq!(answer.metadata().get("x-request-id").unwrap(), "my-id");
    let mut request = Request::new(get("nonsense"));
    request
        .metadata_mut()
        .insert("x-request-id", "my-id".parse().unwrap());
    let status = client.get_execution(request).await.unwrap_err();
    assert_eq!(status.metadata().get("x-request-id").unwrap(), "my-id");
    let without = client.get_execution(get("nonsense")).await.unwrap_err();
    assert!(
        !without.metadata().get("x-request-id").unwrap().is_empty(),
        "a failure has an id"
    );
}

#[tokio::test]
async fn a_message_beyond_the_limit_is_refused() {
    let mut gateway = TestGateway::new().with_puppet("p", &Puppet::new());
    gateway.settings.max_message_bytes = 1_000;
    let gateway = gateway.start().await;
    let huge = get(&"x".repeat(2_000));
    let status = gateway
        .executions()
        .await
        .get_execution(huge)
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::OutOfRange);
    assert_eq!(reason_of(&status), "MESSAGE_TOO_LARGE");
}

#[tokio::test]
async fn an_unknown_method_says_so() {
    let gateway = TestGateway::new()
        .with_puppet("p", &Puppet::new())
        .start()
        .await;
    let mut grpc = tonic::client::Grpc::new(gateway.channel().await);
    grpc.ready().await.expect("it listens");
    let path = "/stateway.v1.Executions/NoSuchMethod".parse().unwrap();
    let codec =
        stateway_proto::codec::LeanCodec::<GetExecutionRequest, GetExecutionRequest>::default();
    let status = grpc
        .unary(Request::new(get("x")), path, codec)
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::Unimplemented);
    assert_eq!(reason_of(&status), "METHOD_NOT_FOUND");
}
