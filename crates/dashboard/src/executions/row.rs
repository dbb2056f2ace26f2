//! One execution in the list.

use maud::{Markup, html};
use stateway_proto::v1::Execution;

use super::name::{address, path_of, shown};
use super::phrase::happening;
use crate::fields::link;
use crate::live::Part;
use crate::sub_state::{badge, finished, word};
use crate::text::{cut, said_within, visible};
use crate::time::{Now, ago, moment};

/// Characters of a name in the description of its check box.
const SHORT: usize = 30;
/// The most labels of a row.
const LABELS: usize = 4;

/// A row, as it is on the page and as it is sent when it changes.
pub(super) fn part(execution: &Execution, now: Now) -> Part {
    Part::new(id(&execution.name), render(execution, now))
}

/// A row of which the engine has no record any more.
pub(super) fn removed(name: &str) -> Part {
    let (provider, shown) = shown(name);
    let html = html! {
        tr.row.removed id=(id(name)) {
            td.select {}
            td.state { span.muted { "removed" } }
            td.what { s.muted { (said_within(&shown, 60)) } }
            td.provider data-label="Provider" { (provider) }
            td.now { span.muted { "The record was removed." } }
            td.time {}
            td.time {}
        }
    };
    Part::new(id(name), html)
}

/// The element's id. Names are encoded, so they hold no blank and no quote.
fn id(name: &str) -> String {
    format!("row-{name}")
}

fn render(execution: &Execution, now: Now) -> Markup {
    let (provider, name) = shown(&execution.name);
    let sub_state = execution.sub_state();
    let definition = execution.definition.rsplit('/').next().unwrap_or_default();
    let changed = if finished(sub_state) {
        execution.end_time.as_ref()
    } else {
        execution.update_time.as_ref()
    };
    let created = moment(execution.create_time.as_ref());
    let whole = visible(&name);
    let short = cut(&whole, SHORT).unwrap_or(&whole);
    html! {
        tr.row.(word(sub_state)) id=(id(&execution.name)) {
            td.select {
                input type="checkbox" name="row" form="selection" value=(address(&execution.name))
                    aria-label={ "Select " (short) };
            }
            td.state {
                (badge(sub_state))
                @if !execution.reason().label().is_empty() { span.reason { (reason(execution.reason().label())) } }
            }
            td.what {
                a.go href=(path_of(&execution.name)) { (said_within(&name, 60)) }
                span.definition { (said_within(definition, 60)) }
                (labels(execution))
            }
            td.provider data-label="Provider" { (provider) }
            td.now { (happening(execution, now)) }
            td.time data-label="Changed" {
                @if let Some(time) = moment(changed).or(created) { (ago(time, now)) }
            }
            td.time data-label="Created" { @if let Some(time) = created { (ago(time, now)) } }
        }
    }
}

/// The labels, each a link to the executions that have it.
fn labels(execution: &Execution) -> Markup {
    let mut labels: Vec<_> = execution.labels.iter().collect();
    labels.sort();
    html! {
        @if !labels.is_empty() {
            ul.labels { @for (key, value) in labels.iter().take(LABELS) { li { (label(key, value)) } } }
        }
    }
}

/// A label as a link to the executions that have it.
pub(crate) fn label(key: &str, value: &str) -> Markup {
    html! {
        a.label href=(link("/executions", &[("filter", &label_filter(key, value))])) {
            (said_within(key, 30)) "=" (said_within(value, 40))
        }
    }
}

/// A label as a condition of the filter language.
fn label_filter(key: &str, value: &str) -> String {
    let escaped: String = value
        .chars()
        .flat_map(|symbol| {
            let escape = matches!(symbol, '"' | '\\' | '*').then_some('\\');
            escape.into_iter().chain([symbol])
        })
        .collect();
    format!("labels.{key} = \"{escaped}\"")
}

/// `RETRIES_EXHAUSTED` as `retries exhausted`.
pub(crate) fn reason(reason: &str) -> String {
    reason.to_lowercase().replace('_', " ")
}
