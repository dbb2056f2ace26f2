//! What stands behind the gateway.

use std::sync::Arc;

use stateway_client::v1::{
    GetExecutionRequest, GetProviderRequest, ListExecutionsRequest, ListProvidersRequest,
};
use stateway_provider_api::{Capabilities, Description, Table};
use tonic::Code;

use crate::support::{Puppet, TestGateway, clock, reason_of, table as table_of};

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
            .any(|row| row.native_state == "ACTIVE" && row.refine)
    );
    for wrong in ["", "m", "providers/", "providers/m/x"] {
        let request = GetProviderRequest { name: wrong.into() };
        let status = client.get_provider(request).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{wrong}");
    }
}

const ACME: &str = r#"
version = 1
kind = "acme"
title = "Acme Flow"
summary = "A table that is not compiled in."

[[rows]]
native = "RUNNING"
sub_state = "waiting"
terminal = false
source = "reported by the provider"
"#;

#[tokio::test]
async fn capabilities_and_table_may_arrive_late_and_change_at_a_reconnect() {
    let puppet = Puppet::new();
    puppet.show("a", "RUNNING");
    puppet.describe_as(Description::pending("acme"));
    let gateway = TestGateway::new().with_puppet("p", &puppet).start().await;
    let mut executions = gateway.executions().await;
    let get = || GetExecutionRequest {
        name: "providers/p/executions/a".to_owned(),
        ..GetExecutionRequest::default()
    };
    let list = || ListExecutionsRequest {
        parent: "providers/p".to_owned(),
        ..ListExecutionsRequest::default()
    };
    // Before the description arrives: the verb may be offered later, so it is not unsupported.
    let early = executions.list_executions(list()).await.unwrap_err();
    assert_eq!(early.code(), Code::Unavailable);
    assert_eq!(reason_of(&early), "PROVIDER_NOT_DESCRIBED");

    let can_list = Capabilities {
        list: true,
        ..Capabilities::NONE
    };
    let table = Arc::new(Table::parse(ACME).unwrap());
    let arrived = Description::pending("acme").succeeded_by(can_list, table);
    puppet.describe_as(arrived.clone());
    let listed = executions.list_executions(list()).await.unwrap();
    assert_eq!(listed.into_inner().executions.len(), 1);
    let shown = executions.get_execution(get()).await.unwrap().into_inner();
    let by_new_table = shown.sub_state;

    let without = arrived.succeeded_by(Capabilities::NONE, table_of("step-functions"));
    puppet.describe_as(without);
    let refused = executions.list_executions(list()).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unimplemented);
    let shown = executions.get_execution(get()).await.unwrap().into_inner();
    assert_ne!(shown.sub_state, by_new_table, "the table is not followed");
}
