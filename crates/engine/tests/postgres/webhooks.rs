//! Webhooks of several engines on one store: what one of them has not received, and what it must not receive again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use stateway_engine::{
    Engine, ErrorKind, RequestDigest, Secret, SinkStart, Steer, WebhookSettings, Webhooks,
};
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, Request, ResponseTemplate};

use crate::lab::PATIENCE;
use crate::place;
use crate::proxy::Proxy;
use crate::shared::{applied, server, start_as, started_in_time, with_lease};

/// A receiver that refuses every event until the test lets it accept them.
struct Receiver {
    server: MockServer,
    accepts: Arc<AtomicBool>,
    /// The executions of the events that were accepted, in their order.
    accepted: Arc<Mutex<Vec<String>>>,
}

impl Receiver {
    async fn new(accepts: bool) -> Self {
        let server = MockServer::start().await;
        let accepts = Arc::new(AtomicBool::new(accepts));
        let accepted: Arc<Mutex<Vec<String>>> = Arc::default();
        let (open, kept) = (Arc::clone(&accepts), Arc::clone(&accepted));
        let respond = move |request: &Request| {
            if !open.load(Ordering::SeqCst) {
                return ResponseTemplate::new(503);
            }
            let event: Value = request.body_json().unwrap();
            let execution = event["subject"].as_str().unwrap().to_owned();
            kept.lock().unwrap().push(execution);
            ResponseTemplate::new(204)
        };
        Mock::given(any())
            .respond_with(respond)
            .mount(&server)
            .await;
        Self {
            server,
            accepts,
            accepted,
        }
    }

    fn webhooks(&self, engine: &Engine) -> Webhooks {
        let secret = Secret::new("a secret of enough bytes").unwrap();
        let mut settings = WebhookSettings::new("audit", self.server.uri(), secret);
        settings.from = SinkStart::Beginning;
        Webhooks::spawn(engine, "main", &[settings]).unwrap()
    }

    fn has(&self, execution: &str) -> bool {
        let accepted = self.accepted.lock();
        let accepted = accepted.unwrap_or_else(PoisonError::into_inner);
        accepted.iter().any(|subject| subject.contains(execution))
    }

    async fn is_called(&self) {
        until(async || !self.server.received_requests().await.unwrap().is_empty()).await;
    }
}

async fn until(what: impl AsyncFn() -> bool) {
    let look = async {
        while !what().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, look).await.unwrap();
}

async fn finished(engine: &Engine, id: &str) {
    engine.start(start_as(id)).await.unwrap();
    let signal = Steer::Signal {
        name: "go".into(),
        payload: Arc::new(json!(null)),
    };
    let request = RequestDigest::new("test", "").key(format!("signal-{id}"));
    let steered = engine.steer(id.into(), signal, "ada".into(), request).await;
    steered.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn events_that_a_webhook_has_not_received_outlive_a_take_over() {
    let config = place::config(std::path::Path::new(""));
    let receiver = Receiver::new(false).await;
    let first = Engine::open(&config).unwrap();
    let second = Engine::open(&config).unwrap();
    let webhooks = receiver.webhooks(&first);
    let waiting = receiver.webhooks(&second);
    applied(&first).await;
    finished(&first, "done").await;
    receiver.is_called().await;
    // A gateway that stands by has not tried to deliver anything, so that nothing has failed.
    let standby = waiting.statuses().remove(0);
    assert_eq!(
        (standby.failing_since, standby.last_error.as_str()),
        (None, "")
    );
    let late = first.now().checked_add(Duration::from_secs(60)).unwrap();
    drop(webhooks);
    drop(first);
    // The first purge that the second engine carries out.
    let purged = loop {
        match second.purge(late, 10).await {
            Ok(purged) => break purged,
            Err(error) => assert_eq!(error.kind, ErrorKind::Unavailable, "{error:?}"),
        }
        tokio::task::yield_now().await;
    };
    assert_eq!((purged.executions, purged.held_back), (0, 1));
    receiver.accepts.store(true, Ordering::SeqCst);
    until(async || receiver.has("done")).await;
    until(async || second.purge(late, 10).await.unwrap().executions == 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_has_lost_the_store_drops_what_it_was_delivering() {
    let server = server();
    let proxy = Proxy::to(server.port());
    let lease = Duration::from_secs(1);
    let (refusing, accepting) = (Receiver::new(false).await, Receiver::new(true).await);
    let config = with_lease(place::at(&server.url_at(proxy.port), "hooks"), lease);
    let first = Engine::open(&config).unwrap();
    applied(&first).await;
    let _webhooks = refusing.webhooks(&first);
    first.start(start_as("old")).await.unwrap();
    refusing.is_called().await;
    let second = Engine::open(&with_lease(place::on(&server, "hooks"), lease)).unwrap();
    let others = accepting.webhooks(&second);
    proxy.hold();
    started_in_time(&second, "new").await;
    proxy.pass();
    until(async || accepting.has("old") && accepting.has("new")).await;
    until(async || others.statuses()[0].behind == 0).await;
    let stands_by = async || {
        let read = first.get("old".into()).await;
        read.is_err_and(|error| error.reason == "STORE_STANDBY")
    };
    until(stands_by).await;
    drop(others);
    drop(second);
    refusing.accepts.store(true, Ordering::SeqCst);
    started_in_time(&first, "again").await;
    // Events come in the order of the log: the event of `old` would have come first.
    until(async || refusing.has("again")).await;
    assert!(!refusing.has("old"), "the other engine had delivered it");
}
