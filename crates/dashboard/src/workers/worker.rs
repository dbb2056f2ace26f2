//! The workers that are connected, or that may still reconnect to their tasks.

use maud::{Markup, html};
use stateway_phrases::{grouped, per_minute, span};
use stateway_proto::v1::{HeldTask, RecentTasks, Worker};

use super::detail::path_of;
use crate::executions::{path_of as execution_path, shown};
use crate::text::said_within;
use crate::time::{Now, ago, lasting, moment, until};

/// Workers that are shown.
const MOST: usize = 100;
/// Tasks of a worker that are named.
const MOST_TASKS: usize = 10;

/// The workers; `truncated` means that there are more than these.
pub(super) fn list(workers: &[Worker], truncated: bool, now: Now) -> Markup {
    html! {
        section aria-labelledby="workers-title" {
            h2 #workers-title { "Workers " span.count { (workers.len()) @if truncated { "+" } } }
            @if workers.is_empty() {
                p.nothing {
                    "No worker is connected. A worker in any language takes tasks over one stream; to try: "
                    code { "stateway worker --role greeter --exec ./greet.sh" }
                }
            } @else {
                ul.cards { @for worker in workers.iter().take(MOST) { (card(worker, now)) } }
                @if workers.len() > MOST {
                    p.hint {
                        "and "
                        @if truncated { "at least " }
                        (workers.len() - MOST) " more: " code { "stateway workers list" } " lists them"
                    }
                }
            }
        }
    }
}

fn card(worker: &Worker, now: Now) -> Markup {
    html! {
        li.card.row {
            div.card-head {
                h3 { a.go href=(path_of(&worker.name)) { (said_within(&worker.worker_id, 60)) } }
                (presence(worker))
            }
            (facts(worker, now))
            @if !worker.tasks.is_empty() { dl.known { dt { "Tasks" } dd { (tasks(worker)) } } }
        }
    }
}

/// The roles and skills of a worker, and its state.
pub(super) fn facts(worker: &Worker, now: Now) -> Markup {
    html! {
        (load(worker))
        dl.known {
            dt { "Roles" } dd { (words(&worker.roles, "none: only tasks that need no role")) }
            @if !worker.skills.is_empty() { dt { "Skills" } dd { (words(&worker.skills, "")) } }
            dt { "Tenant" }
            dd { @if worker.tenant.is_empty() { "everyone's tasks" } @else { (said_within(&worker.tenant, 60)) } }
            @if !worker.version.is_empty() { dt { "Version" } dd { (said_within(&worker.version, 64)) } }
            @if !worker.sdk.is_empty() { dt { "Library" } dd { (said_within(&worker.sdk, 64)) } }
            @if let Some(recent) = &worker.recent_tasks { dt { "Rate" } dd { (rate(recent)) } }
            dt { "Provider" } dd { (said_within(provider_of(&worker.name), 60)) }
            @if let Some(time) = moment(worker.connect_time.as_ref()) {
                dt { "Connected" } dd { (lasting(time, now)) }
            }
            @if let Some(time) = moment(worker.heartbeat_time.as_ref()) {
                dt { "Last message" } dd { (ago(time, now)) }
            }
            @if let Some(time) = moment(worker.lease_expire_time.as_ref()).filter(|_| worker.task_count > 0) {
                dt { "Lease" } dd { "without a message, its tasks go to other workers " (until(time, now)) }
            }
        }
    }
}

/// Tasks per minute, and over which time.
fn rate(recent: &RecentTasks) -> Markup {
    let (completed, failed) = per_minute(recent);
    let seconds = recent
        .window_duration
        .as_ref()
        .map_or(0, |window| window.seconds);
    html! {
        (completed) " completed and " (failed) " failed per minute "
        span.muted { "(last " (span(seconds)) ")" }
        @if recent.refused_count > 0 { ", " (grouped(recent.refused_count.into())) " messages refused" }
    }
}

/// The id of the provider in `providers/{provider}/workers/{worker}`.
fn provider_of(name: &str) -> &str {
    let name = name.strip_prefix("providers/").unwrap_or(name);
    name.split('/').next().unwrap_or(name)
}

pub(super) fn presence(worker: &Worker) -> Markup {
    html! {
        @if worker.connected { span.light.up { span aria-hidden="true" { "●" } " connected" } }
        // A worker that stops first offers no capacity.
        @else if worker.capacity == 0 { span.light.down { span aria-hidden="true" { "✕" } " drained, disconnected" } }
        @else { span.light.down { span aria-hidden="true" { "✕" } " disconnected, may reconnect" } }
    }
}

/// How much of its room is taken, as a bar and in words.
fn load(worker: &Worker) -> Markup {
    let most = worker.capacity.max(1);
    html! {
        label.load {
            "Tasks: " (worker.task_count) " of " (worker.capacity)
            @if worker.capacity == 0 { " (takes no new ones)" }
            progress max=(most) value=(worker.task_count.min(most)) {}
        }
    }
}

fn words(words: &[String], none: &str) -> Markup {
    html! {
        @if words.is_empty() { span.muted { (none) } }
        @else { ul.labels { @for word in words { li { (said_within(word, 60)) } } } }
    }
}

fn tasks(worker: &Worker) -> Markup {
    let held = usize::try_from(worker.task_count).unwrap_or(usize::MAX);
    html! {
        ul.plain { @for task in worker.tasks.iter().take(MOST_TASKS) { (task_line(task)) } }
        @if held > MOST_TASKS { p.hint { "and " (held - MOST_TASKS) " more" } }
    }
}

pub(super) fn task_line(task: &HeldTask) -> Markup {
    let (_, id) = shown(&task.execution);
    html! {
        li {
            @if task.compensation { "compensating " }
            (said_within(&task.step, 60)) " of "
            a href=(execution_path(&task.execution)) { (said_within(&id, 60)) }
            ", attempt " (task.attempt)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_workers_the_rest_is_counted() {
        let workers = vec![Worker::default(); MOST + 7];
        let html = list(&workers, false, Now::page()).into_string();
        assert_eq!(html.matches("<li class=\"card row\"").count(), MOST);
        assert!(html.contains("and 7 more"), "{html}");
    }
}
