//! `signal`.

use stateway_model::{ExecutionId, WaitKind};
use stateway_provider_api::{ErrorKind, SignalRequest};

use crate::case::{Stop, cases, ensure};
use crate::stage::{answered, refused_because};
use crate::{Case, Outcome, Scene, Stage};

const SIGNAL: &str = "kit-go";

pub(super) fn cases() -> Vec<Case> {
    cases!["signal":
        a_signal_ends_the_wait_for_it [signal],
        another_signal_does_not_end_the_wait [signal],
        the_same_request_is_delivered_once [signal, signal_idempotent],
        a_request_id_with_another_body_is_refused [signal, signal_idempotent],
        a_signal_after_the_end_is_refused [signal],
    ]
}

async fn awaiting(stage: &Stage) -> Result<ExecutionId, Stop> {
    let signal = SIGNAL.to_owned();
    stage.scene(Scene::AwaitingSignal { signal }).await
}

/// Whether it waits for the signal, and since which step.
async fn waits(stage: &Stage, id: &ExecutionId) -> Result<Vec<String>, Stop> {
    let shown = stage.shown(stage.get(id).await?);
    let waiting = |step: &&stateway_model::Step| {
        let mut waits = step.waits.iter();
        waits.any(|wait| wait.kind == WaitKind::Signal && wait.name == SIGNAL)
    };
    let steps = shown.steps.iter().filter(waiting);
    Ok(steps.map(|step| step.name.clone()).collect())
}

async fn a_signal_ends_the_wait_for_it(stage: Stage) -> Outcome {
    let id = awaiting(&stage).await?;
    let before = waits(&stage, &id).await?;
    ensure!(before.len() == 1, "it waits {} times", before.len());
    answered("signal", stage.signal(&id, SIGNAL).await)?;
    let after = waits(&stage, &id).await?;
    ensure!(after != before, "it still waits in {after:?}");
    Ok(())
}

async fn another_signal_does_not_end_the_wait(stage: Stage) -> Outcome {
    let id = awaiting(&stage).await?;
    let before = waits(&stage, &id).await?;
    // An engine with a mailbox keeps it for later; one without refuses it.
    if let Err(error) = stage.signal(&id, "kit-other").await {
        let kind = ErrorKind::FailedPrecondition;
        refused_because::<()>("signal", Err(error), kind, "SIGNAL_NOT_AWAITED")?;
    }
    let after = waits(&stage, &id).await?;
    ensure!(after == before, "it waited in {before:?}, now {after:?}");
    Ok(())
}

async fn the_same_request_is_delivered_once(stage: Stage) -> Outcome {
    let id = awaiting(&stage).await?;
    let request = stage.signal_request(&id, SIGNAL);
    for _ in 0..2 {
        let sent = stage.provider.signal(&stage.call(), request.clone()).await;
        answered("signal", sent)?;
    }
    let left = waits(&stage, &id).await?;
    ensure!(left.len() == 1, "the second of two waits is over too");
    Ok(())
}

async fn a_request_id_with_another_body_is_refused(stage: Stage) -> Outcome {
    let id = awaiting(&stage).await?;
    let request = stage.signal_request(&id, SIGNAL);
    let sent = stage.provider.signal(&stage.call(), request.clone()).await;
    answered("signal", sent)?;
    let other = SignalRequest {
        signal: "kit-other".to_owned(),
        ..request
    };
    let other = stage.provider.signal(&stage.call(), other).await;
    let kind = ErrorKind::AlreadyExists;
    refused_because("the other body", other, kind, "REQUEST_ID_REUSED")
}

async fn a_signal_after_the_end_is_refused(stage: Stage) -> Outcome {
    let id = stage.scene(Scene::Succeeded).await?;
    let kind = ErrorKind::FailedPrecondition;
    let sent = stage.signal(&id, SIGNAL).await;
    refused_because("signal", sent, kind, "ALREADY_FINISHED")
}
