//! Resizes images. Some attempts fail: the third image needs two attempts, the fifth image three.

use std::time::Duration;

use serde_json::{Value, json};
use stateway_client::{Task, TaskError, Worker};

pub(super) fn worker(gateway: &str) -> Worker {
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
