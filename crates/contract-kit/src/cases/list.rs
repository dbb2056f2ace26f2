//! `list`.

use std::collections::{BTreeMap, BTreeSet};

use stateway_model::{ExecutionId, SubState};
use stateway_provider_api::filter::Hints;
use stateway_provider_api::{CancelMode, ErrorKind, ListRequest};

use crate::case::{Stop, cases, ensure};
use crate::stage::{answered, refused};
use crate::{Case, Outcome, Scene, Stage};

pub(super) fn cases() -> Vec<Case> {
    cases!["list":
        every_execution_is_shown_once_over_the_pages [list, start],
        an_empty_page_is_not_the_end [list, start, kill],
        what_the_hints_admit_is_never_left_out [list],
        shows_no_payloads [list, start],
        a_foreign_cursor_is_refused [list],
    ]
}

async fn every_execution_is_shown_once_over_the_pages(stage: Stage) -> Outcome {
    let mut started = BTreeMap::new();
    for _ in 0..7 {
        started.insert(stage.open().await?, 0);
    }
    let mut cursor = None;
    loop {
        let request = ListRequest {
            hints: Hints::none(),
            page_size: 2,
            cursor,
        };
        let page = answered("list", stage.provider.list(&stage.call(), request).await)?;
        ensure!(
            page.observations.len() <= 2,
            "a page of at most 2 rows has {}",
            page.observations.len()
        );
        for row in page.observations {
            if let Some(times) = started.get_mut(&row.id) {
                *times += 1;
                ensure!(*times == 1, "`{}` is shown twice", row.id);
            }
        }
        // What begins while pages are read must not move those that are still to come.
        if started.len() < 9 {
            let late = stage.open().await?;
            started.insert(late, 1);
        }
        match page.next {
            Some(next) => cursor = Some(next),
            None => break,
        }
    }
    let missing: Vec<_> = started.iter().filter(|(_, times)| **times == 0).collect();
    ensure!(missing.is_empty(), "never shown: {missing:?}");
    Ok(())
}

/// Only the oldest execution is asked for, behind many that are not.
async fn an_empty_page_is_not_the_end(stage: Stage) -> Outcome {
    let oldest = stage.open().await?;
    answered("kill", stage.cancel(&oldest, CancelMode::Kill).await)?;
    for _ in 0..9 {
        stage.open().await?;
    }
    let hints = Hints {
        sub_states: vec![SubState::Failed],
        ..Hints::none()
    };
    let rows = stage.list_all(hints, 1).await?;
    ensure!(
        rows.iter().any(|row| row.id == oldest),
        "the one row that was asked for is not among {} rows",
        rows.len()
    );
    Ok(())
}

async fn what_the_hints_admit_is_never_left_out(stage: Stage) -> Outcome {
    let mut staged = BTreeSet::new();
    for scene in [
        Scene::BackingOff { attempt: 1 },
        Scene::Steps(vec![SubState::Waiting]),
        Scene::NoMetadata,
        Scene::Stuck,
        Scene::Succeeded,
        Scene::Failed,
    ] {
        match stage.scene(scene).await {
            Ok(id) => staged.insert(id),
            Err(Stop::Skipped(_)) => continue,
            Err(stop) => return Err(stop),
        };
    }
    let rows = stage.list_all(Hints::none(), 10).await?;
    let staged: Vec<(ExecutionId, SubState)> = rows
        .into_iter()
        .filter(|row| staged.contains(&row.id))
        .map(|row| (row.id.clone(), stage.shown(row).sub_state))
        .collect();
    ensure!(!staged.is_empty(), "nothing could be staged and listed");
    for wanted in SubState::ALL {
        let hints = Hints {
            sub_states: vec![*wanted],
            ..Hints::none()
        };
        let rows = stage.list_all(hints, 10).await?;
        for (id, _) in staged.iter().filter(|(_, shown)| shown == wanted) {
            ensure!(
                rows.iter().any(|row| row.id == *id),
                "`{id}` is {wanted} and left out"
            );
        }
    }
    Ok(())
}

async fn shows_no_payloads(stage: Stage) -> Outcome {
    stage.open().await?;
    for row in stage.list_all(Hints::none(), 10).await? {
        ensure!(
            row.input.is_none() && row.output.is_none(),
            "`{}` shows payloads",
            row.id
        );
    }
    Ok(())
}

async fn a_foreign_cursor_is_refused(stage: Stage) -> Outcome {
    for cursor in ["kit", "", "list", "list.", "list.x", "history.1"] {
        let request = ListRequest {
            hints: Hints::none(),
            page_size: 10,
            cursor: Some(cursor.to_owned()),
        };
        let page = stage.provider.list(&stage.call(), request).await;
        refused("a foreign cursor", page, ErrorKind::InvalidArgument)?;
    }
    Ok(())
}
