//! `stateway demo`: the gateway, five examples and their workers, in one process.

use std::io::IsTerminal;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use futures::FutureExt;
use futures::future::BoxFuture;
use stateway_client::Client;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::config::refused;
use super::serve::{INTERRUPTED, Stop, bind, not_started, ready};
use crate::arguments::{DEFAULT_SERVER, Globals};
use crate::config::{Config, Overrides, load};
use crate::context::print_message;
use crate::demo::{self, MOST, Pace, SLOWEST};
use crate::duration::Span;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::hosting::ServedHosts;
use crate::observability::{Metrics, install};

/// How long calls and streams may take to end.
const DRAIN: Duration = Duration::from_secs(1);

/// Runs the demo.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stateway demo
  stateway demo --rate 60 --listen 127.0.0.1:0
  stateway demo --path ./demo --for 10m
  stateway demo --config stateway.toml --provider builtin --provider flows

Runs a gateway with the built-in engine in a temporary folder, the five examples, and their workers. \
Executions start continuously: fast at first, then at --rate, and slowly after 200 starts, while the \
oldest finished executions are removed. All six sub-states appear within a minute. SIGINT or \
SIGTERM stops the demo and removes the folder, unless --path was given. With --config and --provider the demo \
runs on providers of a configuration instead, one after another: the same definitions and workers, in one list. \
Hosts of these providers must run, or have `serve = true`.")]
pub struct Demo {
    /// Address to listen on (default: 127.0.0.1:7380, or any free port if it is in use)
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Keep the store in this folder; the next demo with the same folder continues with it
    #[arg(long, value_name = "FOLDER")]
    path: Option<PathBuf>,
    /// Run on this provider of --config; may be given several times
    #[arg(long = "provider", value_name = "NAME", requires = "config")]
    providers: Vec<String>,
    /// Configuration with the providers (default: only the built-in engine, in a folder of its own)
    #[arg(
        long,
        value_name = "FILE",
        requires = "providers",
        conflicts_with = "path"
    )]
    config: Option<PathBuf>,
    /// Number of executions to start per minute
    #[arg(long, value_name = "STARTS", default_value_t = 30)]
    #[arg(value_parser = clap::value_parser!(u32).range(i64::from(SLOWEST)..=i64::from(MOST)))]
    rate: u32,
    /// Stop automatically after this time
    #[arg(long = "for", value_name = "DURATION")]
    length: Option<Span>,
    /// Log levels, for example `info`
    #[arg(
        long,
        env = "STATEWAY_LOG",
        value_name = "FILTER",
        default_value = "warn"
    )]
    log: String,
}

impl Demo {
    pub(super) async fn run(self, globals: &Globals) -> Outcome {
        let ending = Ending::new(self.length)?;
        let folder = Folder::new(self.path.as_deref())?;
        let config = match &self.config {
            None => Config::built_in(&folder.path().join("stateway.db")),
            Some(file) => load(&Overrides {
                config: Some(file.clone()),
                ..Overrides::default()
            }),
        };
        let mut config = config.map_err(|error| refused(&error))?;
        let mut providers = self.providers;
        if providers.is_empty() {
            providers.push(demo::BUILT_IN.to_owned());
        }
        check(&config, &providers)?;
        config.log.filter.clone_from(&self.log);
        config.settings.listen = self.listen.unwrap_or_else(free_address);
        config.settings.drain = DRAIN;
        let color = globals.color.on(std::io::stderr().is_terminal());
        let telemetry = install(&config.log, &config.otlp, color)?;
        let shown = tokio::select! {
            shown = show(&config, (Pace::per_minute(self.rate), providers), ending.first()) => shown,
            () = ending.second() => {
                folder.remove();
                std::process::exit(INTERRUPTED);
            }
        };
        tokio::task::block_in_place(|| telemetry.finish());
        folder.remove();
        shown.map(|()| Exit::Ok)
    }
}

/// Refuses providers that the configuration does not have.
fn check(config: &Config, providers: &[String]) -> Result<(), Failure> {
    let known: Vec<_> = config.providers.iter().map(|it| it.id.as_str()).collect();
    match providers.iter().find(|it| !known.contains(&it.as_str())) {
        None => Ok(()),
        Some(unknown) => {
            let message = format!("the configuration has no provider `{unknown}`");
            Err(Failure::usage(message).hint(format!("Configured: {}.", known.join(", "))))
        }
    }
}

/// Runs everything until `end` resolves.
async fn show(
    config: &Config,
    (pace, providers): (Pace, Vec<String>),
    end: BoxFuture<'static, ()>,
) -> Result<(), Failure> {
    let gateway = bind(config, &Metrics::install()?).await?;
    let url = format!("http://{}", gateway.local_addr());
    print_message(&ready(gateway.local_addr(), config));
    let mut hosts = ServedHosts::begin(&config.providers).await?;

    let (stop, stopped) = watch::channel(false);
    let stopped = || until(stopped.clone());
    let mut cast = JoinSet::new();
    let serving = gateway.serve(stopped());
    cast.spawn(async move { serving.await.map_err(|error| not_started(&error)) });
    let workers = providers.iter().flat_map(|it| demo::workers(&url, it));
    for worker in workers {
        let working = worker.until(stopped()).serve();
        cast.spawn(async move { working.await.map_err(Failure::from) });
    }
    let client = Client::lazy(&url)?;
    let acts: [BoxFuture<'static, _>; 2] = [
        demo::play(client.clone(), pace, providers.clone()).boxed(),
        demo::decide(client).boxed(),
    ];
    for act in acts {
        let stopped = stopped();
        cast.spawn(async move {
            tokio::select! {
                done = act => done.map_err(Failure::from),
                () = stopped => Ok(()),
            }
        });
    }
    for line in guide(&url, &providers[0]) {
        print_message(&line);
    }

    // A part of the demo that ends early has failed.
    let early = tokio::select! {
        () = end => None,
        left = cast.join_next() => left,
        failed = hosts.failed() => Some(Ok(Err(failed))),
    };
    print_message("the demo ends");
    stop.send_replace(true);
    let mut outcome = early.map_or(Ok(()), left);
    while let Some(gone) = cast.join_next().await {
        outcome = outcome.and(left(gone));
    }
    outcome.and(hosts.stop().await.map(drop))
}

type Left = Result<Result<(), Failure>, tokio::task::JoinError>;

fn left(gone: Left) -> Result<(), Failure> {
    gone.map_err(|error| {
        Failure::new(
            Exit::Internal,
            format!("a part of the demo failed: {error}"),
        )
    })?
}

async fn until(mut stopped: watch::Receiver<bool>) {
    // A sender that is gone has stopped everything too.
    let _ = stopped.wait_for(|stop| *stop).await;
}

/// The usual address if it is free, else any port of this machine's own.
fn free_address() -> SocketAddr {
    let usual = stateway_gateway::Settings::default().listen;
    match TcpListener::bind(usual) {
        Ok(_) => usual,
        Err(_) => SocketAddr::new(usual.ip(), 0),
    }
}

/// Commands to try, for a person who runs the demo for the first time.
fn guide(url: &str, provider: &str) -> Vec<String> {
    let there = if url == DEFAULT_SERVER {
        String::new()
    } else {
        format!(" --server {url}")
    };
    let id = |definition| demo::first_id(definition);
    let (release, order) = (id("release"), id("order-saga"));
    let commands = [
        ("top".to_owned(), "all executions, live"),
        ("list".to_owned(), "all executions, newest first"),
        (
            format!("watch {provider}/{}", id("fan-out")),
            "one execution, live",
        ),
        (
            format!("explain {provider}/{order}"),
            "why it has its state",
        ),
        (
            format!("retry-now {provider}/{order}"),
            "start the next attempt immediately",
        ),
        ("approvals list".to_owned(), "pending approvals"),
        (
            format!("approvals grant {provider}/{release}/approve~1 --role release-manager"),
            "grant an approval",
        ),
        ("escalations list".to_owned(), "pending escalations"),
        ("queue".to_owned(), "tasks that wait for a worker"),
    ];
    let commands = commands.map(|(command, about)| (format!("stateway{there} {command}"), about));
    let width = commands.iter().map(|(command, _)| command.len()).max();
    let mut lines = vec![
        String::new(),
        format!("In a browser:  {url}/"),
        "In another terminal, after a few seconds:".to_owned(),
    ];
    lines.extend(commands.iter().map(|(command, about)| {
        format!(
            "  {command:<width$}  {about}",
            width = width.unwrap_or_default()
        )
    }));
    lines.push(String::new());
    lines.push("Ctrl-C stops the demo.".to_owned());
    lines
}

/// Ends a demo at a signal or after its duration. The second signal ends it immediately.
struct Ending {
    first: watch::Receiver<u32>,
}

impl Ending {
    /// Listens from here on, so that no signal is missed.
    fn new(length: Option<Span>) -> Result<Self, Failure> {
        let mut stop = Stop::new()?;
        let mut hang_up = signal(SignalKind::hangup()).map_err(|error| {
            Failure::new(
                Exit::Internal,
                format!("signals cannot be received: {error}"),
            )
        })?;
        let (count, first) = watch::channel(0);
        // It ends with the process, whose end it is about.
        tokio::spawn(async move {
            let over = async {
                match length {
                    Some(length) => tokio::time::sleep(length.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::pin!(over);
            let mut late = false;
            loop {
                tokio::select! {
                    () = stop.next() => {}
                    _ = hang_up.recv() => {}
                    () = &mut over, if !late => late = true,
                }
                count.send_modify(|count| *count += 1);
            }
        });
        Ok(Self { first })
    }

    fn first(&self) -> BoxFuture<'static, ()> {
        self.at_least(1)
    }

    fn second(&self) -> BoxFuture<'static, ()> {
        self.at_least(2)
    }

    fn at_least(&self, signals: u32) -> BoxFuture<'static, ()> {
        let mut count = self.first.clone();
        async move {
            // A sender that is gone has ended with the process.
            let _ = count.wait_for(|count| *count >= signals).await;
        }
        .boxed()
    }
}

/// The folder of a demo's store.
enum Folder {
    Kept(PathBuf),
    Temporary(tempfile::TempDir),
}

impl Folder {
    fn new(path: Option<&std::path::Path>) -> Result<Self, Failure> {
        let wrong = |what: String, error: std::io::Error| {
            Failure::new(Exit::Refused, format!("{what} cannot be created: {error}"))
                .hint("Choose another folder with --path.")
        };
        match path {
            Some(path) => std::fs::create_dir_all(path)
                .map(|()| Self::Kept(path.to_owned()))
                .map_err(|error| wrong(format!("the folder {}", path.display()), error)),
            None => tempfile::Builder::new()
                .prefix("stateway-demo-")
                .tempdir()
                .map(Self::Temporary)
                .map_err(|error| wrong("a temporary folder".to_owned(), error)),
        }
    }

    fn path(&self) -> &std::path::Path {
        match self {
            Self::Kept(path) => path,
            Self::Temporary(folder) => folder.path(),
        }
    }

    /// Removes it, if it is a temporary one.
    fn remove(self) {
        if let Self::Temporary(folder) = self {
            let path = folder.path().to_owned();
            if let Err(error) = folder.close() {
                print_message(&format!("{} could not be removed: {error}", path.display()));
            }
        }
    }
}
