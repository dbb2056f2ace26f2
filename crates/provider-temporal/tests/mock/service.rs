//! The calls: each counts itself, fails if that is its turn, and answers from the world.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use stateway_provider_temporal::api::common::v1::{Payload, Payloads, WorkflowExecution};
use stateway_provider_temporal::api::enums::v1::{
    EventType, HistoryEventFilterType, UpdateWorkflowExecutionLifecycleStage as Stage,
    WorkflowExecutionStatus as RunStatus, WorkflowIdConflictPolicy, WorkflowIdReusePolicy,
};
use stateway_provider_temporal::api::history::v1::History;
use stateway_provider_temporal::api::namespace::v1::{NamespaceInfo, namespace_info};
use stateway_provider_temporal::api::taskqueue::v1::{PollerInfo, TaskQueueStats};
use stateway_provider_temporal::api::update::v1::{Outcome, outcome};
use stateway_provider_temporal::api::workflow::v1::{
    PendingActivityInfo, WorkflowExecutionPauseInfo,
};
use stateway_provider_temporal::api::workflowservice::v1 as rpc;
use stateway_provider_temporal::api::workflowservice::v1::workflow_service_server::WorkflowService;
use tonic::{Request, Response, Status};

use super::change::{accepted, begun_again, named, paused, reset, started, unpaused, with_input};
use super::world::{Run, World, now};
use super::{Polls, State, answer, lock, query};

/// How long a long poll without news is held.
const LONG_POLL: Duration = Duration::from_secs(20);

type Answer<T> = Result<Response<T>, Status>;

pub(crate) struct Service(pub(crate) Arc<State>);

/// Counts the call; an answer that is to make no sense is an empty one.
macro_rules! enter {
    ($self:ident, $name:literal) => {
        if $self.0.enter($name).await? {
            return Ok(Response::new(Default::default()));
        }
    };
}

fn found<'a>(
    world: &'a mut World,
    named: Option<&WorkflowExecution>,
) -> Result<&'a mut Run, Status> {
    let id = named.map(|it| it.workflow_id.clone()).unwrap_or_default();
    world.find(named).ok_or_else(|| answer::unknown(&id))
}

fn open<'a>(
    world: &'a mut World,
    named: Option<&WorkflowExecution>,
) -> Result<&'a mut Run, Status> {
    let run = found(world, named)?;
    if run.is_closed() {
        return Err(answer::completed());
    }
    Ok(run)
}

/// A request that names the first run of a chain does not reach another chain.
fn is_of_chain(run: &mut Run, first: &str) -> Result<(), Status> {
    if !first.is_empty() && run.info().first_run_id != first {
        return Err(answer::another_chain());
    }
    Ok(())
}

/// Pending activities of an open run, by id or type; all of them for `None`.
fn activities<'a>(run: &'a mut Run, wanted: Option<&str>) -> Vec<&'a mut PendingActivityInfo> {
    let is_wanted = |it: &&mut PendingActivityInfo| wanted.is_none_or(|id| it.activity_id == id);
    run.described
        .pending_activities
        .iter_mut()
        .filter(is_wanted)
        .collect()
}

impl Service {
    fn activity(
        &self,
        execution: &WorkflowExecution,
        wanted: Option<&str>,
        change: impl Fn(&mut PendingActivityInfo),
    ) -> Result<(), Status> {
        self.0.change(|world| {
            let run = open(world, Some(execution))?;
            let found = activities(run, wanted);
            if found.is_empty() {
                return Err(Status::not_found("activity not found"));
            }
            found.into_iter().for_each(change);
            run.moved();
            Ok(())
        })
    }

    fn is_old(&self) -> Result<(), Status> {
        if self.0.world().is_old {
            return Err(Status::unimplemented("unknown method"));
        }
        Ok(())
    }

    /// Events after this many, waiting for new ones if asked to.
    async fn events(
        &self,
        request: &rpc::GetWorkflowExecutionHistoryRequest,
    ) -> Result<rpc::GetWorkflowExecutionHistoryResponse, Status> {
        let from: usize = match std::str::from_utf8(&request.next_page_token) {
            Ok("") => 0,
            Ok(token) => token
                .parse()
                .map_err(|_| Status::invalid_argument("bad token"))?,
            Err(_) => return Err(Status::invalid_argument("bad token")),
        };
        let size = match usize::try_from(request.maximum_page_size) {
            Ok(0) | Err(_) => 1_000,
            Ok(size) => size,
        };
        let only_end = request.history_event_filter_type() == HistoryEventFilterType::CloseEvent;
        let mut changes = self.0.changes.subscribe();
        let until = tokio::time::Instant::now() + LONG_POLL;
        loop {
            let (events, total, is_closed) = {
                let mut world = self.0.world();
                let run = found(&mut world, request.execution.as_ref())?;
                let events = run.events.iter();
                let events: Vec<_> = if only_end {
                    events
                        .rev()
                        .filter(|_| run.is_closed())
                        .take(1)
                        .cloned()
                        .collect()
                } else {
                    events.skip(from).take(size).cloned().collect()
                };
                (events, run.events.len(), run.is_closed())
            };
            let reached = from + events.len();
            let waits = request.wait_new_event && !is_closed && events.is_empty();
            let woken = waits
                && tokio::time::timeout_at(until, changes.changed())
                    .await
                    .is_ok_and(|it| it.is_ok());
            if woken {
                continue;
            }
            let more = !only_end && reached < total || request.wait_new_event && !is_closed;
            return Ok(rpc::GetWorkflowExecutionHistoryResponse {
                history: Some(History { events }),
                next_page_token: if more {
                    reached.to_string().into_bytes()
                } else {
                    Vec::new()
                },
            });
        }
    }
}

/// A long poll under way.
struct Poll<'a>(&'a State);

impl<'a> Poll<'a> {
    fn begin(state: &'a State) -> Self {
        let mut polls = lock(&state.polls);
        polls.open += 1;
        let Polls { open, most } = *polls;
        polls.most = most.max(open);
        Self(state)
    }
}

impl Drop for Poll<'_> {
    fn drop(&mut self) {
        lock(&self.0.polls).open -= 1;
    }
}

#[tonic::async_trait]
impl WorkflowService for Service {
    async fn get_system_info(
        &self,
        _: Request<rpc::GetSystemInfoRequest>,
    ) -> Answer<rpc::GetSystemInfoResponse> {
        enter!(self, "GetSystemInfo");
        Ok(Response::new(rpc::GetSystemInfoResponse {
            server_version: "1.32.0".to_owned(),
            capabilities: None,
        }))
    }

    async fn describe_namespace(
        &self,
        request: Request<rpc::DescribeNamespaceRequest>,
    ) -> Answer<rpc::DescribeNamespaceResponse> {
        enter!(self, "DescribeNamespace");
        let capabilities = namespace_info::Capabilities {
            sync_update: true,
            async_update: true,
            workflow_pause: !self.0.world().refuses_pause,
            reported_problems_search_attribute: true,
        };
        Ok(Response::new(rpc::DescribeNamespaceResponse {
            namespace_info: Some(NamespaceInfo {
                name: request.into_inner().namespace,
                capabilities: Some(capabilities),
                ..NamespaceInfo::default()
            }),
            config: None,
        }))
    }

    async fn start_workflow_execution(
        &self,
        request: Request<rpc::StartWorkflowExecutionRequest>,
    ) -> Answer<rpc::StartWorkflowExecutionResponse> {
        enter!(self, "StartWorkflowExecution");
        let request = request.into_inner();
        let terminates =
            request.workflow_id_conflict_policy() == WorkflowIdConflictPolicy::TerminateExisting;
        if terminates
            && request.workflow_id_reuse_policy() == WorkflowIdReusePolicy::RejectDuplicate
        {
            let message = "Invalid WorkflowIDReusePolicy: WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE \
                           cannot be used together with WorkflowIDConflictPolicy \
                           WORKFLOW_ID_CONFLICT_POLICY_TERMINATE_EXISTING";
            return Err(Status::invalid_argument(message));
        }
        self.0.change(|world| {
            let current = named(&request.workflow_id, "");
            let mut answer = rpc::StartWorkflowExecutionResponse {
                started: true,
                status: RunStatus::Running.into(),
                ..rpc::StartWorkflowExecutionResponse::default()
            };
            if let Some(run) = world.find(Some(&current)) {
                let (run_id, is_same) = (run.run_id(), run.start_request == request.request_id);
                let uses =
                    request.workflow_id_conflict_policy() == WorkflowIdConflictPolicy::UseExisting;
                let reused = run.is_closed()
                    && request.workflow_id_reuse_policy() == WorkflowIdReusePolicy::AllowDuplicate;
                if is_same || (uses && !run.is_closed()) {
                    answer.started = is_same;
                    answer.first_execution_run_id.clone_from(&run_id);
                    answer.run_id = run_id;
                    return Ok(Response::new(answer));
                }
                if terminates && !run.is_closed() {
                    let attributes = json!({"reason": "TerminateExisting policy"});
                    let kind = "WORKFLOW_EXECUTION_TERMINATED";
                    run.close(RunStatus::Terminated, kind, &attributes);
                } else if !reused {
                    return Err(answer::already_started(&run.start_request, &run_id));
                }
            }
            let run_id = world.new_run_id();
            world.put(started(&request, &run_id));
            answer.first_execution_run_id.clone_from(&run_id);
            answer.run_id = run_id;
            Ok(Response::new(answer))
        })
    }

    async fn describe_workflow_execution(
        &self,
        request: Request<rpc::DescribeWorkflowExecutionRequest>,
    ) -> Answer<rpc::DescribeWorkflowExecutionResponse> {
        enter!(self, "DescribeWorkflowExecution");
        let id = request.get_ref().execution.as_ref();
        if id.is_some_and(|it| self.0.is_broken(&it.workflow_id)) {
            return Err(Status::unavailable("the shard is lost"));
        }
        let mut world = self.0.world();
        let run = found(&mut world, request.into_inner().execution.as_ref())?;
        Ok(Response::new(run.described.clone()))
    }

    async fn list_workflow_executions(
        &self,
        request: Request<rpc::ListWorkflowExecutionsRequest>,
    ) -> Answer<rpc::ListWorkflowExecutionsResponse> {
        enter!(self, "ListWorkflowExecutions");
        let request = request.into_inner();
        let world = self.0.world();
        let before: usize = match String::from_utf8(request.next_page_token) {
            Ok(token) if token.is_empty() => world.runs.len(),
            Ok(token) => token
                .parse()
                .map_err(|_| Status::invalid_argument("bad token"))?,
            Err(_) => return Err(Status::invalid_argument("bad token")),
        };
        let size = usize::try_from(request.page_size)
            .unwrap_or(0)
            .clamp(1, 1_000);
        let mut executions = Vec::new();
        let mut at = before.min(world.runs.len());
        // Newest first: what starts meanwhile moves nothing.
        while at > 0 && executions.len() < size {
            at -= 1;
            let run = &world.runs[at];
            let is_listed = !world.unlisted.contains(&run.run_id());
            if query::matches(&request.query, run).map_err(Status::invalid_argument)? && is_listed {
                executions.extend(run.listed(world.lags));
            }
        }
        Ok(Response::new(rpc::ListWorkflowExecutionsResponse {
            executions,
            next_page_token: if at > 0 {
                at.to_string().into_bytes()
            } else {
                Vec::new()
            },
        }))
    }

    async fn count_workflow_executions(
        &self,
        request: Request<rpc::CountWorkflowExecutionsRequest>,
    ) -> Answer<rpc::CountWorkflowExecutionsResponse> {
        enter!(self, "CountWorkflowExecutions");
        let text = request.into_inner().query;
        let (text, is_grouped) = match text.find("GROUP BY") {
            Some(at) => (text[..at].to_owned(), true),
            None => (text, false),
        };
        let world = self.0.world();
        let mut counts = std::collections::BTreeMap::<String, i64>::new();
        for run in &world.runs {
            if query::matches(&text, run).map_err(Status::invalid_argument)? {
                let status = run.attribute("ExecutionStatus").unwrap_or_default();
                *counts.entry(status.unwrap_or_default()).or_insert(0) += 1;
            }
        }
        let group = |(status, count): (&String, &i64)| {
            let value = Payload {
                metadata: [("encoding".to_owned(), "json/plain".into())].into(),
                data: json!(status).to_string().into(),
            };
            rpc::count_workflow_executions_response::AggregationGroup {
                group_values: vec![value],
                count: *count,
            }
        };
        let groups = counts.iter().filter(|_| is_grouped).map(group).collect();
        Ok(Response::new(rpc::CountWorkflowExecutionsResponse {
            count: counts.values().sum(),
            groups,
        }))
    }

    async fn get_workflow_execution_history(
        &self,
        request: Request<rpc::GetWorkflowExecutionHistoryRequest>,
    ) -> Answer<rpc::GetWorkflowExecutionHistoryResponse> {
        let request = request.into_inner();
        if request.wait_new_event {
            enter!(self, "PollWorkflowExecutionHistory");
            let _poll = Poll::begin(&self.0);
            return self.events(&request).await.map(Response::new);
        }
        enter!(self, "GetWorkflowExecutionHistory");
        self.events(&request).await.map(Response::new)
    }

    async fn get_workflow_execution_history_reverse(
        &self,
        request: Request<rpc::GetWorkflowExecutionHistoryReverseRequest>,
    ) -> Answer<rpc::GetWorkflowExecutionHistoryReverseResponse> {
        enter!(self, "GetWorkflowExecutionHistoryReverse");
        let request = request.into_inner();
        let mut world = self.0.world();
        let run = found(&mut world, request.execution.as_ref())?;
        let token = String::from_utf8(request.next_page_token).unwrap_or_default();
        let from: usize = if token.is_empty() {
            0
        } else {
            token
                .parse()
                .map_err(|_| Status::invalid_argument("bad token"))?
        };
        let size = match usize::try_from(request.maximum_page_size) {
            Ok(0) | Err(_) => 1_000,
            Ok(size) => size,
        };
        let events: Vec<_> = run
            .events
            .iter()
            .rev()
            .skip(from)
            .take(size)
            .cloned()
            .collect();
        let reached = from + events.len();
        let more = reached < run.events.len();
        Ok(Response::new(
            rpc::GetWorkflowExecutionHistoryReverseResponse {
                history: Some(History { events }),
                next_page_token: if more {
                    reached.to_string().into_bytes()
                } else {
                    Vec::new()
                },
            },
        ))
    }

    async fn signal_workflow_execution(
        &self,
        request: Request<rpc::SignalWorkflowExecutionRequest>,
    ) -> Answer<rpc::SignalWorkflowExecutionResponse> {
        enter!(self, "SignalWorkflowExecution");
        let request = request.into_inner();
        self.0.change(|world| {
            let run = open(world, request.workflow_execution.as_ref())?;
            if run.requests.insert(request.request_id.clone()) {
                let attributes = json!({
                    "signalName": request.signal_name,
                    "identity": request.identity,
                    "requestId": request.request_id,
                });
                run.record("WORKFLOW_EXECUTION_SIGNALED", &attributes);
                with_input(run, request.input);
            }
            Ok(Response::new(Default::default()))
        })
    }

    async fn request_cancel_workflow_execution(
        &self,
        request: Request<rpc::RequestCancelWorkflowExecutionRequest>,
    ) -> Answer<rpc::RequestCancelWorkflowExecutionResponse> {
        enter!(self, "RequestCancelWorkflowExecution");
        let request = request.into_inner();
        self.0.change(|world| {
            let run = found(world, request.workflow_execution.as_ref())?;
            is_of_chain(run, &request.first_execution_run_id)?;
            // A closed run answers OK, and nothing happens.
            if !run.is_closed() && !run.extended().cancel_requested {
                run.extended().cancel_requested = true;
                let attributes = json!({"cause": request.reason, "identity": request.identity});
                run.record("WORKFLOW_EXECUTION_CANCEL_REQUESTED", &attributes);
            }
            Ok(Response::new(Default::default()))
        })
    }

    async fn terminate_workflow_execution(
        &self,
        request: Request<rpc::TerminateWorkflowExecutionRequest>,
    ) -> Answer<rpc::TerminateWorkflowExecutionResponse> {
        enter!(self, "TerminateWorkflowExecution");
        let request = request.into_inner();
        self.0.change(|world| {
            let run = open(world, request.workflow_execution.as_ref())?;
            is_of_chain(run, &request.first_execution_run_id)?;
            let attributes = json!({"reason": request.reason, "identity": request.identity});
            run.close(
                RunStatus::Terminated,
                "WORKFLOW_EXECUTION_TERMINATED",
                &attributes,
            );
            Ok(Response::new(Default::default()))
        })
    }

    async fn reset_workflow_execution(
        &self,
        request: Request<rpc::ResetWorkflowExecutionRequest>,
    ) -> Answer<rpc::ResetWorkflowExecutionResponse> {
        enter!(self, "ResetWorkflowExecution");
        let request = request.into_inner();
        self.0.change(|world| {
            let current = request.workflow_execution.clone().unwrap_or_default();
            let newest = found(world, Some(&named(&current.workflow_id, "")))?;
            if newest.requests.contains(&request.request_id) {
                let run_id = newest.run_id();
                return Ok(Response::new(rpc::ResetWorkflowExecutionResponse {
                    run_id,
                }));
            }
            let run_id = world.new_run_id();
            let base = found(world, Some(&current))?;
            let fresh = reset(base, &request, &run_id)?;
            world.put(fresh);
            Ok(Response::new(rpc::ResetWorkflowExecutionResponse {
                run_id,
            }))
        })
    }

    async fn delete_workflow_execution(
        &self,
        request: Request<rpc::DeleteWorkflowExecutionRequest>,
    ) -> Answer<rpc::DeleteWorkflowExecutionResponse> {
        enter!(self, "DeleteWorkflowExecution");
        let request = request.into_inner();
        self.0.change(|world| {
            let id = found(world, request.workflow_execution.as_ref())?.id();
            if world.deletes_later {
                return Ok(Response::new(Default::default()));
            }
            match request
                .workflow_execution
                .filter(|it| !it.run_id.is_empty())
            {
                Some(run) => world
                    .runs
                    .retain(|it| it.id() != id || it.run_id() != run.run_id),
                None => world.remove(&id),
            }
            Ok(Response::new(Default::default()))
        })
    }

    async fn pause_workflow_execution(
        &self,
        request: Request<rpc::PauseWorkflowExecutionRequest>,
    ) -> Answer<rpc::PauseWorkflowExecutionResponse> {
        enter!(self, "PauseWorkflowExecution");
        let request = request.into_inner();
        self.0.change(|world| {
            if world.refuses_pause {
                let message = "workflow pause is not enabled for namespace: default";
                return Err(Status::unimplemented(message));
            }
            let precondition = world.precondition;
            let run = open(world, Some(&named(&request.workflow_id, &request.run_id)))?;
            if let Some(reason) = precondition {
                return Err(Status::failed_precondition(reason));
            }
            if run.status() == Some(RunStatus::Paused) {
                return Err(Status::failed_precondition("workflow is already paused."));
            }
            if run
                .events
                .iter()
                .all(|event| event.event_type() != EventType::WorkflowTaskScheduled)
            {
                return Err(Status::internal(
                    "something went wrong, please retry (c27988bd)",
                ));
            }
            let attributes = json!({"identity": request.identity, "reason": request.reason});
            run.record("WORKFLOW_EXECUTION_PAUSED", &attributes);
            run.info().status = RunStatus::Paused.into();
            run.extended().pause_info = Some(WorkflowExecutionPauseInfo {
                identity: request.identity,
                paused_time: Some(now()),
                reason: request.reason,
            });
            Ok(Response::new(Default::default()))
        })
    }

    async fn unpause_workflow_execution(
        &self,
        request: Request<rpc::UnpauseWorkflowExecutionRequest>,
    ) -> Answer<rpc::UnpauseWorkflowExecutionResponse> {
        enter!(self, "UnpauseWorkflowExecution");
        let request = request.into_inner();
        self.0.change(|world| {
            let precondition = world.precondition;
            let run = open(world, Some(&named(&request.workflow_id, &request.run_id)))?;
            if let Some(reason) = precondition {
                return Err(Status::failed_precondition(reason));
            }
            if run.status() != Some(RunStatus::Paused) {
                return Err(Status::failed_precondition("workflow is not paused."));
            }
            let attributes = json!({"identity": request.identity, "reason": request.reason});
            run.record("WORKFLOW_EXECUTION_UNPAUSED", &attributes);
            run.info().status = RunStatus::Running.into();
            run.extended().pause_info = None;
            Ok(Response::new(Default::default()))
        })
    }

    /// A worker that accepts and answers every update; `ADMITTED` is the stage of an update that none took.
    async fn update_workflow_execution(
        &self,
        request: Request<rpc::UpdateWorkflowExecutionRequest>,
    ) -> Answer<rpc::UpdateWorkflowExecutionResponse> {
        enter!(self, "UpdateWorkflowExecution");
        let request = request.into_inner();
        self.0.change(|world| {
            if world.admits_only > 0 {
                world.admits_only -= 1;
                return Ok(Response::new(rpc::UpdateWorkflowExecutionResponse {
                    stage: Stage::Admitted.into(),
                    ..Default::default()
                }));
            }
            let run = found(world, request.workflow_execution.as_ref())?;
            let wanted = request.request.clone().unwrap_or_default();
            let id = wanted.meta.clone().unwrap_or_default().update_id;
            let is_sealed = wanted.input.as_ref().is_some_and(|it| it.name == "sealed");
            let encoding = if is_sealed {
                "binary/encrypted"
            } else {
                "json/plain"
            };
            if !run.requests.contains(&id) {
                if run.is_closed() {
                    return Err(answer::completed());
                }
                run.requests.insert(id.clone());
                accepted(run, &id, wanted);
            }
            let value = outcome::Value::Success(Payloads {
                payloads: vec![Payload {
                    metadata: [("encoding".to_owned(), encoding.into())].into(),
                    data: json!(format!("answer to {id}")).to_string().into(),
                }],
            });
            Ok(Response::new(rpc::UpdateWorkflowExecutionResponse {
                stage: Stage::Completed.into(),
                outcome: Some(Outcome { value: Some(value) }),
                ..Default::default()
            }))
        })
    }

    async fn poll_workflow_execution_update(
        &self,
        _: Request<rpc::PollWorkflowExecutionUpdateRequest>,
    ) -> Answer<rpc::PollWorkflowExecutionUpdateResponse> {
        enter!(self, "PollWorkflowExecutionUpdate");
        Err(Status::not_found("update not found"))
    }

    async fn pause_activity(
        &self,
        request: Request<rpc::PauseActivityRequest>,
    ) -> Answer<rpc::PauseActivityResponse> {
        enter!(self, "PauseActivity");
        let request = request.into_inner();
        let wanted = match &request.activity {
            Some(rpc::pause_activity_request::Activity::Id(id)) => Some(id.as_str()),
            _ => None,
        };
        let execution = request.execution.clone().unwrap_or_default();
        self.activity(&execution, wanted, paused)?;
        Ok(Response::new(Default::default()))
    }

    async fn unpause_activity(
        &self,
        request: Request<rpc::UnpauseActivityRequest>,
    ) -> Answer<rpc::UnpauseActivityResponse> {
        enter!(self, "UnpauseActivity");
        let request = request.into_inner();
        let wanted = match &request.activity {
            Some(rpc::unpause_activity_request::Activity::Id(id)) => Some(id.as_str()),
            _ => None,
        };
        let execution = request.execution.clone().unwrap_or_default();
        self.activity(&execution, wanted, unpaused)?;
        Ok(Response::new(Default::default()))
    }

    async fn reset_activity(
        &self,
        request: Request<rpc::ResetActivityRequest>,
    ) -> Answer<rpc::ResetActivityResponse> {
        enter!(self, "ResetActivity");
        let request = request.into_inner();
        let wanted = match &request.activity {
            Some(rpc::reset_activity_request::Activity::Id(id)) => Some(id.as_str()),
            _ => None,
        };
        let execution = request.execution.clone().unwrap_or_default();
        self.activity(&execution, wanted, begun_again)?;
        Ok(Response::new(Default::default()))
    }

    async fn pause_activity_execution(
        &self,
        request: Request<rpc::PauseActivityExecutionRequest>,
    ) -> Answer<rpc::PauseActivityExecutionResponse> {
        enter!(self, "PauseActivityExecution");
        self.is_old()?;
        let request = request.into_inner();
        let execution = named(&request.workflow_id, &request.run_id);
        self.activity(&execution, Some(&request.activity_id), paused)?;
        Ok(Response::new(Default::default()))
    }

    async fn unpause_activity_execution(
        &self,
        request: Request<rpc::UnpauseActivityExecutionRequest>,
    ) -> Answer<rpc::UnpauseActivityExecutionResponse> {
        enter!(self, "UnpauseActivityExecution");
        self.is_old()?;
        let request = request.into_inner();
        let execution = named(&request.workflow_id, &request.run_id);
        self.activity(&execution, Some(&request.activity_id), unpaused)?;
        Ok(Response::new(Default::default()))
    }

    async fn reset_activity_execution(
        &self,
        request: Request<rpc::ResetActivityExecutionRequest>,
    ) -> Answer<rpc::ResetActivityExecutionResponse> {
        enter!(self, "ResetActivityExecution");
        self.is_old()?;
        let request = request.into_inner();
        let execution = named(&request.workflow_id, &request.run_id);
        self.activity(&execution, Some(&request.activity_id), begun_again)?;
        Ok(Response::new(Default::default()))
    }

    async fn describe_task_queue(
        &self,
        request: Request<rpc::DescribeTaskQueueRequest>,
    ) -> Answer<rpc::DescribeTaskQueueResponse> {
        enter!(self, "DescribeTaskQueue");
        let queue = request.into_inner().task_queue.unwrap_or_default().name;
        let is_polled = self.0.world().polled.contains(&queue);
        let poller = PollerInfo {
            last_access_time: Some(now()),
            identity: "worker-1".to_owned(),
        };
        Ok(Response::new(rpc::DescribeTaskQueueResponse {
            pollers: is_polled.then_some(poller).into_iter().collect(),
            stats: Some(TaskQueueStats::default()),
        }))
    }

    async fn list_schedules(
        &self,
        _: Request<rpc::ListSchedulesRequest>,
    ) -> Answer<rpc::ListSchedulesResponse> {
        enter!(self, "ListSchedules");
        Ok(Response::new(Default::default()))
    }

    async fn describe_schedule(
        &self,
        _: Request<rpc::DescribeScheduleRequest>,
    ) -> Answer<rpc::DescribeScheduleResponse> {
        enter!(self, "DescribeSchedule");
        Err(Status::not_found("schedule not found"))
    }
}
