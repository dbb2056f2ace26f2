//! The steps: as a picture, and as a table with what can be done about each.

use maud::{Markup, html};
use stateway_phrases::usage as usage_of;
use stateway_proto::v1::{Definition, DefinitionStep, ExecutionError, Reason, Step, SubState};

use super::action::{Action, allowed, permitted};
use super::chosen::step_link;
use super::facts::Facts;
use super::step::execution;
use crate::executions::{ExecutionPath, attempt, reason, waiting};
use crate::fields::link;
use crate::graph::{Graph, Node};
use crate::sub_state::badge;
use crate::text::{anchor, error_text, said_within};
use crate::time::{Now, ago, lasting, length, moment, until};
use crate::visitor::Visitor;

/// The most steps in the table.
const MOST: usize = 500;
/// Reasons of executions and steps that are rolled back, or were.
const COMPENSATION: [Reason; 3] = [
    Reason::Compensating,
    Reason::RolledBack,
    Reason::PartiallyRolledBack,
];

/// The picture: of the definition's steps where it is known, else of those that were seen.
pub(super) fn graph(path: &ExecutionPath, facts: &Facts) -> Markup {
    let seen = &facts.execution.steps;
    let defined = facts.definition.as_ref().filter(|it| !it.steps.is_empty());
    if seen.is_empty() && defined.is_none() {
        return html! {};
    }
    let mut graph = match defined {
        Some(definition) => of_definition(definition, seen),
        None => of_steps(seen),
    };
    for node in &mut graph.nodes {
        let found = seen.iter().find(|step| step.name == node.name);
        node.href = found.map(|step| {
            if facts.has_step_details() && begun(step) {
                step_link(path, &step.name, 0)
            } else {
                format!("{}#step-{}", path.path(), anchor(&step.name))
            }
        });
    }
    graph.compensating = COMPENSATION.contains(&facts.execution.reason());
    html! {
        section.card aria-labelledby="graph-title" {
            h2 #graph-title { "Steps" }
            (graph.draw("The steps and their dependencies"))
            @if defined.is_none() {
                p.muted { "The steps so far, in the order in which they ran: the engine does not report dependencies." }
            }
        }
    }
}

/// The steps of a definition, as far as they have come.
pub(crate) fn of_definition(definition: &Definition, seen: &[Step]) -> Graph {
    let node = |step: &DefinitionStep| {
        let found = seen.iter().find(|one| one.name == step.name);
        Node {
            name: step.name.clone(),
            kind: step.kind().label().to_owned(),
            sub_state: found.filter(|step| begun(step)).map(Step::sub_state),
            note: found
                .filter(|step| begun(step))
                .map_or_else(|| kind(step), |found| note(found, step)),
            href: None,
            compensates: step.compensated,
            conditional: !step.condition.is_empty(),
        }
    };
    let nodes: Vec<_> = definition.steps.iter().map(node).collect();
    let needs = definition.steps.iter().flat_map(|step| {
        let needed = step.depends_on.iter().map(String::as_str);
        needed.map(|needed| (needed, step.name.as_str()))
    });
    let edges = Graph::edges_by_name(&nodes, needs);
    Graph {
        compensation: Graph::way_back(&nodes, &edges),
        nodes,
        edges,
        compensating: false,
    }
}

/// An engine's own steps, in the order in which they began; it is not known what they need.
fn of_steps(seen: &[Step]) -> Graph {
    let node = |step: &Step| Node {
        name: step.name.clone(),
        sub_state: Some(step.sub_state()),
        note: match step.reason().label() {
            "" => step.native_state.clone(),
            known => reason(known),
        },
        compensates: COMPENSATION.contains(&step.reason()),
        ..Node::default()
    };
    let nodes: Vec<_> = seen.iter().map(node).collect();
    let edges = in_time(seen);
    Graph {
        compensation: Graph::way_back(&nodes, &edges),
        nodes,
        edges,
        compensating: false,
    }
}

/// A step that began when others had just ended follows the last of them.
fn in_time(seen: &[Step]) -> Vec<(usize, usize)> {
    let mut edges = Vec::new();
    for (to, step) in seen.iter().enumerate() {
        let Some(begun) = moment(step.start_time.as_ref()) else {
            continue;
        };
        let ended = seen.iter().enumerate().filter_map(|(from, other)| {
            let end = moment(other.end_time.as_ref())?;
            (from != to && end <= begun).then_some((end, from))
        });
        let ended: Vec<_> = ended.collect();
        let last = ended.iter().map(|(end, _)| *end).max();
        edges.extend(
            ended
                .iter()
                .filter(|(end, from)| {
                    Some(*end) == last && moment(seen[*from].start_time.as_ref()) < Some(begun)
                })
                .map(|(_, from)| (*from, to)),
        );
    }
    edges
}

fn begun(step: &Step) -> bool {
    step.reason() != Reason::NotStarted
        && (step.start_time.is_some()
            || step.end_time.is_some()
            || step.sub_state() != SubState::Waiting)
}

fn kind(step: &DefinitionStep) -> String {
    match (step.kind().label(), step.role.as_str()) {
        ("task", "") => String::new(),
        ("task", role) => role.to_owned(),
        (kind, "") => kind.to_owned(),
        (kind, role) => format!("{kind}, {role}"),
    }
}

fn note(step: &Step, defined: &DefinitionStep) -> String {
    let retry = step.retry.clone().unwrap_or_default();
    match step.reason().label() {
        "" if retry.attempt > 1 => attempt(&retry),
        "" => kind(defined),
        known => reason(known),
    }
}

/// Every step with its attempt, its waits and its trouble.
pub(super) fn table(path: &ExecutionPath, facts: &Facts, visitor: &Visitor, now: Now) -> Markup {
    let may = |action| allowed(action, facts) && permitted(action, facts, visitor);
    let (retry_now, retry_from) = (may(Action::RetryNow), may(Action::RetryFrom));
    let steps = &facts.execution.steps;
    if steps.is_empty() {
        return html! {};
    }
    html! {
        section.card.flush aria-labelledby="steps-title" {
            h2.hidden #steps-title { "Every step" }
            div.scroll.plain {
                table.steps {
                    caption.hidden { "Every step, with its attempts and errors" }
                    thead {
                        tr {
                            th scope="col" { "Step" } th scope="col" { "State" } th scope="col" { "Now" }
                            th scope="col" { "Started" } th scope="col" { "Duration" }
                            th scope="col" { span.hidden { "Actions" } }
                        }
                    }
                    tbody { @for step in steps.iter().take(MOST) { (row(path, facts, (retry_now, retry_from), step, now)) } }
                }
            }
            @if steps.len() > MOST { p.muted { (steps.len() - MOST) " more steps are left out." } }
        }
    }
}

/// The whole text of an error that has several lines.
fn trace(step: &str, error: &ExecutionError) -> Markup {
    html! {
        details id=(format!("trace-{}", anchor(step))) {
            summary { "Error trace" }
            (error_text(error))
        }
    }
}

fn row(
    path: &ExecutionPath,
    facts: &Facts,
    (retry_now, retry_from): (bool, bool),
    step: &Step,
    now: Now,
) -> Markup {
    let retry = step.retry.clone().unwrap_or_default();
    let next = moment(retry.next_attempt_time.as_ref());
    let time = moment(step.start_time.as_ref()).or(moment(step.end_time.as_ref()));
    // Without an attempt in progress, the progress of the last attempt is not shown.
    let progress = step.progress.as_ref();
    let under_way = progress.filter(|_| step.sub_state() == SubState::Running);
    html! {
        tr id=(format!("step-{}", anchor(&step.name))) {
            th scope="row" {
                @if facts.has_step_details() && begun(step) {
                    a href=(step_link(path, &step.name, 0)) { (said_within(&step.name, 60)) }
                } @else { (said_within(&step.name, 60)) }
            }
            td.state {
                (badge(step.sub_state()))
                @if !step.reason().label().is_empty() { span.reason { (reason(step.reason().label())) } }
            }
            td.now {
                @if retry.attempt > 1 || step.sub_state() == SubState::BackingOff {
                    span.part { (attempt(&retry)) }
                }
                @if let Some(next) = next { span.part { "next " (until(next, now)) } }
                @for wait in step.waits.iter().take(3) { span.part { (waiting(wait, now)) } }
                @if !step.blocked_by.is_empty() {
                    span.part.muted { "after " (said_within(&step.blocked_by.join(", "), 120)) }
                }
                @if !step.child.is_empty() { span.part { "done by " (execution(&step.child)) } }
                @if let Some(usage) = &step.usage { span.part.muted { (usage_of(usage)) } }
                @if let Some(progress) = under_way {
                    span.part {
                        progress max="1" value=(progress.fraction) {}
                        " " (said_within(&progress.detail, 80))
                    }
                }
                @if let Some(error) = &step.last_error {
                    span.part.error-line {
                        (said_within(&error.message, 160))
                        @if !error.category().label().is_empty() { " " span.tag { (said_within(error.category().label(), 40)) } }
                    }
                    @if !error.detail.is_empty() { (trace(&step.name, error)) }
                }
            }
            td.time { @if let Some(time) = time { (ago(time, now)) } }
            td.time { (duration(step, now)) }
            td.do {
                @if step.sub_state() == SubState::BackingOff && retry_now {
                    (button(path, Action::RetryNow, &step.name))
                }
                @if begun(step) && retry_from {
                    (button(path, Action::RetryFrom, &step.name))
                }
            }
        }
    }
}

/// How long the step took, or has been open.
fn duration(step: &Step, now: Now) -> Markup {
    let from = moment(step.start_time.as_ref());
    let to = moment(step.end_time.as_ref());
    html! {
        @match (from, to) {
            (Some(from), Some(to)) => { (length(from, to)) }
            (Some(from), None) if begun(step) => { (lasting(from, now)) }
            _ => {}
        }
    }
}

fn button(path: &ExecutionPath, action: Action, step: &str) -> Markup {
    let href = link(
        &format!("{}/do/{}", path.path(), action.word()),
        &[("step", step)],
    );
    let label = match action {
        Action::RetryFrom => "Retry from here",
        other => other.title(),
    };
    html! { a.button.small href=(href) data-dialog { (label) span.hidden { ": " (said_within(step, 60)) } } }
}

#[cfg(test)]
mod tests {
    use prost_types::Timestamp as Wire;

    use super::*;

    fn step(name: &str, from: i64, to: Option<i64>) -> Step {
        let at = |seconds| Wire { seconds, nanos: 0 };
        Step {
            name: name.into(),
            start_time: Some(at(from)),
            end_time: to.map(at),
            ..Step::default()
        }
    }

    #[test]
    fn steps_of_an_engine_follow_what_ended_before_them() {
        let seen = [
            step("a", 0, Some(2)),
            step("b", 2, Some(4)),
            step("c", 2, Some(4)),
            step("d", 4, None),
        ];
        assert_eq!(in_time(&seen), [(0, 1), (0, 2), (1, 3), (2, 3)]);
    }
}
