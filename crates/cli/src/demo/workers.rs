//! The workers of the five examples: slow enough to be watched, and never lucky.

use std::time::Duration;

use serde_json::{Value, json};
use stateway_client::{Task, TaskError, Usage, Worker};

use super::scene::{DEAD_CARD, FORBIDDEN, MOON};

/// How long a card gateway that is down asks to be left alone.
const OUTAGE: Duration = Duration::from_secs(5 * 60);

/// How often a card gateway that is down is asked in vain.
const TRIES: u32 = 3;

/// How long tasks in progress may continue when the demo ends.
const DRAIN: Duration = Duration::from_millis(300);

/// All workers of the demo, for this provider of the gateway at this address.
pub fn workers(url: &str, provider: &str) -> Vec<Worker> {
    let workers = [shop(url), ci(url), images(url), agents(url), imports(url)];
    let provider = format!("providers/{provider}");
    let workers = workers.map(|worker| worker.drain(DRAIN).provider(&provider));
    workers.into()
}

fn worker(url: &str, id: &str, roles: &[&str], capacity: u32) -> Worker {
    let worker = Worker::new(url)
        .id(format!("demo-{id}"))
        .version(env!("CARGO_PKG_VERSION"))
        .capacity(capacity);
    roles.iter().fold(worker, |worker, role| worker.role(*role))
}

/// Takes this many seconds, telling what is done and how far it is.
async fn work(task: &Task, seconds: u32, parts: &[&str]) {
    let count = u32::try_from(parts.len()).unwrap_or(1).max(1);
    for (part, done) in parts.iter().zip(0_u32..) {
        task.heartbeat(f64::from(done) / f64::from(count), *part);
        tokio::time::sleep(Duration::from_secs(seconds.into()) / count).await;
    }
}

fn text<'a>(given: &'a Value, key: &str) -> &'a str {
    given[key].as_str().unwrap_or_default()
}

fn shop(url: &str) -> Worker {
    worker(url, "shop", &["warehouse", "payments", "shipping"], 16)
        .on("reserve", |task: Task| async move {
            work(&task, 4, &["looking for it", "packing"]).await;
            // The same in every attempt, so that a repeated task makes no second reservation. The token differs
            // in each hand-out.
            let execution = task.execution().rsplit('/').next().unwrap_or_default();
            Ok(json!({"reservation": format!("r-{execution}-{}", task.step())}))
        })
        .on("charge", |task: Task| async move {
            let given: Value = task.input()?;
            work(&task, 3, &["asking the card gateway"]).await;
            let down = text(&given, "order").starts_with(DEAD_CARD) && task.attempt() <= TRIES;
            if down {
                let error = TaskError::transient("the card gateway is down for maintenance");
                return Err(error.code("CARD_GATEWAY_DOWN").retry_after(OUTAGE));
            }
            if task.attempt() == 1 {
                return Err(TaskError::transient("the card gateway timed out"));
            }
            Ok(json!({"charged": given["amount"], "order": given["order"]}))
        })
        .on("deliver", |task: Task| async move {
            let given: Value = task.input()?;
            let address = text(&given, "address");
            if address == MOON {
                work(&task, 3, &["looking for a carrier"]).await;
                return Err(TaskError::agent_error("no carrier goes to the moon"));
            }
            work(&task, 8, &["loading", "on the road", "at the door"]).await;
            Ok(json!({"parcel": format!("p-{}", task.token())}))
        })
        .on("refund", |task: Task| async move {
            let charged: Value = task.input()?;
            work(&task, 3, &["paying back"]).await;
            Ok(json!({"refunded": charged["charged"]}))
        })
        .on("release", |task: Task| async move {
            work(&task, 3, &["putting it back"]).await;
            Ok(json!({"released": true}))
        })
}

fn ci(url: &str) -> Worker {
    worker(url, "ci", &["ci", "ops"], 8)
        .on("build", |task: Task| async move {
            let given: Value = task.input()?;
            work(&task, 6, &["fetching", "compiling", "linking"]).await;
            Ok(json!({"image": format!("shop:{}", text(&given, "version"))}))
        })
        .on("check", |task: Task| async move {
            work(&task, 4, &["unit tests", "browser tests"]).await;
            Ok(json!({"passed": 128}))
        })
        .on("deploy", |task: Task| async move {
            let given: Value = task.input()?;
            work(&task, 5, &["one of three", "two of three", "all three"]).await;
            Ok(json!({"version": given["image"]}))
        })
}

fn images(url: &str) -> Worker {
    worker(url, "images", &["resize"], 8)
        .on("split", |task: Task| async move {
            work(&task, 4, &["reading the album"]).await;
            Ok(json!({"images": 6}))
        })
        .on("resize", |task: Task| async move {
            let given: Value = task.input()?;
            let image = given["image"].as_u64().unwrap_or_default();
            let needed = match image {
                3 => 2,
                5 => 3,
                _ => 1,
            };
            let seconds = 4 + u32::try_from(image).unwrap_or_default();
            work(&task, seconds, &["decoding", "scaling", "encoding"]).await;
            if task.attempt() < needed {
                return Err(TaskError::transient("out of memory for a moment"));
            }
            Ok(json!({"file": format!("image-{image}.jpg")}))
        })
        .on("gallery", |task: Task| async move {
            let given: Value = task.input()?;
            work(&task, 5, &["laying out"]).await;
            Ok(json!({"from": given["first"], "to": given["last"]}))
        })
}

fn agents(url: &str) -> Worker {
    worker(url, "agents", &["writer", "reviewer"], 8)
        .skill("research")
        .on("write", |task: Task| async move {
            let given: Value = task.input()?;
            let topic = text(&given, "topic");
            work(&task, 6, &["reading", "thinking", "writing"]).await;
            let usage = Usage {
                input_tokens: 900,
                output_tokens: 120,
                cost_micros: 1_500,
            };
            if topic == FORBIDDEN && task.attempt() == 1 {
                let error = TaskError::governance("legal has to agree to this topic first");
                return Err(error.code("LEGAL_HOLD").usage(usage));
            }
            let points = match task.feedback() {
                None => json!(["it survives"]),
                Some(_) => json!(["it survives", "it retries", "it compensates"]),
            };
            let brief = json!({"title": format!("On {topic}"), "points": points});
            Ok(stateway_client::Done::new(&brief)?.usage(usage))
        })
        .on("review", |task: Task| async move {
            work(&task, 5, &["reading it twice"]).await;
            Ok(json!({"verdict": "good"}))
        })
}

fn imports(url: &str) -> Worker {
    worker(url, "imports", &["etl"], 8)
        .on("fetch", |task: Task| async move {
            let given: Value = task.input()?;
            work(&task, 7, &["connecting", "reading rows", "sorting rows"]).await;
            match (text(&given, "source"), task.attempt()) {
                ("stock", 1) => Err(TaskError::external("the stock server is not up")),
                ("stock", _) => Ok(json!({"rows": 20})),
                _ => Ok(json!({"rows": 22})),
            }
        })
        .on("load", |task: Task| async move {
            let given: Value = task.input()?;
            work(&task, 5, &["writing rows"]).await;
            Ok(json!({"rows": given["rows"]}))
        })
        .on("report", |task: Task| async move {
            let given: Value = task.input()?;
            work(&task, 6, &["adding up", "sending mail"]).await;
            let rows = |source: &str| given[source].as_u64().unwrap_or_default();
            Ok(json!({"rows": rows("shop") + rows("stock")}))
        })
}
