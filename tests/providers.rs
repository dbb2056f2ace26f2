//! What stands behind the gateway.

use stateway_proto::v1::{GetProviderRequest, ListProvidersRequest};
use stateway_provider_api::Capabilities;
use tonic::Code;

use crate::support::{Puppet, TestGateway, clock};

#[tokio::test]
async fn providers_are_listed_in_pages_with_their_capabilities() {
    let mute = Puppet::with_capabilities(Capabilities::default());
    let gateway = TestGateway::new()
        .with_puppet("b", &mute)
        .with_puppet("c", &mute)
        .with_memory("a", &clock())
        .start()
        .await;
    let mut client = gateway.providers().await;
    let mut request = ListProvidersRequest {
        page_size: 2,
        page_token: String::new(),
    };
    let first = client
        .list_providers(request.clone())
        .await
        .unwrap()
        .into_inner();
    request.page_token = first.next_page_token;
    let second = client.list_providers(request).await.unwrap().into_inner();
    let all: Vec<_> = first.providers.iter().chain(&second.providers).collect();
    let names: Vec<_> = all.iter().map(|provider| provider.name.as_str()).collect();
    assert_eq!(names, ["providers/a", "providers/b", "providers/c"]);
    assert_eq!(second.next_page_token, "");
    assert!(all[0].capabilities.as_ref().unwrap().signal);
    assert!(!all[1].capabilities.as_ref().unwrap().signal);
    assert!(all[0].table.is_empty(), "a list has no tables");
}

#[tokio::test]
async fn one_provider_comes_with_its_table() {
    let gateway = TestGateway::new().with_memory("m", &clock()).start().await;
    let mut client = gateway.providers().await;
    let name = "providers/m".to_owned();
    let provider = client
        .get_provider(GetProviderRequest { name })
        .await
        .unwrap()
        .into_inner();
    assert_eq!(provider.kind, "memory");
    assert!(
        provider
            .table
            .iter()
            .any(|row| row.native == "ACTIVE" && row.refine)
    );
    for wrong in ["", "m", "providers/", "providers/m/x"] {
        let request = GetProviderRequest { name: wrong.into() };
        let status = client.get_provider(request).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{wrong}");
    }
}
