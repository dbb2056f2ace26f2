//! `stateway.v1.Workers`.

mod message;
mod offer;
mod session;

use std::sync::Arc;
use std::time::Duration;

use stateway_engine::{HeldTask, TaskLine, WorkerStatus};
use stateway_model::{DefinitionName, ExecutionId, ExecutionName, ProviderId};
use stateway_proto::v1;
use stateway_proto::v1::work_request::Message;
use stateway_proto::v1::workers_server::Workers as Service;
use stateway_provider_api::{ANONYMOUS, Call};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming};

use super::triggers::disabled;
use super::{Shell, validate};
use crate::convert;
use crate::engines::Directory;
use crate::status::Refusal;
pub(super) use message::json;
use session::Session;

const WHAT: &str = "tasks for workers";
/// How long a stream may be open before its offer comes.
const PATIENCE: Duration = Duration::from_secs(10);

/// The service over every built-in engine.
pub(crate) struct Workers {
    pub(crate) shell: Arc<Shell>,
    pub(crate) directory: Arc<Directory>,
    pub(crate) stop: CancellationToken,
}

#[tonic::async_trait]
impl Service for Workers {
    type WorkStream = Session;

    async fn work(
        &self,
        request: Request<Streaming<v1::WorkRequest>>,
    ) -> Result<Response<Session>, Status> {
        self.shell
            .run("Work", request, |call, stream| self.open(call, stream))
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
        call: Call,
        mut stream: Streaming<v1::WorkRequest>,
    ) -> Result<Session, Status> {
        // Without an engine there is nothing to offer to, whatever is offered.
        self.directory.all(WHAT)?;
        let first = tokio::time::timeout(PATIENCE, stream.message()).await;
        let first = first.map_err(|_| offer_required())??;
        let Some(Message::Offer(sent)) = first.and_then(|request| request.message) else {
            return Err(offer_required());
        };
        let chosen = self.directory.one("provider", &sent.provider, WHAT)?;
        let mut offer = offer::checked(sent)?;
        if *call.actor != *ANONYMOUS {
            offer.identity = call.actor;
        }
        if offer.worker.is_empty() {
            offer.worker = format!("worker-{}", uuid::Uuid::new_v4().simple()).into();
        }
        let engine = chosen.engine;
        let connected = engine.connect(offer.clone());
        let connected = connected.map_err(|error| chosen.refused(&error))?;
        let welcome = v1::Welcome {
            worker_id: offer.worker.to_string(),
            lease: Some(convert::duration(engine.lease())),
            provider: chosen.id.resource_name(),
        };
        Ok(Session::new(
            chosen.id.clone(),
            stream,
            connected,
            offer.worker,
            welcome,
            self.stop.clone(),
        ))
    }

    async fn list(
        &self,
        call: Call,
        request: v1::ListWorkersRequest,
    ) -> Result<v1::ListWorkersResponse, Status> {
        let parent = match request.parent.as_str() {
            "" => crate::parent::Parent::All,
            parent => validate::parent(parent)?,
        };
        let mut workers = Vec::new();
        for chosen in self.directory.under(&parent, WHAT)? {
            let survey = chosen.answer(&call, chosen.engine.survey()).await?;
            let shown = survey.workers.iter().map(|found| worker(chosen.id, found));
            workers.extend(shown);
        }
        workers.sort_by(|a, b| (&a.provider, &a.worker_id).cmp(&(&b.provider, &b.worker_id)));
        Ok(v1::ListWorkersResponse { workers })
    }

    async fn queue(&self, call: Call, request: v1::GetQueueRequest) -> Result<v1::Queue, Status> {
        let chosen = self.directory.one("name", &request.name, WHAT)?;
        let found = chosen.answer(&call, chosen.engine.survey()).await?;
        let able = |line: &TaskLine| {
            let workers = found
                .workers
                .iter()
                .filter(|worker| could_take(worker, line));
            count(workers.count())
        };
        let mut tasks: Vec<_> = found
            .tasks
            .iter()
            .map(|line| v1::QueuedTasks {
                role: line.role.to_string(),
                skill: line.skill.to_string(),
                tenant: line.tenant.clone(),
                count: count(line.waiting),
                workers: able(line),
                oldest_time: line.oldest.map(convert::timestamp),
            })
            .collect();
        tasks.sort_by(|a, b| (&a.role, &a.skill, &a.tenant).cmp(&(&b.role, &b.skill, &b.tenant)));
        let mut executions: Vec<_> = found
            .queued
            .iter()
            .map(|line| v1::QueuedExecutions {
                tenant: line.tenant.clone(),
                count: count(line.waiting),
                oldest_time: line.oldest.map(convert::timestamp),
            })
            .collect();
        executions.sort_by(|a, b| a.tenant.cmp(&b.tenant));
        // The engine lists them by their next start, the disabled ones last.
        let scheduled = found.scheduled.iter().map(|start| v1::ScheduledStart {
            definition: DefinitionName {
                provider: None,
                id: start.definition.clone(),
            }
            .to_string(),
            next_time: start.next.map(convert::timestamp),
            disabled: start.disabled.as_ref().map(disabled),
        });
        Ok(v1::Queue {
            name: chosen.id.resource_name(),
            tasks,
            executions,
            active: count(found.active),
            max_active: count(found.max_active),
            scheduled: scheduled.collect(),
            memory_bytes: found.memory_bytes as u64,
            max_memory_bytes: found.max_memory_bytes as u64,
            memory_full: found.memory_full,
        })
    }
}

fn worker(provider: &ProviderId, found: &WorkerStatus) -> v1::Worker {
    let words = |list: &[Arc<str>]| list.iter().map(ToString::to_string).collect();
    v1::Worker {
        worker_id: found.offer.worker.to_string(),
        provider: provider.resource_name(),
        roles: words(&found.offer.roles),
        skills: words(&found.offer.skills),
        capacity: found.offer.capacity,
        held: found.held,
        tenant: found.offer.tenant.to_string(),
        connect_time: found.since.map(convert::timestamp),
        seen_time: found.seen.map(convert::timestamp),
        connected: found.connected,
        tasks: found
            .tasks
            .iter()
            .filter_map(|held| held_task(provider, held))
            .collect(),
        lease_time: found.lease_until.map(convert::timestamp),
    }
}

fn held_task(provider: &ProviderId, held: &HeldTask) -> Option<v1::HeldTask> {
    let id = ExecutionId::new(&held.execution).ok()?;
    Some(v1::HeldTask {
        execution: ExecutionName::new(provider.clone(), id).to_string(),
        step: held.task.step.to_string(),
        attempt: held.task.attempt,
        compensation: held.task.undo,
    })
}

fn could_take(worker: &WorkerStatus, line: &TaskLine) -> bool {
    let offer = &worker.offer;
    let has = |list: &[Arc<str>], wanted: &Arc<str>| wanted.is_empty() || list.contains(wanted);
    worker.connected
        && has(&offer.roles, &line.role)
        && has(&offer.skills, &line.skill)
        && (offer.tenant.is_empty() || *offer.tenant == *line.tenant)
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn offer_required() -> Status {
    Refusal::invalid("message", "the first message of a worker must be an offer")
        .reason("OFFER_REQUIRED")
        .hint("Send an Offer with roles and capacity before anything else.")
        .into()
}
