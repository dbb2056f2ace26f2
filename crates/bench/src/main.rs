//! Measures the gateway from outside, beside an empty gRPC service on the same machine in the
//! same minute: figures of a shared machine mean little, their ratio means something.

mod baseline;
mod crash;
mod engine;
mod get;
mod grpc;
mod half_open;
mod hosts;
mod http;
mod lab;
mod process;
mod relay;
mod remote;
mod restate;
mod secure;
mod temporal;
mod watch;
mod worker;

use std::error::Error;

// As in the gateway: what is measured must not be the allocator.
use stateway_allocator as _;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> Outcome<()> {
    use tokio::runtime::Builder;
    let threads = Builder::new_multi_thread().enable_all().build();
    let thread = Builder::new_current_thread().enable_all().build();
    match std::env::args().nth(1).as_deref() {
        Some("gateway") => threads?.block_on(gateway()),
        Some("half-open") => threads?.block_on(half_open::run()),
        // One call at a time: a second thread would only measure how long it takes to wake up.
        Some("restate") => thread?.block_on(restate::run()),
        Some("remote") => thread?.block_on(remote::run()),
        Some("memory-provider") => {
            let socket = std::env::args().nth(2).ok_or("a provider needs a socket")?;
            threads?.block_on(remote::serve_memory(&socket))
        }
        Some("hosts") => match text("--engine").as_deref() {
            Some("temporal") => threads?.block_on(hosts::temporal::run()),
            _ => threads?.block_on(hosts::restate::run(number("--nodes")?.unwrap_or(3))),
        },
        Some("temporal") => thread?.block_on(temporal::run()),
        // The gateway, its keeper, the worker and the load share the machine. Worker and load need one
        // thread each.
        Some("growth") => threads?.block_on(engine::growth::run(number("--executions")?)),
        Some("engine") => {
            let beside_restate = text("--beside").is_some_and(|peer| peer == "restate");
            let database = text("--store");
            let run = engine::run(number("--executions")?, beside_restate, database.as_deref());
            thread?.block_on(run)
        }
        Some("timers") => thread?.block_on(engine::timers::run()),
        Some("verify") => threads?.block_on(engine::verify::run(number("--executions")?)),
        Some("crash") => {
            let rounds = number("--rounds")?.unwrap_or(500);
            let seed = number("--seed")?.unwrap_or(1);
            let state = text("--state").unwrap_or_else(|| "target/crash.json".to_owned());
            let campaign = crash::Campaign {
                rounds,
                seed,
                state: state.into(),
                new: std::env::args().any(|argument| argument == "--new"),
            };
            threads?.block_on(crash::run(&campaign))
        }
        Some("worker") => {
            let url = std::env::args().nth(2).ok_or("a worker needs an address")?;
            let capacity = std::env::args().nth(3).ok_or("a worker needs a capacity")?;
            thread?.block_on(worker::serve(&url, capacity.parse()?))
        }
        Some("secure") => threads?.block_on(secure::run()),
        Some("empty-service") => match std::env::args().nth(2) {
            Some(folder) => threads?.block_on(secure::serve_empty(folder.into())),
            None => threads?.block_on(baseline::serve()),
        },
        _ => Err(
            "usage: stateway-bench gateway|secure|half-open|restate|hosts|remote|temporal|engine|growth|timers|verify|crash; `cargo xtask bench` builds it all"
                .into(),
        ),
    }
}

async fn gateway() -> Outcome<()> {
    let stateway = process::stateway().await?;
    let empty = process::empty_service().await?;
    let get = get::run(&stateway, &empty).await;
    drop(empty);
    drop(stateway);
    let watch = watch::run(&process::stateway().await?).await;
    get.and(watch)
}

/// The number after a flag.
fn number(flag: &str) -> Outcome<Option<u64>> {
    Ok(text(flag).map(|text| text.parse()).transpose()?)
}

/// The text after a flag.
fn text(flag: &str) -> Option<String> {
    std::env::args()
        .skip_while(|argument| argument != flag)
        .nth(1)
}
