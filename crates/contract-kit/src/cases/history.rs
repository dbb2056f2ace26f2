//! `history`.

use stateway_provider_api::{CancelMode, ErrorKind, HistoryRequest, View};

use crate::case::{cases, ensure};
use crate::stage::{answered, refused};
use crate::{Case, Outcome, Scene, Stage};

pub(super) fn cases() -> Vec<Case> {
    cases!["history":
        ascends_over_the_pages_without_gaps_or_repeats [history],
        only_grows [history, kill],
        a_foreign_cursor_is_refused [history],
    ]
}

async fn ascends_over_the_pages_without_gaps_or_repeats(stage: Stage) -> Outcome {
    let id = stage.scene(Scene::Succeeded).await?;
    let whole = stage.history_all(&id, 1_000).await?;
    ensure!(whole.len() >= 2, "{} events are no history", whole.len());
    let ascends = whole
        .windows(2)
        .all(|pair| pair[0].sequence < pair[1].sequence && pair[0].time <= pair[1].time);
    ensure!(ascends, "it does not ascend: {whole:#?}");
    let in_pages = stage.history_all(&id, 2).await?;
    ensure!(
        in_pages == whole,
        "in pages of 2 it is another history: {in_pages:#?}"
    );
    Ok(())
}

async fn only_grows(stage: Stage) -> Outcome {
    let id = stage.scene(Scene::BackingOff { attempt: 1 }).await?;
    let before = stage.history_all(&id, 1_000).await?;
    answered("kill", stage.cancel(&id, CancelMode::Kill).await)?;
    let after = stage.history_all(&id, 1_000).await?;
    ensure!(
        after.starts_with(&before),
        "what had happened is reported differently: {after:#?}"
    );
    ensure!(after.len() > before.len(), "the kill is not in the history");
    Ok(())
}

async fn a_foreign_cursor_is_refused(stage: Stage) -> Outcome {
    let id = stage.scene(Scene::Succeeded).await?;
    for cursor in ["kit", "", "history", "history.", "history.x", "list.1"] {
        let request = HistoryRequest {
            id: id.clone(),
            page_size: 10,
            cursor: Some(cursor.to_owned()),
            view: View::Basic,
        };
        let page = stage.provider.history(&stage.call(), request).await;
        refused("a foreign cursor", page, ErrorKind::InvalidArgument)?;
    }
    Ok(())
}
