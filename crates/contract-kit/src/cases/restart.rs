//! The gateway restarts while its engine keeps running.

use std::collections::BTreeSet;

use stateway_provider_api::filter::Hints;
use stateway_provider_api::{CancelMode, ListRequest, View};

use crate::case::{cases, ensure};
use crate::stage::answered;
use crate::{Case, Outcome, Scene, Stage};

pub(super) fn cases() -> Vec<Case> {
    cases!["restart":
        what_was_acknowledged_is_still_there [start],
        a_start_is_still_idempotent [start, start_idempotent],
        a_retry_from_is_still_idempotent [retry_from, retry_from_idempotent],
        a_retry_now_is_still_idempotent [retry_now, retry_now_idempotent],
        a_kill_is_still_in_force [kill],
        a_cursor_is_still_good [start, list],
    ]
}

async fn what_was_acknowledged_is_still_there(mut stage: Stage) -> Outcome {
    let id = stage.open().await?;
    let before = stage.provider.get(&stage.call(), &id, View::Full).await;
    let before = answered("get", before)?;
    stage.restart().await?;
    let after = stage.provider.get(&stage.call(), &id, View::Full).await;
    let after = answered("get after the restart", after)?;
    ensure!(after == before, "before {before:?}, after {after:?}");
    Ok(())
}

async fn a_start_is_still_idempotent(mut stage: Stage) -> Outcome {
    // Without this execution, a provider that lost its counter could assign the same id again by chance.
    stage.open().await?;
    let request = stage.start_request();
    let before = stage.provider.start(&stage.call(), request.clone()).await;
    let before = answered("start", before)?.id;
    stage.restart().await?;
    let after = stage.provider.start(&stage.call(), request).await;
    let after = answered("start after the restart", after)?.id;
    ensure!(after == before, "`{before}` was followed by `{after}`");
    Ok(())
}

async fn a_retry_from_is_still_idempotent(mut stage: Stage) -> Outcome {
    let failed = stage.scene(Scene::Failed).await?;
    let request = stage.retry_from_request(&failed);
    let before = stage
        .provider
        .retry_from(&stage.call(), request.clone())
        .await;
    let before = answered("retry-from", before)?.id;
    stage.restart().await?;
    let after = stage.provider.retry_from(&stage.call(), request).await;
    let after = answered("retry-from after the restart", after)?.id;
    ensure!(after == before, "`{before}` was followed by `{after}`");
    Ok(())
}

async fn a_retry_now_is_still_idempotent(mut stage: Stage) -> Outcome {
    let id = stage.scene(Scene::BackingOff { attempt: 1 }).await?;
    let request = stage.retry_now_request(&id);
    let retried = stage
        .provider
        .retry_now(&stage.call(), request.clone())
        .await;
    answered("retry-now", retried)?;
    let before = stage.shown(stage.get(&id).await?).retry.attempt;
    stage.restart().await?;
    let retried = stage.provider.retry_now(&stage.call(), request).await;
    answered("retry-now after the restart", retried)?;
    let after = stage.shown(stage.get(&id).await?).retry.attempt;
    ensure!(after == before, "attempt {before} was followed by {after}");
    Ok(())
}

async fn a_kill_is_still_in_force(mut stage: Stage) -> Outcome {
    let id = stage.open().await?;
    answered("kill", stage.cancel(&id, CancelMode::Kill).await)?;
    stage.restart().await?;
    let shown = stage.sub_state(&id).await?;
    ensure!(shown.is_terminal(), "shown as {shown}");
    Ok(())
}

async fn a_cursor_is_still_good(mut stage: Stage) -> Outcome {
    let mut missing = BTreeSet::new();
    for _ in 0..3 {
        missing.insert(stage.open().await?);
    }
    let mut cursor = None;
    loop {
        let request = ListRequest {
            hints: Hints::none(),
            page_size: 1,
            cursor,
        };
        let page = answered("list", stage.provider.list(&stage.call(), request).await)?;
        for row in page.observations {
            missing.remove(&row.id);
        }
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
        stage.restart().await?;
    }
    ensure!(missing.is_empty(), "lost on the way: {missing:?}");
    Ok(())
}
