//! Resizes images. Some attempts fail: the third image needs two attempts, the fifth image three.

use std::time::Duration;

use serde_json::{Value, json};
use stateway_client::{Error, Task, TaskError, Worker};

pub(crate) fn worker(gateway: &str) -> Worker {
    Worker::new(gateway)
        .role("resize")
        .capacity(3)
        .prefetch(3)
        .on("split", |_: Task| async move { Ok(json!({"images": 6})) })
        .on("resize", |task: Task| async move {
            let given: Value = task.input()?;
            let image = given["image"].as_u64().unwrap_or_default();
            let needed = match image {
                3 => 2,
                5 => 3,
                _ => 1,
            };
            tokio::time::sleep(Duration::from_millis(10 * image)).await;
            if task.attempt() < needed {
                return Err(TaskError::transient("out of memory for a moment"));
            }
            Ok(json!({"file": format!("image-{image}.jpg")}))
        })
        .on("gallery", |task: Task| async move {
            let given: Value = task.input()?;
            Ok(json!({"from": given["first"], "to": given["last"]}))
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
