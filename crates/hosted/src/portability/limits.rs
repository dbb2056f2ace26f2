//! The limits of an engine, compared with a definition.

use std::collections::BTreeSet;
use std::time::Duration;

use stateway_definition::{Definition, OnFailure, RetryPolicy, Step, StepKind};
use stateway_machine::{Data, Limits};
use stateway_model::Labels;

use super::outputs;
use super::sentence::Sentence;
use crate::Plans;
use crate::message::{ObjectRequest, StartWork, VERSION, Work};
use crate::object::{Message, Write, handle};
use crate::provider::Pace;

/// The fewest bytes of the events of an attempt that is retried: its start, its failure and the next time.
const ATTEMPT_BYTES: u64 = 400;
/// The heartbeats that a worker sends within the time that `heartbeatTimeout` allows.
const BEATS: u64 = 3;
/// The most steps that a sentence names.
const MOST_NAMED: usize = 5;
const DAY: Duration = Duration::from_hours(24);

/// The limits of one engine that a definition alone can exceed. The default is an engine without them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EngineLimits {
    /// The engine, for people.
    pub engine: &'static str,
    /// The most bytes of a definition's source.
    pub source_bytes: Option<usize>,
    /// The most bytes that one request may store of an execution: the state, the view, the new events and, with
    /// the first request, the source.
    pub stored_bytes: Option<usize>,
    /// Whether messages to other executions count among these bytes.
    pub stores_messages: bool,
    /// The most bytes of the state of an execution, which has the outputs of all steps.
    pub state_bytes: Option<usize>,
    /// The most bytes of all events of an execution.
    pub log_bytes: Option<u64>,
    /// When an execution continues in another run of the engine.
    pub runs: Option<RunLimits>,
}

/// When an execution continues in another run of the engine, so that a limit of the engine does not end it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunLimits {
    /// What the engine calls a run.
    pub run: &'static str,
    /// The requests of one run.
    pub requests: u64,
    /// The limit of the engine: the events of one history.
    pub events: u64,
    /// The days of one run, and the limit of the engine.
    pub days: Option<(u64, u64)>,
}

impl EngineLimits {
    /// Why the engine cannot store a definition or its executions; empty when it can.
    pub(super) fn exceeded(&self, definition: &Definition, source: &str) -> Vec<Sentence> {
        let engine = || self.engine.to_owned();
        let (bytes, mut found) = (source.len(), Vec::new());
        if let Some(most) = self.source_bytes.filter(|most| bytes > *most) {
            found.push(Sentence::Source {
                bytes: bytes.to_string(),
                engine: engine(),
                most: most.to_string(),
            });
        }
        if let Some(most) = self.stored_bytes {
            let bytes = self.first_bytes(source, Data::default());
            if let Some(bytes) = bytes.filter(|bytes| *bytes > most) {
                found.push(Sentence::Start {
                    bytes: bytes.to_string(),
                    engine: engine(),
                    most: most.to_string(),
                });
            }
            found.extend(definition.steps.iter().filter_map(|step| {
                let bytes = self.child_bytes(step).filter(|bytes| *bytes > most)?;
                Some(Sentence::ChildInput {
                    step: step.name.clone(),
                    bytes: bytes.to_string(),
                    engine: engine(),
                    most: most.to_string(),
                })
            }));
        }
        let certain = certain(definition);
        let least = |step: &Step| {
            let schema = step.output_schema.as_ref();
            let schema = schema.filter(|_| certain.contains(step.name.as_str()));
            schema.map_or(0, outputs::least)
        };
        if let Some((steps, bytes, most)) = self.large_outputs(definition, least) {
            found.push(Sentence::LeastOutput {
                steps,
                bytes: bytes.to_string(),
                engine: engine(),
                most: most.to_string(),
            });
        }
        found
    }

    /// What can happen to an execution, by the numbers of its definition.
    pub(super) fn possible(&self, definition: &Definition, pace: Pace) -> Vec<Sentence> {
        let engine = || self.engine.to_owned();
        let mut found = Vec::new();
        let most = |step: &Step| step.output_schema.as_ref().map_or(0, outputs::most);
        if let Some((steps, bytes, most)) = self.large_outputs(definition, most) {
            found.push(Sentence::MostOutput {
                steps,
                bytes: bytes.to_string(),
                engine: engine(),
                most: most.to_string(),
            });
        }
        if let Some(most) = self.log_bytes {
            let attempts = by_step(definition, attempts);
            let sum: u64 = attempts.iter().map(|(_, count)| count).sum();
            let bytes = sum.saturating_mul(ATTEMPT_BYTES);
            if bytes > most {
                found.push(Sentence::Log {
                    steps: largest(attempts),
                    attempts: sum.to_string(),
                    bytes: bytes.to_string(),
                    engine: engine(),
                    most: most.to_string(),
                });
            }
        }
        if let Some(runs) = self.runs {
            let requests = by_step(definition, |step| requests(step, pace));
            let sum: u64 = requests.iter().map(|(_, count)| count).sum();
            if sum > runs.requests {
                found.push(Sentence::Requests {
                    steps: largest(requests),
                    requests: sum.to_string(),
                    most: runs.requests.to_string(),
                    run: runs.run.to_owned(),
                    engine: engine(),
                    limit: runs.events.to_string(),
                });
            }
            if let Some((most, limit)) = runs.days {
                found.extend(definition.steps.iter().filter_map(|step| {
                    let days = longest(step).as_secs().div_ceil(DAY.as_secs());
                    (days > most).then(|| Sentence::Days {
                        step: step.name.clone(),
                        days: days.to_string(),
                        most: most.to_string(),
                        run: runs.run.to_owned(),
                        engine: engine(),
                        limit: limit.to_string(),
                    })
                }));
            }
        }
        // The lease of the built-in engine is the default.
        let usual = Pace::default().lease;
        if pace.lease > usual {
            let steps = definition.steps.iter().filter(|step| {
                matches!(step.kind, StepKind::Task { .. })
                    && step.heartbeat_timeout.is_none()
                    && step.timeout.is_none_or(|timeout| timeout > usual)
            });
            let names: Vec<_> = steps.map(|step| step.name.as_str()).collect();
            if !names.is_empty() {
                found.push(Sentence::Lease {
                    steps: named(&names),
                    lease: pace.lease.as_secs().to_string(),
                });
            }
        }
        found
    }

    /// The bytes that an execution stores when it starts with an input; none for a source that is wrong.
    pub(super) fn first_bytes(&self, source: &str, input: Data) -> Option<usize> {
        let start = StartWork {
            definition: "".into(),
            source: source.into(),
            labels: Labels::new(),
            not_before: None,
            input,
            by: "".into(),
            child: None,
        };
        let request = ObjectRequest {
            v: VERSION,
            id: "report".into(),
            at: jiff::Timestamp::UNIX_EPOCH,
            body: None,
            work: Work::Start(Box::new(start)),
            claim: None,
        };
        let request = serde_json::to_vec(&request).ok()?;
        let turn = handle("report", &request, &mut |_| Ok(None), &Plans::default()).ok()?;
        let sizes = turn.writes.iter().map(|write| match write {
            Write::Set { key, value } => key.len() + value.len(),
            Write::ClearAll => 0,
        });
        let stored: usize = sizes.sum();
        let messages = turn.messages.iter().filter(|_| self.stores_messages);
        let messages = messages.map(|message| match message {
            Message::Execution(_, request) => serde_json::to_vec(request),
            Message::Definition(_, request) => serde_json::to_vec(request),
        });
        let sent: usize = messages.map(|it| it.map_or(0, |it| it.len())).sum();
        Some(stored + sent).filter(|_| stored > 0)
    }

    /// The bytes that the child of a step stores when it starts with an input that is a literal, whatever its
    /// definition is.
    fn child_bytes(&self, step: &Step) -> Option<usize> {
        const SMALLEST: &str = "name: a\nsteps: [{name: a, sleep: 1s}]";
        if !matches!(step.kind, StepKind::Workflow { .. }) {
            return None;
        }
        let input = step.input.as_ref();
        let input = input.filter(|input| input.references().is_empty())?;
        self.first_bytes(SMALLEST, Data::new(input.source().clone()))
    }

    /// The steps whose outputs are too large for the state together, with the bytes and the limit. An output that
    /// no engine accepts does not count here.
    fn large_outputs(
        &self,
        definition: &Definition,
        bytes: impl Fn(&Step) -> usize,
    ) -> Option<(String, u64, usize)> {
        let most = self.state_bytes?;
        let payload = Limits::default().payload_bytes;
        let outputs = by_step(definition, |step| bytes(step).min(payload) as u64);
        let sum: u64 = outputs.iter().map(|(_, bytes)| bytes).sum();
        (sum > most as u64).then(|| (largest(outputs), sum, most))
    }
}

/// The steps that every execution that succeeds completes.
fn certain(definition: &Definition) -> BTreeSet<&str> {
    let mut certain = BTreeSet::new();
    // A step depends on steps that may stand after it in the file.
    loop {
        let before = certain.len();
        for step in &definition.steps {
            let is_certain = step.when.is_none()
                && step.on_failure != Some(OnFailure::Skip)
                && step
                    .depends_on
                    .iter()
                    .all(|name| certain.contains(name.as_str()));
            if is_certain {
                certain.insert(step.name.as_str());
            }
        }
        if certain.len() == before {
            return certain;
        }
    }
}

fn by_step(definition: &Definition, count: impl Fn(&Step) -> u64) -> Vec<(&str, u64)> {
    let steps = definition.steps.iter();
    let counted = steps.map(|step| (step.name.as_str(), count(step)));
    counted.filter(|(_, count)| *count > 0).collect()
}

/// The steps with the largest numbers, for people.
fn largest(mut counted: Vec<(&str, u64)>) -> String {
    counted.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let names: Vec<_> = counted.iter().map(|(name, _)| *name).collect();
    named(&names)
}

/// Steps, for people: the first ones, and how many there are besides.
fn named(names: &[&str]) -> String {
    let shown: Vec<_> = names
        .iter()
        .take(MOST_NAMED)
        .map(|name| format!("`{name}`"))
        .collect();
    let word = if names.len() == 1 { "step" } else { "steps" };
    match names.len().saturating_sub(MOST_NAMED) {
        0 => format!("{word} {}", shown.join(", ")),
        more => format!("{word} {} and {more} more", shown.join(", ")),
    }
}

/// The most attempts of a step whose failures are retried.
fn attempts(step: &Step) -> u64 {
    if !step.kind.answers() {
        return 0;
    }
    let retries = step.retry_policy.as_ref();
    let retries = retries.map_or_else(|| RetryPolicy::default().max_retries, |it| it.max_retries);
    u64::from(retries) + 1
}

/// The most requests of a step: hand-outs, results, corrections, timers, heartbeats, and renewals of the lease.
fn requests(step: &Step, pace: Pace) -> u64 {
    match step.kind {
        StepKind::Sleep { .. } => 1,
        StepKind::Signal { .. } | StepKind::Approval(_) => 2,
        StepKind::Workflow { .. } | StepKind::Http { .. } => attempts(step).saturating_mul(3),
        StepKind::Task { .. } => {
            let times = |every: Duration| {
                let timeout = step.timeout.unwrap_or_default().as_millis();
                u64::try_from(timeout / every.as_millis().max(1)).unwrap_or(u64::MAX)
            };
            let beats = step.heartbeat_timeout.map_or(0, |allowed| {
                // A gateway passes on one heartbeat a second.
                times(allowed)
                    .saturating_mul(BEATS)
                    .min(times(Duration::from_secs(1)))
            });
            let one = 3 + u64::from(step.max_correction_attempts) + beats + times(pace.renew);
            attempts(step).saturating_mul(one)
        }
    }
}

/// The longest time that a step waits or that one attempt takes.
fn longest(step: &Step) -> Duration {
    let waits = match &step.kind {
        StepKind::Sleep { lasts } => Some(*lasts),
        StepKind::Approval(approval) => approval.expires_after,
        _ => None,
    };
    let times = [waits, step.timeout, step.queue_timeout];
    times.into_iter().flatten().max().unwrap_or_default()
}
