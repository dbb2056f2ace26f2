//! `retry_from`.

use stateway_provider_api::ErrorKind;

use crate::case::{cases, ensure};
use crate::stage::{answered, refused};
use crate::{Case, Outcome, Scene, Stage};

pub(super) fn cases() -> Vec<Case> {
    cases!["retry_from":
        what_failed_is_done_again [retry_from],
        what_the_old_run_did_stays_readable [retry_from, history],
        an_unknown_step_is_refused [retry_from],
        an_input_is_used_or_refused [retry_from],
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

/// Whether an input that is taken has its effect only the adapter's own tests can tell.
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
