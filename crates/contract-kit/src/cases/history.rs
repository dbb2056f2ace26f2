//! `history`.

use stateway_provider_api::{CancelMode, ErrorKind, EventOrder, HistoryRequest, View};

use crate::case::{cases, ensure};
use crate::stage::{answered, refused};
use crate::{Case, Outcome, Scene, Stage};

pub(super) fn cases() -> Vec<Case> {
    let mut cases = cases!["history":
        ascends_over_the_pages_without_gaps_or_repeats [history],
        newest_first_is_the_same_history_in_reverse [history, history_newest_first],
        only_grows [history, kill],
        a_foreign_cursor_is_refused [history],
        a_cursor_of_the_other_order_is_refused [history, history_newest_first],
    ];
    let refused = Case::new(
        "capability_off::newest_first_is_unsupported",
        &["history"],
        |stage| Box::pin(newest_first_is_unsupported(stage)),
    );
    cases.push(refused.without("history_newest_first"));
    cases
}

async fn newest_first_is_the_same_history_in_reverse(stage: Stage) -> Outcome {
    let id = stage.scene(Scene::Succeeded).await?;
    let mut expected = stage.history_all(&id, 1_000).await?;
    ensure!(
        expected.len() >= 2,
        "{} events are no history",
        expected.len()
    );
    expected.reverse();
    for page_size in [1_000, 2, 1] {
        let newest = stage.history_in(EventOrder::NewestFirst, &id, page_size);
        let newest = newest.await?;
        ensure!(
            newest == expected,
            "in pages of {page_size} it is another history: {newest:#?}"
        );
    }
    Ok(())
}

async fn a_cursor_of_the_other_order_is_refused(stage: Stage) -> Outcome {
    use EventOrder::{NewestFirst, OldestFirst};
    let id = stage.scene(Scene::Succeeded).await?;
    for (order, other) in [(OldestFirst, NewestFirst), (NewestFirst, OldestFirst)] {
        let request = |order, cursor| HistoryRequest {
            id: id.clone(),
            page_size: 1,
            cursor,
            view: View::Basic,
            order,
        };
        let call = stage.call();
        let page = stage.provider.history(&call, request(order, None)).await;
        let page = answered("history", page)?;
        ensure!(page.next.is_some(), "one event is the whole history");
        let page = stage.provider.history(&call, request(other, page.next));
        let page = page.await;
        let what = "a cursor of the other order";
        refused(what, page, ErrorKind::InvalidArgument)?;
    }
    Ok(())
}

async fn newest_first_is_unsupported(stage: Stage) -> Outcome {
    let id = stage.scene(Scene::Succeeded).await?;
    let request = HistoryRequest {
        id,
        page_size: 10,
        cursor: None,
        view: View::Basic,
        order: EventOrder::NewestFirst,
    };
    let page = stage.provider.history(&stage.call(), request).await;
    refused("newest first", page, ErrorKind::Unsupported)?;
    Ok(())
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
            order: EventOrder::OldestFirst,
        };
        let page = stage.provider.history(&stage.call(), request).await;
        refused("a foreign cursor", page, ErrorKind::InvalidArgument)?;
    }
    Ok(())
}
