//! What is read before and after a measurement, and what it says.

use std::fmt;
use std::time::Duration;

use super::Lab;
use super::load::Run;
use crate::Outcome;
use crate::http::Http;

/// Counters of the system and of the gateway at one moment.
#[derive(Debug, Default)]
pub(super) struct Reading {
    gateway: Duration,
    keeper: Duration,
    worker: Duration,
    load: Duration,
    written: u64,
    commits: f64,
    commit_seconds: f64,
    resident_mib: f64,
}

impl Reading {
    pub(super) async fn take(lab: &Lab) -> Outcome<Self> {
        let address = lab.gateway.url.trim_start_matches("http://").parse()?;
        let metrics = Http::connect(address).await?.get("/metrics").await?;
        let gateway = lab.gateway.id()?;
        Ok(Self {
            gateway: cpu(&format!("/proc/{gateway}/stat"))?,
            keeper: keeper(gateway)?,
            worker: cpu(&format!("/proc/{}/stat", lab.worker.id()?))?,
            load: cpu("/proc/self/stat")?,
            written: written(gateway)?,
            commits: metric(&metrics, "stateway_engine_commits_total"),
            commit_seconds: metric(&metrics, "stateway_engine_commit_seconds_sum"),
            resident_mib: lab.gateway.resident_mib()?,
        })
    }
}

/// The unit of a process's times in `/proc`.
const TICKS_PER_SECOND: f64 = 100.0;

/// User and system time.
pub(crate) fn cpu(path: &str) -> Outcome<Duration> {
    let stat = std::fs::read_to_string(path)?;
    // The name is in brackets and can contain any characters. The figures follow it.
    let (_, rest) = stat.rsplit_once(')').ok_or("no name")?;
    let field = |at: usize| -> Outcome<f64> {
        Ok(rest.split_whitespace().nth(at).ok_or("no time")?.parse()?)
    };
    Ok(Duration::from_secs_f64(
        (field(11)? + field(12)?) / TICKS_PER_SECOND,
    ))
}

/// The time of the keeper's own threads: the one that decides and the one that writes.
fn keeper(process: u32) -> Outcome<Duration> {
    let mut used = Duration::ZERO;
    for task in std::fs::read_dir(format!("/proc/{process}/task"))? {
        let path = task?.path();
        let name = std::fs::read_to_string(path.join("comm")).unwrap_or_default();
        // The system cuts names to fifteen letters.
        if ["stateway-keeper", "stateway-store"].contains(&name.trim()) {
            used += cpu(&path.join("stat").to_string_lossy())?;
        }
    }
    if used.is_zero() {
        return Err("the gateway has no keeper thread".into());
    }
    Ok(used)
}

/// Bytes the process had written to disk.
pub(super) fn written(process: u32) -> Outcome<u64> {
    let io = std::fs::read_to_string(format!("/proc/{process}/io"))?;
    let line = io
        .lines()
        .find_map(|line| line.strip_prefix("write_bytes:"));
    Ok(line.ok_or("no write_bytes")?.trim().parse()?)
}

fn metric(page: &str, name: &str) -> f64 {
    let value = page.lines().find_map(|line| {
        let rest = line.strip_prefix(name)?.strip_prefix(' ')?;
        rest.trim().parse().ok()
    });
    value.unwrap_or(0.0)
}

/// The result of a measurement.
pub(super) struct Figures {
    steps: u32,
    run: Run,
    gateway: Duration,
    keeper: Duration,
    worker: Duration,
    load: Duration,
    written: u64,
    commits: f64,
    commit_seconds: f64,
    resident_mib: f64,
}

impl Figures {
    pub(super) fn new(steps: u32, run: Run, before: &Reading, after: &Reading) -> Self {
        Self {
            steps,
            run,
            gateway: after.gateway.saturating_sub(before.gateway),
            keeper: after.keeper.saturating_sub(before.keeper),
            worker: after.worker.saturating_sub(before.worker),
            load: after.load.saturating_sub(before.load),
            written: after.written.saturating_sub(before.written),
            commits: after.commits - before.commits,
            commit_seconds: after.commit_seconds - before.commit_seconds,
            resident_mib: after.resident_mib,
        }
    }

    fn total_steps(&self) -> f64 {
        self.run.count() as f64 * f64::from(self.steps)
    }

    pub(super) fn steps_per_second(&self) -> f64 {
        self.total_steps() / self.run.lasted.as_secs_f64()
    }

    fn per_step(&self, time: Duration) -> f64 {
        time.as_secs_f64() * 1e6 / self.total_steps()
    }

    /// The figures that must not grow, in a line.
    pub(super) fn line(&self) -> String {
        let cpu = self.per_step(self.gateway + self.worker + self.load);
        format!(
            "{:7.0}  {cpu:5.0} µs  {:3.0} MiB",
            self.steps_per_second(),
            self.resident_mib
        )
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let steps = self.total_steps();
        let rate = self.run.count() as f64 / self.run.lasted.as_secs_f64();
        let (median, slow) = (self.run.percentile(50), self.run.percentile(99));
        writeln!(
            f,
            "  {rate:.0} workflows/s, {:.0} steps/s, p50 {median:.2?}, p99 {slow:.2?}",
            self.steps_per_second()
        )?;
        writeln!(
            f,
            "  {:.3} fsyncs per step, {:.1} steps and {:.0} µs per commit",
            self.commits / steps,
            steps / self.commits,
            self.commit_seconds * 1e6 / self.commits
        )?;
        writeln!(
            f,
            "  {:.0} bytes written per step, {:.0} MiB resident",
            self.written as f64 / steps,
            self.resident_mib
        )?;
        let rest = self.gateway.saturating_sub(self.keeper);
        write!(
            f,
            "  CPU per step: keeper {:.1} µs, the gateway's gRPC {:.1} µs, worker {:.1} µs, load {:.1} µs",
            self.per_step(self.keeper),
            self.per_step(rest),
            self.per_step(self.worker),
            self.per_step(self.load)
        )
    }
}
