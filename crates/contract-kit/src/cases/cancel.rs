//! `cancel`, gracefully and by force.

use stateway_model::{Reason, SubState};
use stateway_provider_api::{CancelMode, CancelRequest, CompensationChoice, ErrorKind};

use crate::case::{cases, ensure};
use crate::stage::{answered, refused_because};
use crate::{Case, Outcome, Scene, Stage};

pub(super) fn cases() -> Vec<Case> {
    let mut cases = cases!["cancel":
        asking_twice_is_the_same_as_asking_once [cancel],
        what_still_cleans_up_is_not_reported_as_ended [cancel],
        cancelling_what_succeeded_is_refused [cancel],
        a_kill_ends_it_at_once [kill],
        killing_twice_is_the_same_as_killing_once [kill],
        a_kill_ends_what_still_cleans_up [cancel, kill],
        killing_what_succeeded_is_refused [kill],
        no_compensation_ends_what_would_clean_up [cancel, cancel_compensation],
    ];
    let refused = Case::new(
        "capability_off::a_choice_about_compensation_is_unsupported",
        &["cancel"],
        |stage| Box::pin(a_choice_about_compensation_is_unsupported(stage)),
    );
    cases.push(refused.without("cancel_compensation"));
    cases
}

async fn asking_twice_is_the_same_as_asking_once(stage: Stage) -> Outcome {
    let id = stage.open().await?;
    let first = answered("cancel", stage.cancel(&id, CancelMode::Graceful).await)?;
    let second = stage.cancel(&id, CancelMode::Graceful).await;
    let second = answered("the second cancel", second)?;
    ensure!(
        second.native == first.native,
        "first {:?}, then {:?}",
        first.native,
        second.native
    );
    Ok(())
}

async fn what_still_cleans_up_is_not_reported_as_ended(stage: Stage) -> Outcome {
    let id = stage.scene(Scene::CleansUp).await?;
    let answer = answered("cancel", stage.cancel(&id, CancelMode::Graceful).await)?;
    let answer = stage.shown(answer);
    ensure!(
        !answer.sub_state.is_terminal(),
        "reported as {} at once",
        answer.sub_state
    );
    Ok(())
}

async fn refused_after_success(stage: Stage, mode: CancelMode) -> Outcome {
    let id = stage.scene(Scene::Succeeded).await?;
    let cancelled = stage.cancel(&id, mode).await;
    let kind = ErrorKind::FailedPrecondition;
    refused_because("cancel", cancelled, kind, "ALREADY_FINISHED")
}

async fn cancelling_what_succeeded_is_refused(stage: Stage) -> Outcome {
    refused_after_success(stage, CancelMode::Graceful).await
}

async fn killing_what_succeeded_is_refused(stage: Stage) -> Outcome {
    refused_after_success(stage, CancelMode::Kill).await
}

async fn a_kill_ends_it_at_once(stage: Stage) -> Outcome {
    let id = stage.open().await?;
    answered("kill", stage.cancel(&id, CancelMode::Kill).await)?;
    let shown = stage.shown(stage.get(&id).await?);
    ensure!(
        shown.sub_state == SubState::Failed,
        "shown as {}",
        shown.sub_state
    );
    let reason = shown.reason;
    ensure!(
        matches!(reason, Some(Reason::Killed | Reason::Cancelled)),
        "the reason is {reason:?}"
    );
    Ok(())
}

async fn killing_twice_is_the_same_as_killing_once(stage: Stage) -> Outcome {
    let id = stage.open().await?;
    answered("kill", stage.cancel(&id, CancelMode::Kill).await)?;
    answered("the second kill", stage.cancel(&id, CancelMode::Kill).await)?;
    Ok(())
}

async fn a_kill_ends_what_still_cleans_up(stage: Stage) -> Outcome {
    let id = stage.scene(Scene::CleansUp).await?;
    answered("cancel", stage.cancel(&id, CancelMode::Graceful).await)?;
    answered("kill", stage.cancel(&id, CancelMode::Kill).await)?;
    let shown = stage.sub_state(&id).await?;
    ensure!(shown == SubState::Failed, "shown as {shown}");
    Ok(())
}

async fn no_compensation_ends_what_would_clean_up(stage: Stage) -> Outcome {
    let id = stage.scene(Scene::CleansUp).await?;
    let request = CancelRequest {
        compensation: CompensationChoice::Skip,
        ..stage.cancel_request(&id, CancelMode::Graceful)
    };
    let cancelled = stage.provider.cancel(&stage.call(), request).await;
    let shown = stage.shown(answered("cancel", cancelled)?).sub_state;
    ensure!(shown == SubState::Failed, "shown as {shown}");
    Ok(())
}

async fn a_choice_about_compensation_is_unsupported(stage: Stage) -> Outcome {
    for compensation in [CompensationChoice::Compensate, CompensationChoice::Skip] {
        let id = stage.open().await?;
        let request = CancelRequest {
            compensation,
            ..stage.cancel_request(&id, CancelMode::Graceful)
        };
        let cancelled = stage.provider.cancel(&stage.call(), request).await;
        let kind = ErrorKind::Unsupported;
        refused_because("cancel", cancelled, kind, "CAPABILITY_NOT_SUPPORTED")?;
        let shown = stage.sub_state(&id).await?;
        ensure!(!shown.is_terminal(), "shown as {shown}");
    }
    Ok(())
}
