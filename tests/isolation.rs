//! One provider that hangs or fails never slows the others.

use std::time::Duration;

use stateway_client::v1::provider_health::{Breaker, Status as Serving};
use stateway_client::v1::{
    GetExecutionRequest, GetProviderRequest, ListExecutionsRequest, Provider, StartExecutionRequest,
};
use stateway_provider_api::{ErrorKind, Verb};
use tonic::{Code, Request};

use crate::support::{Puppet, Running, TestGateway, error_info, reason_of, retry_delay_of};

fn get(provider: &str) -> GetExecutionRequest {
    GetExecutionRequest {
        name: format!("providers/{provider}/executions/x"),
        view: 0,
    }
}

fn start(provider: &str) -> StartExecutionRequest {
    StartExecutionRequest {
        definition: format!("providers/{provider}/definitions/any"),
        ..Default::default()
    }
}

async fn provider(gateway: &Running, id: &str) -> Provider {
    let name = format!("providers/{id}");
    let answer = gateway
        .providers()
        .await
        .get_provider(GetProviderRequest { name })
        .await;
    answer.expect("it is configured").into_inner()
}

async fn two() -> (Puppet, Puppet, TestGateway) {
    let (bad, good) = (Puppet::new(), Puppet::new());
    bad.show("x", "RUNNING");
    good.show("x", "RUNNING");
    let gateway = TestGateway::new()
        .with_puppet("bad", &bad)
        .with_puppet("good", &good);
    (bad, good, gateway)
}

#[tokio::test]
async fn a_list_over_all_answers_within_its_deadline_and_names_who_hangs() {
    let (bad, _, gateway) = two().await;
    bad.hang(true);
    let gateway = gateway.start().await;
    let mut request = Request::new(ListExecutionsRequest {
        parent: "providers/-".into(),
        ..Default::default()
    });
    request.set_timeout(Duration::from_secs(2));
    let answer = gateway
        .executions()
        .await
        .list_executions(request)
        .await
        .expect("in time");
    let answer = answer.into_inner();
    assert_eq!(answer.unreachable, ["providers/bad"]);
    assert_eq!(answer.executions[0].name, "providers/good/executions/x");
    assert_eq!(answer.next_page_token, "");
}

#[tokio::test]
async fn calls_to_another_provider_go_on_while_one_has_used_up_its_slots() {
    let (bad, _, mut gateway) = two().await;
    bad.hang(true);
    gateway.settings.default_upstream.max_concurrent = 4;
    gateway.settings.default_upstream.timeout = Duration::from_secs(20);
    let gateway = gateway.start().await;
    let mut hanging = Vec::new();
    for _ in 0..8 {
        let mut client = gateway.executions().await;
        hanging.push(tokio::spawn(async move {
            client.get_execution(get("bad")).await
        }));
    }
    bad.until_asked(Verb::Get, 3).await;
    // The prober holds one slot of the hanging provider, the calls hold the rest.
    let mut request = Request::new(get("bad"));
    request.set_timeout(Duration::from_secs(5));
    let refused = gateway
        .executions()
        .await
        .get_execution(request)
        .await
        .unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert_eq!(reason_of(&refused), "PROVIDER_BUSY");
    assert!(retry_delay_of(&refused).is_some());
    let mut client = gateway.executions().await;
    for _ in 0..50 {
        // Half of the time that the other calls hang.
        let answer =
            tokio::time::timeout(Duration::from_secs(10), client.get_execution(get("good")));
        let answer = answer.await.expect("it is not held up");
        answer.expect("the good one answers");
    }
    for call in hanging {
        call.abort();
    }
}

#[tokio::test]
async fn the_breaker_opens_refuses_at_once_and_closes_again() {
    let (bad, _, mut gateway) = two().await;
    bad.fail(ErrorKind::Unavailable, None);
    gateway.settings.default_upstream.breaker_failures = 3;
    gateway.settings.default_upstream.breaker_cool_down = Duration::from_millis(300);
    // Health calls would count too; this test wants to count for itself.
    gateway.settings.default_upstream.health_interval = Duration::from_secs(3600);
    let gateway = gateway.start().await;
    let mut client = gateway.executions().await;
    let refused = loop {
        let status = client.get_execution(get("bad")).await.unwrap_err();
        assert_eq!(status.code(), Code::Unavailable);
        assert!(retry_delay_of(&status).is_some());
        if reason_of(&status) == "PROVIDER_BREAKER_OPEN" {
            break status;
        }
        assert_eq!(reason_of(&status), "PROVIDER_UNAVAILABLE");
    };
    assert!(retry_delay_of(&refused).is_some_and(|pause| pause <= Duration::from_millis(300)));
    let asked = bad.asked(Verb::Get);
    assert!(asked <= 3, "asked {asked} times");
    assert_eq!(
        provider(&gateway, "bad").await.health.unwrap().breaker(),
        Breaker::Open
    );
    client
        .get_execution(get("good"))
        .await
        .expect("the good one answers");

    bad.recover();
    let recovered = async {
        while client.get_execution(get("bad")).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), recovered)
        .await
        .expect("it closes again");
    assert_eq!(
        provider(&gateway, "bad").await.health.unwrap().breaker(),
        Breaker::Closed
    );
}

#[tokio::test]
async fn the_outage_of_a_component_stops_only_the_verbs_that_need_the_component() {
    let (bad, _, mut gateway) = two().await;
    bad.component_down("ingress", &[Verb::Start]);
    gateway.settings.default_upstream.breaker_failures = 3;
    gateway.settings.default_upstream.breaker_cool_down = Duration::from_secs(3600);
    let gateway = gateway.start().await;
    let mut client = gateway.executions().await;
    for attempt in 1..=10 {
        let refused = client.start_execution(start("bad")).await.unwrap_err();
        assert_eq!(refused.code(), Code::Unavailable);
        assert!(refused.message().contains("ingress"), "{refused}");
        assert_eq!(error_info(&refused).1["component"], "ingress");
        let reason = if attempt <= 3 {
            "PROVIDER_UNAVAILABLE"
        } else {
            "PROVIDER_BREAKER_OPEN"
        };
        assert_eq!(reason_of(&refused), reason, "attempt {attempt}");
        client
            .get_execution(get("bad"))
            .await
            .expect("reads answer");
    }
    assert_eq!(bad.asked(Verb::Start), 3);
    let list = ListExecutionsRequest {
        parent: "providers/bad".into(),
        ..Default::default()
    };
    client.list_executions(list).await.expect("lists answer");
    assert_eq!(
        provider(&gateway, "bad").await.health.unwrap().breaker(),
        Breaker::Closed
    );
}

#[tokio::test]
async fn a_refused_request_does_not_open_the_breaker() {
    let (bad, _, mut gateway) = two().await;
    gateway.settings.default_upstream.breaker_failures = 2;
    let gateway = gateway.start().await;
    bad.fail(ErrorKind::InvalidArgument, None);
    for _ in 0..5 {
        let status = gateway
            .executions()
            .await
            .get_execution(get("bad"))
            .await
            .unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
    }
    assert_eq!(
        provider(&gateway, "bad").await.health.unwrap().breaker(),
        Breaker::Closed
    );
}

#[tokio::test]
async fn a_provider_that_answers_again_is_part_of_the_following_page() {
    let (bad, good, gateway) = two().await;
    for id in ["a", "b", "c"] {
        good.show(id, "RUNNING");
    }
    bad.show("late", "RUNNING");
    let gateway = gateway.start().await;
    let mut client = gateway.executions().await;
    let mut request = ListExecutionsRequest {
        parent: "providers/-".into(),
        page_size: 2,
        ..ListExecutionsRequest::default()
    };
    bad.fail(ErrorKind::Unavailable, None);
    let page = client.list_executions(request.clone()).await;
    let page = page.unwrap().into_inner();
    assert_eq!(page.unreachable, ["providers/bad"]);
    assert_ne!(page.next_page_token, "");
    bad.recover();
    let mut names = Vec::new();
    request.page_token = page.next_page_token;
    while !request.page_token.is_empty() {
        let page = client.list_executions(request.clone()).await;
        let page = page.unwrap().into_inner();
        assert_eq!(page.unreachable, [""; 0]);
        names.extend(page.executions.into_iter().map(|one| one.name));
        request.page_token = page.next_page_token;
    }
    let late = "providers/bad/executions/late".to_owned();
    assert!(names.contains(&late), "{names:?}");
}

#[tokio::test]
async fn an_outage_shows_in_the_providers_health() {
    let (bad, _, gateway) = two().await;
    let gateway = gateway.start().await;
    let until = async |wanted: Serving| {
        while provider(&gateway, "bad").await.health.unwrap().status() != wanted {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), until(Serving::Serving))
        .await
        .expect("serving");
    assert_eq!(
        provider(&gateway, "bad")
            .await
            .health
            .unwrap()
            .engine_version,
        "puppet"
    );
    bad.fail(ErrorKind::Unavailable, None);
    tokio::time::timeout(Duration::from_secs(5), until(Serving::NotServing))
        .await
        .expect("down");
    assert_eq!(
        provider(&gateway, "good").await.health.unwrap().status(),
        Serving::Serving
    );
}

#[tokio::test]
async fn a_watch_over_all_opens_without_who_hangs_and_names_it() {
    use crate::support::Watching;
    use stateway_client::v1::watch_executions_response::Kind;
    let (bad, _, gateway) = two().await;
    bad.hang(true);
    let gateway = gateway.start().await;
    let mut watching = Watching::on(&gateway, "providers/-").await;
    assert_eq!(
        watching.change().await,
        (Kind::Added, "x".into(), "RUNNING".into())
    );
    assert_eq!(
        watching.expect(Kind::Bookmark).await.unreachable,
        ["providers/bad"]
    );
}

#[tokio::test]
async fn a_wait_on_a_hanging_provider_ends_by_its_deadline() {
    let (bad, _, gateway) = two().await;
    bad.hang(true);
    let gateway = gateway.start().await;
    let name = "providers/bad/executions/x".to_owned();
    let mut request = Request::new(stateway_client::v1::WaitExecutionRequest {
        name,
        sub_states: vec![],
    });
    request.set_timeout(Duration::from_millis(400));
    let status = gateway
        .executions()
        .await
        .wait_execution(request)
        .await
        .unwrap_err();
    assert_eq!(
        (status.code(), reason_of(&status)),
        (Code::DeadlineExceeded, "PROVIDER_TIMEOUT".into())
    );
}
