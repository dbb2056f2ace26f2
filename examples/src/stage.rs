//! The environment of every example: a gateway with the built-in engine and a temporary store, and a
//! worker that is connected over gRPC, as if each were a separate process.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use stateway_client::{ApplyDefinition, Client, Start, v1};
use stateway_engine::{Engine, ListQuery, View};
use stateway_gateway::{Gateway, Settings};
use stateway_machine::Plan;
use stateway_provider_api::table::compiled_in;
use stateway_provider_api::{Registration, Registry};
use stateway_provider_builtin::{BuiltinProvider, Config};
use stateway_replay::Trajectory;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::Outcome;
use crate::catalogue::Example;
use crate::live::follow;

/// How long an example may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// The maximum number of events that are read for a trajectory.
const MOST_EVENTS: usize = 10_000;

/// The result of comparing a trajectory with the expected one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The trajectory is the expected one.
    Same,
    /// The trajectory differs.
    Other,
    /// The trajectory was saved as the expected one.
    Blessed,
}

/// Runs an example to its end and returns its trajectory.
///
/// # Errors
/// The example did not run to its end.
pub async fn run(example: &Example, tell: &(dyn Fn(String) + Send + Sync)) -> Outcome<String> {
    let played = tokio::time::timeout(PATIENCE, play(example, tell)).await;
    played.map_err(|_| format!("the example did not end within {PATIENCE:?}"))?
}

async fn play(example: &Example, tell: &(dyn Fn(String) + Send + Sync)) -> Outcome<String> {
    let folder = tempfile::tempdir()?;
    let config = Config {
        path: folder.path().join("example.db"),
        ..Config::default()
    };
    let table = compiled_in("builtin").ok_or("the build has no table of this kind")?;
    let provider = BuiltinProvider::new(&"builtin".parse()?, &config, table)?;
    let engine = provider.engine().clone();
    let (stop, stopped) = watch::channel(false);
    let stopped = move || {
        let mut stopped = stopped.clone();
        async move {
            // A dropped sender also means stop.
            let _ = stopped.wait_for(|stop| *stop).await;
        }
    };
    let gateway = bind(provider).await?;
    let url = format!("http://{}", gateway.local_addr());
    let mut beside = JoinSet::new();
    beside.spawn(
        gateway
            .serve(stopped())
            .map(|served| served.map_err(Into::into)),
    );
    let worker = (example.worker)(&url).until(stopped());
    beside.spawn(worker.serve().map(|served| served.map_err(Into::into)));

    let client = Client::connect(&url).await?;
    let name = start(example, &client).await?;
    let person = match example.person {
        Some(person) => person(client.clone(), name.clone()),
        None => futures::future::ready(Ok(())).boxed(),
    };
    let (_, acted) = futures::try_join!(follow(&client, &name, tell), person.map(Ok))?;
    acted?;

    let id = name.rsplit('/').next().unwrap_or_default();
    let trajectory = trajectory(&engine, id, example.parallel).await?;
    stop.send_replace(true);
    while let Some(ended) = beside.join_next().await {
        let ended: Outcome<()> = ended?;
        ended?;
    }
    Ok(trajectory)
}

async fn bind(provider: BuiltinProvider) -> Outcome<Gateway> {
    let settings = Settings {
        listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        drain: Duration::from_secs(2),
        ..Settings::default()
    };
    let mut registry = Registry::default();
    registry.register(Registration {
        id: "builtin".parse()?,
        kind: "builtin".to_owned(),
        provider: Arc::new(provider),
    })?;
    Ok(Gateway::bind(registry, settings, Arc::new(String::new)).await?)
}

async fn start(example: &Example, client: &Client) -> Outcome<String> {
    let mut started = String::new();
    for source in example.definitions {
        let apply = ApplyDefinition::from_message(v1::ApplyDefinitionRequest {
            source: (*source).to_owned(),
            ..v1::ApplyDefinitionRequest::default()
        });
        let applied = client.apply_definition(apply).await?;
        started = applied.definition.unwrap_or_default().name;
    }
    let start = Start::new(started)
        .on("providers/builtin")
        .json(example.input);
    Ok(client.start(start).await?.name)
}

/// The trajectory of an execution and of its children: the sub-states of every step, in order.
async fn trajectory(engine: &Engine, id: &str, parallel: bool) -> Outcome<String> {
    let parent = engine.get(id.into()).await?;
    let everything = ListQuery {
        limit: 1_000,
        ..ListQuery::default()
    };
    let mut all = vec![(
        parent.definition.to_string(),
        of_one(engine, &parent, parallel).await?,
    )];
    for view in engine.list(everything).await?.items {
        if let Some(of) = &view.parent
            && of.number == parent.number
        {
            let heading = format!("{} for {}", view.definition, of.step);
            all.push((heading, of_one(engine, &view, parallel).await?));
        }
    }
    all[1..].sort();
    let mut text = String::new();
    for (heading, trajectory) in all {
        writeln!(text, "# {heading}\n{trajectory}")?;
    }
    Ok(text)
}

async fn of_one(engine: &Engine, view: &View, parallel: bool) -> Outcome<String> {
    let revision = Some(Arc::clone(&view.revision));
    let record = engine
        .definition(Arc::clone(&view.definition), revision)
        .await?;
    let parsed = stateway_definition::parse(&record.source, "definition")
        .map_err(|found| format!("{found:?}"))?;
    let plan = Arc::new(Plan::new(parsed.definition)?);
    let records = engine.history(Arc::clone(&view.id), 0, MOST_EVENTS).await?;
    let trajectory = Trajectory::of(plan, records.iter().map(|record| &record.event));
    Ok(if parallel {
        step_by_step(&trajectory).to_string()
    } else {
        trajectory.to_string()
    })
}

/// Keeps the states of each step and the end of the execution. The states of the execution in between depend
/// on the order in which parallel steps end.
fn step_by_step(trajectory: &Trajectory) -> Trajectory {
    let mut steps = trajectory.by_step();
    let end = trajectory.points.last().cloned();
    steps.points.retain(|point| !point.step.is_empty());
    steps.points.extend(end);
    steps
}
