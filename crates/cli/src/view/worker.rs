//! Workers, and the queue of tasks and executions.

use jiff::Timestamp;
use serde::Serialize;
use stateway_client::v1;

use super::{DisabledTrigger, ExecutionError, Text, duration, timestamp};

/// One worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Worker {
    /// providers/{provider}/workers/{worker}
    pub name: Text,
    /// The id of the worker, as it gave it.
    pub worker_id: Text,
    /// The roles it has.
    pub roles: Vec<Text>,
    /// The skills it has.
    pub skills: Vec<Text>,
    /// The maximum number of tasks.
    pub capacity: i32,
    /// The number of tasks that the worker has.
    pub task_count: i32,
    /// The tenant whose tasks the worker takes; all tenants if empty.
    pub tenant: Text,
    /// False while the worker is disconnected and may reconnect.
    pub connected: bool,
    /// Since when it is connected.
    pub connect_time: Option<Timestamp>,
    /// The time of its last message.
    pub heartbeat_time: Option<Timestamp>,
    /// When its tasks go to other workers if it sends no message.
    pub lease_expire_time: Option<Timestamp>,
    /// The tasks that the worker has, at most 100.
    pub tasks: Vec<HeldTask>,
    /// The version of the worker's program; empty if the worker does not give one.
    pub version: Text,
    /// The library of the worker and its version.
    pub sdk: Text,
    /// The answers of the last minutes.
    pub recent_tasks: Option<RecentTasks>,
    /// The last failure that the worker reported in this time.
    pub last_failure: Option<ExecutionError>,
}

/// The answers of a worker in the last minutes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RecentTasks {
    /// The time that the counts cover.
    pub window: Option<String>,
    /// Tasks that the worker completed.
    pub completed_count: i32,
    /// Tasks that failed.
    pub failed_count: i32,
    /// Messages about tasks that the gateway refused.
    pub refused_count: i32,
}

impl From<&v1::RecentTasks> for RecentTasks {
    fn from(wire: &v1::RecentTasks) -> Self {
        Self {
            window: duration(wire.window_duration.as_ref()),
            completed_count: wire.completed_count,
            failed_count: wire.failed_count,
            refused_count: wire.refused_count,
        }
    }
}

/// A task that a worker has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HeldTask {
    /// providers/{provider}/executions/{execution}
    pub execution: Text,
    /// The step.
    pub step: Text,
    /// The number of the attempt.
    pub attempt: i32,
    /// Whether the task compensates the step.
    pub compensation: bool,
}

impl From<&v1::HeldTask> for HeldTask {
    fn from(wire: &v1::HeldTask) -> Self {
        Self {
            execution: (&wire.execution).into(),
            step: (&wire.step).into(),
            attempt: wire.attempt,
            compensation: wire.compensation,
        }
    }
}

impl From<&v1::Worker> for Worker {
    fn from(wire: &v1::Worker) -> Self {
        Self {
            name: (&wire.name).into(),
            worker_id: (&wire.worker_id).into(),
            roles: wire.roles.iter().map(Text::from).collect(),
            skills: wire.skills.iter().map(Text::from).collect(),
            capacity: wire.capacity,
            task_count: wire.task_count,
            tenant: (&wire.tenant).into(),
            connected: wire.connected,
            connect_time: timestamp(wire.connect_time.as_ref()),
            heartbeat_time: timestamp(wire.heartbeat_time.as_ref()),
            lease_expire_time: timestamp(wire.lease_expire_time.as_ref()),
            tasks: wire.tasks.iter().map(HeldTask::from).collect(),
            version: (&wire.version).into(),
            sdk: (&wire.sdk).into(),
            recent_tasks: wire.recent_tasks.as_ref().map(RecentTasks::from),
            last_failure: wire.last_failure.as_ref().map(ExecutionError::from),
        }
    }
}

/// The tasks that wait for a worker and the queued executions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Queue {
    /// providers/{provider}/queue
    pub name: Text,
    /// The number of active executions. This and the four figures below are null for a caller that may not read
    /// all of the provider.
    pub active_count: Option<i32>,
    /// The maximum number of active executions.
    pub max_active_count: Option<i32>,
    /// The approximate bytes of active executions in memory.
    pub memory_bytes: Option<i64>,
    /// The limit of these bytes; above it no further execution becomes active.
    pub max_memory_bytes: Option<i64>,
    /// Whether executions are queued because of this limit.
    pub memory_full: Option<bool>,
    /// Tasks that no worker has taken.
    pub tasks: Vec<QueuedTasks>,
    /// Queued executions.
    pub executions: Vec<QueuedExecutions>,
    /// The schedules by their next start, then the disabled ones.
    pub scheduled: Vec<ScheduledStart>,
}

/// The schedule of a definition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ScheduledStart {
    /// The definition.
    pub definition: Text,
    /// The next start; none while the trigger is disabled.
    pub next_start_time: Option<Timestamp>,
    /// Who disabled the trigger; none while it is enabled.
    pub disabled: Option<DisabledTrigger>,
}

/// Tasks of one kind that no worker has taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct QueuedTasks {
    /// The role that the tasks require.
    pub role: Text,
    /// The skill that the tasks require.
    pub skill: Text,
    /// The tenant of the tasks.
    pub tenant: Text,
    /// How many.
    pub task_count: i32,
    /// The connected workers that could take them.
    pub worker_count: i32,
    /// How long the oldest task has waited.
    pub oldest_time: Option<Timestamp>,
    /// The engine carries them out itself; they need no worker.
    pub by_engine: bool,
}

/// Queued executions of one tenant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct QueuedExecutions {
    /// The tenant of the executions.
    pub tenant: Text,
    /// How many.
    pub execution_count: i32,
    /// How long the oldest execution has waited.
    pub oldest_time: Option<Timestamp>,
}

impl From<&v1::Queue> for Queue {
    fn from(wire: &v1::Queue) -> Self {
        let tasks = wire.tasks.iter().map(|line| QueuedTasks {
            role: (&line.role).into(),
            skill: (&line.skill).into(),
            tenant: (&line.tenant).into(),
            task_count: line.task_count,
            worker_count: line.worker_count,
            oldest_time: timestamp(line.oldest_time.as_ref()),
            by_engine: line.by_engine,
        });
        let executions = wire.executions.iter().map(|line| QueuedExecutions {
            tenant: (&line.tenant).into(),
            execution_count: line.execution_count,
            oldest_time: timestamp(line.oldest_time.as_ref()),
        });
        // The gateway leaves out the figures of the whole provider where the caller may not read all of it.
        let has_figures = wire.max_active_count > 0;
        Self {
            name: (&wire.name).into(),
            active_count: has_figures.then_some(wire.active_count),
            max_active_count: has_figures.then_some(wire.max_active_count),
            memory_bytes: has_figures.then_some(wire.memory_bytes),
            max_memory_bytes: has_figures.then_some(wire.max_memory_bytes),
            memory_full: has_figures.then_some(wire.memory_full),
            tasks: tasks.collect(),
            executions: executions.collect(),
            scheduled: wire
                .scheduled
                .iter()
                .map(|start| ScheduledStart {
                    definition: (&start.definition).into(),
                    next_start_time: timestamp(start.next_start_time.as_ref()),
                    disabled: start.disabled.as_ref().map(DisabledTrigger::from),
                })
                .collect(),
        }
    }
}
