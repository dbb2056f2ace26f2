//! `retry_from`.

use std::time::{Duration, Instant};

use stateway_provider_api::{ErrorKind, RetryFromRequest};

use crate::case::{cases, ensure};
use crate::stage::{answered, refused, refused_because};
use crate::{Case, Outcome, Scene, Stage};

/// How long a step may take to run again.
const RUN_PATIENCE: Duration = Duration::from_secs(20);

pub(super) fn cases() -> Vec<Case> {
    cases!["retry_from":
        what_failed_is_done_again [retry_from],
        what_the_old_run_did_stays_readable [retry_from, history],
        an_unknown_step_is_refused [retry_from],
        an_input_is_used_or_refused [retry_from],
        feedback_is_used_or_refused [retry_from],
        from_start_is_used_or_refused [retry_from, history],
        the_same_request_runs_again_once [retry_from, retry_from_idempotent, history],
        a_request_id_with_another_body_is_refused [retry_from, retry_from_idempotent],
    ]
}

async fn what_failed_is_done_again(stage: Stage) -> Outcome {
    let failed = stage.scene(Scene::Failed).await?;
    let request = stage.retry_from_request(&failed);
    let again = stage.provider.retry_from(&stage.call(), request).await;
    let again = answered("retry-from", again)?.id;
    let shown = stage.sub_state(&again).await?;
    ensure!(
        again != failed || shown != stateway_model::SubState::Failed,
        "it is still failed"
    );
    Ok(())
}

async fn what_the_old_run_did_stays_readable(stage: Stage) -> Outcome {
    let failed = stage.scene(Scene::Failed).await?;
    let before = stage.history_all(&failed, 100).await?;
    let request = stage.retry_from_request(&failed);
    let again = stage.provider.retry_from(&stage.call(), request).await;
    answered("retry-from", again)?;
    let after = stage.history_all(&failed, 100).await?;
    ensure!(
        after.starts_with(&before),
        "what the old run did is told differently: {after:#?}"
    );
    Ok(())
}

async fn an_unknown_step_is_refused(stage: Stage) -> Outcome {
    let failed = stage.scene(Scene::Failed).await?;
    let mut request = stage.retry_from_request(&failed);
    request.step = "kit-no-such-step".to_owned();
    let again = stage.provider.retry_from(&stage.call(), request).await;
    refused("retry-from", again, ErrorKind::NotFound)?;
    Ok(())
}

/// The kit cannot check that the input takes effect.
async fn an_input_is_used_or_refused(stage: Stage) -> Outcome {
    let failed = stage.scene(Scene::Failed).await?;
    let before = stage.sub_state(&failed).await?;
    let workload = stage.workload();
    let mut request = stage.retry_from_request(&failed);
    let takes = workload.step_input.is_some();
    request.input = workload.step_input.or(Some(workload.input));
    let again = stage.provider.retry_from(&stage.call(), request).await;
    if takes {
        answered("retry-from with an input", again)?;
        return Ok(());
    }
    refused("retry-from with an input", again, ErrorKind::Unsupported)?;
    let after = stage.sub_state(&failed).await?;
    ensure!(
        after == before,
        "it was refused, and yet it is {after:?} and not {before:?} any more"
    );
    Ok(())
}

/// The kit cannot check that the feedback arrives.
async fn feedback_is_used_or_refused(stage: Stage) -> Outcome {
    let failed = stage.scene(Scene::Failed).await?;
    let mut request = stage.retry_from_request(&failed);
    request.feedback = "kit: be careful".to_owned();
    let again = stage.provider.retry_from(&stage.call(), request).await;
    if stage.workload().takes_feedback {
        answered("retry-from with feedback", again)?;
        return Ok(());
    }
    refused("retry-from with feedback", again, ErrorKind::Unsupported)?;
    Ok(())
}

async fn from_start_is_used_or_refused(stage: Stage) -> Outcome {
    let failed = stage.scene(Scene::Failed).await?;
    let before = stage.history_all(&failed, 100).await?;
    let mut request = stage.retry_from_request(&failed);
    request.from_start = true;
    let again = stage.provider.retry_from(&stage.call(), request).await;
    if !stage.workload().takes_from_start {
        refused("retry-from from the start", again, ErrorKind::Unsupported)?;
        return Ok(());
    }
    let again = answered("retry-from from the start", again)?.id;
    let seen = if again == failed { before.len() } else { 0 };
    // A worker may need a moment to take the step.
    let until = Instant::now() + RUN_PATIENCE;
    loop {
        let after = stage.history_all(&again, 100).await?;
        let new = &after[seen.min(after.len())..];
        if new.iter().any(|event| event.step.ends_with("first")) {
            return Ok(());
        }
        ensure!(
            Instant::now() < until,
            "the first step did not run again: {new:#?}"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn the_same_request_runs_again_once(stage: Stage) -> Outcome {
    let failed = stage.scene(Scene::Failed).await?;
    let request = stage.retry_from_request(&failed);
    let again = stage
        .provider
        .retry_from(&stage.call(), request.clone())
        .await;
    let again = answered("retry-from", again)?.id;
    let first = stage.history_all(&again, 100).await?;
    let repeated = stage.provider.retry_from(&stage.call(), request).await;
    let repeated = answered("the repeated retry-from", repeated)?.id;
    ensure!(repeated == again, "`{again}` was followed by `{repeated}`");
    let second = stage.history_all(&again, 100).await?;
    ensure!(
        second.starts_with(&first),
        "the repetition ran again: {second:#?}"
    );
    Ok(())
}

async fn a_request_id_with_another_body_is_refused(stage: Stage) -> Outcome {
    let failed = stage.scene(Scene::Failed).await?;
    let request = stage.retry_from_request(&failed);
    let again = stage
        .provider
        .retry_from(&stage.call(), request.clone())
        .await;
    answered("retry-from", again)?;
    let other = RetryFromRequest {
        step: "kit-other".to_owned(),
        ..request
    };
    let other = stage.provider.retry_from(&stage.call(), other).await;
    let kind = ErrorKind::AlreadyExists;
    refused_because("the other body", other, kind, "REQUEST_ID_REUSED")
}
