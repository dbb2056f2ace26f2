//! A definition as a picture: Mermaid for documents, DOT for Graphviz.

use std::fmt::Write as _;

use crate::definition::StepKind;
use crate::{Definition, Step};

/// The graph in Mermaid's flowchart language.
#[must_use]
pub fn mermaid(definition: &Definition) -> String {
    let mut text = String::from("flowchart TD\n");
    for (index, step) in definition.steps.iter().enumerate() {
        let label = quoted(&label(step));
        let (open, close) = match step.kind {
            StepKind::Approval(_) => ("{{", "}}"),
            StepKind::Sleep { .. } | StepKind::Signal { .. } => ("([", "])"),
            StepKind::Workflow { .. } => ("[[", "]]"),
            StepKind::Task { .. } | StepKind::Http { .. } => ("[", "]"),
        };
        let _ = writeln!(text, "    s{index}{open}{label}{close}");
    }
    for (from, to) in edges(definition) {
        let arrow = if definition.steps[to].when.is_some() {
            "-.->"
        } else {
            "-->"
        };
        let _ = writeln!(text, "    s{from} {arrow} s{to}");
    }
    text
}

/// The graph in Graphviz' DOT language.
#[must_use]
pub fn dot(definition: &Definition) -> String {
    let name = definition.name.as_deref().unwrap_or("workflow");
    let mut text = format!("digraph {} {{\n    rankdir=TB;\n", quoted(name));
    for (index, step) in definition.steps.iter().enumerate() {
        let shape = match step.kind {
            StepKind::Approval(_) => "hexagon",
            StepKind::Sleep { .. } | StepKind::Signal { .. } => "ellipse",
            StepKind::Workflow { .. } => "box3d",
            StepKind::Task { .. } | StepKind::Http { .. } => "box",
        };
        let _ = writeln!(
            text,
            "    s{index} [label={}, shape={shape}];",
            quoted(&label(step))
        );
    }
    for (from, to) in edges(definition) {
        let style = if definition.steps[to].when.is_some() {
            " [style=dashed]"
        } else {
            ""
        };
        let _ = writeln!(text, "    s{from} -> s{to}{style};");
    }
    text.push_str("}\n");
    text
}

fn label(step: &Step) -> String {
    match &step.kind {
        StepKind::Task { agent, .. } if agent.is_empty() => step.name.clone(),
        StepKind::Task { agent, .. } => format!("{} ({agent})", step.name),
        other => format!("{} ({})", step.name, other.as_str()),
    }
}

/// Names are clean already; an agent's is free text.
fn quoted(text: &str) -> String {
    let clean: String = text
        .chars()
        .map(|c| {
            if c == '"' || c == '\\' || c.is_control() {
                '\''
            } else {
                c
            }
        })
        .collect();
    format!("\"{clean}\"")
}

fn edges(definition: &Definition) -> Vec<(usize, usize)> {
    let place = |name: &String| definition.steps.iter().position(|step| step.name == *name);
    let mut found = Vec::new();
    for (to, step) in definition.steps.iter().enumerate() {
        found.extend(
            step.depends_on
                .iter()
                .filter_map(place)
                .map(|from| (from, to)),
        );
    }
    found
}
