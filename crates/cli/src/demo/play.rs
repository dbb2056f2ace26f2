//! Starts executions for as long as the demo lasts, and removes the oldest that have ended.

use futures::TryStreamExt;
use stateway_client::{ApplyDefinition, Client, Code, Error, List, Purge, Start, is_finished, v1};

use super::definitions::DEFINITIONS;
use super::scene::{Scene, is_of_first_round, turn_of};
use super::{LABEL, Pace};

/// Where everything runs.
const PROVIDER: &str = "providers/builtin";

/// Starts one execution after another at this pace; never ends.
///
/// # Errors
/// The gateway refuses what a demo needs, or does not answer.
pub async fn play(client: Client, pace: Pace) -> Result<(), Error> {
    let client = client.acting_as("demo", [""; 0])?;
    for source in DEFINITIONS {
        let apply = ApplyDefinition::from_message(v1::ApplyDefinitionRequest {
            source: source.to_owned(),
            ..v1::ApplyDefinitionRequest::default()
        });
        client.apply_definition(apply).await?;
    }
    let first = first_free(&client).await?;
    for started in 0.. {
        start(&client, &Scene::of(first + started)).await?;
        tidy(&client).await?;
        tokio::time::sleep(pace.after(started)).await;
    }
    Ok(())
}

async fn start(client: &Client, scene: &Scene) -> Result<(), Error> {
    let start = Start::new(format!("definitions/{}", scene.definition))
        .on(PROVIDER)
        .id(&scene.id)
        .label(LABEL, scene.definition)
        .json(scene.input.to_string());
    match client.start(start).await {
        // Somebody has taken the name; there are others.
        Err(error) if error.code() == Code::AlreadyExists => Ok(()),
        other => other.map(drop),
    }
}

/// The first number that no execution of an earlier demo in the same store has.
async fn first_free(client: &Client) -> Result<u64, Error> {
    let taken = ours(client).await?;
    let ids = taken.iter().filter_map(|it| it.name.rsplit('/').next());
    let last = ids.filter_map(turn_of).max();
    Ok(last.map_or(0, |last| last + 1))
}

/// Removes the oldest finished executions, so that a demo may run for days.
async fn tidy(client: &Client) -> Result<(), Error> {
    for old in removable(ours(client).await?) {
        match client.purge(Purge::new(old.name)).await {
            // A parent that has not ended keeps its children; they go another time.
            Err(error) if error.is_from_gateway() => {}
            other => other?,
        }
    }
    Ok(())
}

/// Of all executions, newest first, the finished ones beyond the number that is kept. Executions of the first round
/// stay: the demo prints commands with their names.
fn removable(all: Vec<v1::Execution>) -> impl Iterator<Item = v1::Execution> {
    let named = |execution: &v1::Execution| {
        let id = execution.name.rsplit('/').next().unwrap_or_default();
        turn_of(id).is_some_and(is_of_first_round)
    };
    let finished = all.into_iter().filter(|it| is_finished(it.sub_state));
    finished.skip(Pace::kept()).filter(move |it| !named(it))
}

/// All that demos have started here, the newest first.
async fn ours(client: &Client) -> Result<Vec<v1::Execution>, Error> {
    let list = List::new(PROVIDER)
        .filter(format!("labels:{LABEL}"))
        .page_size(1_000);
    client.list(list).try_collect().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_executions_that_the_demo_names_are_never_removed() {
        let turns = Pace::kept() as u64 + 40;
        let finished = |turn| v1::Execution {
            name: format!("providers/builtin/executions/{}", Scene::of(turn).id),
            sub_state: v1::SubState::Succeeded.into(),
            ..v1::Execution::default()
        };
        let all: Vec<_> = (0..turns).rev().map(finished).collect();
        let removed: Vec<_> = removable(all).map(|it| it.name).collect();
        assert_eq!(removed.len(), 40 - 12, "{removed:?}");
        for definition in ["order-saga", "fan-out", "release"] {
            let named = format!("providers/builtin/executions/{}", Scene::first(definition));
            assert!(!removed.contains(&named), "{named}");
        }
    }
}
