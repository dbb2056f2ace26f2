//! Warehouse, payments and shipping. The first charge fails, and no carrier delivers to the moon.

use serde::Deserialize;
use serde_json::json;
use stateway_client::{Error, Task, TaskError, Worker};

#[derive(Deserialize)]
struct Charge {
    order: String,
    amount: u64,
}

#[derive(Deserialize)]
struct Delivery {
    address: String,
}

pub(crate) fn worker(gateway: &str) -> Worker {
    Worker::new(gateway)
        .role("warehouse")
        .role("payments")
        .role("shipping")
        .capacity(4)
        .on("reserve", |task: Task| async move {
            // The same in every attempt, so that a repeated task makes no second reservation. The token differs
            // in each hand-out.
            let execution = task.execution().rsplit('/').next().unwrap_or_default();
            Ok(json!({"reservation": format!("r-{execution}-{}", task.step())}))
        })
        .on("charge", |task: Task| async move {
            let charge: Charge = task.input()?;
            if task.attempt() == 1 {
                return Err(TaskError::transient("the card gateway timed out"));
            }
            Ok(json!({"charged": charge.amount, "order": charge.order}))
        })
        .on("deliver", |task: Task| async move {
            let delivery: Delivery = task.input()?;
            Err::<(), _>(TaskError::agent_error(format!(
                "no carrier goes to {}",
                delivery.address
            )))
        })
        // The input of a compensation is the output of its step.
        .on("refund", |task: Task| async move {
            let charged: serde_json::Value = task.input()?;
            Ok(json!({"refunded": charged["charged"]}))
        })
        .on("release", |task: Task| async move {
            assert!(
                task.is_compensation(),
                "a release compensates a reservation"
            );
            Ok(json!({"released": true}))
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
