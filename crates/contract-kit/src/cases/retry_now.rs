//! `retry_now`.

use stateway_model::SubState;
use stateway_provider_api::{ErrorKind, RetryNowRequest};

use crate::case::{cases, ensure};
use crate::stage::{answered, refused, refused_because};
use crate::{Case, Outcome, Scene, Stage};

pub(super) fn cases() -> Vec<Case> {
    cases!["retry_now":
        the_next_attempt_is_made_at_once [retry_now],
        with_nothing_backing_off_it_is_refused [retry_now],
        after_the_end_it_is_refused [retry_now],
        the_same_request_retries_once [retry_now, retry_now_idempotent],
        a_request_id_with_another_body_is_refused [retry_now, retry_now_idempotent],
    ]
}

async fn the_next_attempt_is_made_at_once(stage: Stage) -> Outcome {
    let id = stage.scene(Scene::BackingOff { attempt: 1 }).await?;
    let request = stage.retry_now_request(&id);
    answered(
        "retry-now",
        stage.provider.retry_now(&stage.call(), request).await,
    )?;
    let shown = stage.shown(stage.get(&id).await?);
    let moved = shown.sub_state != SubState::BackingOff || shown.retry.attempt > 1;
    ensure!(moved, "it still rests after attempt 1");
    Ok(())
}

async fn with_nothing_backing_off_it_is_refused(stage: Stage) -> Outcome {
    let id = stage.open().await?;
    let request = stage.retry_now_request(&id);
    let retried = stage.provider.retry_now(&stage.call(), request).await;
    refused("retry-now", retried, ErrorKind::FailedPrecondition)?;
    Ok(())
}

async fn after_the_end_it_is_refused(stage: Stage) -> Outcome {
    let id = stage.scene(Scene::Succeeded).await?;
    let request = stage.retry_now_request(&id);
    let retried = stage.provider.retry_now(&stage.call(), request).await;
    let kind = ErrorKind::FailedPrecondition;
    refused_because("retry-now", retried, kind, "ALREADY_FINISHED")
}

async fn the_same_request_retries_once(stage: Stage) -> Outcome {
    let id = stage.scene(Scene::BackingOff { attempt: 1 }).await?;
    let request = stage.retry_now_request(&id);
    let mut attempts = Vec::new();
    for _ in 0..2 {
        let retried = stage
            .provider
            .retry_now(&stage.call(), request.clone())
            .await;
        answered("retry-now", retried)?;
        attempts.push(stage.shown(stage.get(&id).await?).retry.attempt);
    }
    ensure!(
        attempts[0] == attempts[1],
        "the repetition retried again: attempts {attempts:?}"
    );
    Ok(())
}

async fn a_request_id_with_another_body_is_refused(stage: Stage) -> Outcome {
    let id = stage.scene(Scene::BackingOff { attempt: 1 }).await?;
    let request = stage.retry_now_request(&id);
    let retried = stage
        .provider
        .retry_now(&stage.call(), request.clone())
        .await;
    answered("retry-now", retried)?;
    let other = RetryNowRequest {
        step: "kit-other".to_owned(),
        ..request
    };
    let other = stage.provider.retry_now(&stage.call(), other).await;
    let kind = ErrorKind::AlreadyExists;
    refused_because("the other body", other, kind, "REQUEST_ID_REUSED")
}
