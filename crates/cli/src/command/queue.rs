//! `stateway queue`: the tasks that wait for a worker, the queued executions, the schedules and the load.

use clap::Args;
use stateway_client::{Call, v1};
use stateway_phrases::grouped;

use crate::arguments::Output;
use crate::context::{Context, print_message};
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::screen::{Paint, Table, ago, until};
use crate::{resource, view};

/// Shows the tasks that wait for a worker, the queued executions, the schedules and the load.
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
        let now = jiff::Timestamp::now();
        context.show(&queue, || text(&queue, context.paint, now))?;
        let is_empty = queue.tasks.is_empty() && queue.executions.is_empty();
        if is_empty && context.output == Output::Table {
            print_message("no task and no execution waits");
        }
        Ok(Exit::Ok)
    }
}

/// The waiting executions and tasks, the schedules and the load, each as a table.
fn text(queue: &view::Queue, paint: Paint, now: jiff::Timestamp) -> String {
    let tables = [
        Some(waiting(queue, paint, now)),
        schedules(queue, paint, now),
        load(queue, paint),
    ];
    let tables: Vec<_> = tables.into_iter().flatten().collect();
    tables.join("\n\n")
}

/// When each schedule starts an execution, or who disabled it.
fn schedules(queue: &view::Queue, paint: Paint, now: jiff::Timestamp) -> Option<String> {
    let mut table = Table::new(&["SCHEDULE", "NEXT START"], paint);
    for start in &queue.scheduled {
        let when = match (&start.disabled, start.next_start_time) {
            (Some(disabled), _) => disabled.summary(),
            (None, Some(time)) => format!("in {}", until(time, now)),
            (None, None) => String::new(),
        };
        table.row(vec![start.definition.to_string(), when]);
    }
    (!queue.scheduled.is_empty()).then(|| table.text())
}

/// How many executions are active, and whether memory keeps others queued. Nothing for a caller that may not
/// read all of the provider.
fn load(queue: &view::Queue, paint: Paint) -> Option<String> {
    let mut table = Table::new(&["LOAD", "NOW", "LIMIT", ""], paint);
    let mut line = |what: &str, now: i64, limit: i64, note: &str| {
        let cells = [
            what.to_owned(),
            grouped(now),
            grouped(limit),
            note.to_owned(),
        ];
        table.row(cells.into());
    };
    line(
        "active executions",
        queue.active_count?.into(),
        queue.max_active_count?.into(),
        "",
    );
    let is_full = queue.memory_full == Some(true);
    line(
        "bytes in memory",
        queue.memory_bytes?,
        queue.max_memory_bytes?,
        if is_full {
            "full: executions are queued"
        } else {
            ""
        },
    );
    Some(table.text())
}

fn waiting(queue: &view::Queue, paint: Paint, now: jiff::Timestamp) -> String {
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
