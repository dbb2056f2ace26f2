//! Rules that only the wire has: how a provider describes itself, and heartbeats.

use std::time::Duration;

use futures::future::BoxFuture;
use stateway_contract_kit::{Harness, Outcome, Stop};
use stateway_provider_remote::{Config, channel};
use stateway_wire::v1::cancel_execution_request::{Compensation, Mode};
use stateway_wire::v1::identity_client::IdentityClient;
use stateway_wire::v1::provider_client::ProviderClient;
use stateway_wire::v1::watch_executions_request::Scope;
use stateway_wire::{MAX_OBSERVED, convert, v1};
use tonic::transport::Channel;
use tonic::{Code, Status};

use crate::WireHarness;
use crate::harness::{is_broken, staging};

/// How long a case waits for an answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// The interval that a case asks for, and how many messages it waits for.
const HEARTBEAT: Duration = Duration::from_millis(100);
const HEARTBEATS: usize = 4;
/// A value that no enum of the contract has.
const NEVER_SEEN: i32 = 99;

/// One rule.
pub(crate) struct WireCase {
    pub(crate) name: &'static str,
    check: fn(&WireHarness) -> BoxFuture<'_, Outcome>,
}

pub(crate) const ALL: &[WireCase] = &[
    WireCase {
        name: "wire::a_provider_describes_itself_the_same_while_it_runs",
        check: |harness| Box::pin(describes_itself_the_same(harness)),
    },
    WireCase {
        name: "wire::what_a_newer_gateway_knows_is_ignored",
        check: |harness| Box::pin(a_newer_gateway(harness)),
    },
    WireCase {
        name: "wire::a_restarted_provider_is_another_instance",
        check: |harness| Box::pin(another_instance(harness)),
    },
    WireCase {
        name: "wire::a_watch_with_nothing_to_report_sends_heartbeats",
        check: |harness| Box::pin(heartbeats(harness)),
    },
    WireCase {
        name: "wire::what_is_off_is_refused_by_the_provider_itself",
        check: |harness| Box::pin(what_is_off(harness)),
    },
    WireCase {
        name: "wire::an_unknown_value_of_a_request_is_refused",
        check: |harness| Box::pin(unknown_values(harness)),
    },
    WireCase {
        name: "wire::more_than_1000_ids_are_refused",
        check: |harness| Box::pin(too_many_ids(harness)),
    },
];

/// Checks one rule, in a runtime of its own.
pub(crate) fn run(case: &WireCase, harness: &WireHarness) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| failed(format!("no runtime: {error}")))?;
    let check = async { tokio::time::timeout(PATIENCE * 3, (case.check)(harness)).await };
    let outcome = runtime.block_on(check);
    runtime.shutdown_background();
    outcome.unwrap_or_else(|_| Err(failed("took too long")))
}

fn failed(why: impl Into<String>) -> Stop {
    Stop::Failed(why.into())
}

fn answered<T>(what: &str, answer: Result<T, Status>) -> Result<T, Stop> {
    answer.map_err(|status| failed(format!("{what} was not answered: {status}")))
}

async fn connected(config: &Config) -> Result<Channel, Stop> {
    let connected = channel(config).await;
    connected.map_err(|error| failed(format!("the provider cannot be reached: {error}")))
}

async fn described(
    config: &Config,
    request: v1::DescribeRequest,
) -> Result<v1::DescribeResponse, Stop> {
    let mut client = IdentityClient::new(connected(config).await?);
    let response = client.describe(request).await;
    Ok(answered("Describe", response)?.into_inner())
}

async fn describes_itself_the_same(harness: &WireHarness) -> Outcome {
    let first = described(harness.config(), v1::DescribeRequest::default()).await?;
    let second = described(harness.config(), v1::DescribeRequest::default()).await?;
    if first != second {
        return Err(failed(format!("first {first:?}, then {second:?}")));
    }
    if first.start_time.is_none() {
        return Err(failed("`start_time` is missing"));
    }
    Ok(())
}

async fn a_newer_gateway(harness: &WireHarness) -> Outcome {
    let request = v1::DescribeRequest {
        min_contract_version: 1,
        max_contract_version: 9,
        capabilities: vec!["start".to_owned(), "kit_never_seen".to_owned()],
        reasons: vec!["KIT_NEVER_SEEN".to_owned()],
        provider_id: "kit".to_owned(),
        gateway_version: "99.0.0".to_owned(),
        max_table_version: 9,
    };
    let response = described(harness.config(), request).await?;
    if response.min_contract_version > 1 {
        return Err(failed("the provider no longer speaks version 1"));
    }
    Ok(())
}

async fn another_instance(harness: &WireHarness) -> Outcome {
    let config = harness.config();
    let before = described(config, v1::DescribeRequest::default()).await?;
    let restarted = staging(config, async |mut client| {
        client.restart_provider(v1::RestartProviderRequest {}).await
    });
    match restarted.await {
        Ok(_) => {}
        Err(status) if status.code() == Code::Unimplemented => {
            return Err(Stop::Skipped(status.message().to_owned()));
        }
        // A provider that restarts its whole process may not get to answer.
        Err(status) if is_broken(&status) => {}
        Err(status) => return answered("RestartProvider", Err(status)),
    }
    let mut after = described(config, v1::DescribeRequest::default()).await;
    for _ in 0..100 {
        if after.is_ok() {
            break;
        }
        tokio::time::sleep(HEARTBEAT).await;
        after = described(config, v1::DescribeRequest::default()).await;
    }
    if after?.instance_id == before.instance_id {
        return Err(failed("the instance id is the same after a restart"));
    }
    Ok(())
}

async fn heartbeats(harness: &WireHarness) -> Outcome {
    let can = harness.capabilities();
    let config = harness.config();
    let reset = staging(config, async |mut client| {
        client.reset(v1::ResetRequest {}).await
    });
    answered("Reset", reset.await)?;
    let (scope, id) = if can.watch_all {
        (Scope::All, String::new())
    } else if can.watch_one {
        (Scope::One, open_execution(config).await?)
    } else {
        return Err(Stop::Skipped("needs the capability `watch_one`".to_owned()));
    };
    let request = v1::WatchExecutionsRequest {
        context: None,
        scope: scope.into(),
        id,
        open_timeout: Some(convert::duration(PATIENCE)),
        heartbeat_interval: Some(convert::duration(HEARTBEAT)),
    };
    let mut client = ProviderClient::new(connected(config).await?);
    let stream = client.watch_executions(request).await;
    let mut stream = answered("WatchExecutions", stream)?.into_inner();
    for received in 0..HEARTBEATS {
        let message = tokio::time::timeout(HEARTBEAT * 10, stream.message()).await;
        let silent = |_| {
            let pause = HEARTBEAT * 10;
            failed(format!(
                "after {received} messages nothing came for {pause:?}, with a heartbeat interval \
                 of {HEARTBEAT:?}"
            ))
        };
        let message = answered("WatchExecutions", message.map_err(silent)?)?;
        if message.is_none() {
            return Err(failed("the stream ended"));
        }
    }
    Ok(())
}

/// Refuses anything but a refusal with this code.
fn refused<T>(what: &str, answer: Result<T, Status>, code: Code) -> Outcome {
    match answer {
        Err(status) if status.code() == code => Ok(()),
        Err(status) => Err(failed(format!(
            "{what} must be refused with {code:?}, not with {status}"
        ))),
        Ok(_) => Err(failed(format!("{what} must be refused with {code:?}"))),
    }
}

/// The gateway checks capabilities before it calls. The provider checks them as well, because another
/// gateway may know less.
async fn what_is_off(harness: &WireHarness) -> Outcome {
    let (can, config) = (harness.capabilities(), harness.config());
    let reset = staging(config, async |mut client| {
        client.reset(v1::ResetRequest {}).await
    });
    let workload = answered("Reset", reset.await)?.workload.unwrap_or_default();
    let mut client = ProviderClient::new(connected(config).await?);
    let mut checked = 0;
    let start = v1::StartExecutionRequest {
        definition: workload.definition,
        input: workload.input,
        request_id: "kit-off".to_owned(),
        ..v1::StartExecutionRequest::default()
    };
    if can.start && !can.labels {
        checked += 1;
        let labelled = v1::StartExecutionRequest {
            labels: [("kit".to_owned(), "kit".to_owned())].into(),
            ..start.clone()
        };
        let answer = client.start_execution(labelled).await;
        refused("a start with labels", answer, Code::Unimplemented)?;
    }
    if can.start && !can.start_delayed {
        checked += 1;
        let delayed = v1::StartExecutionRequest {
            delay: Some(convert::duration(PATIENCE)),
            ..start
        };
        let answer = client.start_execution(delayed).await;
        refused("a delayed start", answer, Code::Unimplemented)?;
    }
    for (mode, is_on) in [(Mode::Graceful, can.cancel), (Mode::Kill, can.kill)] {
        if !is_on || can.cancel_compensation {
            continue;
        }
        checked += 1;
        let cancel = v1::CancelExecutionRequest {
            id: open_execution(config).await?,
            mode: mode.into(),
            compensation: Compensation::Skip.into(),
            request_id: "kit-off".to_owned(),
            ..v1::CancelExecutionRequest::default()
        };
        let what = format!("{mode:?} with a choice about compensation");
        let answer = client.cancel_execution(cancel).await;
        refused(&what, answer, Code::Unimplemented)?;
    }
    if checked == 0 {
        return Err(Stop::Skipped("nothing of this is off".to_owned()));
    }
    Ok(())
}

async fn unknown_values(harness: &WireHarness) -> Outcome {
    let (can, config) = (harness.capabilities(), harness.config());
    if !can.cancel && !can.kill && !can.history {
        let why = "needs the capability `cancel`, `kill` or `history`";
        return Err(Stop::Skipped(why.to_owned()));
    }
    let id = open_execution(config).await?;
    let mut client = ProviderClient::new(connected(config).await?);
    if can.cancel || can.kill {
        let cancel = v1::CancelExecutionRequest {
            id: id.clone(),
            mode: NEVER_SEEN,
            request_id: "kit-unknown".to_owned(),
            ..v1::CancelExecutionRequest::default()
        };
        let answer = client.cancel_execution(cancel).await;
        refused("an unknown mode", answer, Code::InvalidArgument)?;
    }
    if can.history {
        let history = v1::ListEventsRequest {
            id,
            page_size: 10,
            order: NEVER_SEEN,
            ..v1::ListEventsRequest::default()
        };
        let answer = client.list_events(history).await;
        refused("an unknown order", answer, Code::InvalidArgument)?;
    }
    Ok(())
}

async fn too_many_ids(harness: &WireHarness) -> Outcome {
    let mut client = ProviderClient::new(connected(harness.config()).await?);
    let request = v1::ObserveExecutionsRequest {
        context: None,
        ids: (0..=MAX_OBSERVED)
            .map(|number| format!("kit-{number}"))
            .collect(),
    };
    let answer = client.observe_executions(request).await;
    refused("a request for 1,001 ids", answer, Code::InvalidArgument)
}

async fn open_execution(config: &Config) -> Result<String, Stop> {
    let request = v1::StageExecutionRequest {
        scene: Some(crate::scene::scene(
            &stateway_contract_kit::Scene::NoMetadata,
        )),
    };
    let staged = staging(config, async |mut client| {
        client.stage_execution(request).await
    });
    match staged.await {
        Ok(staged) => Ok(staged.id),
        Err(status) if status.code() == Code::Unimplemented => {
            Err(Stop::Skipped(status.message().to_owned()))
        }
        Err(status) => answered("StageExecution", Err(status)),
    }
}
