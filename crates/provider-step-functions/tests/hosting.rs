//! Portable definitions on a service in memory: what a gateway does when Step Functions, another gateway or an
//! execution is in trouble.

#[allow(dead_code, reason = "each test uses a part of it")]
use crate::mock;

use std::time::{Duration, Instant};

use mock::gates::Gates;
use stateway_model::{ExecutionId, Payload, SubState};
use stateway_provider_api::adapter::Quota;
use stateway_provider_api::table::compiled_in;
use stateway_provider_api::{
    ApplyPortableRequest, Call, Error, Observation, PortableDefinitions as _, Provider as _,
    SignalRequest, StartDefinition, StartRequest, View,
};
use stateway_provider_step_functions::{
    Api, HostConfig, StepFunctionsHostedProvider, hosted_provider_with_keys,
};
use wiremock::MockServer;

/// How long something is waited for.
const PATIENCE: Duration = Duration::from_secs(30);
const WAITING: &str = "name: waiting\nsteps: [{name: go, signal: go, timeout: 10m}]\n";

struct Bench {
    service: Gates,
    server: MockServer,
}

impl Bench {
    async fn new() -> Self {
        let service = Gates::default();
        let server = service.open().await;
        Self { service, server }
    }

    /// A gateway that knows nothing yet.
    fn gateway(&self) -> StepFunctionsHostedProvider {
        self.gateway_with(|_| {})
    }

    fn gateway_with(&self, change: impl FnOnce(&mut HostConfig)) -> StepFunctionsHostedProvider {
        let quota = Quota {
            burst: 100_000,
            per_second: 10_000,
        };
        let mut config = HostConfig {
            region: "us-east-1".to_owned(),
            endpoint: self.server.uri(),
            quotas: Api::ALL.into_iter().map(|api| (api, quota)).collect(),
            ..HostConfig::default()
        };
        change(&mut config);
        let table = compiled_in("builtin").unwrap();
        hosted_provider_with_keys(&config, table, ("test", "test")).unwrap()
    }
}

fn call() -> Call {
    Call {
        actor: "ada".into(),
        ..Call::within(Duration::from_secs(20))
    }
}

async fn apply(provider: &StepFunctionsHostedProvider, source: &str) {
    let request = ApplyPortableRequest {
        source: source.to_owned(),
        source_name: "test.yaml".to_owned(),
        request_id: "apply-1".parse().unwrap(),
    };
    provider.apply_portable(&call(), request).await.unwrap();
}

async fn start(
    provider: &StepFunctionsHostedProvider,
    definition: &str,
    (id, request, input): (&str, &str, &str),
) -> Result<ExecutionId, Error> {
    let definition = StartDefinition::Portable {
        id: definition.to_owned(),
        source: None,
    };
    let mut request = StartRequest::new(definition, request.parse().unwrap());
    request.execution_id = Some(ExecutionId::new(id).unwrap());
    request.input = Some(Payload::json(input.to_owned()));
    Ok(provider.start(&call(), request).await?.id)
}

async fn signal(
    provider: &StepFunctionsHostedProvider,
    id: &ExecutionId,
    payload: &str,
) -> Result<(), Error> {
    let signal = SignalRequest {
        id: id.clone(),
        signal: "go".to_owned(),
        payload: Some(Payload::json(payload.to_owned())),
        request_id: "signal-1".parse().unwrap(),
    };
    provider.signal(&call(), signal).await.map(drop)
}

async fn until(
    provider: &StepFunctionsHostedProvider,
    id: &ExecutionId,
    wanted: impl Fn(&Observation) -> bool,
) -> Observation {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match provider.get(&call(), id, View::Full).await {
            Ok(seen) if wanted(&seen) => return seen,
            seen => assert!(Instant::now() < deadline, "{seen:#?}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn shows(sub_state: SubState) -> impl Fn(&Observation) -> bool {
    move |seen| seen.reported.is_some_and(|(it, _)| it == sub_state)
}

#[tokio::test]
async fn an_execution_whose_gate_fails_for_hours_is_read() {
    let bench = Bench::new().await;
    let first = bench.gateway();
    apply(&first, WAITING).await;
    let id = start(&first, "waiting", ("order", "r1", "1"))
        .await
        .unwrap();
    drop(first);
    bench.service.world().fail_gate("order", 700);
    let second = bench.gateway();
    let read = second.get(&call(), &id, View::Full).await.unwrap();
    assert_eq!(read.id, id);
    signal(&second, &id, "true").await.unwrap();
    until(&second, &id, shows(SubState::Succeeded)).await;
}

/// A text of so many bytes, as JSON.
fn text(bytes: usize) -> String {
    format!("\"{}\"", "x".repeat(bytes))
}

#[tokio::test]
async fn a_parent_is_told_of_a_child_that_is_too_large_to_start() {
    let bench = Bench::new().await;
    let provider = bench.gateway();
    let child = format!(
        "name: child\nsteps: [{{name: rest, sleep: 10ms}}]\n# {}\n",
        "x".repeat(60_000)
    );
    apply(&provider, &child).await;
    let parent = "name: parent\nsteps:\n  - {name: go, signal: go, timeout: 10m}\n  - {name: sub, workflow: child, timeout: 10m, dependsOn: [go], input: {a: '${steps.go.output}', b: '${steps.go.output}'}, retryPolicy: {maxRetries: 3}}\n";
    apply(&provider, parent).await;
    let id = start(&provider, "parent", ("order", "r1", "1"))
        .await
        .unwrap();
    signal(&provider, &id, &text(32_500)).await.unwrap();
    let failed = until(&provider, &id, shows(SubState::Failed)).await;
    let error = failed.last_error.unwrap();
    assert_eq!(error.native_code, "EXECUTION_TOO_LARGE", "{error:?}");
    // Another attempt cannot succeed, so there is none.
    assert_eq!(bench.service.world().names(), ["order"]);
}

#[tokio::test]
async fn a_parent_is_told_of_a_child_whose_output_is_too_large() {
    const CHILDREN: usize = 13;
    let bench = Bench::new().await;
    let provider = bench.gateway();
    let child = "name: child\nsteps: [{name: go, signal: go, timeout: 10m}]\noutput: '${steps.go.output}'\n";
    apply(&provider, child).await;
    let step = |nth| format!("  - {{name: s{nth}, workflow: child, timeout: 10m}}\n");
    let steps: String = (0..CHILDREN).map(step).collect();
    apply(&provider, &format!("name: parent\nsteps:\n{steps}")).await;
    let id = start(&provider, "parent", ("order", "r1", "1"))
        .await
        .unwrap();
    for nth in 0..CHILDREN {
        let child = ExecutionId::new(format!("order~s{nth}~1")).unwrap();
        until(&provider, &child, |_| true).await;
        // Each output fits into the state of the parent, but not all together. The parent ends its other children
        // when it fails.
        let signalled = signal(&provider, &child, &text(20_000)).await;
        assert!(nth > 0 || signalled.is_ok(), "{signalled:?}");
    }
    let failed = until(&provider, &id, shows(SubState::Failed)).await;
    let error = failed.last_error.unwrap();
    assert_eq!(error.native_code, "EXECUTION_TOO_LARGE", "{error:?}");
}

#[tokio::test]
async fn one_execution_that_cannot_continue_does_not_stop_the_others() {
    let bench = Bench::new().await;
    let first = bench.gateway();
    apply(&first, WAITING).await;
    start(&first, "waiting", ("stuck", "r1", "1"))
        .await
        .unwrap();
    drop(first);
    {
        let mut world = bench.service.world();
        world.fail_gate("stuck", 10);
        let token = "token-".to_owned();
        world
            .refused
            .push(("SendTaskSuccess".to_owned(), token, "AccessDeniedException"));
    }
    // It is near the limit of a history from its first event on, and cannot be continued in another one.
    let second = bench.gateway_with(|config| config.most_events = 20);
    let request = stateway_provider_api::ListRequest {
        hints: stateway_provider_api::filter::Hints::none(),
        page_size: 10,
        cursor: None,
    };
    let listed = second.list(&call(), request).await.unwrap();
    assert_eq!(listed.observations.len(), 1);
}

/// An execution that waits in its second generation, while AWS has deleted the history of the first one.
async fn with_a_deleted_generation(bench: &Bench) -> ExecutionId {
    let gateway = bench.gateway_with(|config| config.most_events = 20);
    let source = "name: waiting\nsteps:\n  - {name: a, sleep: 10ms}\n  - {name: b, sleep: 10ms, dependsOn: [a]}\n  - {name: c, sleep: 10ms, dependsOn: [b]}\n  - {name: go, signal: go, timeout: 10m, dependsOn: [c]}\n";
    apply(&gateway, source).await;
    let id = start(&gateway, "waiting", ("order", "r1", "1"))
        .await
        .unwrap();
    until(&gateway, &id, |_| {
        bench.service.world().names().contains(&"order_g2")
    })
    .await;
    id
}

#[tokio::test]
async fn a_later_generation_is_found_when_the_first_one_is_deleted() {
    let bench = Bench::new().await;
    let id = with_a_deleted_generation(&bench).await;
    bench.service.world().delete("order");
    let second = bench.gateway();
    assert_eq!(second.get(&call(), &id, View::Full).await.unwrap().id, id);
    signal(&second, &id, "true").await.unwrap();
    until(&second, &id, shows(SubState::Succeeded)).await;
    // Also when it has ended, and is in no list of open executions.
    let third = bench.gateway();
    let seen = third.get(&call(), &id, View::Full).await.unwrap();
    assert!(shows(SubState::Succeeded)(&seen));
}

#[tokio::test]
async fn a_start_does_not_create_the_first_generation_again() {
    let bench = Bench::new().await;
    with_a_deleted_generation(&bench).await;
    bench.service.world().delete("order");
    let second = bench.gateway();
    let again = start(&second, "waiting", ("order", "r2", "1")).await;
    assert_eq!(again.unwrap_err().reason(), "EXECUTION_ALREADY_EXISTS");
    assert_eq!(bench.service.world().names(), ["order_g2"]);
}

#[tokio::test]
async fn the_loser_of_a_write_waits_until_it_sees_what_the_winner_wrote() {
    let bench = Bench::new().await;
    let provider = bench.gateway();
    apply(&provider, WAITING).await;
    let id = start(&provider, "waiting", ("order", "r1", "1"))
        .await
        .unwrap();
    provider.get(&call(), &id, View::Full).await.unwrap();
    // The token is used, and the history does not show it yet.
    let refusal = ("SendTaskSuccess".to_owned(), String::new(), "TaskTimedOut");
    bench.service.world().refused.push(refusal);
    let service = bench.service.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(1)).await;
        service.world().refused.clear();
    });
    signal(&provider, &id, "true").await.unwrap();
    let calls = bench.service.world().calls["SendTaskSuccess"];
    assert!(calls < 15, "{calls} calls");
}
