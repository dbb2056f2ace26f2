//! The polls around the pure part: tasks in, answers out, until the host is stopped.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use prost::Message as _;
use stateway_hosted::Plans;
use stateway_hosted::definition_object::CURRENT;
use stateway_hosted::provider::ObjectKind;
use stateway_provider_api::adapter::lock;
use stateway_provider_api::{Error, ErrorKind, Verb};
use stateway_provider_temporal::ConfigError;
use stateway_provider_temporal::api::common::v1::WorkflowExecution;
use stateway_provider_temporal::api::history::v1::HistoryEvent;
use stateway_provider_temporal::api::workflowservice::v1::{
    PollActivityTaskQueueResponse, PollWorkflowTaskQueueResponse,
    RespondWorkflowTaskCompletedRequest,
};
use stateway_provider_temporal::host::{HostConfig, Keep, Record, TaskClient, object_of};
use thiserror::Error as ThisError;
use tokio::sync::watch;
use tokio::task::{Id, JoinError, JoinSet};

use crate::cache::Cache;
use crate::delivery::{Delivery, sendable, start_child};
use crate::task::{Shared, Task, handle};

/// The first and the longest pause after a call that failed.
const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// The longest answer to a task. A server does not read messages of 4 MiB.
const LONGEST_ANSWER: usize = 4 * 1024 * 1024 - 16 * 1024;
/// The most bytes of executions in memory, and of values that are copied from an earlier run.
const CACHE_BYTES: usize = 256 * 1024 * 1024;
const EARLIER_BYTES: usize = 128 * 1024 * 1024;
/// How many messages are delivered at a time.
const DELIVERIES: usize = 8;
/// How long tasks under way may take when the host is stopped.
const DRAIN: Duration = Duration::from_secs(15);

/// Why a host cannot work.
#[derive(Debug, ThisError)]
pub enum ServeError {
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

/// The values of a run, by key.
type Values = BTreeMap<String, Bytes>;

/// A host of one provider.
pub struct Host {
    client: TaskClient,
    shared: Shared,
    cache: Mutex<Cache<Record>>,
    /// The values of runs that are being copied, by run.
    earlier: Mutex<Cache<Arc<Values>>>,
    concurrency: usize,
}

/// What a poller takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Poller {
    /// Tasks that any host may take.
    Shared,
    /// Tasks of executions that this host has in memory.
    Own,
    /// Messages to other objects.
    Delivery,
}

impl Host {
    /// A host. Nothing is asked of the server yet.
    ///
    /// # Errors
    /// A configuration that cannot be used.
    pub fn new(config: &HostConfig) -> Result<Self, ServeError> {
        let began = Timestamp::now().as_nanosecond();
        let client = TaskClient::new(config, &format!("{}-{began:x}", std::process::id()))?;
        Ok(Self {
            shared: Shared {
                plans: Plans::default(),
                queue: client.queue(),
            },
            client,
            cache: Mutex::new(Cache::of(config.host.cache, CACHE_BYTES)),
            earlier: Mutex::new(Cache::of(usize::MAX, EARLIER_BYTES)),
            concurrency: config.host.concurrency,
        })
    }

    /// Waits until the server answers; returns its version.
    pub async fn connected(&self) -> String {
        let mut pause = PAUSE.0;
        loop {
            match self.client.server_version().await {
                Ok(version) => return version,
                Err(error) => tracing::warn!("Temporal does not answer yet: {error}"),
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE.1);
        }
    }

    /// Answers tasks until `stop` ends, then finishes those under way.
    pub async fn serve(self, stop: impl Future<Output = ()> + Send) {
        let host = Arc::new(self);
        let (stopping, stopped) = watch::channel(false);
        let mut pollers = Pollers::default();
        let poll = |kind: Poller| {
            let (host, mut stopped) = (Arc::clone(&host), stopped.clone());
            async move { host.poll(kind, &mut stopped).await }
        };
        for kind in kinds(host.concurrency) {
            pollers.begin(kind, poll(kind));
        }
        let mut stop = std::pin::pin!(stop);
        loop {
            tokio::select! {
                () = &mut stop => break,
                // A poller ends only when it panics. Its task is given out again by the server.
                Some((kind, error)) = pollers.panicked() => {
                    tracing::error!("a task could not be handled: {error}");
                    pollers.begin(kind, poll(kind));
                },
            }
        }
        stopping.send_replace(true);
        let drained = async { while pollers.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(DRAIN, drained).await.is_err() {
            tracing::warn!("tasks under way are given up; another host takes them");
        }
    }

    /// Polls and handles, one task after another.
    async fn poll(&self, kind: Poller, stopped: &mut watch::Receiver<bool>) {
        let mut pause = PAUSE.0;
        loop {
            let polled = async {
                match kind {
                    Poller::Shared => self.client.poll(false).await.map(Polled::Task),
                    Poller::Own => self.client.poll(true).await.map(Polled::Task),
                    Poller::Delivery => self.client.poll_delivery().await.map(Polled::Delivery),
                }
            };
            let polled = tokio::select! {
                biased;
                _ = stopped.wait_for(|stopped| *stopped) => return,
                polled = polled => polled,
            };
            match polled {
                Ok(polled) => {
                    pause = PAUSE.0;
                    self.handle(polled).await;
                }
                Err(error) if error.kind == ErrorKind::Timeout => {}
                Err(error) => {
                    tracing::debug!("a poll failed: {error}");
                    tokio::select! {
                        _ = stopped.wait_for(|stopped| *stopped) => return,
                        () = tokio::time::sleep(pause) => {}
                    }
                    pause = (pause * 2).min(PAUSE.1);
                }
            }
        }
    }

    async fn handle(&self, polled: Polled) {
        let handled = match polled {
            Polled::Task(Some(task)) => self.answer(task).await,
            Polled::Delivery(Some(delivery)) => self.deliver(delivery).await,
            Polled::Task(None) | Polled::Delivery(None) => Ok(()),
        };
        // The server gives the task out again.
        if let Err(error) = handled {
            tracing::debug!("a task was not finished: {error}");
        }
    }

    async fn answer(&self, task: PollWorkflowTaskQueueResponse) -> Result<(), Error> {
        if task.query.is_some() {
            return self.client.refuse_query(task.task_token).await;
        }
        let execution = task.workflow_execution.clone().unwrap_or_default();
        let workflow_type = task.workflow_type.clone().unwrap_or_default().name;
        let Some(object) = object_of(&workflow_type, &execution.workflow_id) else {
            let why = "this workflow is not one of Stateway: its task queue is used by others";
            return self.client.fail(task.task_token, why).await;
        };
        let mut record = self.record(&task, &execution).await?;
        let inputs = record.inputs(task.previous_started_event_id).to_vec();
        let earlier_run = record.earlier.clone();
        let earlier = match &earlier_run {
            Some(run) => match self.earlier(&execution.workflow_id, run).await {
                Err(error) if error.kind == ErrorKind::NotFound => {
                    let why = format!(
                        "the run {run} of the workflow was removed before its values were copied"
                    );
                    let workflow = &*execution.workflow_id;
                    tracing::error!(workflow, "the execution cannot continue: {why}");
                    return self.client.fail(task.task_token, &why).await;
                }
                values => Some(values?),
            },
            None => None,
        };
        let answer = handle(
            &Task {
                object,
                run: &execution.run_id,
                record: &record,
                earlier: earlier.as_deref(),
                inputs,
                updates: task.messages,
            },
            &self.shared,
        );
        let token = task.task_token.clone();
        let request = RespondWorkflowTaskCompletedRequest {
            task_token: task.task_token,
            commands: answer.commands,
            messages: answer.messages,
            force_create_new_workflow_task: answer.wants_another_task,
            ..Default::default()
        };
        let bytes = request.encoded_len();
        let sent = if bytes > LONGEST_ANSWER {
            let why = format!("the answer has {bytes} bytes, more than {LONGEST_ANSWER}");
            Err(Error::new(ErrorKind::InvalidArgument, Verb::Work, why))
        } else {
            self.client.complete(request, !answer.closes).await
        };
        let reset = match sent {
            // Without that the task is given out again and again, and nobody sees why.
            Err(error) if error.kind == ErrorKind::InvalidArgument => {
                let workflow = &*execution.workflow_id;
                tracing::error!(workflow, "the answer to a task cannot be sent: {error}");
                let why = format!("the answer cannot be sent: {error}");
                return self.client.fail(token, &why).await;
            }
            sent => sent?,
        };
        if let Some(run) = earlier_run.filter(|_| !answer.wants_another_task) {
            lock(&self.earlier).take(&run);
        }
        if !answer.closes {
            // The server left out a task of which nothing remains.
            if reset > 0 {
                record.last_event = reset;
            }
            let bytes = record.memory();
            lock(&self.cache).put(execution.run_id, record, bytes);
        }
        Ok(())
    }

    /// The values of an earlier run. They are read once, also if that takes longer than a task may take.
    async fn earlier(&self, workflow: &str, run: &str) -> Result<Arc<Values>, Error> {
        if let Some(values) = lock(&self.earlier).get(run) {
            return Ok(values);
        }
        let values = Arc::new(self.client.values(workflow, run).await?);
        let bytes = values.iter().map(|(key, value)| key.len() + value.len());
        let bytes = bytes.sum();
        lock(&self.earlier).put(run.to_owned(), Arc::clone(&values), bytes);
        Ok(values)
    }

    /// The object up to a task.
    async fn record(
        &self,
        task: &PollWorkflowTaskQueueResponse,
        execution: &WorkflowExecution,
    ) -> Result<Record, Error> {
        let events = task.history.as_ref().map(|history| &history.events[..]);
        let events = events.unwrap_or_default();
        let first = events.first().map_or(0, |event| event.event_id);
        let known = lock(&self.cache).take(&execution.run_id);
        let known = known.filter(|record| record.last_event + 1 == first);
        let mut reader = Reader {
            last: task.started_event_id,
            record: known.unwrap_or_else(|| Record::keeping(Keep::Read)),
        };
        if reader.record.last_event + 1 != first {
            let all = self.client.events(execution.clone(), Vec::new(), |event| {
                reader.take(event);
            });
            all.await?;
        }
        events.iter().for_each(|event| reader.take(event));
        if !task.next_page_token.is_empty() {
            let page = task.next_page_token.clone();
            let rest = self.client.events(execution.clone(), page, |event| {
                reader.take(event);
            });
            rest.await?;
        }
        // What a task leaves is noted with this event.
        reader.record.last_event = reader.record.last_event.max(task.started_event_id);
        Ok(reader.record)
    }

    async fn deliver(&self, task: PollActivityTaskQueueResponse) -> Result<(), Error> {
        let execution = task.workflow_execution.unwrap_or_default();
        // The same when the delivery is tried again.
        let id = format!("{}/{}", execution.run_id, task.activity_id);
        let input = task.input.unwrap_or_default().payloads.into_iter().next();
        let input = input.and_then(|input| serde_json::from_slice(&input.data).ok());
        let outcome = match input {
            Some(delivery) => self.send(delivery, &id).await,
            None => Err("the message cannot be read".to_owned()),
        };
        self.client.delivered(task.task_token, outcome).await
    }

    async fn send(&self, delivery: Delivery, id: &str) -> Result<(), String> {
        let messages = match delivery {
            Delivery::Execution(to, request) => vec![(to, request)],
            Delivery::Definition(name, request) => {
                let object = (ObjectKind::Definition, &*name);
                let current = self.client.memo(object, CURRENT).await;
                let current = current.map_err(|error| error.to_string())?;
                start_child(&name, &request, current.as_ref())
            }
        };
        for (to, request) in messages {
            let (to, request) = sendable(to, request);
            let sent = self.client.deliver(&to, &request, id).await;
            sent.map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}

/// The pollers that run.
#[derive(Default)]
struct Pollers {
    tasks: JoinSet<()>,
    kinds: HashMap<Id, Poller>,
}

impl Pollers {
    fn begin(&mut self, kind: Poller, poll: impl Future<Output = ()> + Send + 'static) {
        let id = self.tasks.spawn(poll).id();
        self.kinds.insert(id, kind);
    }

    /// Waits until a poller panics, and returns what it took. None when no poller is left.
    async fn panicked(&mut self) -> Option<(Poller, JoinError)> {
        loop {
            let (id, error) = match self.tasks.join_next_with_id().await? {
                Ok((id, ())) => (id, None),
                Err(error) => (error.id(), Some(error)),
            };
            let kind = self.kinds.remove(&id);
            if let (Some(kind), Some(error)) = (kind, error) {
                return Some((kind, error));
            }
        }
    }
}

enum Polled {
    Task(Option<PollWorkflowTaskQueueResponse>),
    Delivery(Option<PollActivityTaskQueueResponse>),
}

/// Applies events once and in order.
struct Reader {
    /// The last event of the task.
    last: i64,
    record: Record,
}

impl Reader {
    fn take(&mut self, event: &HistoryEvent) {
        if event.event_id <= self.record.last_event || event.event_id > self.last {
            return;
        }
        self.record.apply(event);
    }
}

/// Half of the pollers take tasks of executions in memory, at least one each.
fn kinds(concurrency: usize) -> Vec<Poller> {
    let shared = concurrency.div_ceil(2);
    let own = (concurrency - shared).max(1);
    let mut kinds = vec![Poller::Shared; shared];
    kinds.extend(vec![Poller::Own; own]);
    kinds.extend(vec![Poller::Delivery; DELIVERIES]);
    kinds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_poller_that_panicked_is_replaced_by_one_of_its_kind() {
        let mut pollers = Pollers::default();
        pollers.begin(Poller::Own, std::future::pending());
        pollers.begin(Poller::Shared, async {});
        pollers.begin(Poller::Delivery, async { panic!("a defect") });
        let (kind, error) = pollers.panicked().await.unwrap();
        assert_eq!(kind, Poller::Delivery);
        assert!(error.is_panic());
        assert_eq!(pollers.kinds.values().collect::<Vec<_>>(), [&Poller::Own]);
    }
}
