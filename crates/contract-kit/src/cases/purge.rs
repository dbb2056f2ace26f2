//! `purge`.

use stateway_provider_api::filter::Hints;
use stateway_provider_api::{ErrorKind, View};

use crate::case::{cases, ensure};
use crate::stage::{answered, refused, refused_because};
use crate::{Case, Outcome, Scene, Stage};

pub(super) fn cases() -> Vec<Case> {
    cases!["purge":
        what_was_purged_is_not_found [purge],
        what_was_purged_is_in_no_list [purge, list],
        an_open_execution_is_refused_and_stays [purge],
        purging_twice_is_not_found [purge],
    ]
}

async fn what_was_purged_is_not_found(stage: Stage) -> Outcome {
    let failed = stage.scene(Scene::Failed).await?;
    answered("purge", stage.purge(&failed).await)?;
    let call = stage.call();
    let gone = stage.provider.get(&call, &failed, View::Basic).await;
    refused("get after the purge", gone, ErrorKind::NotFound)?;
    Ok(())
}

async fn what_was_purged_is_in_no_list(stage: Stage) -> Outcome {
    let done = stage.scene(Scene::Succeeded).await?;
    answered("purge", stage.purge(&done).await)?;
    let listed = stage.list_all(Hints::none(), 10).await?;
    ensure!(
        listed.iter().all(|row| row.id != done),
        "`{done}` is listed after its purge"
    );
    Ok(())
}

async fn an_open_execution_is_refused_and_stays(stage: Stage) -> Outcome {
    let id = stage.open().await?;
    let before = stage.get(&id).await?;
    let kind = ErrorKind::FailedPrecondition;
    refused_because("purge", stage.purge(&id).await, kind, "NOT_FINISHED")?;
    let after = stage.get(&id).await?;
    ensure!(
        after.native == before.native,
        "it was {:?} and is {:?}",
        before.native,
        after.native
    );
    Ok(())
}

async fn purging_twice_is_not_found(stage: Stage) -> Outcome {
    let done = stage.scene(Scene::Succeeded).await?;
    answered("purge", stage.purge(&done).await)?;
    let again = stage.purge(&done).await;
    refused("the second purge", again, ErrorKind::NotFound)?;
    Ok(())
}
