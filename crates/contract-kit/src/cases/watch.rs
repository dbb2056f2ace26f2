//! `watch`.

use std::collections::BTreeSet;

use futures::StreamExt;
use stateway_provider_api::{CancelMode, WatchScope};

use crate::case::{cases, ensure};
use crate::stage::{answered, next, soon};
use crate::{Case, Outcome, Stage};

pub(super) fn cases() -> Vec<Case> {
    cases!["watch":
        one_begins_with_its_present_state [watch_one],
        all_begins_with_the_present_set [watch_all, start],
        all_tells_of_changes [watch_all, start, kill],
        the_last_state_arrives_and_ends_the_stream [watch_one, kill],
        the_deadline_bounds_opening_not_the_stream [watch_one, kill],
    ]
}

async fn one_begins_with_its_present_state(stage: Stage) -> Outcome {
    let id = stage.open().await?;
    let present = stage.get(&id).await?;
    let scope = WatchScope::One(id);
    let mut stream = answered("watch", stage.provider.watch(&stage.call(), scope).await)?;
    let first = next(&mut stream).await?;
    ensure!(
        first.id == present.id && first.native == present.native,
        "it begins with {first:?}, get shows {present:?}"
    );
    Ok(())
}

async fn all_begins_with_the_present_set(stage: Stage) -> Outcome {
    let mut present = BTreeSet::new();
    for _ in 0..3 {
        present.insert(stage.open().await?);
    }
    let watch = stage.provider.watch(&stage.call(), WatchScope::All).await;
    let mut stream = answered("watch", watch)?;
    while !present.is_empty() {
        present.remove(&next(&mut stream).await?.id);
    }
    Ok(())
}

async fn all_tells_of_changes(stage: Stage) -> Outcome {
    let first = stage.open().await?;
    let watch = stage.provider.watch(&stage.call(), WatchScope::All).await;
    let mut stream = answered("watch", watch)?;
    let second = stage.open().await?;
    while next(&mut stream).await?.id != second {}
    answered("kill", stage.cancel(&first, CancelMode::Kill).await)?;
    loop {
        let seen = next(&mut stream).await?;
        if seen.id == first && stage.shown(seen).sub_state.is_terminal() {
            return Ok(());
        }
    }
}

async fn the_last_state_arrives_and_ends_the_stream(stage: Stage) -> Outcome {
    let id = stage.open().await?;
    let scope = WatchScope::One(id.clone());
    let mut stream = answered("watch", stage.provider.watch(&stage.call(), scope).await)?;
    next(&mut stream).await?;
    answered("kill", stage.cancel(&id, CancelMode::Kill).await)?;
    loop {
        let seen = next(&mut stream).await?;
        if stage.shown(seen).sub_state.is_terminal() {
            break;
        }
    }
    let more = soon(stream.next()).await?;
    ensure!(more.is_none(), "the stream goes on after the end");
    Ok(())
}

async fn the_deadline_bounds_opening_not_the_stream(stage: Stage) -> Outcome {
    let id = stage.open().await?;
    let call = stateway_provider_api::Call::within(std::time::Duration::from_millis(50));
    let scope = WatchScope::One(id.clone());
    let mut stream = answered("watch", stage.provider.watch(&call, scope).await)?;
    next(&mut stream).await?;
    tokio::time::sleep_until(tokio::time::Instant::from_std(call.deadline)).await;
    answered("kill", stage.cancel(&id, CancelMode::Kill).await)?;
    while !stage
        .shown(next(&mut stream).await?)
        .sub_state
        .is_terminal()
    {}
    Ok(())
}
