//! Chains that are under way at the same time, and how long each takes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, Semaphore};

use crate::Outcome;

/// How long a start and the last chains of a measurement may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// What those that start chains and those that end them share.
pub(super) struct Load {
    /// When a chain was started, and how long each took.
    began: Mutex<HashMap<String, Instant>>,
    took: Mutex<Vec<Duration>>,
    free: Semaphore,
    ended: Notify,
    started: Mutex<u64>,
}

impl Default for Load {
    fn default() -> Self {
        Self {
            began: Mutex::default(),
            took: Mutex::default(),
            free: Semaphore::new(0),
            ended: Notify::new(),
            started: Mutex::new(0),
        }
    }
}

/// What a measurement has found.
pub(super) struct Figures {
    took: Vec<Duration>,
    lasted: Duration,
    pub(super) cpu: Vec<(&'static str, Duration)>,
}

impl Load {
    /// Keeps so many chains under way for a while, then waits for the last of them.
    pub(super) async fn keep<S>(
        self: &Arc<Self>,
        in_flight: usize,
        time: Duration,
        start: impl Fn(String) -> S,
    ) -> Outcome<Figures>
    where
        S: Future<Output = Outcome<()>> + Send + 'static,
    {
        self.free.add_permits(in_flight);
        self.took.lock().expect("no holder panics").clear();
        let began = Instant::now();
        let until = began + time;
        let mut starts = tokio::task::JoinSet::new();
        while Instant::now() < until {
            let free = tokio::time::timeout(PATIENCE, self.free.acquire()).await;
            free.map_err(|_| "executions have not ended")??.forget();
            starts.spawn(start(self.begin()));
            while let Some(started) = starts.try_join_next() {
                started??;
            }
        }
        while let Some(started) = starts.join_next().await {
            started??;
        }
        let patience = Instant::now() + PATIENCE;
        while !self.began.lock().expect("no holder panics").is_empty() {
            if Instant::now() > patience {
                return Err("executions have not ended".into());
            }
            let _ = tokio::time::timeout(Duration::from_millis(50), self.ended.notified()).await;
        }
        let lasted = began.elapsed();
        self.free
            .acquire_many(u32::try_from(in_flight)?)
            .await?
            .forget();
        let mut took = self.took.lock().expect("no holder panics").clone();
        took.sort_unstable();
        Ok(Figures {
            took,
            lasted,
            cpu: Vec::new(),
        })
    }

    /// How many chains were started.
    pub(super) fn started(&self) -> u64 {
        *self.started.lock().expect("no holder panics")
    }

    /// The id of the next chain, whose time begins.
    fn begin(&self) -> String {
        let id = {
            let mut started = self.started.lock().expect("no holder panics");
            *started += 1;
            format!("bench-{started}")
        };
        let mut began = self.began.lock().expect("no holder panics");
        began.insert(id.clone(), Instant::now());
        id
    }

    /// The last step of a chain is done.
    pub(super) fn end(&self, id: &str) {
        let began = self.began.lock().expect("no holder panics").remove(id);
        if let Some(began) = began {
            let mut took = self.took.lock().expect("no holder panics");
            took.push(began.elapsed());
            self.free.add_permits(1);
            self.ended.notify_one();
        }
    }
}

impl Figures {
    /// Chains per second.
    pub(super) fn rate(&self) -> f64 {
        self.took.len() as f64 / self.lasted.as_secs_f64()
    }

    /// Milliseconds from the start of a chain to its last step.
    pub(super) fn percentile(&self, percent: usize) -> f64 {
        let at = self.took.len() * percent / 100;
        let took = self.took.get(at).copied().unwrap_or_default();
        took.as_secs_f64() * 1_000.0
    }
}

impl std::fmt::Display for Figures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "  {:.0} executions/s, start to last step p50 {:.0} ms, p99 {:.0} ms\n  CPU per execution:",
            self.rate(),
            self.percentile(50),
            self.percentile(99)
        )?;
        for (what, time) in &self.cpu {
            let each = time.as_secs_f64() * 1_000.0 / self.took.len().max(1) as f64;
            write!(f, " {what} {each:.2} ms")?;
        }
        Ok(())
    }
}
