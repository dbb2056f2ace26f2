//! `start`.

use std::time::Duration;

use stateway_model::{ExecutionId, SubState};
use stateway_provider_api::{ErrorKind, StartDefinition, StartRequest, View};

use crate::case::{cases, ensure};
use crate::stage::{answered, refused_because};
use crate::{Case, Outcome, Stage};

pub(super) fn cases() -> Vec<Case> {
    cases!["start":
        the_answer_is_what_get_shows [start],
        a_repeated_request_answers_the_same_execution [start, start_idempotent],
        a_request_id_with_another_body_is_refused [start, start_idempotent],
        what_has_a_wanted_execution_id_can_be_read [start],
        an_execution_id_that_is_taken_is_refused [start],
        an_unknown_definition_is_not_found [start],
        a_delayed_start_waits_for_its_time [start, start_delayed],
        labels_are_kept [start, labels],
        an_unknown_option_is_refused [start],
    ]
}

async fn the_answer_is_what_get_shows(stage: Stage) -> Outcome {
    let started = stage
        .provider
        .start(&stage.call(), stage.start_request())
        .await;
    let started = answered("start", started)?;
    let got = stage.get(&started.id).await?;
    ensure!(
        got.native == started.native && got.definition == started.definition,
        "start answered {started:?}, get shows {got:?}"
    );
    ensure!(got.definition.is_some(), "the definition is not shown");
    Ok(())
}

async fn a_repeated_request_answers_the_same_execution(stage: Stage) -> Outcome {
    let request = stage.start_request();
    let first = stage.provider.start(&stage.call(), request.clone()).await;
    let first = answered("the first start", first)?.id;
    for _ in 0..2 {
        let again = stage.provider.start(&stage.call(), request.clone()).await;
        let again = answered("the repeated start", again)?.id;
        ensure!(again == first, "`{first}` was followed by `{again}`");
    }
    Ok(())
}

async fn a_request_id_with_another_body_is_refused(stage: Stage) -> Outcome {
    let request = stage.start_request();
    let first = stage.provider.start(&stage.call(), request.clone()).await;
    answered("the first start", first)?;
    let other = StartRequest {
        input: Some(stage.workload().other_input),
        ..request
    };
    let other = stage.provider.start(&stage.call(), other).await;
    let kind = ErrorKind::AlreadyExists;
    refused_because("the other body", other, kind, "REQUEST_ID_REUSED")
}

fn wanted() -> Option<ExecutionId> {
    ExecutionId::new("kit-wanted").ok()
}

async fn what_has_a_wanted_execution_id_can_be_read(stage: Stage) -> Outcome {
    let request = StartRequest {
        execution_id: wanted(),
        ..stage.start_request()
    };
    let started = stage.provider.start(&stage.call(), request).await;
    let id = answered("start", started)?.id;
    stage.get(&id).await?;
    Ok(())
}

async fn an_execution_id_that_is_taken_is_refused(stage: Stage) -> Outcome {
    let request = || StartRequest {
        execution_id: wanted(),
        ..stage.start_request()
    };
    let first = stage.provider.start(&stage.call(), request()).await;
    answered("the first start", first)?;
    let second = stage.provider.start(&stage.call(), request()).await;
    let kind = ErrorKind::AlreadyExists;
    refused_because("the second start", second, kind, "EXECUTION_ALREADY_EXISTS")
}

async fn an_unknown_option_is_refused(stage: Stage) -> Outcome {
    let mut request = stage.start_request();
    let option = ("kit-no-such-option".to_owned(), "1".to_owned());
    request.options.extend([option]);
    let started = stage.provider.start(&stage.call(), request).await;
    let kind = ErrorKind::InvalidArgument;
    refused_because("an unknown option", started, kind, "OPTION_NOT_SUPPORTED")
}

async fn an_unknown_definition_is_not_found(stage: Stage) -> Outcome {
    let request = StartRequest {
        definition: StartDefinition::native("kit-no-such-definition"),
        ..stage.start_request()
    };
    let started = stage.provider.start(&stage.call(), request).await;
    refused_because(
        "start",
        started,
        ErrorKind::NotFound,
        "DEFINITION_NOT_FOUND",
    )
}

async fn a_delayed_start_waits_for_its_time(stage: Stage) -> Outcome {
    let request = StartRequest {
        delay: Some(Duration::from_secs(3_600)),
        ..stage.start_request()
    };
    let started = stage.provider.start(&stage.call(), request).await;
    let started = answered("start", started)?;
    let shown = stage.sub_state(&started.id).await?;
    ensure!(shown == SubState::Waiting, "shown as {shown}");
    Ok(())
}

async fn labels_are_kept(stage: Stage) -> Outcome {
    let request = StartRequest {
        labels: [("team".to_owned(), "billing".to_owned())].into(),
        ..stage.start_request()
    };
    let labels = request.labels.clone();
    let started = stage.provider.start(&stage.call(), request).await;
    let id = answered("start", started)?.id;
    let seen = stage.provider.get(&stage.call(), &id, View::Basic).await;
    let seen = answered("get", seen)?;
    ensure!(seen.labels == labels, "kept as {:?}", seen.labels);
    Ok(())
}
