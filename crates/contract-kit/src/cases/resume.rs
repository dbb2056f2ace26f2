//! `resume`.

use stateway_model::SubState;
use stateway_provider_api::ErrorKind;

use crate::case::{cases, ensure};
use crate::stage::{answered, refused, refused_because};
use crate::{Case, Outcome, Scene, Stage};

pub(super) fn cases() -> Vec<Case> {
    cases!["resume":
        what_was_paused_goes_on [pause, resume],
        what_is_stuck_goes_on [resume],
        resuming_what_is_neither_paused_nor_stuck_is_refused [resume],
        resuming_after_the_end_is_refused [resume],
    ]
}

async fn what_was_paused_goes_on(stage: Stage) -> Outcome {
    let id = stage.open().await?;
    let before = stage.sub_state(&id).await?;
    let paused = stage
        .provider
        .pause(&stage.call(), stage.pause_request(&id))
        .await;
    answered("pause", paused)?;
    let resumed = stage
        .provider
        .resume(&stage.call(), stage.resume_request(&id))
        .await;
    answered("resume", resumed)?;
    let after = stage.sub_state(&id).await?;
    ensure!(after == before, "it was {before}, now it is {after}");
    Ok(())
}

async fn what_is_stuck_goes_on(stage: Stage) -> Outcome {
    let id = stage.scene(Scene::Stuck).await?;
    let before = stage.sub_state(&id).await?;
    ensure!(before == SubState::Error, "stuck is shown as {before}");
    let resumed = stage
        .provider
        .resume(&stage.call(), stage.resume_request(&id))
        .await;
    answered("resume", resumed)?;
    let after = stage.sub_state(&id).await?;
    ensure!(after != SubState::Error, "it is still stuck");
    Ok(())
}

async fn resuming_what_is_neither_paused_nor_stuck_is_refused(stage: Stage) -> Outcome {
    let id = stage.open().await?;
    let resumed = stage
        .provider
        .resume(&stage.call(), stage.resume_request(&id))
        .await;
    refused("resume", resumed, ErrorKind::FailedPrecondition)?;
    Ok(())
}

async fn resuming_after_the_end_is_refused(stage: Stage) -> Outcome {
    let id = stage.scene(Scene::Succeeded).await?;
    let resumed = stage
        .provider
        .resume(&stage.call(), stage.resume_request(&id))
        .await;
    let kind = ErrorKind::FailedPrecondition;
    refused_because("resume", resumed, kind, "ALREADY_FINISHED")
}
