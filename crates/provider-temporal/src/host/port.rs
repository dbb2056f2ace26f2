//! Requests to objects, and their values as providers read them.
//!
//! | request | call |
//! |---|---|
//! | starts an execution, or is for a definition | an update, which starts the workflow if it is not open |
//! | anything else | an update |
//!
//! The first argument of a workflow is the request that starts the execution. So a start that no host answers
//! is carried out when a host returns; the update then only asks for the answer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt as _;
use jiff::Timestamp;
use serde::Deserialize;
use stateway_hosted::definition_object::CURRENT;
use stateway_hosted::message::{ObjectAnswer, ObjectRequest, Refusal, Work};
use stateway_hosted::object::VIEW;
use stateway_hosted::portability::{EngineLimits, RunLimits};
use stateway_hosted::provider::{
    HostPort, HostedProvider, ObjectKind, Pace, StoredValue, ViewQuery,
};
use stateway_model::SubState;
use stateway_provider_api::adapter::SkippingClock;
use stateway_provider_api::{Call, Error, ErrorKind, Health, Result, Table, Verb};

use super::HostConfig;
use super::objects::{
    FIRST_RUN, LATER_RUN, MAX_OBJECT_BYTES, MAX_STORED_BYTES, MAX_VALUE_BYTES, OPEN, PERSON, TAGS,
    TASK_TIMEOUT, UPDATE, definition_tag, fork_tag, in_memo, object_of, payloads, state_tag,
    workflow_id, workflow_type,
};
use super::record::{Keep, MOST_UPDATES, Record};
use super::tasks::memo;
use crate::ConfigError;
use crate::api::common::v1::{WorkflowExecution, WorkflowType};
use crate::api::enums::v1::{
    TaskQueueType, UpdateWorkflowExecutionLifecycleStage as Stage, WorkflowIdConflictPolicy,
    WorkflowIdReusePolicy,
};
use crate::api::taskqueue::v1::TaskQueue;
use crate::api::update::v1::outcome::Value;
use crate::api::update::v1::{Input, Meta, Outcome, Request, UpdateRef, WaitPolicy};
use crate::api::workflow::v1::WorkflowExecutionInfo;
use crate::api::workflowservice::v1 as rpc;
use crate::api::workflowservice::v1::execute_multi_operation_request::{Operation, operation};
use crate::api::workflowservice::v1::execute_multi_operation_response::response;
use crate::client::{Ask, Client};
use crate::error::malformed;
use crate::query::quoted;
use crate::quota::Api;
use crate::time::{proto_duration, timestamp};

/// The reason of the refusal of a request that is sent again.
const BUSY: &str = "EXECUTION_BUSY";
/// The first and the longest pause before a request that the server could not take is sent again.
const PAUSE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(500));
/// How many objects are described at a time. Beyond this many, a list is read, which may be older by a moment.
const DESCRIBED: usize = 64;
const AT_ONCE: usize = 16;
/// How many workflows one query names.
const NAMED: usize = 200;
/// The most rows of one page; the server gives no more.
const LONGEST_PAGE: usize = 1_000;
/// How many events are read at a time.
const EVENTS_PER_READ: i32 = 1_000;
/// How long the question may take whether a host runs.
const ASKING: Duration = Duration::from_secs(2);
/// A host that has polled since then runs.
const RECENTLY: Duration = Duration::from_secs(120);

/// A provider of portable executions inside Temporal.
pub type TemporalHostedProvider = HostedProvider<TemporalPort>;

/// A provider on this server. Nothing is asked of the server yet.
///
/// # Errors
/// A configuration that cannot be used.
pub fn hosted_provider(
    config: &HostConfig,
    table: Arc<Table>,
) -> std::result::Result<TemporalHostedProvider, ConfigError> {
    let provider = HostedProvider::new(TemporalPort::new(config)?, table);
    Ok(provider.with_escalation_roles(config.roles()?))
}

/// A namespace of a Temporal cluster with a host.
pub struct TemporalPort {
    client: Client,
    queue: String,
    /// The beginning of the ids of updates, and their number.
    name: String,
    updates: AtomicU64,
}

impl TemporalPort {
    /// A port on this server. Nothing is asked of the server yet.
    ///
    /// # Errors
    /// A configuration that cannot be used.
    pub fn new(config: &HostConfig) -> std::result::Result<Self, ConfigError> {
        config.check()?;
        let began = Timestamp::now().as_nanosecond();
        Ok(Self {
            client: Client::new(&config.temporal(1), &SkippingClock::default())?,
            queue: config.host.task_queue.clone(),
            name: format!("{}-{began:x}", std::process::id()),
            updates: AtomicU64::new(0),
        })
    }

    /// A name for an update that no other one has. Repeated requests are recognised by the object: an update that
    /// the server repeats would hide a request id that is used for another request.
    fn update_id(&self) -> String {
        let number = self.updates.fetch_add(1, Ordering::Relaxed);
        format!("{}-{number}", self.name)
    }

    fn task_queue(&self) -> Option<TaskQueue> {
        Some(TaskQueue {
            name: self.queue.clone(),
            ..TaskQueue::default()
        })
    }

    fn update(
        &self,
        ask: Ask<'_>,
        workflow_id: &str,
        id: &str,
        request: &Bytes,
    ) -> rpc::UpdateWorkflowExecutionRequest {
        rpc::UpdateWorkflowExecutionRequest {
            namespace: self.client.namespace(),
            workflow_execution: Some(WorkflowExecution {
                workflow_id: workflow_id.to_owned(),
                run_id: String::new(),
            }),
            first_execution_run_id: String::new(),
            wait_policy: Some(WaitPolicy {
                lifecycle_stage: Stage::Completed as i32,
            }),
            request: Some(Request {
                meta: Some(Meta {
                    update_id: id.to_owned(),
                    identity: self.client.identity(ask.call),
                }),
                input: Some(Input {
                    name: UPDATE.to_owned(),
                    args: Some(payloads(request.clone())),
                }),
            }),
        }
    }

    /// Sends an update once. The answer has no outcome when the server stopped waiting for it.
    async fn try_update(
        &self,
        ask: Ask<'_>,
        (kind, key): (ObjectKind, &str),
        (id, request, starts): (&str, &Bytes, bool),
    ) -> Result<rpc::UpdateWorkflowExecutionResponse> {
        let workflow_id = workflow_id(kind, key);
        let update = self.update(ask, &workflow_id, id, request);
        if !starts {
            return self.client.update_workflow_execution(ask, update).await;
        }
        let start = rpc::StartWorkflowExecutionRequest {
            namespace: self.client.namespace(),
            workflow_id,
            workflow_type: Some(WorkflowType {
                name: workflow_type(kind).to_owned(),
            }),
            task_queue: self.task_queue(),
            // A definition does not begin with a request: it would answer the update as a repetition.
            input: (kind == ObjectKind::Execution).then(|| payloads(request.clone())),
            workflow_task_timeout: proto_duration(TASK_TIMEOUT),
            identity: self.client.identity(ask.call),
            request_id: id.to_owned(),
            workflow_id_reuse_policy: WorkflowIdReusePolicy::AllowDuplicate as i32,
            workflow_id_conflict_policy: WorkflowIdConflictPolicy::UseExisting as i32,
            ..Default::default()
        };
        let operations = [
            operation::Operation::StartWorkflow(start),
            operation::Operation::UpdateWorkflow(update),
        ];
        let both = rpc::ExecuteMultiOperationRequest {
            namespace: self.client.namespace(),
            operations: operations
                .map(|operation| Operation {
                    operation: Some(operation),
                })
                .into(),
        };
        let answer = self.client.execute_multi_operation(ask, both).await?;
        let mut answers = answer.responses.into_iter();
        let updated = answers.find_map(|answer| match answer.response {
            Some(response::Response::UpdateWorkflow(updated)) => Some(updated),
            _ => None,
        });
        updated.ok_or_else(|| malformed(ask.verb, "it has no answer to the update"))
    }

    /// The error of a request that no host answered in time.
    async fn unanswered(&self, verb: Verb, error: Error) -> Error {
        let call = Call::within(ASKING);
        let ask = Ask { call: &call, verb };
        match self.has_host(ask).await {
            Ok(false) => Error::new(
                ErrorKind::Unavailable,
                verb,
                format!("no host polls the task queue `{}`", self.queue),
            )
            .with_reason("HOST_NOT_REGISTERED")
            .with_component("host")
            .with_retry_after(Duration::from_secs(1))
            .with_hint("Run `stateway host` for this provider. Reads work without it."),
            _ => error.with_hint(
                "The request was sent. Repeat it with the same request id to get its answer.",
            ),
        }
    }

    /// Whether a host has polled recently.
    async fn has_host(&self, ask: Ask<'_>) -> Result<bool> {
        let request = rpc::DescribeTaskQueueRequest {
            namespace: self.client.namespace(),
            task_queue: self.task_queue(),
            task_queue_type: TaskQueueType::Workflow as i32,
            report_stats: false,
        };
        let found = self.client.describe_task_queue(ask, request).await?;
        let now = Timestamp::now();
        Ok(found.pollers.iter().any(|poller| {
            let polled = timestamp(poller.last_access_time.as_ref());
            polled.is_some_and(|at| now.duration_since(at).unsigned_abs() < RECENTLY)
        }))
    }

    /// Every value of an object; none when it does not exist.
    async fn record(
        &self,
        ask: Ask<'_>,
        (kind, key): (ObjectKind, &str),
    ) -> Result<Option<BTreeMap<String, Bytes>>> {
        let workflow_id = workflow_id(kind, key);
        let found = self.read_run(ask, &workflow_id, String::new()).await;
        let mut record = match found {
            Ok(record) => record,
            Err(error) if error.kind == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut earlier = record.earlier.take();
        while let Some(run) = earlier {
            let before = self.read_run(ask, &workflow_id, run).await?;
            for (key, value) in before.values {
                record.values.entry(key).or_insert(value);
            }
            earlier = before.earlier;
        }
        Ok(Some(record.values))
    }

    async fn read_run(&self, ask: Ask<'_>, workflow_id: &str, run_id: String) -> Result<Record> {
        let mut record = Record::keeping(Keep::All);
        let mut page = Vec::new();
        loop {
            self.client.turn(ask, Api::Reads).await?;
            let request = rpc::GetWorkflowExecutionHistoryRequest {
                namespace: self.client.namespace(),
                execution: Some(WorkflowExecution {
                    workflow_id: workflow_id.to_owned(),
                    run_id: run_id.clone(),
                }),
                maximum_page_size: EVENTS_PER_READ,
                next_page_token: page,
                ..Default::default()
            };
            let found = self.client.get_workflow_execution_history(ask, request);
            let found = found.await?;
            for event in found.history.iter().flat_map(|history| &history.events) {
                record.apply(event);
            }
            page = found.next_page_token;
            if page.is_empty() {
                return Ok(record);
            }
        }
    }

    /// One page of open workflows.
    async fn page(
        &self,
        ask: Ask<'_>,
        query: &str,
        size: usize,
        page: Vec<u8>,
    ) -> Result<(Vec<WorkflowExecutionInfo>, Vec<u8>)> {
        self.client.turn(ask, Api::Visibility).await?;
        let request = rpc::ListWorkflowExecutionsRequest {
            namespace: self.client.namespace(),
            page_size: i32::try_from(size.min(LONGEST_PAGE)).unwrap_or(i32::MAX),
            next_page_token: page,
            query: query.to_owned(),
        };
        let found = self.client.list_workflow_executions(ask, request).await?;
        Ok((found.executions, found.next_page_token))
    }

    /// All open workflows that a query finds, as far as they have this field in their memo.
    async fn all(&self, ask: Ask<'_>, query: &str, field: &str) -> Result<Vec<StoredValue>> {
        let (mut found, mut next) = (Vec::new(), Vec::new());
        loop {
            let (rows, after) = self.page(ask, query, LONGEST_PAGE, next).await?;
            found.extend(rows.iter().filter_map(|row| stored(row, field)));
            next = after;
            if next.is_empty() {
                return Ok(found);
            }
        }
    }

    /// The views of first runs from a time on backwards, at least as many as wanted if there are.
    /// The server lists open runs by the time of their start, which is the time of the creation.
    async fn first_runs(
        &self,
        ask: Ask<'_>,
        terms: &str,
        query: &ViewQuery,
    ) -> Result<Vec<StoredValue>> {
        let mut terms = format!("{terms} AND {TAGS} = '{FIRST_RUN}'");
        if let Some((created, _)) = &query.before {
            let until = Timestamp::from_millisecond(created.saturating_add(1)).ok();
            if let Some(until) = until {
                terms.push_str(&format!(" AND StartTime <= '{until}'"));
            }
        }
        let (mut found, mut next): (Vec<StoredValue>, _) = (Vec::new(), Vec::new());
        loop {
            let size = query.limit.saturating_add(1);
            let (rows, after) = self.page(ask, &terms, size, next).await?;
            let rows = rows.iter().filter_map(|row| stored(row, VIEW));
            found.extend(rows.filter(|row| is_after(row, query.before.as_ref())));
            next = after;
            // Executions of the same millisecond come in any order, so all of them are read.
            let last = found.last().map(created);
            let is_enough = match query.limit.checked_sub(1) {
                Some(at) => found.get(at).map(created) > last && last.is_some(),
                None => true,
            };
            if next.is_empty() || is_enough {
                return Ok(found);
            }
        }
    }
}

/// The field of the memo of a row, with the key of its object.
fn stored(row: &WorkflowExecutionInfo, field: &str) -> Option<StoredValue> {
    let workflow_id = &row.execution.as_ref()?.workflow_id;
    let (_, key) = object_of(&row.r#type.as_ref()?.name, workflow_id)?;
    let value = row.memo.as_ref()?.fields.get(field)?;
    Some(StoredValue {
        object: key.to_owned(),
        key: field.to_owned(),
        value: value.data.to_vec(),
    })
}

/// The milliseconds of the creation of an execution, from its view.
fn created(view: &StoredValue) -> i64 {
    #[derive(Deserialize)]
    struct Created {
        n: i64,
    }
    let found: Option<Created> = serde_json::from_slice(&view.value).ok();
    found.map_or(0, |found| found.n)
}

/// Whether a view comes after a place in the order of lists.
fn is_after(view: &StoredValue, before: Option<&(i64, String)>) -> bool {
    before.is_none_or(|(n, id)| (created(view), &view.object) < (*n, id))
}

/// The conditions of a list query, in the query language of Temporal.
fn terms(query: &ViewQuery) -> String {
    let mut terms = open(ObjectKind::Execution);
    let mut tag = |tag: &str| terms.push_str(&format!(" AND {TAGS} = {}", quoted(tag)));
    if query.open_only {
        tag(OPEN);
    }
    if query.awaits_person {
        tag(PERSON);
    }
    if let Some(definition) = &query.definition {
        tag(&definition_tag(definition));
    }
    if let Some(source) = &query.forked_from {
        tag(&fork_tag(source));
    }
    terms
}

/// The open workflows of a kind of object.
fn open(kind: ObjectKind) -> String {
    let name = workflow_type(kind);
    format!("WorkflowType = '{name}' AND ExecutionStatus = 'Running'")
}

/// The answer that an outcome carries. What is refused, or changes nothing, is a rejection, so that it leaves no
/// events; then the answer is in the failure.
fn answer(verb: Verb, outcome: Outcome) -> Result<Vec<u8>> {
    match outcome.value {
        Some(Value::Success(answer)) => {
            let first = answer.payloads.into_iter().next();
            let first = first.ok_or_else(|| malformed(verb, "the update has no answer"))?;
            Ok(first.data.to_vec())
        }
        Some(Value::Failure(failure)) => match failure.encoded_attributes {
            Some(answer) => Ok(answer.data.to_vec()),
            // The server's own words, for example when the host did not handle the update.
            None => Err(Error::new(ErrorKind::Unavailable, verb, failure.message)),
        },
        None => Err(malformed(verb, "the update has no outcome")),
    }
}

/// The answer of an execution that does not exist.
fn not_found(key: &str) -> Vec<u8> {
    let refusal = Refusal {
        kind: ErrorKind::NotFound.as_str().to_owned(),
        reason: "EXECUTION_NOT_FOUND".to_owned(),
        message: format!("there is no execution `{key}`"),
        hint: String::new(),
    };
    serde_json::to_vec(&ObjectAnswer::Refused(refusal)).unwrap_or_default()
}

/// Whether the server could not take the request at this moment, though it works: too many requests to one
/// workflow, or the workflow just continued in another run.
fn is_momentary(error: &Error) -> bool {
    error.kind == ErrorKind::Throttled || error.native_code == "ABORTED"
}

/// Whether the host could not handle the request in its task: others were too large together with it, or it has to
/// wait for messages that are under way. Nothing was changed.
fn is_busy(answer: &Result<Vec<u8>>) -> bool {
    /// Longer answers are not read to find that out.
    const LONGEST: usize = 4_096;
    match answer {
        Ok(answer) if answer.len() <= LONGEST => {
            let answer = serde_json::from_slice(answer);
            matches!(answer, Ok(ObjectAnswer::Refused(it)) if it.reason == BUSY)
        }
        Ok(_) => false,
        Err(error) => error.kind == ErrorKind::Unavailable,
    }
}

#[async_trait]
impl HostPort for TemporalPort {
    fn has_schedules(&self) -> bool {
        true
    }

    fn limits(&self) -> EngineLimits {
        EngineLimits {
            engine: "Temporal",
            // A definition is smaller than that in any case.
            source_bytes: None,
            stored_bytes: Some(MAX_STORED_BYTES),
            stores_messages: false,
            state_bytes: Some(MAX_VALUE_BYTES),
            log_bytes: Some(MAX_OBJECT_BYTES as u64),
            runs: Some(RunLimits {
                run: "run of the workflow",
                requests: MOST_UPDATES.into(),
                events: 51_200,
                days: None,
            }),
        }
    }

    /// A renewal adds several events to the history of the workflow.
    fn pace(&self) -> Pace {
        Pace {
            lease: Duration::from_secs(60),
            renew: Duration::from_secs(20),
        }
    }

    async fn health(&self, call: &Call) -> Result<Health> {
        let ask = Ask {
            call,
            verb: Verb::Health,
        };
        let namespace = rpc::DescribeNamespaceRequest {
            namespace: self.client.namespace(),
        };
        self.client.describe_namespace(ask, namespace).await?;
        let info = self
            .client
            .get_system_info(ask, rpc::GetSystemInfoRequest {});
        let engine_version = info.await?.server_version;
        let detail = if self.has_host(ask).await? {
            String::new()
        } else {
            let queue = &self.queue;
            format!(
                "no host polls the task queue `{queue}`, so every write fails: run `stateway host`"
            )
        };
        Ok(Health {
            engine_version,
            detail,
        })
    }

    async fn send(
        &self,
        call: &Call,
        verb: Verb,
        object: (ObjectKind, &str),
        request: Vec<u8>,
    ) -> Result<Vec<u8>> {
        let ask = Ask { call, verb };
        let work = match object.0 {
            ObjectKind::Execution => serde_json::from_slice::<ObjectRequest>(&request).ok(),
            ObjectKind::Definition => None,
        };
        let work = work.map(|request| request.work);
        let starts = object.0 == ObjectKind::Definition
            || matches!(work, Some(Work::Start(_) | Work::Fork(_)));
        let (mut id, request) = (self.update_id(), Bytes::from(request));
        let mut pause = PAUSE.0;
        let (answer, run) = loop {
            let sent = self.try_update(ask, object, (&id, &request, starts));
            match sent.await {
                Ok(answer) => {
                    if let Some(outcome) = answer.outcome {
                        let run = answer.update_ref.unwrap_or_default();
                        let answer = self::answer(verb, outcome);
                        if !is_busy(&answer) || call.remaining() <= pause {
                            break (answer?, run);
                        }
                        id = self.update_id();
                    }
                }
                Err(error) if error.kind == ErrorKind::NotFound && !starts => {
                    return Ok(not_found(object.1));
                }
                Err(error) if error.kind == ErrorKind::Timeout => {
                    return Err(self.unanswered(verb, error).await);
                }
                Err(error) if !is_momentary(&error) || call.remaining() <= pause => {
                    return Err(error);
                }
                Err(_) => {}
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE.1);
        };
        if matches!(work, Some(Work::Purge)) && is_done(&answer) {
            self.delete(ask, run).await?;
        }
        Ok(answer)
    }

    async fn values(
        &self,
        call: &Call,
        verb: Verb,
        (kind, objects): (ObjectKind, &[&str]),
        key: &str,
    ) -> Result<Vec<StoredValue>> {
        let ask = Ask { call, verb };
        if in_memo(key) && objects.len() > DESCRIBED {
            let mut found = Vec::new();
            for objects in objects.chunks(NAMED) {
                let ids = objects.iter().map(|it| quoted(&workflow_id(kind, it)));
                let ids: Vec<_> = ids.collect();
                let query = format!("{} AND WorkflowId IN ({})", open(kind), ids.join(", "));
                found.extend(self.all(ask, &query, key).await?);
            }
            return Ok(found);
        }
        let one = |object: String| async move {
            let value = if in_memo(key) {
                self.client.turn(ask, Api::Reads).await?;
                memo(&self.client, ask, (kind, &object), key).await?
            } else {
                let mut values = self.record(ask, (kind, &object)).await?;
                values.as_mut().and_then(|values| values.remove(key))
            };
            Ok::<_, Error>(value.map(|value| StoredValue {
                object,
                key: key.to_owned(),
                value: value.to_vec(),
            }))
        };
        let objects: Vec<_> = objects.iter().map(|object| (*object).to_owned()).collect();
        let reads = futures::stream::iter(objects.into_iter().map(one));
        let mut reads = reads.buffered(AT_ONCE);
        let mut found = Vec::new();
        while let Some(value) = reads.next().await {
            found.extend(value?);
        }
        Ok(found)
    }

    async fn values_from(
        &self,
        call: &Call,
        verb: Verb,
        object: (ObjectKind, &str),
        (prefix, from, limit): (&str, &str, usize),
    ) -> Result<Vec<StoredValue>> {
        let found = self.record(Ask { call, verb }, object).await?;
        let found = found.unwrap_or_default().into_iter();
        let found = found.filter(|(key, _)| key.starts_with(prefix) && key.as_str() >= from);
        let found = found.take(limit).map(|(key, value)| StoredValue {
            object: object.1.to_owned(),
            key,
            value: value.to_vec(),
        });
        Ok(found.collect())
    }

    async fn views(&self, call: &Call, verb: Verb, query: &ViewQuery) -> Result<Vec<StoredValue>> {
        let ask = Ask { call, verb };
        let terms = terms(query);
        let mut found = self.first_runs(ask, &terms, query).await?;
        // The start of a later run is not the creation of its execution. There are few of these: an execution
        // continues in another run after hundreds of commands.
        let later = format!("{terms} AND {TAGS} = '{LATER_RUN}'");
        let later = self.all(ask, &later, VIEW).await?;
        found.extend(
            later
                .into_iter()
                .filter(|row| is_after(row, query.before.as_ref())),
        );
        found.sort_by_cached_key(|row| std::cmp::Reverse((created(row), row.object.clone())));
        // An execution that continued while the two lists were read is in both.
        found.dedup_by(|one, other| one.object == other.object);
        found.truncate(query.limit);
        Ok(found)
    }

    async fn counts(&self, call: &Call) -> Result<Vec<(String, u64)>> {
        let ask = Ask {
            call,
            verb: Verb::Count,
        };
        let open = open(ObjectKind::Execution);
        let count = |state: SubState| {
            let tag = quoted(&state_tag(state.as_str()));
            let query = format!("{open} AND {TAGS} = {tag}");
            async move {
                self.client.turn(ask, Api::Visibility).await?;
                let request = rpc::CountWorkflowExecutionsRequest {
                    namespace: self.client.namespace(),
                    query,
                };
                let found = self.client.count_workflow_executions(ask, request).await?;
                let count = u64::try_from(found.count).unwrap_or_default();
                Ok::<_, Error>((state.as_str().to_owned(), count))
            }
        };
        let counts = futures::future::try_join_all(SubState::ALL.iter().copied().map(count));
        let mut counts = counts.await?;
        counts.retain(|(_, count)| *count > 0);
        Ok(counts)
    }

    async fn definitions(
        &self,
        call: &Call,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<StoredValue>> {
        let ask = Ask {
            call,
            verb: Verb::PortableDefinitions,
        };
        let open = open(ObjectKind::Definition);
        let mut found = self.all(ask, &open, CURRENT).await?;
        found.retain(|row| after.is_none_or(|after| row.object.as_str() > after));
        found.sort_by(|one, other| one.object.cmp(&other.object));
        found.truncate(limit);
        Ok(found)
    }
}

impl TemporalPort {
    /// Deletes the run that has carried out a purge. Another run of the same name is another execution.
    async fn delete(&self, ask: Ask<'_>, purged: UpdateRef) -> Result<()> {
        let request = rpc::DeleteWorkflowExecutionRequest {
            namespace: self.client.namespace(),
            workflow_execution: purged.workflow_execution,
        };
        match self.client.delete_workflow_execution(ask, request).await {
            Err(error) if error.kind == ErrorKind::NotFound => Ok(()),
            deleted => deleted.map(drop),
        }
    }
}

/// Whether a request was carried out.
fn is_done(answer: &[u8]) -> bool {
    matches!(serde_json::from_slice(answer), Ok(ObjectAnswer::Done(_)))
}
