//! Measures the gateway from outside, beside an empty gRPC service on the same machine in the
//! same minute: figures of a shared machine mean little, their ratio means something.

mod baseline;
mod get;
mod process;
mod watch;

use std::error::Error;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

#[tokio::main]
async fn main() -> Outcome<()> {
    match std::env::args().nth(1).as_deref() {
        Some("gateway") => gateway().await,
        Some("empty-service") => baseline::serve().await,
        _ => Err("usage: stateway-bench gateway; `cargo xtask bench gateway` builds it all".into()),
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
