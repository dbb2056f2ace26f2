//! The standard health service: overall, and one name per provider.

use std::time::Duration;

use stateway_provider_api::ErrorKind;
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::support::{Puppet, Running, TestGateway};

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
