//! The calls of a host: workflow tasks and deliveries in, commands and messages out.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use stateway_hosted::message::{ObjectRequest, Work};
use stateway_hosted::provider::ObjectKind;
use stateway_provider_api::adapter::SkippingClock;
use stateway_provider_api::{Call, ErrorKind, Result, Verb};

use super::HostConfig;
use super::objects::{SIGNAL, TASK_TIMEOUT, payloads, workflow_id, workflow_type};
use super::record::{Keep, Record};
use crate::ConfigError;
use crate::api::common::v1::{WorkflowExecution, WorkflowType};
use crate::api::enums::v1::{
    QueryResultType, TaskQueueKind, WorkflowExecutionStatus, WorkflowIdReusePolicy,
    WorkflowTaskFailedCause,
};
use crate::api::failure::v1::Failure;
use crate::api::history::v1::HistoryEvent;
use crate::api::taskqueue::v1::{StickyExecutionAttributes, TaskQueue};
use crate::api::workflowservice::v1 as rpc;
use crate::client::{Ask, Client};
use crate::time::proto_duration;

/// How long a poll may take. The server answers after a minute.
const POLL: Duration = Duration::from_secs(75);
/// How long any other call may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a task waits for the host that has its execution in memory, before any host may take it.
const STICKY: Duration = Duration::from_secs(3);
/// How many events are read at a time.
const EVENTS_PER_READ: i32 = 1_000;

/// The connection of a host.
pub struct TaskClient {
    client: Client,
    queue: String,
    sticky_queue: String,
}

impl TaskClient {
    /// The connection of a host with this name, which is unlike the names of other hosts. Nothing is asked of the
    /// server yet.
    ///
    /// # Errors
    /// A configuration that cannot be used.
    pub fn new(config: &HostConfig, name: &str) -> std::result::Result<Self, ConfigError> {
        config.check()?;
        // Every task is polled for on the shared queue or on the host's own, and deliveries besides.
        let polls = config.host.concurrency * 2;
        Ok(Self {
            client: Client::new(&config.temporal(polls), &SkippingClock::default())?,
            queue: config.host.task_queue.clone(),
            sticky_queue: format!("{}:{name}", config.host.task_queue),
        })
    }

    /// Asks the server for its version.
    ///
    /// # Errors
    /// The server does not answer.
    pub async fn server_version(&self) -> Result<String> {
        let call = Call::within(PATIENCE);
        let info = self
            .client
            .get_system_info(ask(&call), rpc::GetSystemInfoRequest {});
        Ok(info.await?.server_version)
    }

    /// The task queue of the workflows.
    #[must_use]
    pub fn queue(&self) -> TaskQueue {
        TaskQueue {
            name: self.queue.clone(),
            kind: TaskQueueKind::Normal as i32,
            normal_name: String::new(),
        }
    }

    /// The queue of tasks of executions that this host has in memory.
    fn sticky(&self) -> TaskQueue {
        TaskQueue {
            name: self.sticky_queue.clone(),
            kind: TaskQueueKind::Sticky as i32,
            normal_name: self.queue.clone(),
        }
    }

    /// Waits for a workflow task, for about a minute.
    ///
    /// # Errors
    /// The server does not answer, or refuses.
    pub async fn poll(
        &self,
        is_sticky: bool,
    ) -> Result<Option<rpc::PollWorkflowTaskQueueResponse>> {
        let call = Call::within(POLL);
        let queue = if is_sticky {
            self.sticky()
        } else {
            self.queue()
        };
        let request = rpc::PollWorkflowTaskQueueRequest {
            namespace: self.client.namespace(),
            task_queue: Some(queue),
            identity: self.client.identity(&call),
        };
        let task = self.client.poll_workflow_task_queue(ask(&call), request);
        let task = task.await?;
        Ok(Some(task).filter(|task| !task.task_token.is_empty()))
    }

    /// The events of a run that follow those of a page, or all.
    ///
    /// # Errors
    /// The server does not answer, or the run does not exist.
    pub async fn events(
        &self,
        execution: WorkflowExecution,
        mut page: Vec<u8>,
        mut take: impl FnMut(&HistoryEvent) + Send,
    ) -> Result<()> {
        loop {
            let call = Call::within(PATIENCE);
            let request = rpc::GetWorkflowExecutionHistoryRequest {
                namespace: self.client.namespace(),
                execution: Some(execution.clone()),
                maximum_page_size: EVENTS_PER_READ,
                next_page_token: page,
                ..Default::default()
            };
            let found = self
                .client
                .get_workflow_execution_history(ask(&call), request);
            let found = found.await?;
            let history = found.history.unwrap_or_default();
            history.events.iter().for_each(&mut take);
            page = found.next_page_token;
            if page.is_empty() {
                return Ok(());
            }
        }
    }

    /// Every value of a run.
    ///
    /// # Errors
    /// The server does not answer, or the run does not exist.
    pub async fn values(&self, workflow: &str, run: &str) -> Result<BTreeMap<String, Bytes>> {
        let execution = WorkflowExecution {
            workflow_id: workflow.to_owned(),
            run_id: run.to_owned(),
        };
        let mut record = Record::keeping(Keep::All);
        self.events(execution, Vec::new(), |event| {
            record.apply(event);
        })
        .await?;
        Ok(record.values)
    }

    /// Answers a workflow task. Returns the event after which the server continues, if it left out the
    /// task, or 0.
    ///
    /// # Errors
    /// The server does not answer, or refuses: another host may have the task, or an event came in between.
    pub async fn complete(
        &self,
        answer: rpc::RespondWorkflowTaskCompletedRequest,
        stays: bool,
    ) -> Result<i64> {
        let call = Call::within(PATIENCE);
        let request = rpc::RespondWorkflowTaskCompletedRequest {
            identity: self.client.identity(&call),
            namespace: self.client.namespace(),
            sticky_attributes: stays.then(|| StickyExecutionAttributes {
                worker_task_queue: Some(self.sticky()),
                schedule_to_start_timeout: proto_duration(STICKY),
            }),
            ..answer
        };
        let client = &self.client;
        let answer = client.respond_workflow_task_completed(ask(&call), request);
        Ok(answer.await?.reset_history_event_id)
    }

    /// Gives a workflow task back because it cannot be handled.
    ///
    /// # Errors
    /// The server does not answer, or refuses.
    pub async fn fail(&self, task_token: Vec<u8>, why: &str) -> Result<()> {
        let call = Call::within(PATIENCE);
        let request = rpc::RespondWorkflowTaskFailedRequest {
            task_token,
            cause: WorkflowTaskFailedCause::WorkflowWorkerUnhandledFailure as i32,
            failure: Some(failure(why)),
            identity: self.client.identity(&call),
            namespace: self.client.namespace(),
        };
        let client = &self.client;
        let answer = client.respond_workflow_task_failed(ask(&call), request);
        answer.await.map(drop)
    }

    /// Refuses a query: executions are read without a host.
    ///
    /// # Errors
    /// The server does not answer, or refuses.
    pub async fn refuse_query(&self, task_token: Vec<u8>) -> Result<()> {
        let call = Call::within(PATIENCE);
        let request = rpc::RespondQueryTaskCompletedRequest {
            task_token,
            completed_type: QueryResultType::Failed as i32,
            error_message: "a host of Stateway answers no queries; the memo has the view"
                .to_owned(),
            namespace: self.client.namespace(),
        };
        let client = &self.client;
        let answer = client.respond_query_task_completed(ask(&call), request);
        answer.await.map(drop)
    }

    /// Waits for a message that is to be delivered, for about a minute.
    ///
    /// # Errors
    /// The server does not answer, or refuses.
    pub async fn poll_delivery(&self) -> Result<Option<rpc::PollActivityTaskQueueResponse>> {
        let call = Call::within(POLL);
        let request = rpc::PollActivityTaskQueueRequest {
            namespace: self.client.namespace(),
            task_queue: Some(self.queue()),
            identity: self.client.identity(&call),
        };
        let task = self.client.poll_activity_task_queue(ask(&call), request);
        let task = task.await?;
        Ok(Some(task).filter(|task| !task.task_token.is_empty()))
    }

    /// Reports that a message was delivered, or why not: then the server gives it to a host again.
    ///
    /// # Errors
    /// The server does not answer, or refuses.
    pub async fn delivered(
        &self,
        task_token: Vec<u8>,
        outcome: std::result::Result<(), String>,
    ) -> Result<()> {
        let call = Call::within(PATIENCE);
        let (identity, namespace) = (self.client.identity(&call), self.client.namespace());
        let client = &self.client;
        match outcome {
            Ok(()) => {
                let request = rpc::RespondActivityTaskCompletedRequest {
                    task_token,
                    identity,
                    namespace,
                };
                let answer = client.respond_activity_task_completed(ask(&call), request);
                answer.await.map(drop)
            }
            Err(why) => {
                let request = rpc::RespondActivityTaskFailedRequest {
                    task_token,
                    failure: Some(failure(&why)),
                    identity,
                    namespace,
                };
                let answer = client.respond_activity_task_failed(ask(&call), request);
                answer.await.map(drop)
            }
        }
    }

    /// A field of the memo of an object that exists.
    ///
    /// # Errors
    /// The server does not answer.
    pub async fn memo(&self, object: (ObjectKind, &str), field: &str) -> Result<Option<Bytes>> {
        let call = Call::within(PATIENCE);
        memo(&self.client, ask(&call), object, field).await
    }

    /// Delivers a message to an execution. The same message has the same id and arrives once.
    ///
    /// # Errors
    /// The server does not answer, or refuses.
    pub async fn deliver(&self, to: &str, message: &ObjectRequest, id: &str) -> Result<()> {
        let call = Call::within(PATIENCE);
        let kind = ObjectKind::Execution;
        let input = serde_json::to_vec(message).unwrap_or_default();
        let input = Some(payloads(input));
        let (namespace, identity) = (self.client.namespace(), self.client.identity(&call));
        // Only these messages may find no execution: a child that is to be started, or was ended before.
        if matches!(message.work, Work::Start(_) | Work::EndChild { .. }) {
            let request = rpc::SignalWithStartWorkflowExecutionRequest {
                namespace,
                workflow_id: workflow_id(kind, to),
                workflow_type: Some(WorkflowType {
                    name: workflow_type(kind).to_owned(),
                }),
                task_queue: Some(self.queue()),
                workflow_task_timeout: proto_duration(TASK_TIMEOUT),
                identity,
                request_id: id.to_owned(),
                workflow_id_reuse_policy: WorkflowIdReusePolicy::AllowDuplicate as i32,
                signal_name: SIGNAL.to_owned(),
                signal_input: input,
            };
            let client = &self.client;
            let sent = client.signal_with_start_workflow_execution(ask(&call), request);
            return sent.await.map(drop);
        }
        let request = rpc::SignalWorkflowExecutionRequest {
            namespace,
            workflow_execution: Some(WorkflowExecution {
                workflow_id: workflow_id(kind, to),
                run_id: String::new(),
            }),
            signal_name: SIGNAL.to_owned(),
            input,
            identity,
            request_id: id.to_owned(),
        };
        match self
            .client
            .signal_workflow_execution(ask(&call), request)
            .await
        {
            // The parent was removed.
            Err(error) if error.kind == ErrorKind::NotFound => Ok(()),
            sent => sent.map(drop),
        }
    }
}

fn ask(call: &Call) -> Ask<'_> {
    Ask {
        call,
        verb: Verb::Work,
    }
}

fn failure(why: &str) -> Failure {
    Failure {
        message: why.to_owned(),
        source: "stateway".to_owned(),
        ..Failure::default()
    }
}

/// A field of the memo of an object whose workflow is open.
pub(super) async fn memo(
    client: &Client,
    ask: Ask<'_>,
    (kind, key): (ObjectKind, &str),
    field: &str,
) -> Result<Option<Bytes>> {
    let request = rpc::DescribeWorkflowExecutionRequest {
        namespace: client.namespace(),
        execution: Some(WorkflowExecution {
            workflow_id: workflow_id(kind, key),
            run_id: String::new(),
        }),
    };
    let found = match client.describe_workflow_execution(ask, request).await {
        Ok(found) => found,
        Err(error) if error.kind == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let info = found.workflow_execution_info;
    let info = info.filter(|info| {
        let open = [
            WorkflowExecutionStatus::Running,
            WorkflowExecutionStatus::Paused,
        ];
        open.contains(&info.status())
    });
    let memo = info.and_then(|info| info.memo);
    let found = memo.and_then(|memo| memo.fields.get(field).cloned());
    Ok(found.map(|payload| payload.data))
}
