//! `definitions`, `definition`, `apply_definition`, `validate_definition`.

use stateway_provider_api::{ErrorKind, NativeDefinition, StartDefinition};

use crate::case::{cases, ensure};
use crate::stage::{answered, refused, refused_because};
use crate::{Case, Outcome, Stage};

/// The most pages of a list: more would be a list that never ends.
const MOST_PAGES: usize = 1_000;
/// What the kit applies.
const COPY: &str = "kit-copy";

pub(super) fn cases() -> Vec<Case> {
    cases!["definitions":
        what_can_be_started_is_listed_and_can_be_read [definitions],
        an_unknown_definition_is_not_found [definitions],
        a_foreign_cursor_is_refused [definitions],
        what_was_applied_can_be_read_and_started [definitions, apply_definition, start],
        applying_the_same_again_changes_nothing [definitions, apply_definition],
        what_is_no_definition_is_refused [apply_definition],
        a_definition_that_the_engine_runs_has_no_errors [definitions, apply_definition],
    ]
}

async fn workload(stage: &Stage) -> Result<NativeDefinition, crate::Stop> {
    let call = stage.call();
    let name = stage.workload().definition;
    let read = stage.provider.definition(&call, &name, None).await;
    answered("definition", read)
}

async fn what_can_be_started_is_listed_and_can_be_read(stage: Stage) -> Outcome {
    let call = stage.call();
    let read = workload(&stage).await?;
    ensure!(!read.source.is_empty(), "it is read without its source");
    let mut request = stage.definitions_request();
    let mut names = Vec::new();
    for _ in 0..MOST_PAGES {
        let page = stage.provider.definitions(&call, request.clone());
        let page = answered("definitions", page.await)?;
        names.extend(page.definitions.into_iter().map(|row| row.name));
        request.cursor = page.next;
        if request.cursor.is_none() {
            break;
        }
    }
    let times = names.iter().filter(|name| **name == read.name).count();
    ensure!(times == 1, "`{}` is listed {times} times", read.name);
    Ok(())
}

async fn an_unknown_definition_is_not_found(stage: Stage) -> Outcome {
    let call = stage.call();
    let name = "kit-no-such-definition";
    let read = stage.provider.definition(&call, name, None).await;
    let kind = ErrorKind::NotFound;
    refused_because("definition", read.map(|_| ()), kind, "DEFINITION_NOT_FOUND")
}

async fn a_foreign_cursor_is_refused(stage: Stage) -> Outcome {
    let call = stage.call();
    let mut request = stage.definitions_request();
    request.cursor = Some("kit-nonsense".to_owned());
    let page = stage.provider.definitions(&call, request).await;
    refused("definitions", page, ErrorKind::InvalidArgument)?;
    Ok(())
}

async fn what_was_applied_can_be_read_and_started(stage: Stage) -> Outcome {
    let call = stage.call();
    let source = workload(&stage).await?.source;
    let request = stage.apply_request(COPY, &source);
    let applied = stage.provider.apply_definition(&call, request);
    let applied = answered("apply_definition", applied.await)?;
    ensure!(applied.changed, "what is new is said to be unchanged");
    let read = stage.provider.definition(&call, COPY, None).await;
    let read = answered("definition", read)?;
    ensure!(
        (&read.name, &read.revision) == (&applied.name, &applied.revision),
        "{applied:?} was applied and {read:?} is read"
    );
    let mut start = stage.start_request();
    start.definition = StartDefinition::native(COPY);
    answered("start", stage.provider.start(&call, start).await)?;
    Ok(())
}

async fn applying_the_same_again_changes_nothing(stage: Stage) -> Outcome {
    let call = stage.call();
    let source = workload(&stage).await?.source;
    let mut revisions = Vec::new();
    for changed in [true, false, false] {
        let request = stage.apply_request(COPY, &source);
        let applied = stage.provider.apply_definition(&call, request);
        let applied = answered("apply_definition", applied.await)?;
        ensure!(applied.changed == changed, "it is {applied:?}");
        revisions.push(applied.revision);
    }
    revisions.dedup();
    ensure!(revisions.len() == 1, "there are {revisions:?}");
    Ok(())
}

async fn what_is_no_definition_is_refused(stage: Stage) -> Outcome {
    let call = stage.call();
    let request = stage.apply_request(COPY, "kit-nonsense");
    let applied = stage.provider.apply_definition(&call, request);
    refused(
        "apply_definition",
        applied.await,
        ErrorKind::InvalidArgument,
    )?;
    let checked = stage.provider.validate_definition(&call, "kit-nonsense");
    let problems = answered("validate_definition", checked.await)?;
    ensure!(
        problems.iter().any(|problem| problem.is_error),
        "only {problems:?} is said of it"
    );
    Ok(())
}

async fn a_definition_that_the_engine_runs_has_no_errors(stage: Stage) -> Outcome {
    let call = stage.call();
    let source = workload(&stage).await?.source;
    let checked = stage.provider.validate_definition(&call, &source);
    let problems = answered("validate_definition", checked.await)?;
    ensure!(
        !problems.iter().any(|problem| problem.is_error),
        "{problems:?}"
    );
    Ok(())
}
