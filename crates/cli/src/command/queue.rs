//! `stateway queue`: the tasks that wait for a worker and the queued executions.

use clap::Args;
use stateway_client::{Call, v1};

use crate::context::{Context, print_message};
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::screen::{Paint, Table, ago, until};
use crate::{resource, view};

/// Shows the tasks that wait for a worker and the queued executions.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stateway queue
  stateway queue builtin -o json")]
pub struct Queue {
    /// The provider (default: the only provider with tasks for workers)
    provider: Option<String>,
}

impl Queue {
    pub(super) async fn run(self, context: &Context) -> Outcome {
        let name = match &self.provider {
            Some(provider) => format!("{}/queue", resource::provider(provider)?),
            None => "providers/-/queue".to_owned(),
        };
        let call = Call::from_message(v1::GetQueueRequest { name });
        let answer = context.client.queue(context.call(call)).await?;
        let queue = view::Queue::from(&answer);
        context.show(&queue, || {
            let now = jiff::Timestamp::now();
            print_load(&queue);
            print_schedules(&queue, now);
            table(&queue, context.paint, now)
        })?;
        Ok(Exit::Ok)
    }
}

/// How many executions are active, and why others wait.
fn print_load(queue: &view::Queue) {
    if let (Some(active), Some(most)) = (queue.active_count, queue.max_active_count) {
        print_message(&format!("{active} of at most {most} executions are active"));
    }
    if let (Some(true), Some(bytes), Some(most)) = (
        queue.memory_full,
        queue.memory_bytes,
        queue.max_memory_bytes,
    ) {
        print_message(&format!(
            "executions are queued because the active ones have {bytes} bytes in memory (max_memory_bytes = {most})"
        ));
    }
    if queue.tasks.is_empty() && queue.executions.is_empty() {
        print_message("nothing waits");
    }
}

/// When each schedule starts an execution.
fn print_schedules(queue: &view::Queue, now: jiff::Timestamp) {
    for start in &queue.scheduled {
        let when = match (&start.disabled, start.next_start_time) {
            (Some(disabled), _) => format!("does not start: {}", disabled.summary()),
            (None, Some(time)) => format!("starts in {}", until(time, now)),
            (None, None) => continue,
        };
        print_message(&format!("{} {when}", start.definition.raw()));
    }
}

fn table(queue: &view::Queue, paint: Paint, now: jiff::Timestamp) -> String {
    let age = |time: Option<jiff::Timestamp>| time.map(|time| ago(time, now)).unwrap_or_default();
    let headings = [
        "WAITING", "COUNT", "ROLE", "SKILL", "TENANT", "WORKERS", "OLDEST",
    ];
    let mut table = Table::new(&headings, paint);
    for line in &queue.tasks {
        table.row(vec![
            "tasks".into(),
            line.task_count.to_string(),
            line.role.to_string(),
            line.skill.to_string(),
            line.tenant.to_string(),
            if line.by_engine {
                "the engine".into()
            } else {
                line.worker_count.to_string()
            },
            age(line.oldest_time),
        ]);
    }
    for line in &queue.executions {
        table.row(vec![
            "executions".into(),
            line.execution_count.to_string(),
            String::new(),
            String::new(),
            line.tenant.to_string(),
            String::new(),
            age(line.oldest_time),
        ]);
    }
    table.text()
}
