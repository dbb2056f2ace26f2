//! The build server of a release.

use serde_json::{Value, json};
use stateway_client::{Error, Task, Worker};

pub(crate) fn worker(gateway: &str) -> Worker {
    Worker::new(gateway)
        .role("ci")
        .role("ops")
        .capacity(2)
        .on("build", |task: Task| async move {
            let given: Value = task.input()?;
            task.heartbeat(0.5, "compiling");
            Ok(json!({"image": format!("shop:{}", given["version"].as_str().unwrap_or("latest"))}))
        })
        .on("check", |_: Task| async move { Ok(json!({"passed": 128})) })
        .on("deploy", |task: Task| async move {
            let given: Value = task.input()?;
            Ok(json!({"version": given["image"]}))
        })
}

/// Works until Ctrl-C, and then finishes the tasks that have begun.
#[tokio::main]
async fn main() -> Result<(), Error> {
    let gateway = std::env::var("STATEWAY_SERVER");
    let gateway = gateway.unwrap_or_else(|_| "http://127.0.0.1:7380".to_owned());
    let interrupted = async { drop(tokio::signal::ctrl_c().await) };
    worker(&gateway).until(interrupted).serve().await
}
