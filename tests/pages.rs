//! `/healthz`, `/metrics` and gRPC-Web on the same port as gRPC.

use stateway_visitor::exchange;

use crate::support::{Puppet, Running, TestGateway};

/// One exchange, as plain text.
async fn http(gateway: &Running, head: &str, body: &[u8]) -> String {
    exchange(gateway, &format!("{head}host: localhost\r\n"), body).await
}

#[tokio::test]
async fn healthz_and_metrics_answer_over_plain_http() {
    let gateway = TestGateway::new()
        .with_puppet("p", &Puppet::new())
        .start()
        .await;
    let healthz = http(&gateway, "GET /healthz HTTP/1.1\r\n", b"").await;
    assert!(
        healthz.starts_with("HTTP/1.1 200") && healthz.ends_with("ok\n"),
        "{healthz}"
    );
    let metrics = http(&gateway, "GET /metrics HTTP/1.1\r\n", b"").await;
    assert!(metrics.ends_with("# the metrics page\n"), "{metrics}");
}

#[tokio::test]
async fn what_is_not_there_is_not_found_and_no_answer_of_grpc() {
    let gateway = TestGateway::new()
        .with_puppet("p", &Puppet::new())
        .start()
        .await;
    let answer = http(&gateway, "GET /favicon.ico HTTP/1.1\r\n", b"").await;
    assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
    assert!(!answer.contains("grpc-status"), "{answer}");
}

#[tokio::test]
async fn a_browser_can_call_by_grpc_web() {
    let gateway = TestGateway::new()
        .with_puppet("p", &Puppet::new())
        .start()
        .await;
    let head = "POST /stateway.v1.Providers/ListProviders HTTP/1.1\r\n\
                content-type: application/grpc-web+proto\r\naccept: application/grpc-web+proto\r\n";
    let answer = http(&gateway, head, &[0, 0, 0, 0, 0]).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(
        answer.contains("providers/p") && answer.contains("grpc-status:0"),
        "{answer}"
    );
}

#[tokio::test]
async fn only_loopback_is_served_and_the_refusal_says_why() {
    use stateway_gateway::{Gateway, Settings};
    let settings = Settings {
        listen: "0.0.0.0:0".parse().unwrap(),
        ..Settings::default()
    };
    let page = std::sync::Arc::new(String::new);
    let refused = Gateway::bind(stateway_provider_api::Registry::default(), settings, page).await;
    let error = refused.err().expect("it is refused");
    assert!(
        error
            .to_string()
            .contains("without TLS and a method of authentication"),
        "{error}"
    );
    let hint = error.hint();
    assert!(hint.contains("[server.tls]"), "{hint}");
}

#[tokio::test]
async fn a_page_that_was_given_our_address_under_its_own_name_gets_nothing() {
    let gateway = TestGateway::new()
        .with_puppet("p", &Puppet::new())
        .start()
        .await;
    let head = "GET /metrics HTTP/1.1\r\nhost: evil.example\r\n";
    let answer = exchange(&gateway, head, b"").await;
    assert!(answer.starts_with("HTTP/1.1 421"), "{answer}");
    assert!(answer.contains("must set Host"), "{answer}");
}
