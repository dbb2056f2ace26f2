//! `count`.

use std::collections::BTreeMap;

use stateway_model::SubState;
use stateway_provider_api::filter::Hints;
use stateway_provider_api::{CancelMode, classify};

use crate::case::{cases, ensure};
use crate::stage::answered;
use crate::{Case, Outcome, Scene, Stage, Stop};

pub(super) fn cases() -> Vec<Case> {
    cases!["count":
        agrees_with_what_a_list_shows [count, list, start, kill],
    ]
}

/// If two lists agree, nothing changed between them, so a count made between them must agree too.
async fn agrees_with_what_a_list_shows(stage: Stage) -> Outcome {
    for scene in [Scene::Succeeded, Scene::Steps(vec![SubState::Waiting])] {
        stage.scene(scene).await?;
    }
    stage.open().await?;
    let ended = stage.open().await?;
    answered("kill", stage.cancel(&ended, CancelMode::Kill).await)?;
    for _ in 0..TRIES {
        let before = shown(&stage).await?;
        let counted = answered("count", stage.provider.count(&stage.call()).await)?;
        if before != shown(&stage).await? {
            continue;
        }
        ensure!(
            counted.iter().all(|count| !count.at_least),
            "counting so few stopped early: {counted:?}"
        );
        let mut totals = BTreeMap::new();
        for group in counted.iter().filter(|group| group.count > 0) {
            let verdict = classify(&stage.table, &group.example, stage.now()).execution;
            *totals.entry(verdict.sub_state).or_insert(0) += group.count;
        }
        ensure!(
            totals == before,
            "counted {totals:?}, but a list shows {before:?}"
        );
        return Ok(());
    }
    ensure!(false, "the executions never stood still");
    Ok(())
}

const TRIES: usize = 20;

async fn shown(stage: &Stage) -> Result<BTreeMap<SubState, u64>, Stop> {
    let mut seen = BTreeMap::new();
    for row in stage.list_all(Hints::none(), 50).await? {
        let verdict = classify(&stage.table, &row, stage.now()).execution;
        seen.insert(row.id, verdict.sub_state);
    }
    let mut shown = BTreeMap::new();
    for sub_state in seen.into_values() {
        *shown.entry(sub_state).or_insert(0) += 1;
    }
    Ok(shown)
}
