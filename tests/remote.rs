//! A provider in another process: any start order, kills, and providers that break the contract.

mod bad;
mod contained;
mod fuzz;
mod journal;
mod kills;
mod process;
mod replicas;

use std::time::Duration;

use process::{Process, Socket, remote, serving};
use stateway_client::v1;
use stateway_client::v1::provider_health::Status as Serving;
use stateway_provider_api::Capabilities;
use stateway_provider_api::table::MEMORY;
use stateway_wire::v1 as wire;
use stateway_wire::v1::watch_executions_response::Item;
use tonic::Code;

use crate::support::{Running, TestGateway, Watching, reason_of};

/// The longest a test waits for something that must come.
const PATIENCE: Duration = Duration::from_secs(60);

async fn provider(gateway: &Running) -> v1::Provider {
    provider_named(gateway, "providers/far").await
}

async fn provider_named(gateway: &Running, name: &str) -> v1::Provider {
    let request = v1::GetProviderRequest { name: name.into() };
    let answer = gateway.providers().await.get_provider(request).await;
    answer.expect("the provider is configured").into_inner()
}

/// The provider once this holds of it.
async fn once(gateway: &Running, holds: impl Fn(&v1::Provider) -> bool) -> v1::Provider {
    let reached = async {
        loop {
            let provider = provider(gateway).await;
            if holds(&provider) {
                return provider;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let Ok(provider) = tokio::time::timeout(PATIENCE, reached).await else {
        panic!("it stays {:?}", provider(gateway).await);
    };
    provider
}

fn health(provider: &v1::Provider) -> v1::ProviderHealth {
    provider.health.clone().unwrap_or_default()
}

async fn serves(gateway: &Running) -> v1::Provider {
    once(gateway, |one| health(one).status() == Serving::Serving).await
}

async fn start(gateway: &Running) -> v1::Execution {
    let request = v1::StartExecutionRequest {
        parent: "providers/far".into(),
        definition: "providers/far/definitions/script".into(),
        input: Some(v1::Payload {
            data: r#"{"steps":[{"name":"work","takes":"1h"}]}"#.into(),
            ..v1::Payload::default()
        }),
        ..v1::StartExecutionRequest::default()
    };
    let started = gateway.executions().await.start_execution(request).await;
    started.expect("it starts").into_inner()
}

async fn get(gateway: &Running, name: &str) -> Result<v1::Execution, tonic::Status> {
    let request = v1::GetExecutionRequest {
        name: name.into(),
        ..v1::GetExecutionRequest::default()
    };
    let got = gateway.executions().await.get_execution(request).await;
    got.map(tonic::Response::into_inner)
}

#[tokio::test]
async fn a_gateway_starts_before_its_provider_and_serves_it_as_soon_as_it_comes() {
    let socket = Socket::new();
    let gateway = TestGateway::new()
        .with("far", "remote", remote(&socket))
        .with_memory("near", &crate::support::clock())
        .start()
        .await;
    let absent = once(&gateway, |one| {
        health(one).breaker() == v1::provider_health::Breaker::Open
    });
    let absent = health(&absent.await);
    assert_eq!(absent.status(), Serving::NotServing);
    assert!(
        absent.detail.contains("cannot be reached"),
        "{}",
        absent.detail
    );
    let listed = v1::ListExecutionsRequest {
        parent: "providers/-".into(),
        ..v1::ListExecutionsRequest::default()
    };
    let listed = gateway.executions().await.list_executions(listed).await;
    let listed = listed.expect("a list over all providers").into_inner();
    assert_eq!(listed.unreachable, ["providers/far"]);

    let _process = Process::start(&socket);
    let present = serves(&gateway).await;
    assert_eq!(present.title, "In-memory reference");
    let compiled_in = provider_named(&gateway, "providers/near").await;
    assert_eq!(present.table, compiled_in.table);
    assert!(!present.table.is_empty());
    let started = start(&gateway).await;
    assert_eq!(started.native_state, "ACTIVE");
    let explain = v1::ExplainExecutionRequest {
        name: started.name.clone(),
    };
    let explained = gateway.executions().await.explain_execution(explain).await;
    let row = explained.unwrap().into_inner().row.expect("a row");
    assert_eq!(row.native_state, "ACTIVE");
}

#[tokio::test]
async fn a_restarted_provider_is_described_again_and_what_changed_takes_effect() {
    let socket = Socket::new();
    let process = Process::start(&socket);
    let mut gateway = TestGateway::new();
    // The lost connection is the sign, not the next health check.
    gateway.settings.default_upstream.health_interval = Duration::from_secs(600);
    let gateway = gateway.with("far", "remote", remote(&socket)).start().await;
    let before = serves(&gateway).await;
    assert!(before.capabilities.unwrap_or_default().kill);
    let name = start(&gateway).await.name;
    let shown = get(&gateway, &name).await.unwrap();
    assert_eq!(shown.sub_state(), v1::SubState::Running);

    // The next version of the provider cannot kill, and reads ACTIVE in another way.
    let changed = MEMORY.replacen("refine = true", "reason = \"STUCK\"", 1);
    let changed = changed.replacen(
        "native = \"ACTIVE\"\nsub_state = \"running\"",
        "native = \"ACTIVE\"\nsub_state = \"error\"",
        1,
    );
    let process = process.restart_as(&changed, Capabilities::ALL.without("kill").unwrap());
    let after = once(&gateway, |one| !one.capabilities.unwrap_or_default().kill);
    after.await;
    let shown = get(&gateway, &name).await.unwrap();
    assert_eq!(shown.sub_state(), v1::SubState::Error);
    let kill = v1::CancelExecutionRequest {
        name,
        mode: v1::cancel_execution_request::Mode::Kill.into(),
        ..v1::CancelExecutionRequest::default()
    };
    let refused = gateway.executions().await.cancel_execution(kill).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.code(), Code::Unimplemented);
    assert_eq!(reason_of(&refused), "CAPABILITY_NOT_SUPPORTED");
    drop(process);
}

#[tokio::test]
async fn a_changed_table_takes_effect_for_open_watches() {
    let (socket, bad) = (Socket::new(), bad::Bad::new());
    bad.change(|script| {
        let seen = bad::observation("a");
        script.watch = vec![Item::Seen(seen), Item::InSync(wire::InSync {})];
    });
    let _serving = serving(&socket.path(), bad.routes());
    let id = "far".parse().unwrap();
    let config = stateway_provider_remote::Config::at(format!("unix:{}", socket.path().display()));
    // The default interval of heartbeats: the silent stream does not stall within this test.
    let far = stateway_provider_remote::RemoteProvider::new(id, &config, None).unwrap();
    let gateway = TestGateway::new()
        .with("far", "remote", std::sync::Arc::new(far))
        .start()
        .await;
    serves(&gateway).await;
    let mut watching = Watching::on(&gateway, "providers/far").await;
    watching.change().await;
    let changed = MEMORY
        .replacen("refine = true", "reason = \"STUCK\"", 1)
        .replacen(
            "native = \"ACTIVE\"\nsub_state = \"running\"",
            "native = \"ACTIVE\"\nsub_state = \"error\"",
            1,
        );
    bad.change(|script| script.description.state_table = changed);
    let again = async {
        loop {
            let answer = watching.next().await.expect("the watch is open");
            let shown = answer.execution.unwrap_or_default().sub_state();
            if shown == v1::SubState::Error {
                return;
            }
        }
    };
    let again = tokio::time::timeout(PATIENCE, again).await;
    again.expect("the watch shows the execution by the new table");
}

#[tokio::test]
async fn the_first_call_waits_for_the_description() {
    let (socket, bad) = (Socket::new(), bad::Bad::new());
    bad.change(|script| {
        script.describe_delay = Duration::from_millis(500);
        script.list = Some(wire::ListExecutionsResponse::default());
        script.description.capabilities.push("labels".to_owned());
    });
    let _serving = serving(&socket.path(), bad.routes());
    let gateway = TestGateway::new()
        .with("far", "remote", remote(&socket))
        .start()
        .await;
    let mut client = gateway.executions().await;
    let list = v1::ListExecutionsRequest {
        parent: "providers/far".into(),
        ..v1::ListExecutionsRequest::default()
    };
    let all = v1::ListExecutionsRequest {
        parent: "providers/-".into(),
        ..v1::ListExecutionsRequest::default()
    };
    let labelled = v1::StartExecutionRequest {
        parent: "providers/far".into(),
        definition: "providers/far/definitions/script".into(),
        labels: [("a".to_owned(), "b".to_owned())].into(),
        ..v1::StartExecutionRequest::default()
    };
    let mut second = client.clone();
    let mut third = client.clone();
    let (listed, merged, started) = tokio::join!(
        client.list_executions(list),
        second.list_executions(all),
        third.start_execution(labelled)
    );
    listed.expect("the list waits for the description");
    started.expect("a start with labels waits for the description");
    let merged = merged.expect("a list over all providers").into_inner();
    assert_eq!(merged.unreachable, [""; 0]);
}

#[tokio::test]
async fn a_provider_that_is_back_is_called_although_the_breaker_was_open() {
    let socket = Socket::new();
    let mut gateway = TestGateway::new();
    // Without a sign of the provider the gateway would not call it before the end of the test.
    gateway.settings.default_upstream.breaker_cool_down = Duration::from_secs(600);
    let gateway = gateway.with("far", "remote", remote(&socket)).start().await;
    let is_open = |one: &v1::Provider| health(one).breaker() == v1::provider_health::Breaker::Open;
    once(&gateway, is_open).await;
    let _process = Process::start(&socket);
    serves(&gateway).await;
    start(&gateway).await;
}

#[tokio::test]
async fn a_watch_that_began_before_the_provider_is_pushed_when_it_comes() {
    let (socket, bad) = (Socket::new(), bad::Bad::new());
    bad.change(|script| {
        script.description.capabilities = vec!["watch_all".to_owned()];
        let seen = bad::observation("a");
        script.watch = vec![Item::Seen(seen), Item::InSync(wire::InSync {})];
    });
    let gateway = TestGateway::new()
        .with("far", "remote", remote(&socket))
        .start()
        .await;
    let mut watching = Watching::on(&gateway, "providers/-").await;
    let _serving = serving(&socket.path(), bad.routes());
    let seen = tokio::time::timeout(PATIENCE, watching.change()).await;
    assert_eq!(seen.expect("the provider is followed").1, "a");
}
