//! The standard health service: overall, and one name per provider.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use stateway_client::v1;
use stateway_client::v1::provider_health::Status as Serving;
use stateway_client::v1::providers_client::ProvidersClient;
use stateway_engine::Faults;
use stateway_provider_api::ErrorKind;
use stateway_visitor::exchange;
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::support::{BuiltInRig, Puppet, Running, TestGateway};

async fn check(gateway: &Running, service: &str) -> Result<ServingStatus, Code> {
    let request = HealthCheckRequest {
        service: service.into(),
    };
    let answer = HealthClient::new(gateway.channel().await)
        .check(request)
        .await;
    answer
        .map(|answer| answer.into_inner().status())
        .map_err(|status| status.code())
}

async fn becomes(gateway: &Running, service: &str, wanted: ServingStatus) {
    let reached = async {
        while check(gateway, service).await != Ok(wanted) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), reached)
        .await
        .expect("it changes in time");
}

#[tokio::test]
async fn each_provider_has_its_own_entry_and_the_whole_serves_on() {
    let (bad, good) = (Puppet::new(), Puppet::new());
    bad.fail(ErrorKind::Unavailable, None);
    let gateway = TestGateway::new()
        .with_puppet("bad", &bad)
        .with_puppet("good", &good)
        .start()
        .await;
    becomes(&gateway, "provider.good", ServingStatus::Serving).await;
    becomes(&gateway, "provider.bad", ServingStatus::NotServing).await;
    assert_eq!(check(&gateway, "").await, Ok(ServingStatus::Serving));
    assert_eq!(
        check(&gateway, "provider.unknown").await,
        Err(Code::NotFound)
    );
    bad.recover();
    becomes(&gateway, "provider.bad", ServingStatus::Serving).await;
}

async fn healthz(gateway: &Running) -> String {
    exchange(gateway, "GET /healthz HTTP/1.1\r\nhost: localhost\r\n", b"").await
}

async fn provider_health(rig: &BuiltInRig) -> v1::ProviderHealth {
    let request = v1::GetProviderRequest {
        name: "providers/b".into(),
    };
    let mut client = ProvidersClient::new(rig.gateway.channel().await);
    let provider = client.get_provider(request).await.unwrap().into_inner();
    provider.health.expect("a health")
}

fn start_request() -> v1::StartExecutionRequest {
    v1::StartExecutionRequest {
        definition: "definitions/waits".into(),
        parent: "providers/b".into(),
        ..Default::default()
    }
}

const WAITS: &str = "name: waits\nsteps: [{name: go, signal: go}]";

#[tokio::test]
async fn a_full_disk_is_seen_by_every_health_check_and_reading_continues() {
    let full = Arc::new(AtomicBool::new(false));
    let faults = Faults::full_disk(Arc::clone(&full));
    let rig = BuiltInRig::with(|config| config.faults = faults).await;
    rig.apply(WAITS).await;
    let mut client = rig.gateway.executions().await;
    let name = client.start_execution(start_request()).await.unwrap();
    let name = name.into_inner().name;
    becomes(&rig.gateway, "provider.b", ServingStatus::Serving).await;
    assert_eq!(check(&rig.gateway, "").await, Ok(ServingStatus::Serving));

    full.store(true, Ordering::Relaxed);
    // More refused writes than the breaker allows failures.
    for _ in 0..20 {
        let refused = client.start_execution(start_request()).await.unwrap_err();
        assert_eq!(refused.code(), Code::Unavailable);
        let get = v1::GetExecutionRequest {
            name: name.clone(),
            ..Default::default()
        };
        client.get_execution(get).await.expect("reading continues");
    }
    becomes(&rig.gateway, "provider.b", ServingStatus::NotServing).await;
    becomes(&rig.gateway, "", ServingStatus::NotServing).await;
    let page = healthz(&rig.gateway).await;
    assert!(page.starts_with("HTTP/1.1 503"), "{page}");
    assert!(page.contains("the disk is full"), "{page}");
    let health = provider_health(&rig).await;
    assert_eq!(health.status(), Serving::NotServing);
    assert!(health.detail.contains("the disk is full"), "{health:?}");

    full.store(false, Ordering::Relaxed);
    becomes(&rig.gateway, "provider.b", ServingStatus::Serving).await;
    becomes(&rig.gateway, "", ServingStatus::Serving).await;
    assert!(healthz(&rig.gateway).await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn a_keeper_that_has_ended_is_seen_by_every_health_check() {
    let dead = Arc::new(AtomicBool::new(false));
    let armed = Arc::clone(&dead);
    let faults = Faults::panicking(move |id| id.is_empty() && armed.load(Ordering::Relaxed));
    let rig = BuiltInRig::with(|config| config.faults = faults).await;
    becomes(&rig.gateway, "", ServingStatus::Serving).await;
    dead.store(true, Ordering::Relaxed);
    becomes(&rig.gateway, "provider.b", ServingStatus::NotServing).await;
    becomes(&rig.gateway, "", ServingStatus::NotServing).await;
    let page = healthz(&rig.gateway).await;
    assert!(page.starts_with("HTTP/1.1 503"), "{page}");
    assert_eq!(provider_health(&rig).await.status(), Serving::NotServing);
}

#[tokio::test]
async fn an_execution_that_panics_is_named_by_the_health_of_its_provider() {
    let bad = Arc::new(Mutex::new(String::new()));
    let armed = Arc::clone(&bad);
    let faults = Faults::panicking(move |id| !id.is_empty() && *armed.lock().unwrap() == id);
    let rig = BuiltInRig::with(|config| config.faults = faults).await;
    rig.apply(WAITS).await;
    let mut client = rig.gateway.executions().await;
    let name = client.start_execution(start_request()).await.unwrap();
    let name = name.into_inner().name;
    let id = name.rsplit('/').next().unwrap().to_owned();
    bad.lock().unwrap().clone_from(&id);
    let signal = v1::SignalExecutionRequest {
        name: name.clone(),
        signal: "go".into(),
        ..Default::default()
    };
    let refused = client.signal_execution(signal).await.unwrap_err();
    assert_eq!(refused.code(), Code::Internal);
    client
        .start_execution(start_request())
        .await
        .expect("other executions continue");
    let get = v1::GetExecutionRequest {
        name,
        ..Default::default()
    };
    let shown = client.get_execution(get).await.unwrap().into_inner();
    assert_eq!(shown.sub_state(), v1::SubState::Error);
    let named = async {
        while !provider_health(&rig).await.detail.contains(&id) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let named = tokio::time::timeout(Duration::from_secs(5), named);
    named.await.expect("the health names it");
    assert_eq!(provider_health(&rig).await.status(), Serving::Serving);
    let page = healthz(&rig.gateway).await;
    assert!(page.contains("200 OK") && page.contains(&id), "{page}");
}
