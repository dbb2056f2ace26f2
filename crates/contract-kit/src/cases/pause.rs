//! `pause`.

use stateway_model::SubState;
use stateway_provider_api::ErrorKind;

use crate::case::{cases, ensure};
use crate::stage::{answered, refused_because};
use crate::{Case, Outcome, Scene, Stage};

pub(super) fn cases() -> Vec<Case> {
    cases!["pause":
        what_is_paused_waits [pause],
        pausing_what_is_paused_is_a_success [pause],
        pausing_after_the_end_is_refused [pause],
    ]
}

async fn what_is_paused_waits(stage: Stage) -> Outcome {
    let id = stage.open().await?;
    let paused = stage
        .provider
        .pause(&stage.call(), stage.pause_request(&id))
        .await;
    answered("pause", paused)?;
    let shown = stage.sub_state(&id).await?;
    ensure!(shown == SubState::Waiting, "shown as {shown}");
    Ok(())
}

async fn pausing_what_is_paused_is_a_success(stage: Stage) -> Outcome {
    let id = stage.open().await?;
    for _ in 0..2 {
        let paused = stage
            .provider
            .pause(&stage.call(), stage.pause_request(&id))
            .await;
        answered("pause", paused)?;
    }
    Ok(())
}

async fn pausing_after_the_end_is_refused(stage: Stage) -> Outcome {
    let id = stage.scene(Scene::Succeeded).await?;
    let paused = stage
        .provider
        .pause(&stage.call(), stage.pause_request(&id))
        .await;
    let kind = ErrorKind::FailedPrecondition;
    refused_because("pause", paused, kind, "ALREADY_FINISHED")
}
