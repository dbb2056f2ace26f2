//! What a provider makes of an upstream that fails it.

use std::time::{Duration, Instant};

use futures::FutureExt;
use stateway_provider_api::{Call, CancelMode, ErrorKind, View};

use crate::case::{cases, ensure};
use crate::stage::{answered, refused};
use crate::{Case, Fault, Outcome, Stage};

/// The deadline of a call that will not be answered.
const DEADLINE: Duration = Duration::from_millis(100);
/// How far beyond its deadline a call may end on a busy machine.
const GRACE: Duration = Duration::from_millis(400);
/// A slow answer; everything else must be far quicker.
const SLOW: Duration = Duration::from_millis(600);

pub(super) fn cases() -> Vec<Case> {
    cases!["fault":
        a_call_ends_by_its_deadline_when_the_engine_hangs [],
        a_write_ends_by_its_deadline_when_the_engine_hangs [kill],
        a_slow_answer_that_is_in_time_is_an_answer [],
        throttling_carries_the_pause_that_was_asked_for [],
        an_engine_that_cannot_be_reached_is_unavailable [],
        an_answer_that_makes_no_sense_is_malformed [],
        an_operation_that_the_engine_denies_is_permission_denied [],
        one_failed_call_does_not_fail_the_next [],
        a_slow_answer_delays_no_other_call [],
        a_dropped_read_leaves_no_trace [],
        a_dropped_write_is_settled_by_repeating_it [start, start_idempotent],
    ]
}

async fn a_call_ends_by_its_deadline_when_the_engine_hangs(stage: Stage) -> Outcome {
    let id = stage.open().await?;
    stage.inject(Fault::Hang).await?;
    let (call, began) = (Call::within(DEADLINE), Instant::now());
    let got = stage.provider.get(&call, &id, View::Basic).await;
    let took = began.elapsed();
    ensure!(took < DEADLINE + GRACE, "it took {took:?}");
    refused("get", got, ErrorKind::Timeout)?;
    Ok(())
}

async fn a_write_ends_by_its_deadline_when_the_engine_hangs(stage: Stage) -> Outcome {
    let id = stage.open().await?;
    stage.inject(Fault::Hang).await?;
    let (call, began) = (Call::within(DEADLINE), Instant::now());
    let request = stage.cancel_request(&id, CancelMode::Kill);
    let killed = stage.provider.cancel(&call, request).await;
    let took = began.elapsed();
    ensure!(took < DEADLINE + GRACE, "it took {took:?}");
    refused("kill", killed, ErrorKind::Timeout)?;
    Ok(())
}

async fn a_slow_answer_that_is_in_time_is_an_answer(stage: Stage) -> Outcome {
    let id = stage.open().await?;
    stage.inject(Fault::Slow(DEADLINE)).await?;
    stage.get(&id).await?;
    Ok(())
}

async fn throttling_carries_the_pause_that_was_asked_for(stage: Stage) -> Outcome {
    let id = stage.open().await?;
    let pause = Duration::from_secs(7);
    stage.inject(Fault::Throttle(pause)).await?;
    let got = stage.provider.get(&stage.call(), &id, View::Basic).await;
    let error = refused("get", got, ErrorKind::Throttled)?;
    ensure!(
        error.retry_after == Some(pause),
        "the pause is {:?}",
        error.retry_after
    );
    Ok(())
}

async fn an_engine_that_cannot_be_reached_is_unavailable(stage: Stage) -> Outcome {
    let id = stage.open().await?;
    stage.inject(Fault::Unavailable).await?;
    let got = stage.provider.get(&stage.call(), &id, View::Basic).await;
    refused("get", got, ErrorKind::Unavailable)?;
    Ok(())
}

async fn an_answer_that_makes_no_sense_is_malformed(stage: Stage) -> Outcome {
    let id = stage.open().await?;
    stage.inject(Fault::Malformed).await?;
    let got = stage.provider.get(&stage.call(), &id, View::Basic).await;
    match got {
        // An engine that reads its own store reports damage.
        Err(error) if error.kind == ErrorKind::DataLoss => Ok(()),
        got => refused("get", got, ErrorKind::Malformed).map(drop),
    }
}

async fn an_operation_that_the_engine_denies_is_permission_denied(stage: Stage) -> Outcome {
    let id = stage.open().await?;
    stage.inject(Fault::Denied).await?;
    let got = stage.provider.get(&stage.call(), &id, View::Basic).await;
    refused("get", got, ErrorKind::PermissionDenied)?;
    Ok(())
}

async fn one_failed_call_does_not_fail_the_next(stage: Stage) -> Outcome {
    let id = stage.open().await?;
    stage.inject(Fault::Unavailable).await?;
    let failed = stage.provider.get(&stage.call(), &id, View::Basic).await;
    refused("the first get", failed, ErrorKind::Unavailable)?;
    stage.get(&id).await?;
    Ok(())
}

async fn a_slow_answer_delays_no_other_call(stage: Stage) -> Outcome {
    let id = stage.open().await?;
    stage.inject(Fault::Slow(SLOW)).await?;
    let (call, other) = (stage.call(), stage.call());
    let slow = stage.provider.get(&call, &id, View::Basic);
    let began = Instant::now();
    let quick = async {
        // The slow call must reach the upstream first, because it takes the fault with it.
        tokio::time::sleep(DEADLINE).await;
        let got = stage.provider.get(&other, &id, View::Basic).await;
        (got, began.elapsed())
    };
    let (slow, (quick, took)) = futures::join!(slow, quick);
    answered("the slow get", slow)?;
    answered("the quick get", quick)?;
    ensure!(took < SLOW, "the quick call took {took:?}");
    Ok(())
}

async fn a_dropped_read_leaves_no_trace(stage: Stage) -> Outcome {
    let id = stage.open().await?;
    let before = stage.get(&id).await?;
    stage.inject(Fault::Slow(SLOW)).await?;
    let call = stage.call();
    let dropped = stage.provider.get(&call, &id, View::Basic).now_or_never();
    ensure!(dropped.is_none(), "the read was answered, not dropped");
    let after = stage.get(&id).await?;
    ensure!(after == before, "before {before:?}, after {after:?}");
    Ok(())
}

async fn a_dropped_write_is_settled_by_repeating_it(stage: Stage) -> Outcome {
    stage.inject(Fault::Slow(SLOW)).await?;
    let (call, request) = (stage.call(), stage.start_request());
    let dropped = stage.provider.start(&call, request.clone()).now_or_never();
    ensure!(dropped.is_none(), "the start was answered, not dropped");
    let mut ids = Vec::new();
    for _ in 0..2 {
        let again = stage.provider.start(&stage.call(), request.clone()).await;
        ids.push(answered("the repeated start", again)?.id);
    }
    ensure!(ids[0] == ids[1], "repeating it started {ids:?}");
    if stage.provider.capabilities().list {
        let hints = stateway_provider_api::filter::Hints::none();
        let rows = stage.list_all(hints, 10).await?;
        ensure!(rows.len() == 1, "there are {} executions", rows.len());
    }
    Ok(())
}
