//! `get`.

use stateway_provider_api::{CancelMode, ErrorKind, View};

use crate::case::{cases, ensure};
use crate::stage::{answered, refused};
use crate::{Case, Outcome, Scene, Stage};

pub(super) fn cases() -> Vec<Case> {
    cases!["get":
        an_unknown_execution_is_not_found [],
        payloads_only_in_the_full_view [start, payloads],
        an_answered_write_is_visible [kill],
        a_finished_execution_can_be_read [],
    ]
}

async fn an_unknown_execution_is_not_found(stage: Stage) -> Outcome {
    let got = stage
        .provider
        .get(&stage.call(), &stage.nobody(), View::Full)
        .await;
    refused("get", got, ErrorKind::NotFound)?;
    Ok(())
}

async fn payloads_only_in_the_full_view(stage: Stage) -> Outcome {
    let id = stage.open().await?;
    let basic = stage.get(&id).await?;
    ensure!(
        basic.input.is_none() && basic.output.is_none(),
        "the basic view has payloads"
    );
    let full = stage.provider.get(&stage.call(), &id, View::Full).await;
    let full = answered("get", full)?;
    ensure!(
        full.input == Some(stage.workload().input),
        "the full view's input is {:?}",
        full.input
    );
    Ok(())
}

async fn an_answered_write_is_visible(stage: Stage) -> Outcome {
    let id = stage.open().await?;
    let answer = answered("kill", stage.cancel(&id, CancelMode::Kill).await)?;
    let seen = stage.get(&id).await?;
    ensure!(
        seen.native == answer.native,
        "the answer was {:?}, the next get shows {:?}",
        answer.native,
        seen.native
    );
    Ok(())
}

async fn a_finished_execution_can_be_read(stage: Stage) -> Outcome {
    let id = stage.scene(Scene::Succeeded).await?;
    let shown = stage.sub_state(&id).await?;
    ensure!(shown.is_terminal(), "shown as {shown}");
    Ok(())
}
