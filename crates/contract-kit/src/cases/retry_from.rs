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
