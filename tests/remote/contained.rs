//! A provider that breaks the contract harms nothing but its own calls, and the reason is shown.

use std::time::Duration;

use stateway_client::v1;
use stateway_client::v1::provider_health::Status as Serving;
use stateway_wire::v1 as wire;
use stateway_wire::v1::watch_executions_response::Item;
use tonic::Code;

use super::bad::{Bad, observation, versioned};
use super::process::{Socket, remote, remote_with_flood_limit, serving};
use super::{get, health, once, provider, serves};
use crate::support::{Running, TestGateway, Watching, reason_of};

/// A gateway in front of a bad provider and a good one.
async fn gateway(socket: &Socket) -> Running {
    TestGateway::new()
        .with("far", "remote", remote(socket))
        .with_memory("good", &crate::support::clock())
        .start()
        .await
}

async fn refused_as(change: fn(&mut wire::DescribeResponse), words: &str) {
    let (socket, bad) = (Socket::new(), Bad::new());
    bad.change(|script| change(&mut script.description));
    let _serving = serving(&socket.path(), bad.routes());
    let gateway = gateway(&socket).await;
    let shown = once(&gateway, |one| health(one).detail.contains(words)).await;
    assert_eq!(health(&shown).status(), Serving::NotServing);
    let failed = get(&gateway, "providers/far/executions/a").await;
    assert!(failed.is_err());
    // As soon as the provider describes itself well, it is served.
    bad.change(|script| script.description = super::bad::description());
    serves(&gateway).await;
    get(&gateway, "providers/far/executions/a").await.unwrap();
}

#[tokio::test]
async fn a_contract_range_that_does_not_fit_is_shown_with_both_ranges() {
    let words = "speaks the contract versions 7 to 9, this gateway speaks 1";
    let change = |one: &mut wire::DescribeResponse| {
        (one.min_contract_version, one.max_contract_version) = (7, 9);
    };
    refused_as(change, words).await;
}

#[tokio::test]
async fn a_contract_range_that_is_none_is_refused() {
    let change = |one: &mut wire::DescribeResponse| one.max_contract_version = -1;
    refused_as(change, "which is not a range").await;
}

#[tokio::test]
async fn a_malformed_table_is_shown_with_its_rule() {
    let change = |one: &mut wire::DescribeResponse| {
        one.state_table = one
            .state_table
            .replacen("terminal = true", "terminal = false", 1);
    };
    refused_as(change, "`terminal = false` does not fit succeeded").await;
}

#[tokio::test]
async fn an_unknown_capability_is_ignored_and_shown() {
    let (socket, bad) = (Socket::new(), Bad::new());
    bad.change(|script| script.description.capabilities.push("teleport".into()));
    let _serving = serving(&socket.path(), bad.routes());
    let gateway = gateway(&socket).await;
    let shown = serves(&gateway).await;
    assert!(health(&shown).detail.ends_with("ignored: teleport"));
    assert!(shown.capabilities.unwrap_or_default().watch_all);
}

#[tokio::test]
async fn a_capability_that_is_reported_and_missing_is_refused_and_never_ignored() {
    let (socket, bad) = (Socket::new(), Bad::new());
    bad.change(|script| {
        script.description.capabilities.push("purge".into());
        script.missing.push("purge_execution");
    });
    let _serving = serving(&socket.path(), bad.routes());
    let gateway = gateway(&socket).await;
    serves(&gateway).await;
    let purge = v1::PurgeExecutionRequest {
        name: "providers/far/executions/a".into(),
        ..v1::PurgeExecutionRequest::default()
    };
    let refused = gateway.executions().await.purge_execution(purge).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.code(), Code::Unimplemented);
    assert_eq!(reason_of(&refused), "CAPABILITY_NOT_SUPPORTED");
}

#[tokio::test]
async fn answers_about_other_executions_and_oversized_answers_are_refused() {
    let (socket, bad) = (Socket::new(), Bad::new());
    let _serving = serving(&socket.path(), bad.routes());
    let gateway = gateway(&socket).await;
    serves(&gateway).await;
    let foreign = get(&gateway, "providers/far/executions/b")
        .await
        .unwrap_err();
    assert_eq!(reason_of(&foreign), "PROVIDER_ANSWER_MALFORMED");
    assert!(foreign.message().contains("not the execution"), "{foreign}");

    bad.change(|script| script.observation.notes = vec!["x".repeat(5 * 1024 * 1024)]);
    let large = get(&gateway, "providers/far/executions/a")
        .await
        .unwrap_err();
    assert_eq!(reason_of(&large), "PROVIDER_ANSWER_TOO_LARGE", "{large}");
    shows(&gateway, "PROVIDER_ANSWER_TOO_LARGE").await;

    bad.change(|script| script.observation = observation("a"));
    let list = v1::ListExecutionsRequest {
        parent: "providers/far".into(),
        page_size: 3,
        ..v1::ListExecutionsRequest::default()
    };
    let long = gateway.executions().await.list_executions(list).await;
    assert_eq!(reason_of(&long.unwrap_err()), "PROVIDER_ANSWER_MALFORMED");
    get(&gateway, "providers/far/executions/a").await.unwrap();
    assert_eq!(health(&provider(&gateway).await).status(), Serving::Serving);
    shows(&gateway, "PROVIDER_ANSWER_MALFORMED").await;
}

/// Waits until `providers get` names the reason.
async fn shows(gateway: &Running, reason: &str) {
    once(gateway, |one| health(one).detail.contains(reason)).await;
}

#[tokio::test]
async fn a_stream_that_stalls_is_opened_again() {
    let (socket, bad) = (Socket::new(), Bad::new());
    bad.change(|script| {
        script.watch = vec![Item::Seen(observation("a")), Item::InSync(wire::InSync {})];
    });
    let _serving = serving(&socket.path(), bad.routes());
    let gateway = gateway(&socket).await;
    serves(&gateway).await;
    let mut watching = Watching::on(&gateway, "providers/far").await;
    let (_, id, state) = watching.change().await;
    assert_eq!((id.as_str(), state.as_str()), ("a", "ACTIVE"));
    // The stream is silent now, also without heartbeats. The next one reports another state.
    let mut done = observation("a");
    done.native_state = Some(wire::NativeState {
        state: "DONE".into(),
        ..wire::NativeState::default()
    });
    bad.change(|script| {
        script.watch = vec![Item::Seen(done), Item::InSync(wire::InSync {})];
    });
    let (_, _, state) = watching.change().await;
    assert_eq!(state, "DONE");
    shows(&gateway, "PROVIDER_STALLED").await;
}

/// A watch that reports one execution and then is silent.
fn watch_of(seen: wire::Observation) -> Vec<Item> {
    vec![Item::Seen(seen), Item::InSync(wire::InSync {})]
}

#[tokio::test]
async fn a_restarted_provider_may_report_lower_versions() {
    let (socket, bad) = (Socket::new(), Bad::new());
    bad.change(|script| script.watch = watch_of(versioned("ACTIVE", 5)));
    let first = serving(&socket.path(), bad.routes());
    let gateway = gateway(&socket).await;
    serves(&gateway).await;
    let mut watching = Watching::on(&gateway, "providers/far").await;
    assert_eq!(watching.change().await.2, "ACTIVE");
    drop(first);
    bad.change(|script| {
        script.description.instance_id = "two".into();
        script.watch = watch_of(versioned("DONE", 1));
    });
    let _second = serving(&socket.path(), bad.routes());
    assert_eq!(watching.change().await.2, "DONE");
    let shown = serves(&gateway).await;
    assert!(!health(&shown).detail.contains("PROVIDER_VERSION_DECREASED"));
}

#[tokio::test]
async fn versions_that_decrease_without_a_restart_are_ignored_and_shown() {
    let (socket, bad) = (Socket::new(), Bad::new());
    bad.change(|script| script.watch = watch_of(versioned("ACTIVE", 5)));
    let _serving = serving(&socket.path(), bad.routes());
    let gateway = gateway(&socket).await;
    serves(&gateway).await;
    let mut watching = Watching::on(&gateway, "providers/far").await;
    assert_eq!(watching.change().await.2, "ACTIVE");
    // The silent stream stalls and is opened again.
    bad.change(|script| script.watch = watch_of(versioned("STUCK", 4)));
    shows(&gateway, "PROVIDER_VERSION_DECREASED").await;
    bad.change(|script| script.watch = watch_of(versioned("DONE", 6)));
    // Version 4 was not shown.
    assert_eq!(watching.change().await.2, "DONE");
}

#[tokio::test]
async fn a_short_timeout_of_the_gateway_does_not_shorten_the_pauses_of_the_present_set() {
    let (socket, bad) = (Socket::new(), Bad::new());
    bad.change(|script| {
        script.watch = watch_of(observation("a"));
        script.watch_pause = Duration::from_millis(400);
    });
    let _serving = serving(&socket.path(), bad.routes());
    let mut gateway = TestGateway::new();
    gateway.settings.default_upstream.timeout = Duration::from_millis(200);
    let gateway = gateway.with("far", "remote", remote(&socket)).start().await;
    serves(&gateway).await;
    let mut watching = Watching::on(&gateway, "providers/far").await;
    assert_eq!(watching.change().await.1, "a");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_ends_its_own_stream_and_nothing_else() {
    let (socket, bad) = (Socket::new(), Bad::new());
    bad.change(|script| {
        script.watch = vec![Item::Seen(observation("a")), Item::InSync(wire::InSync {})];
        script.floods = true;
    });
    let _serving = serving(&socket.path(), bad.routes());
    let gateway = TestGateway::new()
        .with("far", "remote", remote_with_flood_limit(&socket))
        .with_memory("good", &crate::support::clock())
        .start()
        .await;
    serves(&gateway).await;
    let _watching = Watching::on(&gateway, "providers/far").await;
    for _ in 0..5 {
        tokio::time::sleep(Duration::from_millis(30)).await;
        let missing = get(&gateway, "providers/good/executions/none").await;
        assert_eq!(missing.unwrap_err().code(), Code::NotFound);
        get(&gateway, "providers/far/executions/a").await.unwrap();
    }
    shows(&gateway, "PROVIDER_FLOODS").await;
}

#[tokio::test]
async fn a_watch_of_all_providers_follows_a_provider_that_was_repaired() {
    let (socket, bad) = (Socket::new(), Bad::new());
    bad.change(|script| {
        let mut wrong = observation("a");
        wrong.retry = Some(wire::RetryEvidence::default());
        script.watch = vec![Item::Seen(wrong), Item::InSync(wire::InSync {})];
    });
    let _serving = serving(&socket.path(), bad.routes());
    let gateway = gateway(&socket).await;
    serves(&gateway).await;
    let mut watching = Watching::on(&gateway, "providers/-").await;
    let words = "PROVIDER_ANSWER_MALFORMED";
    once(&gateway, |one| health(one).detail.contains(words)).await;
    bad.change(|script| {
        let seen = observation("a");
        script.watch = vec![Item::Seen(seen), Item::InSync(wire::InSync {})];
    });
    let seen = tokio::time::timeout(super::PATIENCE, watching.change()).await;
    assert_eq!(seen.expect("the provider is followed again").1, "a");
}
