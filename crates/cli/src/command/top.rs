//! `stateway top`: everything, live.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use futures::StreamExt;
use futures::TryStreamExt;
use jiff::Timestamp;
use ratatui::crossterm::event::KeyEvent;
use serde::Serialize;
use stateway_client as client;
use stateway_client::{Change, Client};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::connection::Connection;
use super::serve::Stop;
use crate::arguments::Output;
use crate::context::{Context, print_message};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::screen::{FullScreen, pressed};
use crate::selection::Selection;
use crate::top::{DetailPoller, Effect, Model, page, render, snapshot};
use crate::view;

/// How often the screen is drawn; enough for a countdown.
const TICK: Duration = Duration::from_millis(200);

/// How often the providers are read.
const HEALTH: Duration = Duration::from_secs(3);

/// How long a snapshot may take without --timeout.
const PATIENCE: Duration = Duration::from_secs(30);

/// Shows all executions live.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stateway top
  stateway top --provider builtin --filter 'sub_state = \"error\" OR sub_state = \"backing-off\"'
  stateway top --once

Shows counts by sub-state, the health of the providers, and the executions that have not finished or finish \
meanwhile (all executions: `--filter 'sub_state:*'`), in the order error, \
backing-off (with a countdown), waiting, running, failed, succeeded. Keys: q quit, arrows or j and k move, \
enter opens an execution with its steps, esc back, f filter, s sort, p pause, ? keys. With --once, with \
-o json and without a terminal the executions are printed once.")]
pub struct Top {
    #[command(flatten)]
    selection: Selection,
    /// Print the executions once and exit
    #[arg(long)]
    once: bool,
}

/// What `-o json` prints.
#[derive(Debug, Serialize)]
struct Snapshot<'a> {
    counts: BTreeMap<&'static str, usize>,
    providers: &'a [view::Provider],
    unreachable: &'a [String],
    executions: Vec<&'a view::Execution>,
}

impl Top {
    pub(super) async fn run(self, context: &Context) -> Outcome {
        let (parent, filter) = self.selection.into_fields()?;
        let mut model = Model::default();
        model.filter = filter;
        if self.once || !context.terminal || context.output == Output::Json {
            once(context, &parent, model).await
        } else {
            live(context, &parent, model).await
        }
    }
}

type Changes = futures::stream::BoxStream<'static, Result<Change, client::Error>>;

fn changes(context: &Context, parent: &str, model: &Model) -> Changes {
    let request = client::WatchRequest::new(parent).filter(&model.filter);
    context.client.watch(request).into_stream()
}

/// The current executions as text.
async fn once(context: &Context, parent: &str, mut model: Model) -> Outcome {
    let mut connection = Connection::default();
    let reading = async {
        model.providers = providers(&context.client).await?;
        let mut changes = changes(context, parent, &model);
        while let Some(change) = changes.try_next().await? {
            connection.take(&change, Timestamp::now())?;
            model.change(&change);
            if model.complete {
                break;
            }
        }
        Ok::<_, Failure>(())
    };
    let limit = context.timeout.unwrap_or(PATIENCE);
    let read = tokio::time::timeout(limit, reading).await;
    read.unwrap_or_else(|_| {
        Err(Failure::new(
            Exit::Unreachable,
            "the gateway has not answered in time",
        ))
    })?;
    for provider in &model.unreachable {
        print_message(&format!(
            "warning: {provider} does not answer; its executions are missing here"
        ));
    }
    let shown = Snapshot {
        counts: model.counts().into(),
        providers: &model.providers,
        unreachable: &model.unreachable,
        executions: model.listed(),
    };
    context.show(&shown, || snapshot(&model, context.paint, Timestamp::now()))?;
    Ok(Exit::Ok)
}

/// Draws the screen until a key or a signal ends it.
async fn live(context: &Context, parent: &str, mut model: Model) -> Outcome {
    let mut stop = Stop::new()?;
    let receive = |kind| signal(kind).map_err(Failure::from);
    let mut hang_up = receive(SignalKind::hangup())?;
    // A gateway that does not answer is reported before the terminal is taken.
    model.providers = providers(&context.client).await?;
    let mut health = health(&context.client);
    let mut connection = Connection::default();
    let mut changes = changes(context, parent, &model);
    let mut poller: Option<DetailPoller> = None;
    let mut still: Option<Model> = None;
    let mut ticks = tokio::time::interval(TICK);
    let (mut screen, mut events) = FullScreen::take()?;
    let mut rows = 0;
    loop {
        let mut draw = true;
        tokio::select! {
            () = stop.next() => return Ok(Exit::Ok),
            _ = hang_up.recv() => return Ok(Exit::Ok),
            _ = ticks.tick() => {}
            Some(event) = events.recv() => {
                // Other events, such as a new size, only ask for another picture.
                let effect = pressed(&event)
                    .map_or(Effect::None, |key| press(&mut model, &mut still, key, page(rows)));
                match effect {
                    Effect::Quit => return Ok(Exit::Ok),
                    Effect::None => {}
                    Effect::Refilter => {
                        model.forget();
                        changes = self::changes(context, parent, &model);
                    }
                }
            }
            change = changes.next() => {
                // Changes are drawn with the next tick, because there may be thousands of them.
                draw = false;
                let Some(change) = change.transpose()? else {
                    return Ok(Exit::Ok);
                };
                // The screen itself shows an outage.
                connection.take(&change, Timestamp::now())?;
                model.lost = connection.lost;
                model.change(&change);
            }
            Ok(()) = health.changed() => {
                draw = false;
                model.providers.clone_from(&health.borrow_and_update());
            }
        }
        if draw {
            let shown = still.as_ref().unwrap_or(&model);
            poll(&context.client, &mut poller, shown);
            let one = poller.as_mut().and_then(|poller| {
                let listed = shown.execution(&poller.name);
                poller.outline(listed)
            });
            screen.draw(|frame| {
                rows = frame.area().height;
                render(frame, shown, one.as_ref(), context.paint, Timestamp::now());
            })?;
        }
    }
}

/// A key acts on what the screen shows: while the display is paused, on the paused display.
fn press(model: &mut Model, still: &mut Option<Model>, key: KeyEvent, page: usize) -> Effect {
    let Some(seen) = still else {
        let effect = model.key(key, page);
        if model.paused {
            *still = Some(model.clone());
        }
        return effect;
    };
    let effect = seen.key(key, page);
    model.looks_like(seen);
    if !seen.paused || effect == Effect::Refilter {
        model.paused = false;
        *still = None;
    }
    effect
}

/// Opens or closes the view of one execution.
fn poll(client: &Client, poller: &mut Option<DetailPoller>, model: &Model) {
    let wanted = model.opened.as_deref();
    if poller.as_ref().map(|poller| poller.name.as_str()) != wanted {
        *poller = wanted.map(|name| DetailPoller::new(client, name));
    }
}

async fn providers(client: &Client) -> Result<Vec<view::Provider>, client::Error> {
    let all: Vec<_> = client.providers_all().try_collect().await?;
    Ok(all.iter().map(view::Provider::from).collect())
}

/// Reads the health of the providers until the receiver is dropped.
fn health(client: &Client) -> watch::Receiver<Vec<view::Provider>> {
    let (tell, told) = watch::channel(Vec::new());
    let client = client.clone();
    // It ends when the receiver is gone.
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(HEALTH).await;
            if tell.is_closed() {
                return;
            }
            if let Ok(providers) = providers(&client).await {
                tell.send_replace(providers);
            }
        }
    });
    told
}
