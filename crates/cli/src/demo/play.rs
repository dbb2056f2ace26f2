//! Starts executions for as long as the demo lasts, and removes the oldest that have ended.

use std::time::Duration;

use futures::TryStreamExt;
use stateway_client::{ApplyDefinition, Client, Code, Error, List, Purge, Start, is_finished, v1};

use super::definitions::DEFINITIONS;
use super::scene::{ROUNDS_BEGIN, Scene, is_of_first_round, turn_of};
use super::{LABEL, Pace};

/// How long the demo waits for the hosts of its providers, and how often it tries.
const HOST_PATIENCE: Duration = Duration::from_secs(60);
const HOST_PAUSE: Duration = Duration::from_millis(500);
/// Where everything runs by default.
pub const BUILT_IN: &str = "builtin";

/// Starts one execution after another at this pace, on each of these providers in turn; never ends.
///
/// # Errors
/// The gateway refuses what a demo needs, or does not answer.
pub async fn play(client: Client, pace: Pace, providers: Vec<String>) -> Result<(), Error> {
    let providers: Vec<_> = providers
        .iter()
        .map(|id| format!("providers/{id}"))
        .collect();
    let client = client.acting_as("demo", [""; 0])?;
    for source in DEFINITIONS {
        apply(&client, source).await?;
    }
    let first = first_free(&client, &providers).await?;
    for started in 0.. {
        let turn = first + started;
        let provider = &providers[provider_of(turn, providers.len())];
        start(&client, &Scene::of(turn), provider).await?;
        tidy(&client, &providers).await?;
        tokio::time::sleep(pace.after(started)).await;
    }
    Ok(())
}

/// Stores a definition. The host of a provider may need a moment until it is registered.
async fn apply(client: &Client, source: &str) -> Result<(), Error> {
    let until = tokio::time::Instant::now() + HOST_PATIENCE;
    loop {
        let apply = ApplyDefinition::from_message(v1::ApplyDefinitionRequest {
            source: source.to_owned(),
            ..v1::ApplyDefinitionRequest::default()
        });
        match client.apply_definition(apply).await {
            Err(error)
                if error.code() == Code::Unavailable && tokio::time::Instant::now() < until =>
            {
                tokio::time::sleep(HOST_PAUSE).await;
            }
            other => return other.map(drop),
        }
    }
}

/// The provider whose turn it is. Another round of scenes begins with the next one, so that each provider gets
/// each scene.
fn provider_of(turn: u64, count: usize) -> usize {
    let round = turn / ROUNDS_BEGIN;
    let count = u64::try_from(count).unwrap_or(1).max(1);
    usize::try_from((turn + round) % count).unwrap_or_default()
}

async fn start(client: &Client, scene: &Scene, provider: &str) -> Result<(), Error> {
    let start = Start::new(format!("definitions/{}", scene.definition))
        .on(provider)
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
async fn first_free(client: &Client, providers: &[String]) -> Result<u64, Error> {
    let taken = ours(client, providers).await?;
    let ids = taken.iter().filter_map(|it| it.name.rsplit('/').next());
    let last = ids.filter_map(turn_of).max();
    Ok(last.map_or(0, |last| last + 1))
}

/// Removes the oldest finished executions, so that a demo may run for days.
async fn tidy(client: &Client, providers: &[String]) -> Result<(), Error> {
    for old in removable(ours(client, providers).await?) {
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
async fn ours(client: &Client, providers: &[String]) -> Result<Vec<v1::Execution>, Error> {
    let mut all = Vec::new();
    for provider in providers {
        let list = List::new(provider.clone())
            .filter(format!("labels:{LABEL}"))
            .page_size(1_000);
        let found: Vec<_> = client.list(list).try_collect().await?;
        all.extend(found);
    }
    let created = |it: &v1::Execution| it.create_time.map(|at| (at.seconds, at.nanos));
    all.sort_by_key(|it| std::cmp::Reverse(created(it)));
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_of_several_providers_gets_each_scene() {
        for count in 1..5 {
            let mut seen = std::collections::BTreeSet::new();
            for turn in 0..ROUNDS_BEGIN * 12 {
                let scene = turn % ROUNDS_BEGIN;
                seen.insert((scene, provider_of(turn, count)));
            }
            assert_eq!(seen.len() as u64, ROUNDS_BEGIN * count as u64);
        }
    }

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
