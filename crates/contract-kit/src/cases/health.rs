//! `health` and `capabilities`.

use stateway_provider_api::ErrorKind;

use crate::case::{cases, ensure};
use crate::stage::{answered, refused};
use crate::{Case, Fault, Outcome, Stage};

pub(super) fn cases() -> Vec<Case> {
    cases!["health":
        an_engine_that_answers_is_healthy [],
        an_engine_that_cannot_be_reached_is_not_healthy [],
        capabilities_stay_the_same [],
    ]
}

async fn an_engine_that_answers_is_healthy(stage: Stage) -> Outcome {
    answered("health", stage.provider.health(&stage.call()).await)?;
    Ok(())
}

async fn an_engine_that_cannot_be_reached_is_not_healthy(stage: Stage) -> Outcome {
    stage.inject(Fault::Unavailable).await?;
    let health = stage.provider.health(&stage.call()).await;
    refused("health", health, ErrorKind::Unavailable)?;
    Ok(())
}

async fn capabilities_stay_the_same(mut stage: Stage) -> Outcome {
    let before = stage.provider.capabilities();
    stage.open().await?;
    ensure!(
        stage.provider.capabilities() == before,
        "they changed with use"
    );
    stage.restart().await?;
    ensure!(
        stage.provider.capabilities() == before,
        "they changed with a restart"
    );
    Ok(())
}
