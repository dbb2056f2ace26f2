//! HTTP steps of hosted executions, done by the gateway.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::SignedDuration;
use serde_json::json;
use stateway_hosted::provider::{HostedProvider, HttpAttempt, HttpSteps};
use stateway_machine::{Data, Failure};
use stateway_model::{ErrorCategory, ExecutionId, Payload, SubState};
use stateway_provider_api::{
    PortabilityVerdict, PortableDefinitions as _, Provider as _, StartDefinition, StartRequest,
};

use crate::lab::Lab;
use crate::provider::{Worker, apply, call, get, provider, start};

const CALLS: &str = "name: test\nsteps:\n  - {name: pay, http: {method: POST, url: 'https://pay.example/${input.n}', headers: {x-api: v2}}, timeout: 30s, retryPolicy: {maxRetries: 1, backoff: constant, initialDelay: 1s}}";

type Calls = Arc<Mutex<Vec<HttpAttempt>>>;

/// A caller that notes what it is asked for, and fails the first calls.
fn steps(failures: usize) -> (HttpSteps, Calls) {
    let calls = Calls::default();
    let noted = Arc::clone(&calls);
    let call = move |attempt: HttpAttempt| -> futures::future::BoxFuture<'static, _> {
        let mut noted = noted.lock().unwrap();
        noted.push(attempt);
        let result: Result<Data, Failure> = if noted.len() <= failures {
            Err(Failure::reported(ErrorCategory::Transient, "503"))
        } else {
            Ok(Data::new(json!({"status": 200})))
        };
        Box::pin(async move { result })
    };
    let steps = HttpSteps {
        capacity: 4,
        call: Arc::new(call),
    };
    (steps, calls)
}

async fn until(provider: &HostedProvider<Lab>, id: &ExecutionId, wanted: SubState) {
    for _ in 0..500 {
        if get(provider, id).await.reported.unwrap().0 == wanted {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{:?}", get(provider, id).await);
}

#[tokio::test]
async fn the_gateway_makes_the_call_of_an_http_step_and_retries_it() {
    let lab = Lab::default();
    let (steps, calls) = steps(1);
    let provider = provider(&lab).with_http(steps);
    apply(&provider, CALLS).await;
    // A worker that takes any task does not get the call.
    let _worker = Worker::connect(&provider, "w1", 4).await;
    let id = start(&provider, "r1").await.id;
    until(&provider, &id, SubState::BackingOff).await;
    lab.pass(SignedDuration::from_secs(2));
    until(&provider, &id, SubState::Succeeded).await;
    let seen = get(&provider, &id).await;
    assert_eq!(
        seen.output,
        Some(Payload::json(r#"{"pay":{"status":200}}"#))
    );
    let calls = calls.lock().unwrap();
    let keys: Vec<_> = calls.iter().map(|call| call.key.clone()).collect();
    assert_eq!(keys, [format!("{id}/0/pay/1"), format!("{id}/0/pay/2")]);
    assert_eq!(calls[0].request.url, "https://pay.example/1");
    assert_eq!(*calls[0].input, json!({"n": 1}));
    assert!(calls[0].limit.unwrap() > Duration::from_secs(29));
}

#[tokio::test]
async fn a_call_whose_gateway_died_is_made_again_with_the_same_key() {
    let lab = Lab::default();
    let hangs = HttpSteps {
        capacity: 4,
        call: Arc::new(|_| Box::pin(std::future::pending())),
    };
    let dead = provider(&lab).with_http(hangs);
    apply(&dead, &CALLS.replace("timeout: 30s", "timeout: 10m")).await;
    let id = start(&dead, "r1").await.id;
    let is_taken = || lab.view(id.as_str()).tasks[0].worker.is_some();
    for _ in 0..500 {
        if is_taken() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(is_taken());
    drop(dead);
    let (steps, calls) = steps(0);
    let alive = provider(&lab).with_http(steps);
    // The lease lasts 30 s.
    lab.pass(SignedDuration::from_secs(29));
    assert!(calls.lock().unwrap().is_empty());
    lab.pass(SignedDuration::from_secs(3));
    until(&alive, &id, SubState::Succeeded).await;
    let calls = calls.lock().unwrap();
    let keys: Vec<_> = calls.iter().map(|call| call.key.clone()).collect();
    assert_eq!(keys, [format!("{id}/0/pay/1")]);
}

#[tokio::test]
async fn without_an_allowed_address_the_report_and_the_start_refuse_with_the_same_words() {
    let lab = Lab::default();
    let provider = provider(&lab);
    apply(&provider, CALLS).await;
    let report = provider.portability(&call(), CALLS).await.unwrap();
    assert_eq!(report.verdict, PortabilityVerdict::Impossible);
    let definition = StartDefinition::Portable {
        id: "test".to_owned(),
        source: None,
    };
    let begin = StartRequest::new(definition, "r1".parse().unwrap());
    let refused = provider.start(&call(), begin).await.unwrap_err();
    assert_eq!(refused.reason(), "DEFINITION_NOT_PORTABLE");
    assert_eq!(refused.message, report.reasons[0]);
}
