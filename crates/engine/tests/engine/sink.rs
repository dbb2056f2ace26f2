//! Webhooks: every event, signed, in order, at least once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac as _};
use serde_json::{Value, json};
use stateway_engine::{Secret, SinkStart, WebhookSettings, WebhookStatus, Webhooks};
use stateway_model::SubState;
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, Request, ResponseTemplate};

use crate::lab::{Lab, PATIENCE};

const SECRET: &str = "a secret of enough bytes";
const ONE: &str = "name: one\nsteps: [{name: a, agent: x, timeout: 1m}]";

type Answer = dyn Fn(usize, &Value) -> ResponseTemplate + Send + Sync;

/// A receiver that answers what the test says and keeps what it took.
struct Receiver {
    server: MockServer,
    taken: Arc<Mutex<Vec<Value>>>,
}

impl Receiver {
    async fn new() -> Self {
        Self::answering(|_, _| ResponseTemplate::new(204)).await
    }

    async fn answering(
        answer: impl Fn(usize, &Value) -> ResponseTemplate + Send + Sync + 'static,
    ) -> Self {
        let server = MockServer::start().await;
        let taken: Arc<Mutex<Vec<Value>>> = Arc::default();
        let (kept, calls) = (Arc::clone(&taken), Mutex::new(0));
        let answer: Box<Answer> = Box::new(answer);
        let respond = move |request: &Request| {
            let body: Value = request.body_json().unwrap();
            let call = {
                let mut calls = calls.lock().unwrap();
                *calls += 1;
                *calls
            };
            let template = answer(call, &body);
            // An answer that is a failure is no promise to have kept anything.
            let mut kept = kept.lock().unwrap();
            if is_success(&template) {
                match body {
                    Value::Array(events) => kept.extend(events),
                    event => kept.push(event),
                }
            }
            template
        };
        Mock::given(any())
            .respond_with(respond)
            .mount(&server)
            .await;
        Self { server, taken }
    }

    fn settings(&self) -> WebhookSettings {
        WebhookSettings::new("audit", self.server.uri(), Secret::new(SECRET).unwrap())
    }

    fn taken(&self) -> Vec<Value> {
        self.taken.lock().unwrap().clone()
    }

    /// Waits until it has taken something like this.
    async fn until(&self, wanted: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        let look = async {
            loop {
                let taken = self.taken();
                if wanted(&taken) {
                    return taken;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        match tokio::time::timeout(PATIENCE, look).await {
            Ok(taken) => taken,
            Err(_) => panic!("it took only {:#?}", self.taken()),
        }
    }
}

fn is_success(template: &ResponseTemplate) -> bool {
    // The template does not show its status but in its debug form.
    let shown = format!("{template:?}");
    ["status_code: 200", "status_code: 204"]
        .iter()
        .any(|word| shown.contains(word))
}

fn has_completed(count: usize) -> impl Fn(&[Value]) -> bool {
    move |taken| {
        let ended: BTreeSet<_> = taken
            .iter()
            .filter(|event| event["type"] == "dev.stateway.execution.completed.v1")
            .map(|event| event["subject"].to_string())
            .collect();
        ended.len() == count
    }
}

/// The sequences of each execution, as they came, without repetitions.
fn sequences(taken: &[Value]) -> BTreeMap<String, Vec<u64>> {
    let mut found: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for event in taken {
        let of = found.entry(event["subject"].as_str().unwrap().to_owned());
        let of = of.or_default();
        let sequence = event["data"]["sequence"].as_u64().unwrap();
        if !of.contains(&sequence) {
            of.push(sequence);
        }
    }
    found
}

fn assert_whole_and_in_order(taken: &[Value], executions: usize) {
    let found = sequences(taken);
    assert_eq!(found.len(), executions);
    for (execution, sequences) in found {
        let wanted: Vec<u64> = (1..=sequences.len() as u64).collect();
        assert_eq!(sequences, wanted, "{execution}");
    }
}

fn status(webhooks: &Webhooks) -> WebhookStatus {
    webhooks.statuses().remove(0)
}

async fn until(what: impl Fn() -> bool) {
    let look = async {
        while !what() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, look).await.unwrap();
}

#[tokio::test]
async fn every_event_arrives_in_the_order_of_its_execution() {
    for batch in [1, 50] {
        let receiver = Receiver::new().await;
        let lab = Lab::new();
        lab.apply(ONE).await;
        let mut settings = receiver.settings();
        settings.batch = batch;
        let webhooks = Webhooks::spawn(&lab.engine, "main", &[settings]).unwrap();
        lab.worker("w1", &["x"], 4).diligent();
        for n in 0..10 {
            lab.start("one", json!(n)).await;
        }
        let taken = receiver.until(has_completed(10)).await;
        assert_whole_and_in_order(&taken, 10);
        let first = &taken[0];
        assert_eq!(first["specversion"], "1.0");
        assert_eq!(first["source"], "stateway/providers/main");
        assert_eq!(first["type"], "dev.stateway.execution.created.v1");
        until(|| status(&webhooks).behind == 0).await;
        let requests = receiver.server.received_requests().await.unwrap();
        let kind = requests[0].headers["content-type"].to_str().unwrap();
        assert_eq!(kind.contains("batch"), batch > 1, "{kind}");
        if batch > 1 {
            assert!(requests.len() < taken.len());
        }
    }
}

#[tokio::test]
async fn a_message_is_signed_and_the_signature_can_be_checked() {
    let receiver = Receiver::new().await;
    let lab = Lab::new();
    lab.apply("name: nap\nsteps: [{name: a, signal: go}]").await;
    let mut settings = receiver.settings();
    settings
        .secrets
        .push(Secret::new("the secret of before").unwrap());
    let _webhooks = Webhooks::spawn(&lab.engine, "main", &[settings]).unwrap();
    lab.start("nap", json!(1)).await;
    receiver.until(|taken| !taken.is_empty()).await;
    let requests = receiver.server.received_requests().await.unwrap();
    let request = &requests[0];
    let header = |name: &str| request.headers[name].to_str().unwrap().to_owned();
    let content = format!("{}.{}.", header("webhook-id"), header("webhook-timestamp"));
    let signed = |secret: &str| {
        let mut mac = Hmac::<sha2::Sha256>::new_from_slice(secret.as_bytes()).unwrap();
        mac.update(content.as_bytes());
        mac.update(&request.body);
        format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
    };
    let wanted = format!("{} {}", signed(SECRET), signed("the secret of before"));
    assert_eq!(header("webhook-signature"), wanted);
    let body: Value = request.body_json().unwrap();
    assert_eq!(body["id"], header("webhook-id"));
}

#[tokio::test]
async fn a_failing_receiver_is_tried_again_and_misses_nothing() {
    // Every third call is taken; the others fail each in its own way.
    let receiver = Receiver::answering(|call, _| match call % 3 {
        1 => ResponseTemplate::new(500).set_body_string("not today"),
        2 => ResponseTemplate::new(429).insert_header("retry-after", "0"),
        _ => ResponseTemplate::new(200),
    })
    .await;
    let lab = Lab::new();
    lab.apply(ONE).await;
    let webhooks = Webhooks::spawn(&lab.engine, "main", &[receiver.settings()]).unwrap();
    lab.worker("w1", &["x"], 4).diligent();
    lab.start("one", json!(null)).await;
    let taken = receiver.until(has_completed(1)).await;
    assert_whole_and_in_order(&taken, 1);
    until(|| status(&webhooks).failing_since.is_none()).await;
}

#[tokio::test]
async fn a_receiver_that_does_not_like_an_event_gets_it_again() {
    // Other refusals are no reason to lose an event: the receiver may be mended.
    let receiver =
        Receiver::answering(|call, _| ResponseTemplate::new(if call == 1 { 400 } else { 200 }))
            .await;
    let lab = Lab::new();
    lab.apply(ONE).await;
    let webhooks = Webhooks::spawn(&lab.engine, "main", &[receiver.settings()]).unwrap();
    lab.start("one", json!(null)).await;
    let taken = receiver.until(|taken| taken.len() >= 3).await;
    assert_eq!(taken[0]["data"]["sequence"], 1);
    until(|| status(&webhooks).last_error.is_empty()).await;
}

#[tokio::test]
async fn a_receiver_that_is_gone_is_left_alone() {
    let receiver = Receiver::answering(|_, _| ResponseTemplate::new(410)).await;
    let lab = Lab::new();
    lab.apply(ONE).await;
    let webhooks = Webhooks::spawn(&lab.engine, "main", &[receiver.settings()]).unwrap();
    lab.start("one", json!(null)).await;
    until(|| status(&webhooks).stopped).await;
    lab.start("one", json!(null)).await;
    assert_eq!(receiver.server.received_requests().await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_batch_that_is_too_long_is_sent_one_by_one() {
    let receiver = Receiver::answering(|_, body| {
        let long = body.as_array().is_some_and(|events| events.len() > 1);
        ResponseTemplate::new(if long { 413 } else { 200 })
    })
    .await;
    let lab = Lab::new();
    lab.apply(ONE).await;
    lab.worker("w1", &["x"], 4).diligent();
    let started = lab.start("one", json!(null)).await;
    lab.ended(&started.id).await;
    let mut settings = receiver.settings();
    settings.batch = 10;
    let _webhooks = Webhooks::spawn(&lab.engine, "main", &[settings]).unwrap();
    let taken = receiver.until(has_completed(1)).await;
    assert_whole_and_in_order(&taken, 1);
}

#[tokio::test]
async fn what_was_not_taken_comes_again_after_a_crash() {
    let receiver = Receiver::new().await;
    let lab = Lab::new();
    lab.apply(ONE).await;
    let webhooks = Webhooks::spawn(&lab.engine, "main", &[receiver.settings()]).unwrap();
    lab.worker("w1", &["x"], 4).diligent();
    let mut lab = lab;
    let mut webhooks = Some(webhooks);
    for round in 1..=5 {
        for n in 0..4 {
            lab.start("one", json!(n)).await;
        }
        let some = round * 4 - 2;
        receiver
            .until(move |taken| sequences(taken).len() >= some)
            .await;
        // The file as it is at this moment, while everything is under way.
        drop(webhooks.take());
        lab = lab.crash();
        lab.worker("w1", &["x"], 4).diligent();
        webhooks = Some(Webhooks::spawn(&lab.engine, "main", &[receiver.settings()]).unwrap());
    }
    let taken = receiver.until(has_completed(20)).await;
    assert_whole_and_in_order(&taken, 20);
}

#[tokio::test]
async fn a_place_is_kept_over_restarts_and_nothing_comes_twice_without_need() {
    let receiver = Receiver::new().await;
    let lab = Lab::new();
    lab.apply(ONE).await;
    let webhooks = Webhooks::spawn(&lab.engine, "main", &[receiver.settings()]).unwrap();
    lab.worker("w1", &["x"], 4).diligent();
    lab.start("one", json!(null)).await;
    receiver.until(has_completed(1)).await;
    until(|| status(&webhooks).behind == 0).await;
    let before = receiver.taken().len();
    // The place is told to the keeper before this is asked of it.
    lab.engine.survey().await.unwrap();
    let lab = lab.restart();
    let _webhooks = Webhooks::spawn(&lab.engine, "main", &[receiver.settings()]).unwrap();
    lab.worker("w1", &["x"], 4).diligent();
    lab.start("one", json!(null)).await;
    let taken = receiver.until(has_completed(2)).await;
    assert_eq!(taken.len(), before * 2);
}

#[tokio::test]
async fn a_slow_receiver_does_not_slow_the_engine() {
    let receiver =
        Receiver::answering(|_, _| ResponseTemplate::new(200).set_delay(Duration::from_secs(5)))
            .await;
    let lab = Lab::new();
    lab.apply(ONE).await;
    let webhooks = Webhooks::spawn(&lab.engine, "main", &[receiver.settings()]).unwrap();
    lab.worker("w1", &["x"], 4).diligent();
    let began = std::time::Instant::now();
    for n in 0..50 {
        let started = lab.start("one", json!(n)).await;
        assert_eq!(lab.ended(&started.id).await.sub_state, SubState::Succeeded);
    }
    assert!(began.elapsed() < Duration::from_secs(4));
    let status = status(&webhooks);
    assert!(status.behind > 50, "{status:?}");
    assert!(status.oldest.is_some(), "{status:?}");
}

#[tokio::test]
async fn only_the_events_that_are_asked_for_are_sent() {
    let receiver = Receiver::new().await;
    let lab = Lab::new();
    lab.apply(ONE).await;
    let mut settings = receiver.settings();
    settings.events = vec!["step-*".to_owned(), "completed".to_owned()];
    let webhooks = Webhooks::spawn(&lab.engine, "main", &[settings]).unwrap();
    lab.worker("w1", &["x"], 4).diligent();
    lab.start("one", json!(null)).await;
    let taken = receiver.until(has_completed(1)).await;
    let names: Vec<_> = taken
        .iter()
        .map(|event| event["data"]["event"].clone())
        .collect();
    assert_eq!(names, ["step-started", "step-completed", "completed"]);
    assert_eq!(taken[2]["data"]["subState"], "succeeded");
    until(|| status(&webhooks).behind == 0).await;
}

#[tokio::test]
async fn a_new_webhook_begins_with_the_oldest_event_or_with_the_next() {
    let lab = Lab::new();
    lab.apply(ONE).await;
    lab.worker("w1", &["x"], 4).diligent();
    let old = lab.start("one", json!(null)).await;
    lab.ended(&old.id).await;
    let (all, next) = (Receiver::new().await, Receiver::new().await);
    let (mut first, mut second) = (all.settings(), next.settings());
    (first.name, second.name) = ("all".to_owned(), "next".to_owned());
    second.from = SinkStart::Now;
    let webhooks = Webhooks::spawn(&lab.engine, "main", &[first, second]).unwrap();
    until(|| webhooks.statuses().iter().all(|status| status.behind == 0)).await;
    let new = lab.start("one", json!(null)).await;
    let taken = all.until(has_completed(2)).await;
    assert_whole_and_in_order(&taken, 2);
    let taken = next.until(has_completed(1)).await;
    assert!(taken.iter().all(|event| event["subject"] == *new.id));
}

#[tokio::test]
async fn a_purge_leaves_what_a_webhook_has_not_got() {
    let receiver = Receiver::answering(|_, body| {
        let second = body["data"]["detail"]["input"] == 2;
        ResponseTemplate::new(if second { 503 } else { 200 })
    })
    .await;
    let lab = Lab::new();
    lab.apply(ONE).await;
    let webhooks = Webhooks::spawn(&lab.engine, "main", &[receiver.settings()]).unwrap();
    lab.worker("w1", &["x"], 4).diligent();
    let mut last = None;
    for n in [1, 2] {
        let started = lab.start("one", json!(n)).await;
        lab.ended(&started.id).await;
        last = Some(started.id);
    }
    receiver.until(has_completed(1)).await;
    until(|| status(&webhooks).failing_since.is_some()).await;
    let later = lab.engine.now() + jiff::SignedDuration::from_mins(1);
    let purged = lab.engine.purge(later, 100).await.unwrap();
    assert_eq!((purged.executions, purged.held_back), (1, 1));
    let refused = lab.engine.remove(last.unwrap()).await.unwrap_err();
    assert_eq!(refused.reason, "EVENTS_NOT_DELIVERED");
    // Without the webhook there is nobody to wait for.
    drop(webhooks);
    let purged = lab.engine.purge(later, 100).await.unwrap();
    assert_eq!((purged.executions, purged.held_back), (1, 0));
}

#[tokio::test]
async fn a_webhook_goes_on_after_everything_was_purged() {
    let receiver = Receiver::new().await;
    let lab = Lab::new();
    lab.apply(ONE).await;
    let webhooks = Webhooks::spawn(&lab.engine, "main", &[receiver.settings()]).unwrap();
    lab.worker("w1", &["x"], 4).diligent();
    let started = lab.start("one", json!(null)).await;
    lab.ended(&started.id).await;
    until(|| status(&webhooks).behind == 0).await;
    let later = lab.engine.now() + jiff::SignedDuration::from_mins(1);
    until_purged(&lab, later).await;
    let lab = lab.restart();
    let _webhooks = Webhooks::spawn(&lab.engine, "main", &[receiver.settings()]).unwrap();
    lab.worker("w1", &["x"], 4).diligent();
    lab.start("one", json!(null)).await;
    let taken = receiver.until(has_completed(2)).await;
    assert_whole_and_in_order(&taken, 2);
}

async fn until_purged(lab: &Lab, before: jiff::Timestamp) {
    let purged = lab.engine.purge(before, 100).await.unwrap();
    assert_eq!(purged.executions, 1);
}

#[tokio::test]
async fn settings_that_cannot_be_used_are_refused() {
    let lab = Lab::new();
    let secret = || Secret::new(SECRET).unwrap();
    let good = WebhookSettings::new("a", "http://127.0.0.1:9/", secret());
    let mut unsigned = good.clone();
    unsigned.secrets.clear();
    let mut unknown = good.clone();
    unknown.events = vec!["explosions".to_owned()];
    for (wrong, words) in [
        (vec![good.clone(), good], "two webhooks are called `a`"),
        (vec![unsigned], "no secret"),
        (vec![unknown], "explosions"),
        (
            vec![WebhookSettings::new("a b", "http://x.example", secret())],
            "name",
        ),
        (
            vec![WebhookSettings::new("a", "x.example", secret())],
            "url",
        ),
    ] {
        let error = Webhooks::spawn(&lab.engine, "main", &wrong).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
    }
}
