//! Measures the gateway from outside, beside an empty gRPC service on the same machine in the
//! same minute: figures of a shared machine mean little, their ratio means something.

mod baseline;
mod get;
mod http;
mod lab;
mod process;
mod relay;
mod restate;
mod watch;

use std::error::Error;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> Outcome<()> {
    use tokio::runtime::Builder;
    let threads = Builder::new_multi_thread().enable_all().build();
    match std::env::args().nth(1).as_deref() {
        Some("gateway") => threads?.block_on(gateway()),
        // One call at a time: a second thread would only measure how long it takes to wake up.
        Some("restate") => Builder::new_current_thread()
            .enable_all()
            .build()?
            .block_on(restate::run()),
        Some("empty-service") => threads?.block_on(baseline::serve()),
        _ => Err("usage: stateway-bench gateway|restate; `cargo xtask bench` builds it all".into()),
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
