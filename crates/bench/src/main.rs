//! Measures the gateway from outside, beside an empty gRPC service on the same machine in the
//! same minute: figures of a shared machine mean little, their ratio means something.

mod baseline;
mod engine;
mod get;
mod http;
mod lab;
mod process;
mod restate;
mod watch;
mod worker;

use std::error::Error;

/// As in the gateway: what is measured must not be the allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

#[tokio::main]
async fn main() -> Outcome<()> {
    match std::env::args().nth(1).as_deref() {
        Some("gateway") => gateway().await,
        Some("restate") => restate::run().await,
        Some("engine") => engine::run(number("--executions")?).await,
        Some("worker") => {
            let url = std::env::args().nth(2).ok_or("a worker needs an address")?;
            let capacity = std::env::args().nth(3).ok_or("a worker needs a capacity")?;
            worker::serve(&url, capacity.parse()?).await
        }
        Some("empty-service") => baseline::serve().await,
        _ => Err(
            "usage: stateway-bench gateway|restate|engine; `cargo xtask bench` builds it all"
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
    let after = std::env::args()
        .skip_while(|argument| argument != flag)
        .nth(1);
    Ok(after.map(|text| text.parse()).transpose()?)
}
