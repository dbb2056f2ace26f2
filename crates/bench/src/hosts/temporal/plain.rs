//! Plain chains of five activities: a worker of Temporal's protocol in this process, which works as the SDKs do. After each
//! activity the workflow schedules the next one, and workflows stay in memory (sticky task queues). It decodes no
//! arguments and replays nothing, so it is not slower than an SDK.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use stateway_provider_temporal::api::command::v1 as command;
use stateway_provider_temporal::api::command::v1::command::Attributes;
use stateway_provider_temporal::api::common::v1::{ActivityType, WorkflowType};
use stateway_provider_temporal::api::enums::v1::CommandType;
use stateway_provider_temporal::api::workflowservice::v1::{
    RespondWorkflowTaskCompletedRequest, StartWorkflowExecutionRequest,
};
use stateway_provider_temporal::host::{TASK_TIMEOUT, TaskClient};
use stateway_provider_temporal::{HostConfig, HostOptions};
use tokio::task::JoinSet;

use super::super::Lab;
use super::super::load::{Figures, Load};
use super::NAMESPACE;
use crate::Outcome;
use crate::engine::cpu;
use crate::temporal::wire::Frontend;

const STEPS: usize = 5;

/// A worker for plain chains.
pub(super) struct Plain {
    frontend: Frontend,
    client: Arc<TaskClient>,
    load: Arc<Load>,
    _pollers: JoinSet<()>,
}

impl Plain {
    /// Polls with as many connections as a host.
    pub(super) async fn begin(address: &str) -> Outcome<Self> {
        let mut config = HostConfig::at(address);
        config.namespace = NAMESPACE.to_owned();
        let HostOptions { concurrency, .. } = config.host;
        let client = Arc::new(TaskClient::new(&config, "plain")?);
        let load = Arc::new(Load::default());
        let chains = Arc::new(Chains {
            client: Arc::clone(&client),
            load: Arc::clone(&load),
            scheduled: Mutex::default(),
        });
        let mut pollers = JoinSet::new();
        for number in 0..concurrency {
            let (workflows, activities) = (Arc::clone(&chains), Arc::clone(&chains));
            pollers.spawn(async move { workflows.poll(number % 2 == 1).await });
            pollers.spawn(async move { activities.poll_activities().await });
        }
        Ok(Self {
            frontend: Frontend::connect(address).await?,
            client,
            load,
            _pollers: pollers,
        })
    }

    /// Keeps so many chains under way for a while, then waits for the last of them.
    pub(super) async fn measure(
        &self,
        lab: &Lab,
        in_flight: usize,
        seconds: u64,
    ) -> Outcome<Figures> {
        let used = || Outcome::Ok((lab.engine.cpu()?, cpu("/proc/self/stat")?));
        let before = used()?;
        let time = Duration::from_secs(seconds);
        let start = |id| start(self.frontend.clone(), self.start_request(id));
        let mut figures = self.load.keep(in_flight, time, start).await?;
        let after = used()?;
        figures.cpu = vec![
            (lab.engine.name, after.0.saturating_sub(before.0)),
            ("worker and load", after.1.saturating_sub(before.1)),
        ];
        Ok(figures)
    }

    fn start_request(&self, id: String) -> StartWorkflowExecutionRequest {
        StartWorkflowExecutionRequest {
            namespace: NAMESPACE.to_owned(),
            request_id: id.clone(),
            workflow_id: id,
            workflow_type: Some(WorkflowType {
                name: "Chain".to_owned(),
            }),
            task_queue: Some(self.client.queue()),
            workflow_task_timeout: proto_duration(TASK_TIMEOUT),
            ..Default::default()
        }
    }
}

async fn start(frontend: Frontend, request: StartWorkflowExecutionRequest) -> Outcome<()> {
    frontend.call("StartWorkflowExecution", request).await
}

/// The chains that are under way.
struct Chains {
    client: Arc<TaskClient>,
    load: Arc<Load>,
    /// How many activities each run has scheduled.
    scheduled: Mutex<HashMap<String, usize>>,
}

impl Chains {
    /// Answers workflow tasks: the next activity, or the end.
    async fn poll(&self, is_sticky: bool) {
        loop {
            // A poll without a task ends after a minute.
            let Ok(Some(task)) = self.client.poll(is_sticky).await else {
                continue;
            };
            let workflow = task.workflow_execution.unwrap_or_default();
            let done = {
                let scheduled = self.scheduled.lock().expect("no holder panics");
                scheduled.get(&workflow.run_id).copied().unwrap_or_default()
            };
            let is_last = done == STEPS;
            let next = if is_last {
                complete()
            } else {
                self.activity(done + 1)
            };
            let answer = RespondWorkflowTaskCompletedRequest {
                task_token: task.task_token,
                commands: vec![next],
                ..Default::default()
            };
            {
                let mut scheduled = self.scheduled.lock().expect("no holder panics");
                if is_last {
                    scheduled.remove(&workflow.run_id);
                } else {
                    scheduled.insert(workflow.run_id, done + 1);
                }
            }
            if let Err(error) = self.client.complete(answer, !is_last).await {
                eprintln!("a plain chain has stopped: {error}");
            }
        }
    }

    /// Answers activities immediately. The last one of a chain ends its time, as the last step of a hosted chain does.
    async fn poll_activities(&self) {
        loop {
            let Ok(Some(task)) = self.client.poll_delivery().await else {
                continue;
            };
            if task.activity_id == STEPS.to_string() {
                let workflow = task.workflow_execution.unwrap_or_default();
                self.load.end(&workflow.workflow_id);
            }
            if let Err(error) = self.client.delivered(task.task_token, Ok(())).await {
                eprintln!("an activity was not answered: {error}");
            }
        }
    }

    fn activity(&self, number: usize) -> command::Command {
        let attributes = command::ScheduleActivityTaskCommandAttributes {
            activity_id: number.to_string(),
            activity_type: Some(ActivityType {
                name: "step".to_owned(),
            }),
            task_queue: Some(self.client.queue()),
            start_to_close_timeout: proto_duration(Duration::from_secs(60)),
            ..Default::default()
        };
        command::Command {
            command_type: CommandType::ScheduleActivityTask as i32,
            attributes: Some(Attributes::ScheduleActivityTaskCommandAttributes(
                attributes,
            )),
        }
    }
}

fn complete() -> command::Command {
    let attributes = command::CompleteWorkflowExecutionCommandAttributes { result: None };
    command::Command {
        command_type: CommandType::CompleteWorkflowExecution as i32,
        attributes: Some(Attributes::CompleteWorkflowExecutionCommandAttributes(
            attributes,
        )),
    }
}

fn proto_duration(duration: Duration) -> Option<prost_types::Duration> {
    prost_types::Duration::try_from(duration).ok()
}
