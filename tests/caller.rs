//! Who asks is told by the proxy in front, and taken as it is or refused.

use stateway_client::v1::ListProvidersRequest;
use tonic::{Code, Request};

use crate::support::{Puppet, TestGateway, reason_of};

#[tokio::test]
async fn a_name_or_role_that_is_none_is_refused() {
    let gateway = TestGateway::new()
        .with_puppet("p", &Puppet::new())
        .start()
        .await;
    let mut client = gateway.providers().await;
    let long = "a".repeat(257);
    for (header, value) in [
        ("x-stateway-actor", "ada lovelace"),
        ("x-stateway-actor", long.as_str()),
        ("x-stateway-roles", "ops,release manager"),
    ] {
        let mut request = Request::new(ListProvidersRequest::default());
        request
            .metadata_mut()
            .insert(header, value.parse().unwrap());
        let status = client.list_providers(request).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{value}");
        assert_eq!(reason_of(&status), "INVALID_ARGUMENT");
    }
}

#[tokio::test]
async fn who_says_it_twice_is_refused() {
    let gateway = TestGateway::new()
        .with_puppet("p", &Puppet::new())
        .start()
        .await;
    let mut client = gateway.providers().await;
    let mut request = Request::new(ListProvidersRequest::default());
    for name in ["ada", "eve"] {
        let name = name.parse().unwrap();
        request.metadata_mut().append("x-stateway-actor", name);
    }
    let status = client.list_providers(request).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
}
