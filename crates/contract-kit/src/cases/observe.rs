//! `observe`.

use stateway_provider_api::ErrorKind;

use crate::case::{cases, ensure};
use crate::stage::{answered, refused};
use crate::{Case, Outcome, Stage};

pub(super) fn cases() -> Vec<Case> {
    cases!["observe":
        keeps_the_order_and_isolates_failures [start],
        shows_no_payloads [start],
    ]
}

async fn keeps_the_order_and_isolates_failures(stage: Stage) -> Outcome {
    let (first, second) = (stage.open().await?, stage.open().await?);
    let ids = [
        second.clone(),
        stage.nobody(),
        first.clone(),
        second.clone(),
    ];
    let seen = stage.provider.observe(&stage.call(), &ids).await;
    ensure!(seen.len() == 4, "4 ids gave {} results", seen.len());
    for (position, (result, id)) in seen.into_iter().zip(&ids).enumerate() {
        if position == 1 {
            refused("the unknown execution", result, ErrorKind::NotFound)?;
        } else {
            let seen = answered("observe", result)?;
            ensure!(seen.id == *id, "`{id}` is answered with `{}`", seen.id);
        }
    }
    Ok(())
}

async fn shows_no_payloads(stage: Stage) -> Outcome {
    let id = stage.open().await?;
    for result in stage.provider.observe(&stage.call(), &[id]).await {
        let seen = answered("observe", result)?;
        ensure!(
            seen.input.is_none() && seen.output.is_none(),
            "it shows payloads"
        );
    }
    Ok(())
}
