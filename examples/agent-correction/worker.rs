//! A writer and a reviewer. The first brief of the writer has too few points; the second attempt uses the
//! validator's feedback.

use serde_json::{Value, json};
use stateway_client::{Done, Error, Task, Usage, Worker};

pub(crate) fn worker(gateway: &str) -> Worker {
    Worker::new(gateway)
        .role("writer")
        .role("reviewer")
        .skill("research")
        .capacity(2)
        .on("write", |task: Task| async move {
            let given: Value = task.input()?;
            let title = format!("On {}", given["topic"].as_str().unwrap_or("nothing"));
            let points = match task.feedback() {
                None => json!(["it survives"]),
                Some(_) => json!(["it survives", "it retries", "it rolls back"]),
            };
            let usage = Usage {
                input_tokens: 900,
                output_tokens: 120,
                cost_micros: 1_500,
            };
            Ok(Done::new(&json!({"title": title, "points": points}))?.usage(usage))
        })
        .on(
            "review",
            |_: Task| async move { Ok(json!({"verdict": "good"})) },
        )
}

/// Works until Ctrl-C, and then finishes the tasks that have begun.
#[tokio::main]
async fn main() -> Result<(), Error> {
    let gateway = std::env::var("STATEWAY_SERVER");
    let gateway = gateway.unwrap_or_else(|_| "http://127.0.0.1:7380".to_owned());
    let interrupted = async { drop(tokio::signal::ctrl_c().await) };
    worker(&gateway).until(interrupted).serve().await
}
