//! What must not go wrong when providers, readers and writers get in each other's way.

use std::time::{Duration, Instant};

use stateway_client::v1::provider_health::{Breaker, Status as Serving};
use stateway_client::v1::watch_executions_response::Kind;
use stateway_client::v1::{
    GetProviderRequest, ListExecutionsRequest, RetryFromRequest, StartExecutionRequest, SubState,
    WaitExecutionRequest, WatchExecutionsRequest,
};
use stateway_model::ExecutionId;
use stateway_provider_api::{ErrorKind, NativeState, Observation, RetryEvidence, RetryPhase, Verb};
use tonic::Request;

use crate::support::{Puppet, Running, TestGateway, Watching, clock};

const ONE: &str = "providers/p/executions/x";

fn start(definition: &str, id: &str) -> StartExecutionRequest {
    StartExecutionRequest {
        definition: definition.into(),
        execution_id: id.into(),
        ..Default::default()
    }
}

#[tokio::test]
async fn a_watch_goes_on_when_a_finished_execution_is_begun_anew() {
    let clock = clock();
    let gateway = TestGateway::new().with_memory("m", &clock).start().await;
    let mut client = gateway.executions().await;
    let name = client
        .start_execution(start("providers/m/definitions/doomed", "x"))
        .await
        .unwrap()
        .into_inner()
        .name;
    let mut watching = Watching::on(&gateway, &name).await;
    let until = async |watching: &mut Watching, wanted: SubState| {
        loop {
            let shown = watching.next().await.unwrap().execution;
            if shown.is_some_and(|execution| execution.sub_state() == wanted) {
                return;
            }
        }
    };
    watching.expect(Kind::Added).await;
    clock.advance(Duration::from_secs(10));
    until(&mut watching, SubState::Failed).await;
    let again = RetryFromRequest {
        name: name.clone(),
        ..Default::default()
    };
    client.retry_from(again).await.unwrap();
    until(&mut watching, SubState::Running).await;
    clock.advance(Duration::from_secs(100));
    until(&mut watching, SubState::Succeeded).await;
    let wait = WaitExecutionRequest {
        name,
        sub_states: vec![],
    };
    assert!(
        client
            .wait_execution(wait)
            .await
            .unwrap()
            .into_inner()
            .reached
    );
}

#[tokio::test]
async fn changes_that_the_filter_leaves_out_do_not_put_the_heartbeat_off() {
    let puppet = Puppet::new();
    puppet.show("x", "RUNNING");
    let mut gateway = TestGateway::new().with_puppet("p", &puppet);
    gateway.settings.watch.heartbeat = Duration::from_millis(200);
    let gateway = gateway.start().await;
    let request = WatchExecutionsRequest {
        parent: "providers/p".into(),
        filter: "sub_state = failed".into(),
        ..Default::default()
    };
    let mut watching = Watching::open(&gateway, request).await.unwrap();
    watching.expect(Kind::Bookmark).await;
    let busy = tokio::spawn(async move {
        for number in 0..400 {
            puppet.show("x", ["SUCCEEDED", "RUNNING"][number % 2]);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    watching.expect(Kind::Bookmark).await;
    assert!(
        !busy.is_finished(),
        "it came only when the changes had ended"
    );
    busy.abort();
}

async fn breaker(gateway: &Running) -> Breaker {
    let name = "providers/p".to_owned();
    let mut providers = gateway.providers().await;
    let answer = providers.get_provider(GetProviderRequest { name }).await;
    let health = answer.expect("a provider").into_inner().health;
    health.expect("health").breaker()
}

#[tokio::test]
async fn polling_a_dead_provider_opens_its_breaker() {
    let puppet = Puppet::new();
    puppet.show("x", "RUNNING");
    let mut gateway = TestGateway::new().with_puppet("p", &puppet);
    gateway.settings.default_upstream.breaker_failures = 3;
    gateway.settings.default_upstream.breaker_cool_down = Duration::from_secs(60);
    gateway.settings.default_upstream.health_interval = Duration::from_secs(3600);
    let gateway = gateway.start().await;
    let mut watching = Watching::on(&gateway, ONE).await;
    watching.expect(Kind::Added).await;
    puppet.fail(ErrorKind::Unavailable, None);
    let before = puppet.asked(Verb::Get);
    let open = async {
        while breaker(&gateway).await != Breaker::Open {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let open = tokio::time::timeout(Duration::from_secs(30), open).await;
    open.expect("the polls open the breaker");
    let asked = puppet.asked(Verb::Get) - before;
    assert!((1..=4).contains(&asked), "it was asked {asked} times");
}

#[tokio::test]
async fn an_overdue_attempt_does_not_keep_polling_fast() {
    let puppet = Puppet::new();
    let id = ExecutionId::new("x").expect("an id");
    let mut overdue = Observation::new(id, NativeState::new("RUNNING"));
    overdue.retry = Some(RetryEvidence {
        phase: RetryPhase::BetweenAttempts,
        next_attempt_time: Some("2020-01-01T00:00:00Z".parse().unwrap()),
        ..RetryEvidence::reported(1)
    });
    puppet.show_observation(overdue);
    let mut gateway = TestGateway::new().with_puppet("p", &puppet);
    gateway.settings.default_upstream.max_poll_interval = Duration::from_secs(1);
    let gateway = gateway.start().await;
    let begin = Instant::now();
    let mut watching = Watching::on(&gateway, "providers/p").await;
    watching.expect(Kind::Added).await;
    // The pauses between them are 10, 20, 40, 80, 160, 320, 640 and 1,000 ms.
    puppet.until_asked(Verb::List, 9).await;
    let took = begin.elapsed();
    assert!(
        took >= Duration::from_secs(1),
        "nine lists in {took:?} at a slowest pace of 1 s"
    );
}

#[tokio::test]
async fn the_poller_never_uses_up_the_slots_of_clients() {
    let puppet = Puppet::new();
    for number in 0..500 {
        puppet.show(&format!("e{number}"), "RUNNING");
    }
    let mut gateway = TestGateway::new().with_puppet("p", &puppet);
    gateway.settings.default_upstream.max_concurrent = 2;
    gateway.settings.default_upstream.health_interval = Duration::from_secs(3600);
    let gateway = gateway.start().await;
    let client = gateway.executions().await;
    let watches = (0..500).map(|number| {
        let mut client = client.clone();
        let request = WatchExecutionsRequest {
            names: vec![format!("providers/p/executions/e{number}")],
            ..Default::default()
        };
        async move { client.watch_executions(request).await }
    });
    for opened in futures::future::join_all(watches).await {
        opened.expect("no watch is refused by our own poller");
    }
}

#[tokio::test]
async fn what_was_just_started_is_not_taken_for_gone_by_an_older_list() {
    let puppet = Puppet::new();
    puppet.show("old", "RUNNING");
    puppet.slow_lists(Duration::from_millis(200));
    let gateway = TestGateway::new().with_puppet("p", &puppet).start().await;
    let mut watching = Watching::on(&gateway, "providers/p").await;
    watching.expect(Kind::Added).await;
    watching.expect(Kind::Bookmark).await;
    let lists = puppet.asked(Verb::List);
    puppet.until_asked(Verb::List, lists + 1).await;
    let mut client = gateway.executions().await;
    let new = start("providers/p/definitions/d", "new");
    client.start_execution(new).await.unwrap();
    assert_eq!(
        watching.change().await,
        (Kind::Added, "new".into(), "RUNNING".into())
    );
    let lists = puppet.asked(Verb::List);
    puppet.until_asked(Verb::List, lists + 2).await;
    puppet.show("old", "FAILED");
    assert_eq!(
        watching.change().await,
        (Kind::Modified, "old".into(), "FAILED".into())
    );
}

#[tokio::test]
async fn an_adapters_panic_fails_its_call_and_nothing_else() {
    let puppet = Puppet::new();
    puppet.show("x", "RUNNING");
    let gateway = TestGateway::new().with_puppet("p", &puppet).start().await;
    puppet.panic_once();
    let request = WatchExecutionsRequest {
        names: vec![ONE.into()],
        ..Default::default()
    };
    let status = Watching::open(&gateway, request)
        .await
        .err()
        .expect("it fails");
    assert_eq!(status.code(), tonic::Code::Internal);
    let mut watching = Watching::on(&gateway, ONE).await;
    watching.expect(Kind::Added).await;
}

#[tokio::test]
async fn a_provider_that_is_only_busy_is_not_called_dead() {
    let puppet = Puppet::new();
    puppet.show("x", "RUNNING");
    let mut gateway = TestGateway::new().with_puppet("p", &puppet);
    gateway.settings.default_upstream.max_concurrent = 2;
    let gateway = gateway.start().await;
    let health = async || {
        let name = "providers/p".to_owned();
        let mut client = gateway.providers().await;
        let provider = client
            .get_provider(GetProviderRequest { name })
            .await
            .unwrap();
        provider.into_inner().health.unwrap().status()
    };
    while health().await != Serving::Serving {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    puppet.slow_lists(Duration::from_millis(100));
    let mut load = Vec::new();
    for _ in 0..8 {
        let mut client = gateway.executions().await;
        load.push(tokio::spawn(async move {
            loop {
                let request = ListExecutionsRequest {
                    parent: "providers/p".into(),
                    ..Default::default()
                };
                let _ = client.list_executions(Request::new(request)).await;
            }
        }));
    }
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert_eq!(health().await, Serving::Serving);
    }
    load.iter().for_each(tokio::task::JoinHandle::abort);
}

fn everything(page_size: i32, page_token: &str) -> ListExecutionsRequest {
    ListExecutionsRequest {
        parent: "providers/-".into(),
        page_size,
        page_token: page_token.into(),
        ..Default::default()
    }
}

/// Lists everything once; how long it took, and who was missing.
async fn listed(gateway: &crate::support::Running) -> (Duration, Vec<String>) {
    let began = std::time::Instant::now();
    let mut client = gateway.executions().await;
    let answer = client.list_executions(everything(10, "")).await.unwrap();
    (began.elapsed(), answer.into_inner().unreachable)
}

const PATIENCE: Duration = Duration::from_secs(1);

#[tokio::test]
async fn a_hanging_provider_costs_lists_their_patience_only_until_its_breaker_opens() {
    let (bad, good) = (Puppet::new(), Puppet::new());
    good.show("x", "RUNNING");
    bad.show("y", "RUNNING");
    let mut gateway = TestGateway::new()
        .with_puppet("bad", &bad)
        .with_puppet("good", &good);
    let limits = &mut gateway.settings.default_upstream;
    limits.multi_provider_timeout = PATIENCE;
    limits.timeout = PATIENCE * 3;
    limits.breaker_failures = 3;
    limits.breaker_cool_down = Duration::from_millis(200);
    let gateway = gateway.start().await;
    assert!(listed(&gateway).await.1.is_empty());
    bad.hang(true);
    let mut slow = 0;
    loop {
        let (took, unreachable) = listed(&gateway).await;
        assert_eq!(unreachable, ["providers/bad"]);
        if took < PATIENCE {
            break;
        }
        slow += 1;
    }
    assert!((1..=3).contains(&slow), "{slow} lists waited");
    // The health check probes now and again; no list ever waits for a probe.
    for _ in 0..10 {
        let (took, unreachable) = listed(&gateway).await;
        assert!(took < PATIENCE, "a list waited {took:?}");
        assert_eq!(unreachable, ["providers/bad"]);
        tokio::time::sleep(Duration::from_millis(150)).await;
    }
    bad.hang(false);
    let recovered = async {
        while !listed(&gateway).await.1.is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let recovered = tokio::time::timeout(Duration::from_secs(10), recovered).await;
    recovered.expect("the recovery is noticed");
}

#[tokio::test]
async fn a_provider_that_recovers_is_back_on_the_next_page() {
    let (bad, good) = (Puppet::new(), Puppet::new());
    for number in 0..4 {
        bad.show(&format!("b{number}"), "RUNNING");
        good.show(&format!("g{number}"), "RUNNING");
    }
    let mut gateway = TestGateway::new()
        .with_puppet("bad", &bad)
        .with_puppet("good", &good);
    gateway.settings.default_upstream.health_interval = Duration::from_secs(3600);
    let gateway = gateway.start().await;
    let mut client = gateway.executions().await;
    bad.fail(ErrorKind::Unavailable, None);
    let first = client.list_executions(everything(2, "")).await.unwrap();
    let first = first.into_inner();
    assert_eq!(first.unreachable, ["providers/bad"]);
    bad.recover();
    let mut names: Vec<_> = first.executions.into_iter().map(|one| one.name).collect();
    let mut token = first.next_page_token;
    while !token.is_empty() {
        let page = client.list_executions(everything(2, &token)).await.unwrap();
        let page = page.into_inner();
        assert!(page.unreachable.is_empty());
        names.extend(page.executions.into_iter().map(|one| one.name));
        token = page.next_page_token;
    }
    names.sort();
    let of = |provider: &'static str, id: &'static str| {
        (0..4).map(move |number| format!("providers/{provider}/executions/{id}{number}"))
    };
    let expected: Vec<_> = of("bad", "b").chain(of("good", "g")).collect();
    assert_eq!(names, expected);
}

#[tokio::test]
async fn a_list_ends_although_a_provider_stays_unreachable() {
    let (bad, good) = (Puppet::new(), Puppet::new());
    for number in 0..3 {
        good.show(&format!("g{number}"), "RUNNING");
    }
    bad.fail(ErrorKind::Unavailable, None);
    let gateway = TestGateway::new()
        .with_puppet("bad", &bad)
        .with_puppet("good", &good)
        .start()
        .await;
    let mut client = gateway.executions().await;
    let (mut token, mut rows) = (String::new(), 0);
    for _ in 0..20 {
        let page = client.list_executions(everything(2, &token)).await.unwrap();
        let page = page.into_inner();
        assert_eq!(page.unreachable, ["providers/bad"]);
        rows += page.executions.len();
        token = page.next_page_token;
        if token.is_empty() {
            break;
        }
    }
    assert_eq!((rows, token.as_str()), (3, ""));
}

#[tokio::test]
async fn an_adapter_that_refuses_without_its_engine_does_not_close_the_breaker() {
    let puppet = Puppet::new();
    puppet.show("x", "RUNNING");
    let mut gateway = TestGateway::new().with_puppet("p", &puppet);
    let limits = &mut gateway.settings.default_upstream;
    limits.breaker_failures = 3;
    limits.breaker_cool_down = Duration::from_secs(60);
    limits.health_interval = Duration::from_secs(3600);
    let gateway = gateway.start().await;
    let mut client = gateway.executions().await;
    let get = |name: &str| stateway_client::v1::GetExecutionRequest {
        name: name.into(),
        view: 0,
    };
    puppet.fail(ErrorKind::Unavailable, None);
    for _ in 0..3 {
        client.get_execution(get(ONE)).await.unwrap_err();
        // The adapter's own refusal between two failures.
        puppet.fail(ErrorKind::InvalidArgument, None);
        client.get_execution(get(ONE)).await.unwrap_err();
        puppet.fail(ErrorKind::Unavailable, None);
    }
    puppet.recover();
    let refused = client.get_execution(get(ONE)).await.unwrap_err();
    assert_eq!(crate::support::reason_of(&refused), "PROVIDER_BREAKER_OPEN");
}
