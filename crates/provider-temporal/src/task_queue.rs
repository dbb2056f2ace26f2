//! Whether workers poll a task queue. The description of a workflow shows a task that no worker has taken.
//! Only the description of its queue shows that no worker polls for it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use stateway_provider_api::Call;
use stateway_provider_api::adapter::lock;

use crate::api::enums::v1::{
    PendingActivityState, PendingWorkflowTaskState, TaskQueueKind, TaskQueueType,
};
use crate::api::taskqueue::v1::TaskQueue;
use crate::api::workflowservice::v1::{
    DescribeTaskQueueRequest, DescribeWorkflowExecutionResponse,
};
use crate::client::{Ask, Client};
use crate::quota::{Api, RESERVE};
use crate::time::timestamp;

/// For how long the answer about a queue is used again.
const FRESH: Duration = Duration::from_secs(5);
/// How long the answer about a queue may take.
const PATIENCE: Duration = Duration::from_secs(1);
/// The most queues that are remembered.
const MOST_QUEUES: usize = 1_000;
/// The most queues that are asked for one execution.
const MOST_ASKED: usize = 4;

/// What workers take from a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum QueueKind {
    Workflow,
    Activity,
}

/// A queue, by its name.
pub(crate) type Queue = (String, QueueKind);

/// The queues that no worker polls, as far as this was asked.
#[derive(Debug, Clone, Default)]
pub(crate) struct Queues {
    without_workers: BTreeSet<Queue>,
}

impl Queues {
    /// Whether no worker polls this queue. `false` where it is not known.
    pub(crate) fn has_none(&self, queue: &str, kind: QueueKind) -> bool {
        self.without_workers.contains(&(queue.to_owned(), kind))
    }

    /// These queues have no worker.
    pub(crate) fn without_workers(queues: impl IntoIterator<Item = Queue>) -> Self {
        Self {
            without_workers: queues.into_iter().collect(),
        }
    }
}

/// The queues whose tasks wait for a worker.
pub(crate) fn waiting_for(described: &DescribeWorkflowExecutionResponse) -> BTreeSet<Queue> {
    let mut queues = BTreeSet::new();
    for pending in &described.pending_activities {
        let is_ready = pending.state() == PendingActivityState::Scheduled
            && timestamp(pending.next_attempt_schedule_time.as_ref()).is_none();
        let options = pending.activity_options.as_ref();
        let queue = options.and_then(|options| options.task_queue.as_ref());
        if let (true, Some(queue)) = (is_ready, queue) {
            queues.insert((queue.name.clone(), QueueKind::Activity));
        }
    }
    let task = described.pending_workflow_task.as_ref();
    let is_ready = task.is_some_and(|it| it.state() == PendingWorkflowTaskState::Scheduled);
    if let (true, Some(info)) = (is_ready, &described.workflow_execution_info) {
        queues.insert((info.task_queue.clone(), QueueKind::Workflow));
    }
    queues
}

/// What was asked about queues lately.
#[derive(Debug, Default)]
pub(crate) struct QueueCache {
    known: Mutex<BTreeMap<Queue, QueueAnswer>>,
}

/// What is known of one queue.
#[derive(Debug, Clone, Copy)]
struct QueueAnswer {
    /// When it was asked about last.
    asked: Instant,
    /// The last answer.
    has_workers: Option<bool>,
}

impl QueueCache {
    /// Which of these queues no worker polls. To be without an answer is no failure.
    pub(crate) async fn ask(
        &self,
        client: &Client,
        ask: Ask<'_>,
        queues: BTreeSet<Queue>,
    ) -> Queues {
        let mut without = Vec::new();
        for queue in queues.into_iter().take(MOST_ASKED) {
            let known = self.known(&queue);
            let is_fresh = known.is_some_and(|known| client.now() < known.asked + FRESH);
            let mut has_workers = known.and_then(|known| known.has_workers);
            if !is_fresh && client.spare(Api::Reads, RESERVE) {
                // Others that need it meanwhile use the last answer.
                self.keep(&queue, has_workers, client.now());
                // So does this one if there is no new answer: the state must not alternate.
                has_workers = read(client, ask, &queue).await.or(has_workers);
                self.keep(&queue, has_workers, client.now());
            }
            if has_workers == Some(false) {
                without.push(queue);
            }
        }
        Queues::without_workers(without)
    }

    fn known(&self, queue: &Queue) -> Option<QueueAnswer> {
        lock(&self.known).get(queue).copied()
    }

    fn keep(&self, queue: &Queue, has_workers: Option<bool>, asked: Instant) {
        let mut known = lock(&self.known);
        if known.len() >= MOST_QUEUES && !known.contains_key(queue) {
            known.clear();
        }
        known.insert(queue.clone(), QueueAnswer { asked, has_workers });
    }
}

/// Whether a worker polls this queue; none without an answer.
async fn read(client: &Client, ask: Ask<'_>, queue: &Queue) -> Option<bool> {
    let kind = match queue.1 {
        QueueKind::Workflow => TaskQueueType::Workflow,
        QueueKind::Activity => TaskQueueType::Activity,
    };
    let request = DescribeTaskQueueRequest {
        namespace: client.namespace(),
        task_queue: Some(TaskQueue {
            name: queue.0.clone(),
            kind: TaskQueueKind::Normal as i32,
            ..TaskQueue::default()
        }),
        task_queue_type: kind as i32,
        report_stats: false,
    };
    // The execution is shown without it if this takes long.
    let patience = PATIENCE.min(ask.call.remaining() / 2);
    let bounded = Call {
        deadline: Instant::now() + patience,
        ..ask.call.clone()
    };
    let ask = Ask {
        call: &bounded,
        ..ask
    };
    let answer = match client.describe_task_queue(ask, request).await {
        Ok(answer) => answer,
        Err(error) => {
            tracing::debug!(%error, queue = queue.0, "task queue not read");
            return None;
        }
    };
    let has_workers = !answer.pollers.is_empty();
    Some(has_workers)
}
