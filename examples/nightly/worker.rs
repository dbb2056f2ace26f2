//! Fetches and loads rows, and writes the report. The first attempt to fetch `stock` fails.

use serde_json::{Value, json};
use stateway_client::{Error, Task, TaskError, Worker};

pub(crate) fn worker(gateway: &str) -> Worker {
    Worker::new(gateway)
        .role("etl")
        .capacity(4)
        .on("fetch", |task: Task| async move {
            let given: Value = task.input()?;
            match (given["source"].as_str(), task.attempt()) {
                (Some("stock"), 1) => Err(TaskError::external("the stock server is not up")),
                (Some("stock"), _) => Ok(json!({"rows": 20})),
                _ => Ok(json!({"rows": 22})),
            }
        })
        .on("load", |task: Task| async move {
            let given: Value = task.input()?;
            Ok(json!({"rows": given["rows"]}))
        })
        .on("report", |task: Task| async move {
            let given: Value = task.input()?;
            let rows = |source: &str| given[source].as_u64().unwrap_or_default();
            Ok(json!({"rows": rows("shop") + rows("stock")}))
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
