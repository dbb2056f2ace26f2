//! Single calls, with names that the test answers.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use stateway_machine::{Failure, HttpRequest};
use stateway_model::ErrorCategory;
use wiremock::matchers::{any, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

use super::call::{Call, Caller};
use super::resolver::Resolver;
use super::{AllowList, HttpSettings};

/// A caller whose names are answered by the test, each look-up by the next address.
struct Lab {
    caller: Caller,
    lookups: Arc<AtomicUsize>,
}

fn lab(allow: &[&str], allow_private: bool, answers: &[&str]) -> Lab {
    let settings = HttpSettings {
        allow: AllowList::new(allow, allow_private).unwrap(),
        max_response_bytes: 1_000,
        ..HttpSettings::default()
    };
    let lookups = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&lookups);
    let answers: Vec<SocketAddr> = answers
        .iter()
        .map(|answer| SocketAddr::new(answer.parse().unwrap(), 0))
        .collect();
    let resolver = Resolver {
        allow: Arc::new(settings.allow.clone()),
        lookup: Arc::new(move |_| {
            let turn = count.fetch_add(1, Ordering::SeqCst);
            let answer = answers[turn.min(answers.len() - 1)];
            Box::pin(async move { Ok(vec![answer]) })
        }),
    };
    Lab {
        caller: Caller::with(&settings, resolver).unwrap(),
        lookups,
    }
}

fn request(method: &str, url: String) -> Call {
    Call {
        request: HttpRequest {
            method: method.to_owned(),
            url,
            headers: Vec::new(),
        },
        input: Arc::new(json!({ "n": 1 })),
        key: "e/0/s/1".to_owned(),
        limit: Duration::from_secs(5),
    }
}

impl Lab {
    async fn get(&self, url: String) -> Result<Value, Failure> {
        self.call(&request("GET", url)).await
    }

    async fn call(&self, call: &Call) -> Result<Value, Failure> {
        let outcome = self.caller.call(call).await;
        outcome.map_err(|trouble| trouble.failure("call"))
    }
}

fn code(outcome: Result<Value, Failure>) -> (ErrorCategory, String) {
    let failure = outcome.unwrap_err();
    (failure.category, failure.code.to_string())
}

fn forbidden() -> (ErrorCategory, String) {
    (ErrorCategory::Governance, "HTTP_NOT_ALLOWED".to_owned())
}

async fn server() -> (MockServer, u16) {
    let server = MockServer::start().await;
    Mock::given(any())
        .respond_with(ResponseTemplate::new(200).set_body_json(json!({ "ok": true })))
        .with_priority(10)
        .mount(&server)
        .await;
    let port = server.address().port();
    (server, port)
}

async fn received(server: &MockServer) -> usize {
    server.received_requests().await.unwrap().len()
}

#[tokio::test]
async fn a_name_that_leads_inside_is_not_connected_to() {
    let (server, port) = server().await;
    for address in [
        "127.0.0.1",
        "169.254.169.254",
        "10.0.0.1",
        "::1",
        "::ffff:127.0.0.1",
    ] {
        let allow = format!("http://api.example:{port}");
        let lab = lab(&[&allow], false, &[address]);
        let outcome = lab.get(format!("http://api.example:{port}/")).await;
        assert_eq!(code(outcome), forbidden(), "{address}");
    }
    assert_eq!(received(&server).await, 0);
}

#[tokio::test]
async fn the_address_that_was_checked_is_the_one_connected_to() {
    let (server, port) = server().await;
    // A name that answers otherwise the second time is asked once.
    let allow = format!("http://api.example:{port}");
    let lab = lab(&[&allow], true, &["127.0.0.1", "203.0.113.7"]);
    lab.get(format!("http://api.example:{port}/"))
        .await
        .unwrap();
    assert_eq!(
        (received(&server).await, lab.lookups.load(Ordering::SeqCst)),
        (1, 1)
    );
}

#[tokio::test]
async fn a_name_that_turns_inside_later_is_refused_then() {
    let (server, port) = server().await;
    let allow = format!("http://api.example:{port}");
    // The first address is public and does not answer here.
    let lab = lab(&[&allow], false, &["192.88.99.1", "127.0.0.1"]);
    let mut call = request("GET", format!("http://api.example:{port}/"));
    call.limit = Duration::from_millis(50);
    assert_ne!(code(lab.call(&call).await), forbidden());
    assert_eq!(code(lab.call(&call).await), forbidden());
    assert_eq!(received(&server).await, 0);
}

#[tokio::test]
async fn an_address_in_the_url_is_checked_like_a_name() {
    let (server, port) = server().await;
    let lab = lab(&["http://*"], false, &["127.0.0.1"]);
    for host in [
        "127.0.0.1",
        "2130706433",
        "0x7f.1",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "0",
    ] {
        let outcome = lab.get(format!("http://{host}:{port}/")).await;
        assert_eq!(code(outcome), forbidden(), "{host}");
    }
    assert_eq!(received(&server).await, 0);
}

#[tokio::test]
async fn an_address_that_is_named_may_be_called() {
    let (server, port) = server().await;
    let allow = format!("http://127.0.0.1:{port}/hooks");
    let lab = lab(&[&allow], false, &["127.0.0.1"]);
    lab.get(format!("http://127.0.0.1:{port}/hooks/1"))
        .await
        .unwrap();
    let beside = lab.get(format!("http://127.0.0.1:{port}/admin")).await;
    assert_eq!(code(beside), forbidden());
    assert_eq!(received(&server).await, 1);
}

#[tokio::test]
async fn every_hop_of_a_redirect_is_checked() {
    let (server, port) = server().await;
    let here = format!("http://127.0.0.1:{port}");
    let refusal = forbidden();
    let odd = |code: &str| (ErrorCategory::External, code.to_owned());
    for (name, to, wanted) in [
        (
            "metadata",
            "http://169.254.169.254/latest".to_owned(),
            &refusal,
        ),
        ("localhost", format!("http://localhost:{port}/"), &refusal),
        (
            "file",
            "file:///etc/passwd".to_owned(),
            &odd("HTTP_BAD_REDIRECT"),
        ),
        (
            "userinfo",
            format!("http://u:p@127.0.0.1:{port}/"),
            &odd("HTTP_BAD_REDIRECT"),
        ),
        (
            "circle",
            "/circle".to_owned(),
            &odd("HTTP_TOO_MANY_REDIRECTS"),
        ),
    ] {
        Mock::given(path(format!("/{name}")))
            .respond_with(ResponseTemplate::new(302).insert_header("location", to))
            .mount(&server)
            .await;
        let lab = lab(&[&here, "http://*.example"], false, &["127.0.0.1"]);
        let outcome = lab.get(format!("{here}/{name}")).await;
        assert_eq!(&code(outcome), wanted, "{name}");
    }
    Mock::given(path("/rebound"))
        .respond_with(
            ResponseTemplate::new(307)
                .insert_header("location", format!("http://a.example:{port}/")),
        )
        .mount(&server)
        .await;
    let there = format!("http://a.example:{port}");
    let lab = lab(&[&here, &there], false, &["127.0.0.1"]);
    assert_eq!(code(lab.get(format!("{here}/rebound")).await), forbidden());
}

#[tokio::test]
async fn a_redirect_is_followed_and_another_origin_gets_no_keys() {
    let (server, port) = server().await;
    let (here, there) = (
        format!("http://127.0.0.1:{port}"),
        format!("http://b.example:{port}"),
    );
    for (from, to) in [("/1", "/2".to_owned()), ("/2", format!("{there}/3"))] {
        Mock::given(path(from))
            .respond_with(ResponseTemplate::new(307).insert_header("location", to))
            .mount(&server)
            .await;
    }
    let lab = lab(&[&here, &there], true, &["127.0.0.1"]);
    let mut call = request("POST", format!("{here}/1"));
    call.request.headers = vec![
        ("Authorization".to_owned(), "Bearer secret".to_owned()),
        ("x-api-key".to_owned(), "secret".to_owned()),
    ];
    lab.call(&call).await.unwrap();
    let requests = server.received_requests().await.unwrap();
    let keys: Vec<_> = requests
        .iter()
        .map(|request| {
            (
                request.url.path().to_owned(),
                request.headers.contains_key("authorization"),
                request.headers.contains_key("x-api-key"),
                request.body.len(),
            )
        })
        .collect();
    assert_eq!(
        keys,
        [
            ("/1".to_owned(), true, true, 7),
            ("/2".to_owned(), true, true, 7),
            ("/3".to_owned(), false, false, 7)
        ]
    );
}

#[tokio::test]
async fn after_303_the_answer_is_fetched() {
    let (server, port) = server().await;
    Mock::given(path("/form"))
        .respond_with(ResponseTemplate::new(303).insert_header("location", "/result"))
        .mount(&server)
        .await;
    let here = format!("http://127.0.0.1:{port}");
    let lab = lab(&[&here], false, &["127.0.0.1"]);
    lab.call(&request("POST", format!("{here}/form")))
        .await
        .unwrap();
    let requests = server.received_requests().await.unwrap();
    let last = requests.last().unwrap();
    assert_eq!((last.method.as_str(), last.body.len()), ("GET", 0));
}

#[tokio::test]
async fn what_cannot_be_sent_is_said_to_be_so() {
    let lab = lab(&["https://*"], false, &["127.0.0.1"]);
    let with_header = |name: &str| {
        let mut call = request("GET", "https://a.example/".to_owned());
        call.request.headers = vec![(name.to_owned(), "x".to_owned())];
        call
    };
    let calls = [
        request("GET", "https://u:p@a.example/".to_owned()),
        request("GET", "https://u@a.example/".to_owned()),
        request("GET", "file:///etc/passwd".to_owned()),
        request("GET", "gopher://a.example/".to_owned()),
        request("GET", "a.example".to_owned()),
        request("CONNECT", "https://a.example/".to_owned()),
        request("TRACE", "https://a.example/".to_owned()),
        with_header("Host"),
        with_header("Connection"),
        with_header("Transfer-Encoding"),
        with_header("Content-Length"),
        with_header("proxy-authorization"),
    ];
    for call in calls {
        let wanted = (ErrorCategory::Validation, "HTTP_BAD_REQUEST".to_owned());
        assert_eq!(code(lab.call(&call).await), wanted, "{call:?}");
    }
    assert_eq!(lab.lookups.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn an_answer_that_is_too_long_is_not_taken() {
    let (server, port) = server().await;
    let here = format!("http://127.0.0.1:{port}");
    for (name, length) in [("fits", 1_000), ("long", 1_001)] {
        Mock::given(path(format!("/{name}")))
            .respond_with(ResponseTemplate::new(200).set_body_string("x".repeat(length)))
            .mount(&server)
            .await;
    }
    let lab = lab(&[&here], false, &["127.0.0.1"]);
    let fits = lab.get(format!("{here}/fits")).await.unwrap();
    assert_eq!(fits["body"].as_str().unwrap().len(), 1_000);
    let wanted = (ErrorCategory::External, "HTTP_ANSWER_TOO_LONG".to_owned());
    assert_eq!(code(lab.get(format!("{here}/long")).await), wanted);
}

#[tokio::test]
async fn a_slow_answer_is_a_timeout_and_a_missing_server_is_transient() {
    let (server, port) = server().await;
    let here = format!("http://127.0.0.1:{port}");
    Mock::given(path("/slow"))
        .respond_with(ResponseTemplate::new(200).set_delay(Duration::from_secs(30)))
        .mount(&server)
        .await;
    let lab = lab(&[&here, "http://127.0.0.1:9"], false, &["127.0.0.1"]);
    let mut call = request("GET", format!("{here}/slow"));
    call.limit = Duration::from_millis(50);
    let wanted = (ErrorCategory::Timeout, "HTTP_TIMEOUT".to_owned());
    assert_eq!(code(lab.call(&call).await), wanted);
    let wanted = (ErrorCategory::Transient, "HTTP_UNREACHABLE".to_owned());
    assert_eq!(
        code(lab.get("http://127.0.0.1:9/".to_owned()).await),
        wanted
    );
}

#[tokio::test]
async fn what_may_be_a_secret_is_in_no_failure() {
    let lab = lab(&["http://127.0.0.1:9"], false, &["127.0.0.1"]);
    let url = "http://127.0.0.1:9/a?token=hidden".to_owned();
    let failure = lab.get(url).await.unwrap_err();
    assert!(!failure.message.contains("hidden"), "{}", failure.message);
}

#[tokio::test]
async fn the_body_is_the_input_and_the_key_names_the_attempt() {
    let (server, port) = server().await;
    let here = format!("http://127.0.0.1:{port}");
    let lab = lab(&[&here], false, &["127.0.0.1"]);
    lab.call(&request("post", format!("{here}/")))
        .await
        .unwrap();
    lab.call(&request("GET", format!("{here}/"))).await.unwrap();
    let mut text = request("PUT", format!("{here}/"));
    text.input = Arc::new(json!("a=1&b=2"));
    text.request.headers = vec![
        (
            "Content-Type".to_owned(),
            "application/x-www-form-urlencoded".to_owned(),
        ),
        ("Idempotency-Key".to_owned(), "mine".to_owned()),
    ];
    lab.call(&text).await.unwrap();
    let requests = server.received_requests().await.unwrap();
    let seen: Vec<_> = requests
        .iter()
        .map(|request| {
            let header = |name| {
                request
                    .headers
                    .get(name)
                    .map(|value| value.to_str().unwrap())
            };
            (
                String::from_utf8(request.body.clone()).unwrap(),
                header("content-type"),
                header("idempotency-key"),
                header("traceparent"),
            )
        })
        .collect();
    let key = Some("e/0/s/1");
    assert_eq!(
        seen,
        [
            ("{\"n\":1}".to_owned(), Some("application/json"), key, None),
            (String::new(), None, key, None),
            (
                "a=1&b=2".to_owned(),
                Some("application/x-www-form-urlencoded"),
                Some("mine"),
                None
            ),
        ]
    );
}
