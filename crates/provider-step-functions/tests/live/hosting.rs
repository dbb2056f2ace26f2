//! Portable executions on the emulator: the golden trajectories, several gateways, and ends as Step Functions
//! shows them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::join_all;
use jiff::{SignedDuration, Timestamp};
use stateway_model::{ExecutionId, Payload, Reason, SubState};
use stateway_provider_api::adapter::Quota;
use stateway_provider_api::table::compiled_in;
use stateway_provider_api::{
    ApplyPortableRequest, Call, CancelMode, CancelRequest, CompensationChoice, EventOrder,
    HistoryRequest, ListRequest, Observation, Provider, SignalRequest, StartDefinition,
    StartRequest, SwitchTriggerRequest, View,
};
use stateway_provider_step_functions::{
    Api, HostConfig, StepFunctionsHostedProvider, hosted_provider_with_clock,
    hosted_provider_with_keys,
};
use stateway_trajectory_kit::{Engine, conform};

use super::rig::{Rig, ensure, told};
use crate::Outcome;

/// How long something is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// More calls than AWS allows: the emulator has no quotas, and a test has no time for them.
pub(crate) const UNLIMITED: Quota = Quota {
    burst: 100_000,
    per_second: 10_000,
};

fn config(rig: &Rig) -> HostConfig {
    HostConfig {
        region: "us-east-1".to_owned(),
        endpoint: rig.endpoint.clone(),
        role_arn: "arn:aws:iam::000000000000:role/sfn".to_owned(),
        name: rig.unique.clone(),
        quotas: Api::ALL
            .into_iter()
            .map(|api| (api, UNLIMITED))
            .collect::<BTreeMap<_, _>>(),
        ..HostConfig::default()
    }
}

fn gateway(config: &HostConfig) -> Arc<StepFunctionsHostedProvider> {
    let table = compiled_in("builtin").expect("a table");
    let provider = hosted_provider_with_keys(config, table, ("test", "test"));
    Arc::new(provider.expect("a good configuration"))
}

fn call() -> Call {
    Call {
        actor: "ada".into(),
        ..Call::within(Duration::from_secs(20))
    }
}

async fn apply(provider: &dyn Provider, source: &str) -> Outcome {
    let definitions = provider.portable_definitions().ok_or("no definitions")?;
    let request = ApplyPortableRequest {
        source: source.to_owned(),
        source_name: "test.yaml".to_owned(),
        request_id: "apply-1".parse()?,
    };
    definitions
        .apply_portable(&call(), request)
        .await
        .map_err(told)?;
    Ok(())
}

async fn start(
    provider: &dyn Provider,
    definition: &str,
    id: &str,
) -> Result<ExecutionId, libtest_mimic::Failed> {
    let definition = StartDefinition::Portable {
        id: definition.to_owned(),
        source: None,
    };
    let mut request = StartRequest::new(definition, format!("start-{id}").parse()?);
    request.execution_id = Some(ExecutionId::new(id)?);
    request.input = Some(Payload::json(r#"{"n":1}"#));
    Ok(provider.start(&call(), request).await.map_err(told)?.id)
}

async fn until(
    provider: &dyn Provider,
    id: &ExecutionId,
    what: &str,
    wanted: impl Fn(&Observation) -> bool,
) -> Result<Observation, libtest_mimic::Failed> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let seen = provider.get(&call(), id, View::Full).await;
        match seen {
            Ok(seen) if wanted(&seen) => return Ok(seen),
            seen if Instant::now() > deadline => {
                return Err(format!("{id} is not {what} after {PATIENCE:?}: {seen:#?}").into());
            }
            _ => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

fn shows(sub_state: SubState, reason: Option<Reason>) -> impl Fn(&Observation) -> bool {
    move |seen| seen.reported == Some((sub_state, reason))
}

async fn signal(provider: &dyn Provider, id: &ExecutionId, request: &str) -> Outcome {
    let signal = SignalRequest {
        id: id.clone(),
        signal: "go".to_owned(),
        payload: Some(Payload::json("true")),
        request_id: request.parse()?,
    };
    provider.signal(&call(), signal).await.map_err(told)?;
    Ok(())
}

/// How often each kind of event is in the history.
async fn kinds(
    provider: &dyn Provider,
    id: &ExecutionId,
) -> Result<BTreeMap<String, usize>, libtest_mimic::Failed> {
    let request = HistoryRequest {
        id: id.clone(),
        page_size: 1_000,
        cursor: None,
        view: View::Basic,
        order: EventOrder::OldestFirst,
    };
    let page = provider.history(&call(), request).await.map_err(told)?;
    let mut kinds = BTreeMap::new();
    for event in page.events {
        *kinds.entry(event.native_type).or_default() += 1;
    }
    Ok(kinds)
}

/// How Step Functions itself shows an execution: status, error, output.
async fn native(
    rig: &Rig,
    name: &str,
) -> Result<(String, Option<String>, Option<String>), libtest_mimic::Failed> {
    let machine = format!("{}-executions-1", rig.unique);
    let arn = format!("arn:aws:states:us-east-1:000000000000:execution:{machine}:{name}");
    let deadline = Instant::now() + PATIENCE;
    loop {
        let shown = rig
            .service
            .describe_execution()
            .execution_arn(&arn)
            .send()
            .await
            .map_err(told)?;
        let status = shown.status.as_str().to_owned();
        if status != "RUNNING" || Instant::now() > deadline {
            return Ok((status, shown.error, shown.output));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn ten() -> ListRequest {
    ListRequest {
        hints: stateway_provider_api::filter::Hints::none(),
        page_size: 10,
        cursor: None,
    }
}

const WAITING: &str = "name: waiting\nsteps:\n  - {name: go, signal: go, timeout: 10m}\n  - {name: rest, sleep: 300ms, dependsOn: [go]}\n";

pub(crate) async fn hosted_executions_show_the_golden_trajectories(rig: &Rig) -> Outcome {
    let begun = Instant::now();
    let provider = gateway(&config(rig));
    // The emulator takes a tenth of a second for a turn, and does one thing at a time.
    conform(Engine::StepFunctions, &*provider, 5).await;
    println!(
        "summary: golden trajectories on Step Functions: {} s",
        begun.elapsed().as_secs()
    );
    Ok(())
}

pub(crate) async fn ends_are_shown_by_step_functions_too(rig: &Rig) -> Outcome {
    let provider = gateway(&config(rig));
    apply(
        &*provider,
        "name: done\nsteps: [{name: rest, sleep: 10ms}]\n",
    )
    .await?;
    apply(&*provider, WAITING).await?;
    let expiring = "name: expiring\nsteps: [{name: go, signal: go, timeout: 100ms}]\n";
    apply(&*provider, expiring).await?;
    let done = start(&*provider, "done", "end_1").await?;
    until(
        &*provider,
        &done,
        "succeeded",
        shows(SubState::Succeeded, None),
    )
    .await?;
    let (status, _, output) = native(rig, "end_5f1").await?;
    ensure(status == "SUCCEEDED", "SUCCEEDED", &status)?;
    ensure(
        output.is_some_and(|it| it.contains("rest")),
        "the output of the execution",
        &"",
    )?;
    let failed = start(&*provider, "expiring", "end-2").await?;
    until(&*provider, &failed, "failed", |seen| {
        seen.reported
            .is_some_and(|(sub_state, _)| sub_state == SubState::Failed)
    })
    .await?;
    let (status, error, _) = native(rig, "end-2").await?;
    ensure(status == "FAILED", "FAILED", &status)?;
    ensure(error.is_some_and(|it| !it.is_empty()), "an error", &"")?;
    let stopped = start(&*provider, "waiting", "end-3").await?;
    let cancel = CancelRequest {
        id: stopped.clone(),
        mode: CancelMode::Graceful,
        compensation: CompensationChoice::AsDefined,
        comment: String::new(),
        request_id: "cancel-1".parse()?,
    };
    provider.cancel(&call(), cancel).await.map_err(told)?;
    let (status, error, _) = native(rig, "end-3").await?;
    ensure(
        status == "FAILED" && error.as_deref() == Some("CANCELLED"),
        "FAILED, CANCELLED",
        &(status, error),
    )?;
    // A list shows all of them, the newest first.
    let listed = provider.list(&call(), ten()).await.map_err(told)?;
    let ids: Vec<_> = listed
        .observations
        .iter()
        .map(|it| it.id.to_string())
        .collect();
    ensure(ids == ["end-3", "end-2", "end_1"], "three executions", &ids)?;
    let counts = provider.count(&call()).await.map_err(told)?;
    let total: u64 = counts.iter().map(|count| count.count).sum();
    ensure(total == 3, "three counted", &counts)
}

pub(crate) async fn an_execution_that_is_stopped_outside_shows_as_killed(rig: &Rig) -> Outcome {
    let provider = gateway(&config(rig));
    apply(&*provider, WAITING).await?;
    let id = start(&*provider, "waiting", "outside").await?;
    let machine = format!("{}-executions-1", rig.unique);
    let arn = format!("arn:aws:states:us-east-1:000000000000:execution:{machine}:outside");
    let stop = rig
        .service
        .stop_execution()
        .execution_arn(&arn)
        .error("Operator")
        .cause("wrong order");
    stop.send().await.map_err(told)?;
    let killed = shows(SubState::Failed, Some(Reason::Killed));
    until(&*provider, &id, "killed", &killed).await?;
    // Also for a gateway that never saw it run.
    let other = gateway(&config(rig));
    until(&*other, &id, "killed", &killed).await?;
    let kinds = kinds(&*other, &id).await?;
    ensure(
        kinds.contains_key("ExecutionCancelled") || kinds.len() > 2,
        "an event says so",
        &kinds,
    )
}

pub(crate) async fn several_gateways_carry_out_each_request_once(rig: &Rig) -> Outcome {
    let gateways = [gateway(&config(rig)), gateway(&config(rig))];
    apply(&*gateways[0], WAITING).await?;
    let id = start(&*gateways[0], "waiting", "shared").await?;
    // Ten requests, each sent to both at the same time.
    let sends = (0..10).flat_map(|nth| gateways.iter().map(move |gateway| (nth, gateway)));
    let id = &id;
    let sent = sends.map(|(nth, gateway)| async move {
        signal(&**gateway, id, &format!("signal-{nth}")).await
    });
    for sent in join_all(sent).await {
        // The step needs one signal; the others are kept or refused, but none is lost or counted twice.
        let _ = sent;
    }
    for gateway in &gateways {
        until(
            &**gateway,
            id,
            "succeeded",
            shows(SubState::Succeeded, None),
        )
        .await?;
    }
    let seen = kinds(&*gateways[1], id).await?;
    ensure(
        seen == kinds(&*gateways[0], id).await?,
        "both read the same history",
        &seen,
    )?;
    ensure(
        seen.get("StepCompleted") == Some(&2),
        "each step completes once",
        &seen,
    )?;
    Ok(())
}

pub(crate) async fn another_gateway_fires_the_alarms_of_one_that_is_gone(rig: &Rig) -> Outcome {
    let first = gateway(&config(rig));
    apply(&*first, "name: rest\nsteps: [{name: rest, sleep: 2s}]\n").await?;
    let id = start(&*first, "rest", "left").await?;
    drop(first);
    let second = gateway(&config(rig));
    until(&*second, &id, "succeeded", shows(SubState::Succeeded, None)).await?;
    let names = second.portable_definitions().ok_or("no definitions")?;
    let page = names.list_portable(&call(), None, 10).await.map_err(told)?;
    ensure(
        page.definitions.len() == 1,
        "the definition is read again",
        &page,
    )
}

pub(crate) async fn a_long_history_continues_in_another_execution(rig: &Rig) -> Outcome {
    let config = HostConfig {
        most_events: 20,
        ..config(rig)
    };
    let provider = gateway(&config);
    let steps: Vec<_> = (0..8)
        .map(|nth| {
            let after = if nth == 0 {
                String::new()
            } else {
                format!(", dependsOn: [s{}]", nth - 1)
            };
            format!("  - {{name: s{nth}, sleep: 20ms{after}}}\n")
        })
        .collect();
    apply(
        &*provider,
        &format!("name: long\nsteps:\n{}", steps.concat()),
    )
    .await?;
    let id = start(&*provider, "long", "long").await?;
    until(
        &*provider,
        &id,
        "succeeded",
        shows(SubState::Succeeded, None),
    )
    .await?;
    let (status, ..) = native(rig, "long_g2").await?;
    ensure(
        status == "SUCCEEDED",
        "there is a second generation",
        &status,
    )?;
    // A gateway that knows nothing finds the newest generation and the whole history.
    let other = gateway(&config);
    let seen = until(&*other, &id, "succeeded", shows(SubState::Succeeded, None)).await?;
    ensure(
        seen.input.is_some_and(|it| it.data == r#"{"n":1}"#),
        "the input",
        &"",
    )?;
    let kinds = kinds(&*other, &id).await?;
    ensure(
        kinds.get("StepCompleted") == Some(&8),
        "each step completes once",
        &kinds,
    )?;
    let listed = other.list(&call(), ten()).await.map_err(told)?;
    ensure(
        listed.observations.len() == 1,
        "one execution is listed",
        &listed,
    )
}

pub(crate) async fn what_is_too_large_is_refused_with_the_words_of_the_report(
    rig: &Rig,
) -> Outcome {
    let provider = gateway(&config(rig));
    let source = format!(
        "name: large\nsteps: [{{name: rest, sleep: 10ms}}]\n# {}\n",
        "x".repeat(100_000)
    );
    apply(&*provider, &source).await?;
    let definitions = provider.portable_definitions().ok_or("no definitions")?;
    let report = definitions.portability(&call(), &source).await;
    let report = report.map_err(told)?;
    let words = format!(
        "the definition has {} bytes: Step Functions stores at most 98304 bytes of it",
        source.len()
    );
    ensure(
        report.reasons == [words.clone()],
        "the report says so",
        &report,
    )?;
    let started = start(&*provider, "large", "large").await;
    let refused = started
        .err()
        .and_then(|failed| failed.message().map(str::to_owned));
    ensure(
        refused.as_ref().is_some_and(|it| it.contains(&words)),
        "the start says the same",
        &refused,
    )?;
    // An input that does not fit is refused by the object, and nothing is started.
    apply(
        &*provider,
        "name: small\nsteps: [{name: rest, sleep: 10ms}]\n",
    )
    .await?;
    let definition = StartDefinition::Portable {
        id: "small".to_owned(),
        source: None,
    };
    let mut request = StartRequest::new(definition, "start-small".parse()?);
    request.execution_id = Some(ExecutionId::new("small")?);
    request.input = Some(Payload::json(format!("\"{}\"", "x".repeat(120_000))));
    let error = provider.start(&call(), request).await.err();
    let reason = error.as_ref().map(|error| error.reason().to_owned());
    ensure(
        reason.as_deref() == Some("EXECUTION_TOO_LARGE"),
        "too large",
        &error,
    )?;
    let seen = provider
        .get(&call(), &ExecutionId::new("small")?, View::Basic)
        .await;
    ensure(seen.is_err(), "nothing was started", &seen)
}

/// A gateway whose requests are three days old.
fn gateway_of_the_past(config: &HostConfig) -> Arc<StepFunctionsHostedProvider> {
    let table = compiled_in("builtin").expect("a table");
    let clock = || Timestamp::now() - SignedDuration::from_hours(72);
    let keys = ("test", "test");
    let provider = hosted_provider_with_clock(config, table, keys, Arc::new(clock));
    Arc::new(provider.expect("a good configuration"))
}

/// The id of the execution that a daily schedule starts today.
fn today(definition: &str) -> String {
    let midnight = Timestamp::now().strftime("%Y%m%dT000000Z").to_string();
    format!("{definition}~{midnight}")
}

/// The names of all executions of one of the two state machines.
async fn native_names(rig: &Rig, machine: &str) -> Result<Vec<String>, libtest_mimic::Failed> {
    let machine = format!("{}-{machine}-1", rig.unique);
    let arn = format!("arn:aws:states:us-east-1:000000000000:stateMachine:{machine}");
    let listed = rig.service.list_executions().state_machine_arn(arn);
    let listed = listed.send().await.map_err(told)?;
    let names = listed.executions.into_iter().map(|it| it.name);
    Ok(names.collect())
}

/// Waits until the object of a definition has so many turns.
async fn until_turns(rig: &Rig, definition: &str, turns: usize) -> Outcome {
    let machine = format!("{}-definitions-1", rig.unique);
    let arn = format!("arn:aws:states:us-east-1:000000000000:execution:{machine}:{definition}");
    let deadline = Instant::now() + PATIENCE;
    loop {
        let history = rig.service.get_execution_history().execution_arn(&arn);
        let events = history.send().await.map_err(told)?.events;
        let entered = events
            .iter()
            .filter(|it| it.r#type.as_str() == "TaskStateEntered")
            .count();
        if entered >= turns {
            return ensure(entered == turns, "not more turns", &entered);
        }
        if Instant::now() > deadline {
            return Err(format!("{definition} has {entered} turns, not {turns}").into());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn switch(provider: &dyn Provider, definition: &str, enabled: bool) -> Outcome {
    let triggers = provider.triggers().ok_or("no triggers")?;
    let switch = SwitchTriggerRequest {
        definition: definition.to_owned(),
        enabled,
        comment: "maintenance".to_owned(),
        request_id: format!("switch-{enabled}").parse()?,
    };
    triggers.switch(&call(), switch).await.map_err(told)
}

/// The next time of the only schedule.
async fn next_time(provider: &dyn Provider) -> Result<Option<Timestamp>, libtest_mimic::Failed> {
    let workers = provider.workers().ok_or("no workers")?;
    let queue = workers.queue(&call()).await.map_err(told)?;
    let [scheduled] = &queue.scheduled[..] else {
        return Err(format!("one schedule, but {:?}", queue.scheduled).into());
    };
    Ok(scheduled.next_time)
}

const NIGHTLY: &str =
    "name: nightly\ntrigger: {schedule: '@daily'}\nsteps: [{name: rest, sleep: 10ms}]\n";

pub(crate) async fn several_gateways_start_one_execution_for_the_newest_time(rig: &Rig) -> Outcome {
    let config = config(rig);
    let past = gateway_of_the_past(&config);
    apply(&*past, NIGHTLY).await?;
    // The schedule was due three times, and no gateway ran.
    drop(past);
    let id = ExecutionId::new(today("nightly"))?;
    let gateways = [gateway(&config), gateway(&config), gateway(&config)];
    for gateway in &gateways {
        gateway.health(&call()).await.map_err(told)?;
    }
    for gateway in &gateways {
        let seen = until(
            &**gateway,
            &id,
            "succeeded",
            shows(SubState::Succeeded, None),
        )
        .await?;
        let input = seen
            .input
            .map(|it| String::from_utf8_lossy(&it.data).into_owned());
        ensure(
            input
                .as_ref()
                .is_some_and(|it| it.contains("scheduledTime")),
            "the input is the time",
            &input,
        )?;
    }
    // The application and one alarm: the gateways that were later found nothing due.
    until_turns(rig, "nightly", 2).await?;
    let seen = kinds(&*gateways[0], &id).await?;
    ensure(
        seen.get("ExecutionStarted") == Some(&1),
        "started once",
        &seen,
    )?;
    let names = native_names(rig, "executions").await?;
    ensure(names.len() == 1, "one execution", &names)?;
    let next = next_time(&*gateways[0]).await?;
    ensure(
        next.is_some_and(|next| next > Timestamp::now()),
        "the next time is tomorrow",
        &next,
    )
}

pub(crate) async fn a_disabled_schedule_starts_nothing(rig: &Rig) -> Outcome {
    let config = config(rig);
    let past = gateway_of_the_past(&config);
    apply(&*past, NIGHTLY).await?;
    drop(past);
    // A gateway waits 3 s before it fires what another one has armed.
    let provider = gateway(&config);
    switch(&*provider, "nightly", false).await?;
    // The application, the switch, and the alarm, which finds the trigger disabled.
    until_turns(rig, "nightly", 3).await?;
    let next = next_time(&*provider).await?;
    ensure(next.is_none(), "no next time", &next)?;
    switch(&*provider, "nightly", true).await?;
    let next = next_time(&*provider).await?;
    ensure(
        next.is_some_and(|next| next > Timestamp::now()),
        "the times that have passed are skipped",
        &next,
    )?;
    let names = native_names(rig, "executions").await?;
    ensure(names.is_empty(), "nothing was started", &names)
}

pub(crate) async fn a_schedule_starts_an_execution_every_minute(rig: &Rig) -> Outcome {
    let provider = gateway(&config(rig));
    let source = NIGHTLY.replace("@daily", "* * * * *");
    apply(&*provider, &source).await?;
    let due = next_time(&*provider).await?.ok_or("no next time")?;
    let id = ExecutionId::new(format!("nightly~{}", due.strftime("%Y%m%dT%H%M%SZ")))?;
    let wait = Duration::try_from(due.duration_since(Timestamp::now())).unwrap_or_default();
    tokio::time::sleep(wait).await;
    let seen = until(
        &*provider,
        &id,
        "succeeded",
        shows(SubState::Succeeded, None),
    )
    .await?;
    let late = seen.create_time.map(|created| created.duration_since(due));
    ensure(
        late.is_some_and(|late| !late.is_negative() && late < SignedDuration::from_secs(20)),
        "it is started at its time",
        &late,
    )?;
    let next = next_time(&*provider).await?;
    ensure(
        next.is_some_and(|next| next > due),
        "the next minute is armed",
        &next,
    )
}
