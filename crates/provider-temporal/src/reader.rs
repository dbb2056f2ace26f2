//! Reading executions: one description, and the new part of the history if there is one.
//!
//! A history is only ever extended, so what was read of it stays true: it is read again only from the
//! last known event on. The memory can be lost at any time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use stateway_model::ExecutionId;
use stateway_provider_api::adapter::{Pace, ReadSchedule, Reading, SkippingClock};
use stateway_provider_api::{Error, ErrorKind, Observation, Result, Verb, View};

use crate::api::enums::v1::{EventType, HistoryEventFilterType, WorkflowExecutionStatus};
use crate::api::history::v1::HistoryEvent;
use crate::api::history::v1::history_event::Attributes;
use crate::api::workflow::v1::WorkflowExecutionInfo;
use crate::api::workflowservice::v1::{
    DescribeWorkflowExecutionRequest, DescribeWorkflowExecutionResponse,
    GetWorkflowExecutionHistoryRequest, GetWorkflowExecutionHistoryReverseRequest,
};
use crate::client::{Ask, Client};
use crate::codec::RemoteCodec;
use crate::deleted::Deleted;
use crate::error::malformed;
use crate::facts::{Facts, WINDOW};
use crate::id::WorkflowRef;
use crate::quota::Api;
use crate::response::{is_closed, observation, run_id};
use crate::task_queue::{QueueCache, waiting_for};
use crate::{payload, response};

/// The most events of one page of a history.
const PAGE: i32 = 256;
/// The most pages of a history that are read for one answer.
const MOST_PAGES: usize = 8;

/// How many runs before the current one are searched for a request that is repeated. Each is read once and then
/// remembered.
pub(crate) const MOST_RUNS: usize = 16;

/// How often open executions are described in watches. Descriptions are cheap, so nothing is shown that
/// is older than ten seconds while the quota lasts.
const PACE: Pace = Pace {
    slowest: Duration::from_secs(10),
    ..FACTS
};
/// How much is remembered, of histories and of executions each. Weights are bytes, roughly.
const FACTS: Pace = Pace {
    max_executions: 50_000,
    most_weight: 64 << 20,
    ..Pace::DEFAULT
};
/// What an execution, a step or an entry of a history takes beside its texts.
const BYTES: usize = 512;

/// For how long texts that the codec did not decode are shown again without asking it: after the first time, after
/// the second one, and after every further one. Each time the newest events of the run are read again.
const ASK_AGAIN: [Duration; 3] = [
    Duration::from_secs(10),
    Duration::from_secs(60),
    Duration::from_secs(600),
];

/// What was read of the history of a run.
#[derive(Debug)]
struct KnownFacts {
    facts: Arc<Facts>,
    undecoded: Option<Undecoded>,
}

/// The codec did not decode all texts of a history.
#[derive(Debug, Clone, Copy)]
struct Undecoded {
    /// When it was asked.
    asked: Instant,
    /// How often it had been asked before.
    before: usize,
}

/// What the events that are read next are added to.
#[derive(Debug, Default)]
struct FactsSoFar {
    facts: Facts,
    undecoded: Option<Undecoded>,
    /// How often the codec was asked for texts of this run that it did not decode.
    refusals: usize,
}

impl KnownFacts {
    /// How often the codec was asked for texts that it did not decode.
    fn refusals(&self) -> usize {
        self.undecoded.map_or(0, |undecoded| undecoded.before + 1)
    }
}

/// An open execution as it was observed last.
#[derive(Debug, Clone)]
pub(crate) struct KnownExecution {
    /// The id of its run.
    pub(crate) run: String,
    pub(crate) seen: Arc<Observation>,
}

impl KnownExecution {
    /// Whether a row of a list is about the same run in the same status. Otherwise the row is newer.
    pub(crate) fn agrees_with(&self, info: &WorkflowExecutionInfo, row: &Observation) -> bool {
        self.run == run_id(info) && self.seen.native.state == row.native.state
    }
}

/// The server and what is remembered of it.
pub(crate) struct Reader {
    pub(crate) client: Arc<Client>,
    pub(crate) clock: SkippingClock,
    pub(crate) codec: Option<RemoteCodec>,
    pub(crate) deleted: Deleted,
    queues: QueueCache,
    /// By the id of a run.
    facts: ReadSchedule<KnownFacts>,
    /// What was observed last of open executions, by their id, for lists and watches.
    pub(crate) seen: ReadSchedule<KnownExecution>,
}

impl Reader {
    pub(crate) fn new(
        client: Arc<Client>,
        clock: SkippingClock,
        codec: Option<RemoteCodec>,
    ) -> Self {
        Self {
            client,
            clock,
            codec,
            deleted: Deleted::default(),
            queues: QueueCache::default(),
            facts: ReadSchedule::new(FACTS),
            seen: ReadSchedule::new(PACE),
        }
    }

    /// The description of a workflow, which is always as new as the answer of the last write. It belongs
    /// to a write, so it does not wait for a turn of the quota.
    pub(crate) async fn describe(
        &self,
        ask: Ask<'_>,
        of: &WorkflowRef,
    ) -> Result<DescribeWorkflowExecutionResponse> {
        self.client.count(Api::Reads);
        self.describe_in_turn(ask, of).await
    }

    /// The same for a watch or a list: the turn of the quota was taken before.
    pub(crate) async fn describe_in_turn(
        &self,
        ask: Ask<'_>,
        of: &WorkflowRef,
    ) -> Result<DescribeWorkflowExecutionResponse> {
        let request = DescribeWorkflowExecutionRequest {
            namespace: self.client.namespace(),
            execution: Client::execution(of),
        };
        let described = self.client.describe_workflow_execution(ask, request).await;
        let mut described = described.map_err(|error| not_found(error, ask.verb, of))?;
        let run = described.workflow_execution_info.as_ref().map(run_id);
        if run.is_some_and(|run| self.deleted.contains(run)) {
            let error = Error::new(ErrorKind::NotFound, ask.verb, "deleted");
            return Err(not_found(error, ask.verb, of));
        }
        if let Some(codec) = &self.codec {
            codec.decode_description(ask.call, &mut described).await;
        }
        Ok(described)
    }

    /// One execution, as it is now.
    pub(crate) async fn get(
        &self,
        ask: Ask<'_>,
        of: &WorkflowRef,
        view: View,
    ) -> Result<Observation> {
        self.client.turn_within_quota(ask, Api::Reads).await?;
        let described = self.describe_in_turn(ask, of).await?;
        let mut seen = self.observed(ask, of, &described).await?;
        if view == View::Full {
            self.add_payloads(ask, of, &described, &mut seen).await?;
        }
        Ok(seen)
    }

    /// One execution after a write. The write has taken effect, so this read does not wait for a turn of the
    /// quota: a caller must not be refused for what was done.
    pub(crate) async fn get_after_write(
        &self,
        ask: Ask<'_>,
        of: &WorkflowRef,
    ) -> Result<Observation> {
        let described = self.describe(ask, of).await?;
        self.observed(ask, of, &described).await
    }

    /// One of many: the turn of the quota was taken before.
    pub(crate) async fn look(&self, ask: Ask<'_>, of: &WorkflowRef) -> Result<Observation> {
        let described = self.describe_in_turn(ask, of).await?;
        self.observed(ask, of, &described).await
    }

    /// What a description shows, with the facts of the history up to the same event.
    pub(crate) async fn observed(
        &self,
        ask: Ask<'_>,
        of: &WorkflowRef,
        described: &DescribeWorkflowExecutionResponse,
    ) -> Result<Observation> {
        let info = info(ask.verb, described)?;
        let facts = self.facts(ask, of, info).await?;
        let is_paused = info.status() == WorkflowExecutionStatus::Paused;
        let queues = if is_closed(info) || is_paused {
            Default::default()
        } else {
            let waiting = waiting_for(described);
            self.queues.ask(&self.client, ask, waiting).await
        };
        let seen = observation(ask.verb, of, described, &facts, &queues)?;
        if of.run_id.is_none() {
            self.remember(&seen, info);
        }
        Ok(seen)
    }

    fn remember(&self, seen: &Observation, info: &WorkflowExecutionInfo) {
        let id = seen.id.as_str();
        if is_closed(info) {
            self.seen.forget(id);
            return;
        }
        let now = Timestamp::now();
        let reading = Reading {
            value: KnownExecution {
                run: run_id(info).to_owned(),
                seen: Arc::new(seen.clone()),
            },
            progress: u64::try_from(info.state_transition_count).unwrap_or_default(),
            weight: weight(seen),
            next_change: next_change(seen, now),
        };
        self.seen.keep(id, reading, self.clock.now());
    }

    /// The facts of a run up to the event that its description knows.
    pub(crate) async fn facts(
        &self,
        ask: Ask<'_>,
        of: &WorkflowRef,
        info: &WorkflowExecutionInfo,
    ) -> Result<Arc<Facts>> {
        let run = of.run(run_id(info));
        let known = self.facts.get(run_id(info)).map(|known| known.value);
        let refusals = known.as_deref().map_or(0, KnownFacts::refusals);
        let is_usable = |known: &Arc<KnownFacts>| {
            known.facts.last <= info.history_length && !self.is_stale(known)
        };
        let known = known.filter(is_usable);
        if let Some(known) = &known
            && known.facts.last == info.history_length
        {
            return Ok(Arc::clone(&known.facts));
        }
        let from = known.as_ref().map_or(0, |known| known.facts.last);
        let from = from.max(info.history_length - WINDOW);
        let events = self
            .events_after(ask, &run, from, info.history_length)
            .await?;
        let so_far = match known {
            Some(known) => FactsSoFar {
                facts: Facts::clone(&known.facts),
                undecoded: known.undecoded,
                refusals,
            },
            None => FactsSoFar {
                refusals,
                ..FactsSoFar::default()
            },
        };
        self.extend(ask, &run, so_far, events, info.history_length)
            .await
    }

    /// The codec had its time: texts that it did not decode are read again.
    fn is_stale(&self, known: &KnownFacts) -> bool {
        let is_over = |undecoded: Undecoded| {
            let pause = ASK_AGAIN[undecoded.before.min(ASK_AGAIN.len() - 1)];
            undecoded.asked + pause <= self.clock.now()
        };
        known.undecoded.is_some_and(is_over)
    }

    /// The facts of a run that has ended: its history has its last length.
    pub(crate) async fn facts_of_ended(
        &self,
        ask: Ask<'_>,
        run: &WorkflowRef,
    ) -> Result<Arc<Facts>> {
        let known = self.facts.get(run.run_id.as_deref().unwrap_or_default());
        let refusals = known
            .as_ref()
            .map_or(0, |known| KnownFacts::refusals(&known.value));
        let is_usable = |known: &KnownFacts| known.facts.end.is_some() && !self.is_stale(known);
        if let Some(known) = known.filter(|known| is_usable(&known.value)) {
            return Ok(Arc::clone(&known.value.facts));
        }
        let mut events = self.events_after(ask, run, 0, i64::MAX).await?;
        let last = events.last().map_or(0, |event| event.event_id);
        events.retain(|event| event.event_id > last - WINDOW);
        let so_far = FactsSoFar {
            refusals,
            ..FactsSoFar::default()
        };
        self.extend(ask, run, so_far, events, last).await
    }

    /// Adds events to the facts of a run, up to the last one that counts.
    async fn extend(
        &self,
        ask: Ask<'_>,
        run: &WorkflowRef,
        so_far: FactsSoFar,
        mut events: Vec<HistoryEvent>,
        last: i64,
    ) -> Result<Arc<Facts>> {
        let FactsSoFar {
            mut facts,
            mut undecoded,
            refusals,
        } = so_far;
        if facts.begin.is_none() && events.first().is_none_or(|event| event.event_id > 1) {
            events.insert(0, self.first_event(ask, run).await?);
        }
        if let Some(codec) = &self.codec
            && !codec.decode_texts(ask.call, &mut events).await
        {
            undecoded.get_or_insert(Undecoded {
                asked: self.clock.now(),
                before: refusals,
            });
        }
        for event in &events {
            facts.feed(event);
        }
        facts.last = last;
        facts.close_window();
        let facts = Arc::new(facts);
        let reading = Reading {
            weight: BYTES * facts.weight(),
            progress: u64::try_from(facts.last).unwrap_or_default(),
            next_change: None,
            value: KnownFacts {
                facts: Arc::clone(&facts),
                undecoded,
            },
        };
        let id = run.run_id.as_deref().unwrap_or_default();
        self.facts.keep(id, reading, self.clock.now());
        Ok(facts)
    }

    /// The events of a run after one and up to another, ascending. The server may have more already, and
    /// it adds events that it may take back.
    async fn events_after(
        &self,
        ask: Ask<'_>,
        run: &WorkflowRef,
        after: i64,
        last: i64,
    ) -> Result<Vec<HistoryEvent>> {
        let (mut events, mut token) = (Vec::new(), Vec::new());
        for _ in 0..MOST_PAGES {
            let page;
            (page, token) = self.newest_first(ask, run, token).await?;
            let reached = page.last().is_none_or(|event| event.event_id <= after + 1);
            events.extend(page.into_iter().filter(|event| {
                let id = event.event_id;
                id > after && id <= last
            }));
            let is_enough = i64::try_from(events.len()).is_ok_and(|read| read >= WINDOW);
            if reached || is_enough || token.is_empty() {
                break;
            }
        }
        events.sort_by_key(|event| event.event_id);
        Ok(events)
    }

    /// A page of the events of a run from its end on, and the token of the next page. The read is counted and
    /// does not wait.
    pub(crate) async fn newest_first(
        &self,
        ask: Ask<'_>,
        run: &WorkflowRef,
        token: Vec<u8>,
    ) -> Result<(Vec<HistoryEvent>, Vec<u8>)> {
        self.client.count(Api::Reads);
        let request = GetWorkflowExecutionHistoryReverseRequest {
            namespace: self.client.namespace(),
            execution: Client::execution(run),
            maximum_page_size: PAGE,
            next_page_token: token,
        };
        let client = &self.client;
        let page = client.get_workflow_execution_history_reverse(ask, request);
        let page = page
            .await
            .map_err(|error| not_found(error, ask.verb, run))?;
        Ok((
            page.history.unwrap_or_default().events,
            page.next_page_token,
        ))
    }

    /// The point of a reset to the first workflow task of a run: the event after the one that started the task.
    /// Signals and other events can come before it. `None` if no worker has taken the task.
    pub(crate) async fn first_task(&self, ask: Ask<'_>, run: &WorkflowRef) -> Result<Option<i64>> {
        let mut token = Vec::new();
        for _ in 0..MOST_PAGES {
            self.client.count(Api::Reads);
            let request = GetWorkflowExecutionHistoryRequest {
                namespace: self.client.namespace(),
                execution: Client::execution(run),
                maximum_page_size: PAGE,
                next_page_token: token,
                ..Default::default()
            };
            let page = self.client.get_workflow_execution_history(ask, request);
            let page = page
                .await
                .map_err(|error| not_found(error, ask.verb, run))?;
            let events = page.history.unwrap_or_default().events;
            let started = events
                .iter()
                .find(|event| event.event_type() == EventType::WorkflowTaskStarted);
            if let Some(started) = started {
                return Ok(Some(started.event_id + 1));
            }
            token = page.next_page_token;
            if token.is_empty() {
                break;
            }
        }
        Ok(None)
    }

    /// The event that began a run.
    pub(crate) async fn first_event(
        &self,
        ask: Ask<'_>,
        run: &WorkflowRef,
    ) -> Result<HistoryEvent> {
        self.client.count(Api::Reads);
        let request = GetWorkflowExecutionHistoryRequest {
            namespace: self.client.namespace(),
            execution: Client::execution(run),
            maximum_page_size: 1,
            ..Default::default()
        };
        let page = self
            .client
            .get_workflow_execution_history(ask, request)
            .await;
        let page = page.map_err(|error| not_found(error, ask.verb, run))?;
        let first = page.history.and_then(|it| it.events.into_iter().next());
        first.ok_or_else(|| malformed(ask.verb, "a history without events"))
    }

    /// The event that ended a run.
    async fn last_event(&self, ask: Ask<'_>, run: &WorkflowRef) -> Result<Option<HistoryEvent>> {
        self.client.count(Api::Reads);
        let request = GetWorkflowExecutionHistoryRequest {
            namespace: self.client.namespace(),
            execution: Client::execution(run),
            maximum_page_size: 1,
            history_event_filter_type: HistoryEventFilterType::CloseEvent as i32,
            ..Default::default()
        };
        let page = self
            .client
            .get_workflow_execution_history(ask, request)
            .await;
        let page = page.map_err(|error| not_found(error, ask.verb, run))?;
        Ok(page
            .history
            .and_then(|it| it.events.into_iter().next_back()))
    }

    /// What only the full view shows: input and output.
    async fn add_payloads(
        &self,
        ask: Ask<'_>,
        of: &WorkflowRef,
        described: &DescribeWorkflowExecutionResponse,
        seen: &mut Observation,
    ) -> Result<()> {
        let info = info(ask.verb, described)?;
        let run = of.run(run_id(info));
        let mut events = vec![self.first_event(ask, &run).await?];
        if is_closed(info) {
            events.extend(self.last_event(ask, &run).await?);
        }
        if let Some(codec) = &self.codec {
            codec.decode_events(ask.call, &mut events).await;
        }
        for event in &events {
            match &event.attributes {
                Some(Attributes::WorkflowExecutionStartedEventAttributes(it)) => {
                    seen.input = payload::shown(it.input.as_ref());
                }
                Some(Attributes::WorkflowExecutionCompletedEventAttributes(it)) => {
                    seen.output = payload::shown(it.result.as_ref());
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Forgets what is shown of an execution, because something was requested of it.
    pub(crate) fn stir(&self, of: &WorkflowRef) {
        self.seen.forget(&of.workflow_id);
    }
}

/// The execution of a description.
pub(crate) fn info(
    verb: Verb,
    described: &DescribeWorkflowExecutionResponse,
) -> Result<&WorkflowExecutionInfo> {
    let info = described.workflow_execution_info.as_ref();
    info.ok_or_else(|| malformed(verb, "a description without an execution"))
}

/// The server's words for an unknown execution in those of this gateway.
pub(crate) fn not_found(error: Error, verb: Verb, of: &WorkflowRef) -> Error {
    match ExecutionId::new(of.name()) {
        Ok(id) if error.kind == ErrorKind::NotFound => {
            let code = error.native_code.clone();
            Error::not_found(verb, &id).with_native_code(code)
        }
        _ => error,
    }
}

/// How much memory an observation takes, roughly, in bytes.
fn weight(seen: &Observation) -> usize {
    let steps = seen.steps.iter();
    let retries = steps.clone().filter_map(|step| step.retry.as_ref());
    let retries = retries.chain(&seen.retry);
    let errors = steps
        .filter_map(|step| step.last_error.as_ref())
        .chain(&seen.last_error)
        .chain(retries.filter_map(|retry| retry.last_error.as_ref()));
    let errors: usize = errors.map(|error| error.message.len()).sum();
    let labels = seen.labels.iter();
    let labels: usize = labels.map(|(name, value)| name.len() + value.len()).sum();
    BYTES * (2 + seen.steps.len()) + errors + labels
}

/// How long until something is expected to happen by itself.
pub(crate) fn next_change(seen: &Observation, now: Timestamp) -> Option<Duration> {
    let of_steps = seen.steps.iter().filter(|step| step.end_time.is_none());
    let retries = of_steps.clone().filter_map(|step| step.retry.as_ref());
    let retries = retries.chain(&seen.retry);
    let attempts = retries.filter_map(|retry| retry.next_attempt_time);
    let waits = of_steps.flat_map(|step| &step.waits).chain(&seen.waits);
    let next = attempts
        .chain(waits.filter_map(|wait| wait.deadline))
        .min()?;
    Some(Duration::try_from(next.duration_since(now)).unwrap_or_default())
}

/// For the wire tests: what a description and a history show, without a server.
pub(crate) fn recorded(
    described: &DescribeWorkflowExecutionResponse,
    events: &[HistoryEvent],
    queues: &crate::task_queue::Queues,
) -> Result<Observation> {
    let info = info(Verb::Get, described)?;
    let mut facts = Facts::default();
    let is_counted = |event: &&HistoryEvent| event.event_id <= info.history_length;
    for event in events.iter().filter(is_counted) {
        facts.feed(event);
    }
    facts.last = info.history_length;
    facts.close_window();
    let of = WorkflowRef {
        workflow_id: response::workflow_id(info).to_owned(),
        run_id: None,
    };
    observation(Verb::Get, &of, described, &facts, queues)
}
