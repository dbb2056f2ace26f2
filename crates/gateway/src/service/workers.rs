//! `stateway.v1.Workers`.

mod activity;
mod list;
mod message;
mod offer;
mod session;

use std::sync::Arc;
use std::time::Duration;

use stateway_model::{ExecutionName, ProviderId, encoded};
use stateway_proto::v1;
use stateway_proto::v1::stream_tasks_request::Message;
use stateway_proto::v1::workers_server::Workers as Service;
use stateway_provider_api::{
    ANONYMOUS, HeldTask, QueuedTasks, ScheduledStart, Verb, WorkQueue, WorkerStatus,
};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming};

use super::Shell;
use super::triggers::{definition_name, disabled};
use crate::access::ApiCall;
use crate::convert;
use crate::status::Refusal;
use crate::token::Sealer;
use crate::upstream::{CallError, Directory, Guarded, Topic};
pub(crate) use activity::Activities;
pub(crate) use session::Session;

/// How long a stream may be open before its offer comes.
const PATIENCE: Duration = Duration::from_secs(10);

/// The service over every provider for workers.
pub(crate) struct Workers {
    pub(crate) shell: Arc<Shell>,
    pub(crate) directory: Arc<Directory>,
    pub(crate) sealer: Arc<Sealer>,
    pub(crate) activities: Activities,
    pub(crate) stop: CancellationToken,
}

#[tonic::async_trait]
impl Service for Workers {
    type StreamTasksStream = Session;

    async fn stream_tasks(
        &self,
        request: Request<Streaming<v1::StreamTasksRequest>>,
    ) -> Result<Response<Session>, Status> {
        self.shell
            .open("StreamTasks", request, |call, stream| {
                self.open(call, stream)
            })
            .await
    }

    async fn list_workers(
        &self,
        request: Request<v1::ListWorkersRequest>,
    ) -> Result<Response<v1::ListWorkersResponse>, Status> {
        self.shell
            .run("ListWorkers", request, |call, message| {
                self.list(call, message)
            })
            .await
    }

    async fn get_queue(
        &self,
        request: Request<v1::GetQueueRequest>,
    ) -> Result<Response<v1::Queue>, Status> {
        self.shell
            .run("GetQueue", request, |call, message| {
                self.queue(call, message)
            })
            .await
    }
}

impl Workers {
    async fn open(
        &self,
        call: ApiCall,
        mut stream: Streaming<v1::StreamTasksRequest>,
    ) -> Result<Session, Status> {
        // Without a provider for workers there is nothing to offer to, whatever is offered.
        self.directory.all(&call.access, Topic::WORKERS)?;
        let first = tokio::time::timeout(PATIENCE, stream.message()).await;
        let first = first.map_err(|_| offer_required())??;
        let Some(Message::Offer(sent)) = first.and_then(|request| request.message) else {
            return Err(offer_required());
        };
        let upstream =
            self.directory
                .one(&call.access, "provider", &sent.provider, Topic::WORKERS)?;
        let software = offer::software(&sent)?;
        let mut offer = call.workable(&upstream.id, offer::checked(sent)?)?;
        if *call.actor != *ANONYMOUS {
            offer.identity = Arc::clone(&call.actor);
        }
        if offer.worker.is_empty() {
            offer.worker = format!("worker-{}", uuid::Uuid::new_v4().simple()).into();
        }
        let worker = std::mem::take(&mut offer.worker);
        offer.worker = call.access.worker_id(&worker);
        let id = Arc::clone(&offer.worker);
        let guarded = upstream.within(&call);
        let connected = guarded.workers(Verb::Work, |workers, call| workers.connect(call, offer));
        let connected = connected.await?;
        let activity = self.activities.connect(&upstream.id, &id);
        activity.offered(software);
        let welcome = v1::Welcome {
            worker_id: worker.to_string(),
            lease_duration: Some(convert::duration(connected.lease)),
            provider: upstream.id.resource_name(),
        };
        Ok(Session::new(
            upstream.id.clone(),
            stream,
            (connected.session, activity),
            worker,
            welcome,
            (call, self.stop.clone()),
        ))
    }

    async fn queue(
        &self,
        call: ApiCall,
        request: v1::GetQueueRequest,
    ) -> Result<v1::Queue, Status> {
        let Some(provider) = request.name.strip_suffix("/queue") else {
            let message = "`name` is not of the form `providers/{provider}/queue`";
            return Err(Refusal::invalid("name", message).into());
        };
        let upstream = self
            .directory
            .one(&call.access, "name", provider, Topic::WORKERS)?;
        let mut found = queue_of(upstream.within(&call)).await?;
        readable(&call, &upstream.id, &mut found);
        // The figures of the provider as a whole are about everyone.
        let reads_all = call.access.reads_all(&upstream.id);
        if !reads_all {
            found = WorkQueue {
                workers: found.workers,
                tasks: found.tasks,
                executions: found.executions,
                scheduled: found.scheduled,
                ..WorkQueue::default()
            };
        }
        let able = |line: &QueuedTasks| {
            let workers = found
                .workers
                .iter()
                .filter(|worker| could_take(worker, line));
            convert::int32(workers.count())
        };
        let mut tasks: Vec<_> = found
            .tasks
            .iter()
            .map(|line| v1::QueuedTasks {
                role: line.role.to_string(),
                skill: line.skill.to_string(),
                tenant: line.tenant.clone(),
                task_count: convert::int32(line.count),
                worker_count: able(line),
                oldest_time: line.oldest_time.map(convert::timestamp),
                by_engine: line.by_engine,
            })
            .collect();
        tasks.sort_by(|a, b| (&a.role, &a.skill, &a.tenant).cmp(&(&b.role, &b.skill, &b.tenant)));
        let mut executions: Vec<_> = found
            .executions
            .iter()
            .map(|line| v1::QueuedExecutions {
                tenant: line.tenant.clone(),
                execution_count: convert::int32(line.count),
                oldest_time: line.oldest_time.map(convert::timestamp),
            })
            .collect();
        executions.sort_by(|a, b| a.tenant.cmp(&b.tenant));
        // The provider lists them by their next start, the disabled ones last.
        let scheduled = found.scheduled.iter().map(|start| v1::ScheduledStart {
            definition: definition_name(&start.definition),
            next_start_time: start.next_time.map(convert::timestamp),
            disabled: start.disabled.as_ref().map(disabled),
        });
        Ok(v1::Queue {
            name: format!("{}/queue", upstream.id.resource_name()),
            tasks,
            executions,
            active_count: convert::int32(found.active),
            max_active_count: convert::int32(found.max_active),
            scheduled: scheduled.collect(),
            memory_bytes: convert::int64(found.memory_bytes),
            max_memory_bytes: convert::int64(found.max_memory_bytes),
            memory_full: found.memory_full,
        })
    }
}

/// Leaves out what the caller may not read: tasks, executions and workers of other tenants, and starts of
/// other definitions.
fn readable(call: &ApiCall, provider: &ProviderId, queue: &mut WorkQueue) {
    let access = &call.access;
    if access.reads_all(provider) {
        return;
    }
    let reads = |tenant: &str| access.reads_tenant(provider, tenant);
    queue.tasks.retain(|line| reads(&line.tenant));
    queue.executions.retain(|line| reads(&line.tenant));
    queue.workers.retain(|worker| reads(&worker.offer.tenant));
    let starts = |start: &ScheduledStart| {
        access.reads_definition(provider, &definition_name(&start.definition))
    };
    queue.scheduled.retain(starts);
}

async fn queue_of(guarded: Guarded<'_>) -> Result<WorkQueue, CallError> {
    let queue = guarded.workers(Verb::Queue, |workers, call| workers.queue(call));
    queue.await
}

fn worker(activities: &Activities, provider: &ProviderId, found: &WorkerStatus) -> v1::Worker {
    let words = |list: &[Arc<str>]| list.iter().map(ToString::to_string).collect();
    let mut worker = v1::Worker {
        name: worker_name(provider, &found.offer.worker),
        worker_id: found.offer.worker.to_string(),
        roles: words(&found.offer.roles),
        skills: words(&found.offer.skills),
        capacity: convert::int32(found.offer.capacity),
        task_count: convert::int32(found.held),
        tenant: found.offer.tenant.to_string(),
        connect_time: found.connect_time.map(convert::timestamp),
        heartbeat_time: found.seen_time.map(convert::timestamp),
        connected: found.connected,
        tasks: found
            .tasks
            .iter()
            .map(|held| held_task(provider, held))
            .collect(),
        lease_expire_time: found.lease_time.map(convert::timestamp),
        ..v1::Worker::default()
    };
    if let Some(activity) = activities.of(provider, &found.offer.worker) {
        activity.describe(&mut worker);
    }
    worker
}

fn held_task(provider: &ProviderId, held: &HeldTask) -> v1::HeldTask {
    v1::HeldTask {
        execution: ExecutionName::new(provider.clone(), held.execution.clone()).to_string(),
        step: held.step.clone(),
        attempt: convert::int32(held.attempt),
        compensation: held.compensation,
    }
}

fn could_take(worker: &WorkerStatus, line: &QueuedTasks) -> bool {
    let offer = &worker.offer;
    let has = |list: &[Arc<str>], wanted: &Arc<str>| wanted.is_empty() || list.contains(wanted);
    !line.by_engine
        && worker.connected
        && has(&offer.roles, &line.role)
        && has(&offer.skills, &line.skill)
        && (offer.tenant.is_empty() || *offer.tenant == *line.tenant)
}

/// `providers/{provider}/workers/{worker}`, with the id encoded as those of executions are.
fn worker_name(provider: &ProviderId, id: &str) -> String {
    let id = encoded(id);
    format!("{}/workers/{id}", provider.resource_name())
}

fn offer_required() -> Status {
    Refusal::invalid("message", "the first message of a worker must be an offer")
        .reason("OFFER_REQUIRED")
        .hint("Send an Offer with roles and capacity first.")
        .into()
}
