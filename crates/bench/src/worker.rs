//! The worker of the engine's benchmark: a process of its own that does nothing, quickly. A large input is its
//! output.

use stateway_client::{Task, TaskError, Worker, WorkerNews};

use crate::Outcome;

/// Inputs of more bytes are sent back.
const LARGE: usize = 64 * 1024;

pub(crate) async fn serve(url: &str, capacity: u32) -> Outcome<()> {
    let said = url.to_owned();
    let worker = Worker::new(url)
        .role("bench")
        .capacity(capacity)
        .observe(move |news| {
            if let WorkerNews::Connected { .. } = news {
                eprintln!("working for {said}");
            }
        });
    let done = |task: Task| async move {
        if task.input_json().len() > LARGE {
            return task.input::<serde_json::Value>();
        }
        Ok::<_, TaskError>(serde_json::json!({ "ok": true }))
    };
    Ok(worker.run(done).await?)
}
