//! Warehouse, payments and shipping. The first charge fails, and no carrier delivers to the moon.

use serde::Deserialize;
use serde_json::json;
use stateway_client::{Task, TaskError, Worker};

#[derive(Deserialize)]
struct Charge {
    order: String,
    amount: u64,
}

#[derive(Deserialize)]
struct Delivery {
    address: String,
}

pub(super) fn worker(gateway: &str) -> Worker {
    Worker::new(gateway)
        .role("warehouse")
        .role("payments")
        .role("shipping")
        .capacity(4)
        .on("reserve", |task: Task| async move {
            Ok(json!({"reservation": format!("r-{}", task.token())}))
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
