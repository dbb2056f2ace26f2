//! What waits for a worker or for its turn, of one provider.

use maud::{Markup, html};
use stateway_proto::v1::{Queue, QueuedTasks};

use crate::definitions::disabled;
use crate::providers::id_of;
use crate::text::said_within;
use crate::time::{Now, lasting, moment, until};

/// Lines of what waits that are shown, of tasks and of executions.
const MOST: usize = 100;
/// Schedules that are shown.
const MOST_SCHEDULED: usize = 20;

pub(super) fn render(queue: &Queue, now: Now) -> Markup {
    let id = id_of(queue.name.trim_end_matches("/queue"));
    let title = format!("queue-{id}");
    html! {
        section aria-labelledby=(title) {
            h2 id=(title) { "Waiting tasks of " (said_within(id, 60)) }
            // Left out for callers that may not read all of the provider.
            @if queue.max_active_count > 0 {
                p.muted {
                    (queue.active_count) " of at most " (queue.max_active_count)
                    " executions are active."
                }
            }
            @if queue.tasks.is_empty() { p.nothing { "No task waits for a worker." } }
            @else { (tasks(&queue.tasks, now)) }
            @if !queue.executions.is_empty() {
                h3 { "Queued executions" }
                ul.plain {
                    @for line in queue.executions.iter().take(MOST) {
                        li {
                            b { (line.execution_count) } " of " (tenant(&line.tenant))
                            @if let Some(time) = moment(line.oldest_time.as_ref()) {
                                ", the oldest waits " (lasting(time, now))
                            }
                        }
                    }
                }
                (more(queue.executions.len(), MOST))
            }
            @if !queue.scheduled.is_empty() {
                h3 { "Scheduled" }
                ul.plain {
                    @for start in queue.scheduled.iter().take(MOST_SCHEDULED) {
                        li {
                            a href={ "/" (start.definition) } {
                                (said_within(start.definition.trim_start_matches("definitions/"), 60))
                            }
                            @if let Some(time) = moment(start.next_start_time.as_ref()) {
                                " starts " (until(time, now))
                            }
                            @if let Some(mark) = &start.disabled { " does not start: " (disabled(mark, now)) }
                        }
                    }
                }
                (more(queue.scheduled.len(), MOST_SCHEDULED))
            }
        }
    }
}

/// How many are not shown.
fn more(all: usize, shown: usize) -> Markup {
    html! { @if all > shown { p.hint { "and " (all - shown) " more" } } }
}

fn tasks(lines: &[QueuedTasks], now: Now) -> Markup {
    html! {
        div.scroll {
            table.list {
                caption.hidden { "Tasks that no worker has taken" }
                thead {
                    tr {
                        th scope="col" { "Role" }
                        th scope="col" { "Waiting" }
                        th scope="col" { "Oldest" }
                        th scope="col" { "Suitable workers" }
                        th scope="col" { "Tenant" }
                    }
                }
                tbody { @for line in lines.iter().take(MOST) { (task(line, now)) } }
            }
        }
        (more(lines.len(), MOST))
    }
}

fn task(line: &QueuedTasks, now: Now) -> Markup {
    let nobody = line.worker_count == 0 && !line.by_engine;
    html! {
        tr.row {
            td data-label="Role" {
                @if line.by_engine { "the engine" } @else if line.role.is_empty() { "anyone" } @else { b { (said_within(&line.role, 60)) } }
                @if !line.skill.is_empty() { span.definition { "with the skill " (said_within(&line.skill, 60)) } }
            }
            td data-label="Waiting" { (line.task_count) " " (if line.task_count == 1 { "task" } else { "tasks" }) }
            td data-label="Oldest" {
                @if let Some(time) = moment(line.oldest_time.as_ref()) { (lasting(time, now)) }
            }
            td data-label="Suitable workers" {
                @if nobody { span.lacking { "✕ none is connected" } }
                @else if line.by_engine { "none is needed" }
                @else { (line.worker_count) " connected" }
            }
            td data-label="Tenant" { (tenant(&line.tenant)) }
        }
    }
}

fn tenant(tenant: &str) -> Markup {
    html! { @if tenant.is_empty() { span.muted { "no tenant" } } @else { (said_within(tenant, 60)) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_lines_the_rest_is_counted() {
        let queue = Queue {
            tasks: vec![QueuedTasks::default(); MOST + 7],
            ..Queue::default()
        };
        let html = render(&queue, Now::page()).into_string();
        assert_eq!(html.matches("<tr class=\"row\"").count(), MOST);
        assert!(html.contains("and 7 more"), "{html}");
    }

    #[test]
    fn figures_of_the_provider_are_shown_only_if_they_are_known() {
        let shown = |max_active_count| {
            let queue = Queue {
                max_active_count,
                ..Queue::default()
            };
            render(&queue, Now::page()).into_string()
        };
        assert!(shown(4).contains("0 of at most 4"));
        assert!(!shown(0).contains("executions are active"));
    }

    #[test]
    fn tasks_of_the_engine_need_no_worker() {
        let waits = |by_engine| {
            let line = QueuedTasks {
                by_engine,
                ..QueuedTasks::default()
            };
            task(&line, Now::page()).into_string()
        };
        assert!(waits(true).contains("none is needed"));
        assert!(waits(false).contains("none is connected"));
    }
}
