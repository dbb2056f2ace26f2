//! `watch`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use futures::StreamExt;
use stateway_model::ExecutionId;
use stateway_provider_api::{
    Call, CancelMode, ErrorKind, Observation, Version, WatchScope, WatchStream, Watched,
};

use crate::case::{cases, ensure};
use crate::stage::{answered, next, next_item, refused, soon};
use crate::{Case, Fault, Outcome, Scene, Stage, Stop};

/// How long after its deadline a call may still be under way.
const GRACE: Duration = Duration::from_millis(500);

pub(super) fn cases() -> Vec<Case> {
    cases!["watch":
        one_begins_with_its_present_state_and_is_in_sync [watch_one],
        all_begins_with_the_present_set_and_is_in_sync [watch_all, start],
        all_reports_changes [watch_all, start, kill],
        a_purged_execution_is_gone [watch_all, purge],
        versions_never_go_back [watch_all, start, kill],
        the_last_state_arrives_and_ends_the_stream [watch_one, kill],
        the_end_arrives_on_a_watch_of_the_end [watch_end, kill],
        the_deadline_bounds_opening_not_the_stream [watch_one, kill],
        opening_ends_by_the_deadline [watch_one],
    ]
}

async fn open(stage: &Stage, scope: WatchScope) -> Result<WatchStream, Stop> {
    answered("watch", stage.provider.watch(&stage.call(), scope).await)
}

/// What a stream reports before it is in sync.
async fn present(stream: &mut WatchStream) -> Result<Vec<Observation>, Stop> {
    let mut present = Vec::new();
    loop {
        match next_item(stream).await? {
            Watched::Seen(seen) => present.push(*seen),
            Watched::Gone(_) => {}
            Watched::InSync => return Ok(present),
        }
    }
}

async fn one_begins_with_its_present_state_and_is_in_sync(stage: Stage) -> Outcome {
    let id = stage.open().await?;
    let shown = stage.get(&id).await?;
    let mut stream = open(&stage, WatchScope::One(id)).await?;
    let present = present(&mut stream).await?;
    let same = |seen: &Observation| seen.id == shown.id && seen.native == shown.native;
    ensure!(
        present.last().is_some_and(same),
        "in sync after {present:?}, get shows {shown:?}"
    );
    Ok(())
}

async fn all_begins_with_the_present_set_and_is_in_sync(stage: Stage) -> Outcome {
    let mut missing = BTreeSet::new();
    for _ in 0..3 {
        missing.insert(stage.open().await?);
    }
    let mut stream = open(&stage, WatchScope::All).await?;
    for seen in present(&mut stream).await? {
        missing.remove(&seen.id);
    }
    ensure!(
        missing.is_empty(),
        "in sync without {missing:?}, which existed before"
    );
    Ok(())
}

async fn all_reports_changes(stage: Stage) -> Outcome {
    let first = stage.open().await?;
    let mut stream = open(&stage, WatchScope::All).await?;
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

async fn a_purged_execution_is_gone(stage: Stage) -> Outcome {
    let id = stage.scene(Scene::Succeeded).await?;
    let mut stream = open(&stage, WatchScope::All).await?;
    // An execution that was removed before it was reported need not be reported as removed.
    while next(&mut stream).await?.id != id {}
    answered("purge", stage.purge(&id).await)?;
    loop {
        if next_item(&mut stream).await? == Watched::Gone(id.clone()) {
            return Ok(());
        }
    }
}

async fn versions_never_go_back(stage: Stage) -> Outcome {
    let id = stage.open().await?;
    let mut stream = open(&stage, WatchScope::All).await?;
    let other = stage.open().await?;
    answered("kill", stage.cancel(&id, CancelMode::Kill).await)?;
    let mut newest = BTreeMap::<ExecutionId, Version>::new();
    let mut open = BTreeSet::from([id.clone(), other.clone()]);
    answered("kill", stage.cancel(&other, CancelMode::Kill).await)?;
    while !open.is_empty() {
        let seen = next(&mut stream).await?;
        let Some(version) = seen.version else {
            return Err(Stop::Skipped("the engine has no versions".to_owned()));
        };
        let before = newest.insert(seen.id.clone(), version);
        ensure!(
            before.is_none_or(|before| before <= version),
            "{} is at {version:?} after {before:?}",
            seen.id
        );
        let id = seen.id.clone();
        if stage.shown(seen).sub_state.is_terminal() {
            open.remove(&id);
        }
    }
    // A read is placed among the reports by the same versions.
    let read = stage.get(&id).await?.version;
    ensure!(
        read >= newest.get(&id).copied(),
        "get shows {read:?}, the watch reported {newest:?}"
    );
    Ok(())
}

async fn the_last_state_arrives_and_ends_the_stream(stage: Stage) -> Outcome {
    let id = stage.open().await?;
    let mut stream = open(&stage, WatchScope::One(id.clone())).await?;
    next(&mut stream).await?;
    answered("kill", stage.cancel(&id, CancelMode::Kill).await)?;
    ends(&stage, &mut stream).await
}

async fn the_end_arrives_on_a_watch_of_the_end(stage: Stage) -> Outcome {
    let id = stage.open().await?;
    let mut stream = open(&stage, WatchScope::End(id.clone())).await?;
    answered("kill", stage.cancel(&id, CancelMode::Kill).await)?;
    ends(&stage, &mut stream).await
}

/// The finished execution comes, and nothing after it but that the stream is in sync.
async fn ends(stage: &Stage, stream: &mut WatchStream) -> Outcome {
    while !stage.shown(next(stream).await?).sub_state.is_terminal() {}
    loop {
        match soon(stream.next()).await? {
            None => return Ok(()),
            Some(Ok(Watched::InSync)) => {}
            Some(more) => {
                let message = format!("after the end comes {more:?}");
                return Err(Stop::Failed(message));
            }
        }
    }
}

async fn the_deadline_bounds_opening_not_the_stream(stage: Stage) -> Outcome {
    let id = stage.open().await?;
    let call = Call::within(Duration::from_secs(1));
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

async fn opening_ends_by_the_deadline(stage: Stage) -> Outcome {
    let id = stage.open().await?;
    stage.inject(Fault::Hang).await?;
    let call = Call::within(Duration::from_millis(100));
    let began = Instant::now();
    let opened = stage.provider.watch(&call, WatchScope::One(id)).await;
    refused("watch", opened.map(|_| ()), ErrorKind::Timeout)?;
    ensure!(
        began.elapsed() < Duration::from_millis(100) + GRACE,
        "it took {:?}",
        began.elapsed()
    );
    Ok(())
}
