//! `list`.

use std::collections::{BTreeMap, BTreeSet};

use stateway_model::{ExecutionId, SubState};
use stateway_provider_api::filter::{DefinitionPattern, Hints};
use stateway_provider_api::table::{Row, Scope};
use stateway_provider_api::{
    CancelMode, ErrorKind, ListRequest, NativeState, ObservedDefinition, Table,
};

use crate::case::{Stop, cases, ensure};
use crate::stage::{answered, refused};
use crate::{Case, Outcome, Scene, Stage};

pub(super) fn cases() -> Vec<Case> {
    cases!["list":
        every_execution_is_shown_once_over_the_pages [list, start],
        an_empty_page_is_not_the_end [list, start, kill],
        what_the_hints_admit_is_never_left_out [list],
        a_state_in_no_table_is_never_left_out [list],
        the_hinted_definition_is_never_left_out [list, start],
        the_hinted_times_leave_out_nothing_between_them [list, start],
        shows_no_payloads [list, start],
        a_foreign_cursor_is_refused [list],
    ]
    .into_iter()
    .chain([overlay()])
    .collect()
}

fn overlay() -> Case {
    Case::new(
        "list::a_row_that_an_operator_laid_over_the_table_is_never_left_out",
        &["list"],
        |stage| Box::pin(an_overlaid_row_is_never_left_out(stage)),
    )
    .overlaid(with_failures_as_errors)
}

/// The table with one of its failures shown as an error that a person must handle.
fn with_failures_as_errors(table: &Table) -> Option<Table> {
    let row = failure(table)?;
    let when: Vec<_> = row
        .when
        .iter()
        .map(|(name, value)| format!("{name} = {value:?}"))
        .collect();
    let overlay = format!(
        "version = 1\nkind = {:?}\ntitle = \"kit\"\nsummary = \"kit\"\n{}\n\
         [[rows]]\nnative = {:?}\nwhen = {{ {} }}\nsub_state = \"error\"\nterminal = false\n\
         source = \"the kit\"\n",
        table.kind,
        qualifiers(table),
        row.native,
        when.join(", "),
    );
    table.overlaid_with(&Table::parse(&overlay).ok()?).ok()
}

fn qualifiers(table: &Table) -> String {
    let names = table.qualifiers.iter();
    let lines = names.map(|(name, from)| format!("{name} = {from:?}\n"));
    format!("[qualifiers]\n{}", lines.collect::<String>())
}

fn failure(table: &Table) -> Option<&Row> {
    let of_executions = |row: &&Row| row.scope == Scope::Execution;
    let mut failures = table
        .rows()
        .iter()
        .filter(of_executions)
        .filter(|row| row.sub_state == SubState::Failed);
    failures.next()
}

async fn an_overlaid_row_is_never_left_out(stage: Stage) -> Outcome {
    let row = stage
        .table
        .rows()
        .iter()
        .find(|row| row.source == "the kit");
    let row = row.ok_or_else(|| Stop::Failed("the overlay has no row".to_owned()))?;
    let scene = Scene::Native {
        scope: Scope::Execution,
        native: NativeState {
            state: row.native.clone(),
            qualifiers: row.when.clone(),
        },
    };
    let id = stage.scene(scene).await?;
    let shown = stage.sub_state(&id).await?;
    if shown != SubState::Error {
        let why = "the engine computes the sub-state itself, not by the table";
        return Err(Stop::Skipped(why.to_owned()));
    }
    is_listed(&stage, &id, SubState::Error).await
}

async fn is_listed(stage: &Stage, id: &ExecutionId, sub_state: SubState) -> Outcome {
    let hints = Hints {
        sub_states: vec![sub_state],
        ..Hints::none()
    };
    let rows = stage.list_all(hints, 10).await?;
    ensure!(
        rows.iter().any(|row| row.id == *id),
        "`{id}` is {sub_state} and left out"
    );
    Ok(())
}

async fn a_state_in_no_table_is_never_left_out(stage: Stage) -> Outcome {
    let scene = Scene::Native {
        scope: Scope::Execution,
        native: NativeState::new("KIT_NEVER_SEEN"),
    };
    let id = stage.scene(scene).await?;
    is_listed(&stage, &id, SubState::Running).await
}

async fn the_hinted_definition_is_never_left_out(stage: Stage) -> Outcome {
    let id = stage.open().await?;
    let seen = stage.get(&id).await?;
    let pattern = match seen.definition {
        Some(ObservedDefinition::Native(name)) => name,
        Some(ObservedDefinition::Portable(name)) => format!("definitions/{name}"),
        None => return Err(Stop::Skipped("no definition is shown".to_owned())),
    };
    let hints = Hints {
        definition: Some(DefinitionPattern::new(&pattern)),
        ..Hints::none()
    };
    let rows = stage.list_all(hints, 10).await?;
    ensure!(
        rows.iter().any(|row| row.id == id),
        "`{id}` runs `{pattern}` and is left out"
    );
    Ok(())
}

async fn the_hinted_times_leave_out_nothing_between_them(stage: Stage) -> Outcome {
    let id = stage.open().await?;
    let Some(started) = stage.get(&id).await?.start_time else {
        return Err(Stop::Skipped("no start time is shown".to_owned()));
    };
    let early = started - jiff::SignedDuration::from_secs(1);
    let late = started + jiff::SignedDuration::from_secs(1);
    for (from, until) in [
        (Some(started), Some(started)),
        (Some(early), Some(late)),
        (Some(early), None),
        (None, Some(late)),
    ] {
        let hints = Hints {
            started_from: from,
            started_until: until,
            ..Hints::none()
        };
        let rows = stage.list_all(hints, 10).await?;
        ensure!(
            rows.iter().any(|row| row.id == id),
            "`{id}` started at {started}, between {from:?} and {until:?}, and is left out"
        );
    }
    Ok(())
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
        // Executions that begin while pages are read must not change the pages that follow.
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
    ensure!(
        !staged.is_empty(),
        "no execution could be staged and listed"
    );
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
