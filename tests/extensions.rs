//! What only some engines offer: any provider may, and the gateway serves it through the same guard.

use std::time::Duration;

use stateway_client::v1::approval::State;
use stateway_client::v1::approvals_client::ApprovalsClient;
use stateway_client::v1::decide_approval_request::Choice;
use stateway_client::v1::recovery_client::RecoveryClient;
use stateway_client::v1::workers_client::WorkersClient;
use stateway_client::v1::{
    DecideApprovalRequest, GetApprovalRequest, GetProviderRequest, ListApprovalsRequest,
    ListEscalationsRequest, ListWorkersRequest, ListWorkersResponse, VerifyExecutionsRequest,
    VerifyExecutionsResponse,
};
use stateway_provider_api::{ErrorKind, Verb};
use tonic::transport::Channel;
use tonic::{Code, Status};

use crate::support::{BuiltInRig, Puppet, Running, TestGateway, by, reason_of};

const ASKED: &str = "providers/p/executions/x/approvals/ask-ship";

async fn approvals(gateway: &Running) -> ApprovalsClient<Channel> {
    ApprovalsClient::new(gateway.channel().await)
}

fn all(page_size: i32, page_token: &str) -> ListApprovalsRequest {
    ListApprovalsRequest {
        parent: "providers/-".into(),
        page_size,
        page_token: page_token.into(),
        ..Default::default()
    }
}

#[tokio::test]
async fn a_provider_that_is_not_the_built_in_engine_offers_approvals() {
    let puppet = Puppet::with_approvals();
    puppet.ask("x", "ship", "ops");
    let gateway = TestGateway::new()
        .with_puppet("p", &puppet)
        .with_puppet("plain", &Puppet::new())
        .start()
        .await;
    let mut client = approvals(&gateway).await;
    let listed = client.list_approvals(all(10, "")).await.unwrap();
    let listed = listed.into_inner().approvals;
    assert_eq!(listed.len(), 1);
    assert_eq!((listed[0].name.as_str(), &*listed[0].role), (ASKED, "ops"));
    assert_eq!(listed[0].execution, "providers/p/executions/x");
    let decide = DecideApprovalRequest {
        name: ASKED.into(),
        decision: Choice::Grant.into(),
        ..Default::default()
    };
    let decided = client.decide_approval(by("ada", "ops", decide)).await;
    let decided = decided.unwrap().into_inner();
    assert_eq!(decided.state(), State::Granted);
    assert_eq!(decided.decision.unwrap().decided_by, "ada");
    let get = GetApprovalRequest { name: ASKED.into() };
    let shown = client.get_approval(get).await.unwrap().into_inner();
    assert_eq!(shown.state(), State::Granted);
    assert!(
        client
            .list_approvals(all(10, ""))
            .await
            .unwrap()
            .into_inner()
            .approvals
            .is_empty()
    );
    assert_eq!(puppet.asked(Verb::DecideApproval), 1);
}

#[tokio::test]
async fn capabilities_show_which_provider_offers_what() {
    let gateway = TestGateway::new()
        .with_puppet("p", &Puppet::with_approvals())
        .with_puppet("plain", &Puppet::new())
        .start()
        .await;
    let mut providers = gateway.providers().await;
    for (id, offers) in [("p", true), ("plain", false)] {
        let name = format!("providers/{id}");
        let shown = providers.get_provider(GetProviderRequest { name }).await;
        let can = shown.unwrap().into_inner().capabilities.unwrap();
        assert_eq!((can.approvals, can.workers), (offers, false), "{id}");
    }
    let mut client = approvals(&gateway).await;
    let name = "providers/plain/executions/x/approvals/ask-ship".into();
    let refused = client.get_approval(GetApprovalRequest { name }).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.code(), Code::Unimplemented);
    assert_eq!(reason_of(&refused), "CAPABILITY_NOT_SUPPORTED");
}

#[tokio::test]
async fn one_provider_that_fails_does_not_fail_the_list_of_approvals() {
    let (good, bad) = (Puppet::with_approvals(), Puppet::with_approvals());
    for step in ["a", "b", "c"] {
        good.ask("x", step, "ops");
        bad.ask("y", step, "ops");
    }
    let mut gateway = TestGateway::new()
        .with_puppet("bad", &bad)
        .with_puppet("good", &good);
    gateway.settings.default_upstream.health_interval = Duration::from_secs(3600);
    let gateway = gateway.start().await;
    let mut client = approvals(&gateway).await;
    bad.fail(ErrorKind::Unavailable, None);
    let first = client
        .list_approvals(all(1, ""))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(first.unreachable, ["providers/bad"]);
    assert_eq!(first.approvals.len(), 1);
    let escalations = ListEscalationsRequest {
        parent: "providers/-".into(),
        ..Default::default()
    };
    let escalations = client.list_escalations(escalations).await.unwrap();
    assert_eq!(escalations.into_inner().unreachable, ["providers/bad"]);
    // A provider that has recovered is back on the next page.
    bad.recover();
    let mut names: Vec<_> = first.approvals.into_iter().map(|one| one.name).collect();
    let mut token = first.next_page_token;
    while !token.is_empty() {
        let page = client.list_approvals(all(1, &token)).await.unwrap();
        let page = page.into_inner();
        assert!(page.unreachable.is_empty());
        names.extend(page.approvals.into_iter().map(|one| one.name));
        token = page.next_page_token;
    }
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 6, "{names:?}");
}

/// How long the gateway waits for a provider in a list of all.
const PATIENCE: Duration = Duration::from_millis(1_500);

/// A gateway in front of providers that hangs up on none of them for good.
async fn gateway_of(puppets: &[(&str, &Puppet)]) -> Running {
    let mut gateway = TestGateway::new();
    for (id, puppet) in puppets {
        gateway = gateway.with_puppet(id, puppet);
    }
    let limits = &mut gateway.settings.default_upstream;
    limits.health_interval = Duration::from_secs(3600);
    limits.multi_provider_timeout = PATIENCE;
    gateway.start().await
}

fn workers_page(page_size: i32, page_token: &str) -> ListWorkersRequest {
    ListWorkersRequest {
        parent: "providers/-".into(),
        page_size,
        page_token: page_token.into(),
    }
}

#[tokio::test]
async fn providers_that_hang_or_fail_do_not_fail_the_list_of_workers() {
    let good = Puppet::with_workers(&["w2", "w1", "w3"]);
    let hanging = Puppet::with_workers(&["x1"]);
    let (failing, also_hanging) = (Puppet::with_workers(&["y1"]), Puppet::with_workers(&["z1"]));
    let gateway = gateway_of(&[
        ("a-hanging", &hanging),
        ("b-hanging", &also_hanging),
        ("failing", &failing),
        ("good", &good),
    ])
    .await;
    let mut client = WorkersClient::new(gateway.channel().await);
    hanging.hang(true);
    also_hanging.hang(true);
    failing.fail(ErrorKind::Unavailable, None);
    let began = std::time::Instant::now();
    let first = client.list_workers(workers_page(2, "")).await.unwrap();
    let took = began.elapsed();
    assert!(took < PATIENCE * 2, "asked in turn: {took:?}");
    let first = first.into_inner();
    let ids = |page: &ListWorkersResponse| -> Vec<_> {
        let workers = page.workers.iter();
        workers.map(|worker| worker.worker_id.clone()).collect()
    };
    assert_eq!(ids(&first), ["w1", "w2"]);
    let unreachable = ["a-hanging", "b-hanging", "failing"].map(|id| format!("providers/{id}"));
    assert_eq!(first.unreachable, unreachable);
    // A provider that has recovered is back on the next page.
    for puppet in [&hanging, &also_hanging, &failing] {
        puppet.hang(false);
        puppet.recover();
    }
    let (mut found, mut token) = (Vec::new(), first.next_page_token);
    while !token.is_empty() {
        let page = client.list_workers(workers_page(2, &token)).await.unwrap();
        let page = page.into_inner();
        assert!(page.workers.len() <= 2, "{:?}", page.workers);
        assert_eq!(page.unreachable, [""; 0]);
        found.extend(ids(&page));
        token = page.next_page_token;
    }
    assert_eq!(found, ["w3", "x1", "z1", "y1"]);
    failing.fail(ErrorKind::Unavailable, None);
    let one = ListWorkersRequest {
        parent: "providers/failing".into(),
        ..ListWorkersRequest::default()
    };
    let refused = client.list_workers(one).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable);
}

async fn verified(
    gateway: &Running,
    parent: &str,
) -> Result<Vec<VerifyExecutionsResponse>, Status> {
    let mut client = RecoveryClient::new(gateway.channel().await);
    let request = VerifyExecutionsRequest {
        parent: parent.into(),
    };
    let mut stream = client.verify_executions(request).await?.into_inner();
    let mut messages = Vec::new();
    while let Some(message) = stream.message().await? {
        messages.push(message);
    }
    Ok(messages)
}

#[tokio::test]
async fn every_verdict_of_a_verification_is_sent() {
    let puppet = Puppet::with_faulty_executions(1_700);
    let gateway = gateway_of(&[("p", &puppet)]).await;
    let messages = verified(&gateway, "providers/-").await.unwrap();
    let sizes: Vec<_> = messages.iter().map(|one| one.verdicts.len()).collect();
    assert_eq!(sizes, [500, 500, 500, 200]);
    let verdicts = messages.iter().flat_map(|message| &message.verdicts);
    let names: std::collections::BTreeSet<_> = verdicts.map(|verdict| &verdict.name).collect();
    assert_eq!(names.len(), 1_700);
    let done: Vec<_> = messages.iter().map(|message| message.done).collect();
    assert_eq!(done, [false, false, false, true]);
    assert_eq!(messages[3].faulty_count, 1_700);
}

#[tokio::test]
async fn a_provider_that_fails_does_not_fail_the_verification_of_the_others() {
    let bad = Puppet::with_faulty_executions(2);
    let (good, hanging) = (
        Puppet::with_faulty_executions(3),
        Puppet::with_faulty_executions(1),
    );
    let puppets = [("bad", &bad), ("good", &good), ("hanging", &hanging)];
    let gateway = gateway_of(&puppets).await;
    bad.fail(ErrorKind::Unavailable, None);
    hanging.hang(true);
    let messages = verified(&gateway, "providers/-").await.unwrap();
    let last = messages.last().expect("a message");
    let mut unreachable = last.unreachable.clone();
    unreachable.sort();
    assert_eq!(unreachable, ["providers/bad", "providers/hanging"]);
    assert_eq!(
        (last.checked_count, last.faulty_count, last.done),
        (3, 3, true)
    );
    let refused = verified(&gateway, "providers/bad").await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable);
}

#[tokio::test]
async fn the_guard_covers_extensions_too() {
    let puppet = Puppet::with_approvals();
    puppet.ask("x", "ship", "ops");
    let mut gateway = TestGateway::new().with_puppet("p", &puppet);
    let limits = &mut gateway.settings.default_upstream;
    limits.breaker_failures = 2;
    limits.breaker_cool_down = Duration::from_secs(60);
    limits.health_interval = Duration::from_secs(3600);
    let gateway = gateway.start().await;
    let mut client = approvals(&gateway).await;
    puppet.fail(ErrorKind::Unavailable, None);
    let get = || GetApprovalRequest { name: ASKED.into() };
    for _ in 0..2 {
        client.get_approval(get()).await.unwrap_err();
    }
    let refused = client.get_approval(get()).await.unwrap_err();
    assert_eq!(reason_of(&refused), "PROVIDER_BREAKER_OPEN");
}

#[tokio::test]
async fn approvals_of_the_built_in_engine_and_of_another_provider_are_one_list() {
    let puppet = Puppet::with_approvals();
    puppet.ask("x", "ship", "ops");
    let rig = BuiltInRig::start_beside(|gateway| gateway.with_puppet("p", &puppet)).await;
    rig.apply("name: signed\nsteps:\n  - {name: sign, approval: {role: ops}}\n")
        .await;
    rig.begin("signed", "e", "ada", serde_json::Value::Null)
        .await;
    let mut client = rig.approvals().await;
    let mut names = Vec::new();
    for _ in 0..100 {
        let listed = client.list_approvals(all(10, "")).await.unwrap();
        names = listed
            .into_inner()
            .approvals
            .into_iter()
            .map(|one| one.name)
            .collect();
        if names.len() == 2 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(names, ["providers/b/executions/e/approvals/sign~1", ASKED]);
}
