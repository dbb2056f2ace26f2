//! The worker of the engine's benchmark: a process of its own that does nothing, quickly.

use stateway_client::{Task, TaskError, Worker, WorkerNews};

use crate::Outcome;

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
    let done = |_: Task| async { Ok::<_, TaskError>(serde_json::json!({ "ok": true })) };
    Ok(worker.run(done).await?)
}
