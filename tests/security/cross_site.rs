//! Pages of other sites get nothing, whatever they make a browser send; configured ones may call.

use stateway_client::v1;
use stateway_gateway::Settings;

use super::wire::{ALLOW_ORIGIN, Answer, Ask, every_method, framed};
use crate::support::{Puppet, Running, TestGateway};

const GRPC: (&str, &str) = ("content-type", "application/grpc");
const GRPC_WEB: (&str, &str) = ("content-type", "application/grpc-web+proto");

async fn gateway() -> Running {
    gateway_with(|_| {}).await
}

async fn gateway_with(change: impl FnOnce(&mut Settings)) -> Running {
    let puppet = Puppet::new();
    puppet.show("x", "RUNNING");
    let mut gateway = TestGateway::new().with_puppet("p", &puppet);
    change(&mut gateway.settings);
    gateway.start().await
}

#[track_caller]
fn is_refused(answer: &Answer, status: u16, what: &str) {
    assert_eq!(answer.status, status, "{what}: {answer:?}");
    assert!(!answer.headers.contains_key(ALLOW_ORIGIN), "{what}");
    assert!(!answer.headers.contains_key("grpc-status"), "{what}");
}

/// The content types that a page may send to any site without asking, and none at all.
const SIMPLE: [&[(&str, &str)]; 4] = [
    &[],
    &[("content-type", "text/plain")],
    &[("content-type", "application/x-www-form-urlencoded")],
    &[(
        "content-type",
        "multipart/form-data; boundary=application/grpc",
    )],
];

#[tokio::test]
async fn no_method_takes_another_content_type() {
    let gateway = gateway().await;
    for path in every_method() {
        for headers in SIMPLE {
            let ask = Ask::new("POST", &path, headers).body(&[0, 0, 0, 0, 0]);
            is_refused(&ask.http1(gateway.address).await, 415, &path);
            is_refused(&ask.http2(gateway.address).await, 415, &path);
        }
    }
}

#[tokio::test]
async fn no_method_takes_a_request_of_another_site() {
    let gateway = gateway().await;
    for path in every_method() {
        for foreign in [
            ("origin", "http://evil.example"),
            ("origin", "http://localhost:3000"),
            ("origin", "null"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
        ] {
            for kind in [GRPC, GRPC_WEB, SIMPLE[1][0]] {
                let headers = [kind, foreign];
                let ask = Ask::new("POST", &path, &headers).body(&[0, 0, 0, 0, 0]);
                is_refused(&ask.http1(gateway.address).await, 403, &path);
            }
            let headers = [GRPC, foreign];
            let ask = Ask::new("POST", &path, &headers).body(&[0, 0, 0, 0, 0]);
            is_refused(&ask.http2(gateway.address).await, 403, &path);
        }
    }
}

/// What a page could do before: cancel an execution on the machine of its visitor.
#[tokio::test]
async fn a_page_cannot_cancel_an_execution() {
    use prost::Message;
    let puppet = Puppet::new();
    puppet.show("x", "RUNNING");
    let gateway = TestGateway::new().with_puppet("p", &puppet).start().await;
    let cancel = v1::CancelExecutionRequest {
        name: "providers/p/executions/x".into(),
        ..v1::CancelExecutionRequest::default()
    };
    let body = framed(&cancel.encode_to_vec());
    let path = "/stateway.v1.Executions/CancelExecution";
    let page = [
        ("content-type", "text/plain"),
        ("origin", "http://evil.example"),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-mode", "no-cors"),
    ];
    for headers in [&page[..], &page[..1]] {
        let ask = Ask::new("POST", path, headers).body(&body);
        assert!(ask.http1(gateway.address).await.status >= 400);
        assert!(ask.http2(gateway.address).await.status >= 400);
    }
    assert_eq!(puppet.asked(stateway_provider_api::Verb::Cancel), 0);
}

#[tokio::test]
async fn a_host_of_somebody_else_gets_nothing() {
    let gateway = gateway().await;
    let grpc_method = "/stateway.v1.Providers/ListProviders";
    for host in ["evil.example", "localhost.evil.example:7380", "10.0.0.1"] {
        for (method, path, headers) in [
            ("GET", "/", &[][..]),
            ("GET", "/metrics", &[]),
            ("GET", "/healthz", &[]),
            ("POST", grpc_method, &[GRPC_WEB]),
            (
                "POST",
                grpc_method,
                &[GRPC, ("sec-fetch-site", "same-origin")],
            ),
        ] {
            let ask = Ask::new(method, path, headers).host(host);
            is_refused(&ask.http1(gateway.address).await, 421, path);
            is_refused(&ask.http2(gateway.address).await, 421, path);
        }
        let plain = [GRPC];
        let ask = Ask::new("POST", grpc_method, &plain).host(host);
        is_refused(&ask.http1(gateway.address).await, 421, "HTTP/1.1");
    }
}

/// Names inside a cluster differ; a browser cannot send this.
#[tokio::test]
async fn a_grpc_client_may_use_any_name_for_the_gateway() {
    let gateway = gateway().await;
    let headers = [GRPC];
    let ask = Ask::new("POST", "/stateway.v1.Providers/ListProviders", &headers)
        .host("stateway.internal")
        .body(&[0, 0, 0, 0, 0]);
    let answer = ask.http2(gateway.address).await;
    assert_eq!(answer.headers["grpc-status"], "0", "{answer:?}");
}

#[tokio::test]
async fn a_preflight_of_an_unknown_origin_is_refused_for_every_method() {
    let gateway = gateway().await;
    for path in every_method() {
        let headers = [
            ("origin", "https://ops.example.org"),
            ("access-control-request-method", "POST"),
            ("access-control-request-headers", "content-type,x-grpc-web"),
        ];
        let ask = Ask::new("OPTIONS", &path, &headers);
        is_refused(&ask.http1(gateway.address).await, 403, &path);
    }
}

#[tokio::test]
async fn a_configured_origin_may_call_and_read() {
    let origin = "https://ops.example.org";
    let gateway = gateway_with(|settings| {
        settings.allowed_origins = vec![origin.parse().expect("an origin")];
    })
    .await;
    let path = "/stateway.v1.Providers/ListProviders";
    let site = ("sec-fetch-site", "cross-site");
    let asks = [
        ("origin", origin),
        site,
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "content-type,x-grpc-web"),
    ];
    let may = Ask::new("OPTIONS", path, &asks)
        .http1(gateway.address)
        .await;
    assert_eq!(may.status, 204, "{may:?}");
    assert_eq!(may.headers[ALLOW_ORIGIN], origin);
    assert_eq!(may.headers["access-control-allow-methods"], "POST");
    let allowed = &may.headers["access-control-allow-headers"];
    assert!(allowed.contains("x-grpc-web"), "{allowed}");
    let headers = [GRPC_WEB, ("origin", origin), site];
    let call = Ask::new("POST", path, &headers).body(&[0, 0, 0, 0, 0]);
    let called = call.http1(gateway.address).await;
    assert_eq!(called.status, 200);
    assert_eq!(called.headers[ALLOW_ORIGIN], origin);
    assert_eq!(called.headers["vary"], "origin");
    let exposed = &called.headers["access-control-expose-headers"];
    assert!(exposed.contains("grpc-status-details-bin"), "{exposed}");
    let body = String::from_utf8_lossy(&called.body);
    assert!(
        body.contains("providers/p") && body.contains("grpc-status:0"),
        "{body}"
    );
    // Others stay out, and so do simple requests of the same origin.
    let headers = [GRPC_WEB, ("origin", "https://other.example.org"), site];
    let other = Ask::new("POST", path, &headers).body(&[0, 0, 0, 0, 0]);
    is_refused(&other.http1(gateway.address).await, 403, "other");
    let headers = [SIMPLE[1][0], ("origin", origin), site];
    let simple = Ask::new("POST", path, &headers).body(&[0, 0, 0, 0, 0]);
    assert_eq!(simple.http1(gateway.address).await.status, 415);
    // A proxy may pass the host on.
    let page = Ask::new("GET", "/executions", &[]).host("ops.example.org");
    assert_eq!(page.http1(gateway.address).await.status, 200);
}

#[tokio::test]
async fn no_page_is_readable_or_changeable_by_another_site() {
    let gateway = gateway().await;
    let fetch = [
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-mode", "no-cors"),
        ("sec-fetch-dest", "empty"),
    ];
    let origin = [("origin", "http://evil.example")];
    for path in ["/executions", "/inbox", "/metrics", "/healthz", "/"] {
        for headers in [&fetch[..], &origin[..]] {
            let ask = Ask::new("GET", path, headers);
            is_refused(&ask.http1(gateway.address).await, 403, path);
        }
        let own = Ask::new("GET", path, &[("sec-fetch-site", "same-origin")]);
        let own = own.http1(gateway.address).await;
        assert!(own.status < 400, "{path}: {own:?}");
        assert!(!own.headers.contains_key(ALLOW_ORIGIN), "{path}");
    }
    let form = [
        ("content-type", "application/x-www-form-urlencoded"),
        ("origin", "http://evil.example"),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-mode", "navigate"),
        ("sec-fetch-dest", "document"),
    ];
    let ask = Ask::new("POST", "/acting", &form).body(b"actor=eve");
    is_refused(&ask.http1(gateway.address).await, 403, "a form");
}

#[tokio::test]
async fn a_link_on_another_site_leads_to_the_page() {
    let gateway = gateway().await;
    let link = [
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-mode", "navigate"),
        ("sec-fetch-dest", "document"),
    ];
    let page = Ask::new("GET", "/executions", &link);
    assert_eq!(page.http1(gateway.address).await.status, 200);
    let framed = [link[0], link[1], ("sec-fetch-dest", "iframe")];
    let page = Ask::new("GET", "/executions", &framed);
    is_refused(&page.http1(gateway.address).await, 403, "a frame");
}

#[tokio::test]
async fn no_connection_changes_its_protocol() {
    let gateway = gateway().await;
    let websocket = [
        ("upgrade", "websocket"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ("sec-websocket-version", "13"),
    ];
    let h2c = [
        ("upgrade", "h2c"),
        ("http2-settings", "AAMAAABkAAQAoAAAAAIAAAAA"),
    ];
    for path in ["/executions", "/stateway.v1.Executions/WatchExecutions"] {
        for headers in [&websocket[..], &h2c[..]] {
            let answer = Ask::new("GET", path, headers).http1(gateway.address).await;
            assert_ne!(answer.status, 101, "{path} {headers:?}");
        }
        let mut from_page = websocket.to_vec();
        from_page.extend([
            ("origin", "http://evil.example"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-mode", "websocket"),
        ]);
        let answer = Ask::new("GET", path, &from_page)
            .http1(gateway.address)
            .await;
        is_refused(&answer, 403, path);
    }
    let connect = Ask::new("CONNECT", "localhost:7380", &[]);
    assert!(connect.http1(gateway.address).await.status >= 400);
}
