//! Truth: what the engine shows is reported verbatim, and so every row of the table can be met.

use stateway_model::{MappingBasis, Reason, RetryBasis, SubState};
use stateway_provider_api::table::{Row, Scope};
use stateway_provider_api::{NativeState, Table, classify};

use crate::case::{Stop, cases, ensure};
use crate::{Case, Outcome, Scene, Stage};

/// One case per row.
pub(super) fn rows(table: &Table) -> Vec<Case> {
    let case = |row: &Row| {
        let (row, name) = (
            row.clone(),
            format!("mapping::{}::{}", row.scope.as_str(), row.label()),
        );
        let needs: &'static [&'static str] = match row.scope {
            Scope::Execution => &[],
            Scope::Step => &["steps"],
        };
        Case::new(name, needs, move |stage| {
            Box::pin(is_met(stage, row.clone()))
        })
    };
    table.rows().iter().map(case).collect()
}

pub(super) fn cases() -> Vec<Case> {
    cases!["mapping":
        a_state_in_no_table_is_reported_verbatim [],
        a_step_state_in_no_table_is_reported_verbatim [steps],
        without_metadata_there_is_no_evidence [],
        back_off_is_reported_with_its_attempt_its_time_and_its_error [retries],
        several_open_steps_follow_the_precedence [steps],
    ]
}

async fn is_met(stage: Stage, row: Row) -> Outcome {
    let native = NativeState {
        state: row.native.clone(),
        qualifiers: row.when.clone(),
    };
    let scene = Scene::Native {
        scope: row.scope,
        native,
    };
    let id = stage.scene(scene).await?;
    let seen = match row.scope {
        Scope::Execution => stage.get(&id).await?,
        Scope::Step => stage.get_full(&id).await?,
    };
    let classified = classify(&stage.table, &seen, stage.now());
    let (found, reached) = match row.scope {
        Scope::Execution => {
            let verdict = classified.execution;
            (verdict.row == Some(&row), vec![verdict])
        }
        Scope::Step => {
            let met = |step: &stateway_provider_api::Verdict<'_>| step.row == Some(&row);
            (classified.steps.iter().any(met), classified.steps)
        }
    };
    ensure!(found, "the row is not met; the verdicts are {reached:#?}");
    let shown = reached.iter().find(|verdict| verdict.row == Some(&row));
    let shown = shown.map(|verdict| verdict.sub_state);
    ensure!(
        row.refine || shown == Some(row.sub_state),
        "the row is met but shows {shown:?} instead of {}",
        row.sub_state
    );
    Ok(())
}

async fn a_state_in_no_table_is_reported_verbatim(stage: Stage) -> Outcome {
    let native = NativeState::new("KIT_NEVER_SEEN");
    let scene = Scene::Native {
        scope: Scope::Execution,
        native: native.clone(),
    };
    let id = stage.scene(scene).await?;
    let seen = stage.get(&id).await?;
    ensure!(
        seen.native.state == native.state,
        "reported as `{}`",
        seen.native.state
    );
    let shown = stage.shown(seen);
    ensure!(
        (shown.sub_state, shown.mapping_basis) == (SubState::Running, MappingBasis::Defaulted),
        "shown as {} by {}",
        shown.sub_state,
        shown.mapping_basis
    );
    Ok(())
}

async fn a_step_state_in_no_table_is_reported_verbatim(stage: Stage) -> Outcome {
    let scene = Scene::Native {
        scope: Scope::Step,
        native: NativeState::new("KIT_NEVER_SEEN"),
    };
    let id = stage.scene(scene).await?;
    let seen = stage.get_full(&id).await?;
    let verbatim =
        |step: &stateway_provider_api::StepObservation| step.native.state == "KIT_NEVER_SEEN";
    ensure!(
        seen.steps.iter().any(verbatim),
        "no step shows it: {:?}",
        seen.steps
    );
    Ok(())
}

async fn without_metadata_there_is_no_evidence(stage: Stage) -> Outcome {
    let id = stage.scene(Scene::NoMetadata).await?;
    let seen = stage.get(&id).await?;
    let evidence = seen.retry.is_some() || seen.steps.iter().any(|step| step.retry.is_some());
    ensure!(!evidence, "attempts were made up: {seen:?}");
    let retry = stage.shown(seen).retry;
    ensure!(
        (retry.retry_count, retry.basis) == (0, RetryBasis::None),
        "shown as {retry:?}"
    );
    Ok(())
}

async fn back_off_is_reported_with_its_attempt_its_time_and_its_error(stage: Stage) -> Outcome {
    for attempt in [1, 3] {
        let id = stage.scene(Scene::BackingOff { attempt }).await?;
        let shown = stage.shown(stage.get(&id).await?);
        ensure!(
            shown.sub_state == SubState::BackingOff,
            "shown as {} after attempt {attempt}",
            shown.sub_state
        );
        let retry = shown.retry;
        ensure!(
            (retry.attempt, retry.retry_count) == (attempt, attempt - 1),
            "attempt {attempt} is shown as {retry:?}"
        );
        ensure!(retry.basis != RetryBasis::None, "the basis is NONE");
        ensure!(
            retry
                .next_attempt_time
                .is_some_and(|next| next > stage.now()),
            "the next attempt is not ahead: {retry:?}"
        );
        let message = retry.last_error.map(|error| error.message);
        ensure!(
            message.is_some_and(|message| !message.is_empty()),
            "the last error is missing"
        );
    }
    Ok(())
}

async fn several_open_steps_follow_the_precedence(stage: Stage) -> Outcome {
    use SubState::{BackingOff, Error, Running, Waiting};
    let (mut staged, mut skipped) = (0, None);
    for open in [
        vec![Waiting, Error, BackingOff, Running],
        vec![Waiting, Error, BackingOff],
        vec![Waiting, BackingOff, Running],
        vec![Waiting, BackingOff],
        vec![Error, Waiting],
        vec![Waiting, Waiting],
    ] {
        let id = match stage.scene(Scene::Steps(open.clone())).await {
            Ok(id) => id,
            Err(skip @ Stop::Skipped(_)) => {
                skipped = Some(skip);
                continue;
            }
            Err(stop) => return Err(stop),
        };
        staged += 1;
        let shown = stage.shown(stage.get(&id).await?);
        let expected = SubState::of_open_steps(open.iter().copied());
        ensure!(
            Some(shown.sub_state) == expected,
            "open steps {open:?} are shown as {}",
            shown.sub_state
        );
        let steps = shown.steps.iter().map(|step| step.sub_state);
        let mut steps: Vec<_> = steps.filter(|step| !step.is_terminal()).collect();
        let mut open = open;
        steps.sort();
        open.sort();
        ensure!(steps == open, "open steps {open:?} are shown as {steps:?}");
        let exhausted = shown.reason == Some(Reason::RetriesExhausted);
        ensure!(
            !exhausted || shown.sub_state == Error,
            "the reason belongs to another step"
        );
    }
    // One scene that can be staged is a check; none is a skip.
    match skipped {
        Some(skip) if staged == 0 => Err(skip),
        _ => Ok(()),
    }
}
