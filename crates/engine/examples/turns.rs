//! How many steps the keeper takes per second with nothing around it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use stateway_engine::{
    ApplyDefinition, Config, Engine, Offer, Outcome, RequestKey, Start, WorkerMessage,
};

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let steps: usize = std::env::args()
        .nth(1)
        .and_then(|a| a.parse().ok())
        .unwrap_or(5);
    let flight: usize = std::env::args()
        .nth(2)
        .and_then(|a| a.parse().ok())
        .unwrap_or(64);
    let seconds: u64 = std::env::args()
        .nth(3)
        .and_then(|a| a.parse().ok())
        .unwrap_or(5);
    let folder = tempfile::tempdir().expect("a folder");
    let engine = Engine::open(&Config::new(folder.path().join("s.db"))).expect("an engine");
    let mut source = String::from("name: chain\nsteps:\n");
    for step in 0..steps {
        let after = if step == 0 {
            String::new()
        } else {
            format!(", dependsOn: [s{}]", step - 1)
        };
        source.push_str(&format!(
            "  - {{name: s{step}, agent: x, timeout: 1m{after}}}\n"
        ));
    }
    let apply = ApplyDefinition {
        source,
        source_name: "chain.yaml".into(),
        request: None,
    };
    engine.apply(apply).await.expect("a definition");
    let mut session = engine
        .connect(Offer {
            worker: "w".into(),
            roles: vec!["x".into()],
            capacity: 256,
            ..Offer::default()
        })
        .expect("a session");
    let answers = session.answers();
    tokio::spawn(async move {
        while let Some(message) = session.messages.recv().await {
            if let WorkerMessage::Task(task) = message {
                let output = Arc::new(serde_json::json!({"ok": true}));
                answers.settle(task.token, Outcome::Completed { output }, None);
            }
        }
    });
    let until = Instant::now() + Duration::from_secs(seconds);
    let began = Instant::now();
    let mut runs = tokio::task::JoinSet::new();
    for lane in 0..flight {
        let engine = engine.clone();
        runs.spawn(async move {
            let mut count = 0_u64;
            let mut took = Vec::new();
            while Instant::now() < until {
                let t = Instant::now();
                let id: Arc<str> = format!("l{lane}-{count}").into();
                let mut news = engine.watch_one(&id);
                let start = Start {
                    definition: "chain".into(),
                    id: Some(id.clone()),
                    input: Arc::new(serde_json::json!({"n": count})),
                    labels: Default::default(),
                    not_before: None,
                    actor: "bench".into(),
                    request: RequestKey {
                        id: format!("r{lane}-{count}").into(),
                        body: [0; 16],
                    },
                };
                let view = engine.start(start).await.expect("started");
                let mut over = view.output.is_some();
                while !over {
                    if news.changed().await.is_err() {
                        break;
                    }
                    over = news
                        .borrow()
                        .as_ref()
                        .is_some_and(|view| view.output.is_some());
                }
                count += 1;
                took.push(t.elapsed());
            }
            (count, took)
        });
    }
    let mut total = 0;
    let mut all = Vec::new();
    while let Some(done) = runs.join_next().await {
        let (count, took) = done.expect("a lane");
        total += count;
        all.extend(took);
    }
    let secs = began.elapsed().as_secs_f64();
    all.sort_unstable();
    println!(
        "{:.0} workflows/s {:.0} steps/s p50 {:?} p99 {:?}",
        total as f64 / secs,
        total as f64 * steps as f64 / secs,
        all[all.len() / 2],
        all[all.len() * 99 / 100]
    );
    let size = std::fs::metadata(folder.path().join("s.db")).map_or(0, |m| m.len())
        + std::fs::metadata(folder.path().join("s.db-wal")).map_or(0, |m| m.len());
    println!("{} bytes per step", size / (total * steps as u64));
}
