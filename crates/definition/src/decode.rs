//! The tree to a draft: fields checked one by one, every problem noted, nothing given up early.
//!
//! A draft is a definition whose parts still know where they stand. What concerns one value is
//! checked here; what concerns several of them is the business of `validate`.

mod budget;
mod fields;
mod http;
mod policy;
mod step;
mod trigger;
mod value;

use crate::definition::{Compensation, Escalation, FailurePolicy};
use crate::diagnostic::{Position, Problems};
use crate::limits::{MAX_CONCURRENCY, MAX_REFERENCES};
use crate::rule::Rule;
use crate::shape::{COMPENSATION, ESCALATION, FILE, METADATA, WORKFLOW};
use crate::source::{Node, NodeValue};
use crate::{Definition, Reference, Step, Template};
use fields::Fields;

/// A definition with its places.
pub(crate) struct Draft {
    pub(crate) at: Position,
    pub(crate) definition: Definition,
    pub(crate) steps: Vec<StepPlaces>,
    pub(crate) compensation: Vec<Position>,
    pub(crate) output: Vec<(Reference, Position)>,
}

/// Where the parts of one step stand, in the order of `definition.steps`.
#[derive(Default)]
pub(crate) struct StepPlaces {
    pub(crate) name: Position,
    pub(crate) timeout: Position,
    pub(crate) then: Position,
    pub(crate) depends_on: Vec<Position>,
    pub(crate) references: Vec<(Reference, Position)>,
    pub(crate) conditions: Vec<(Reference, Position)>,
    pub(crate) output_schema: Position,
}

/// Reads a whole file.
pub(crate) fn file(node: &Node, problems: &mut Problems) -> Option<Draft> {
    let wrapped = matches!(&node.value, NodeValue::Map(entries)
        if entries.iter().any(|entry| entry.key == "spec"));
    if !wrapped {
        return workflow(node, problems);
    }
    let fields = Fields::read(node, &FILE, problems)?;
    let metadata = fields
        .get("metadata")
        .and_then(|node| Fields::read(node, &METADATA, problems));
    let mut draft = workflow(fields.get("spec")?, problems)?;
    if let Some(metadata) = metadata {
        let name = metadata.name("name", problems);
        draft.definition.name = draft.definition.name.take().or(name);
        let description = metadata.text("description", problems).unwrap_or_default();
        if draft.definition.description.is_empty() {
            draft.definition.description = description;
        }
    }
    Some(draft)
}

fn workflow(node: &Node, problems: &mut Problems) -> Option<Draft> {
    let fields = Fields::read(node, &WORKFLOW, problems)?;
    let (steps, places): (Vec<Step>, Vec<StepPlaces>) = fields
        .list("steps", problems)
        .iter()
        .filter_map(|node| step::step(node, problems))
        .unzip();
    let (compensation, compensation_at) = fields
        .list("compensation", problems)
        .iter()
        .filter_map(|node| compensation(node, problems))
        .unzip();
    let mut output_at = Vec::new();
    let output = fields
        .get("output")
        .and_then(|node| template(node, &mut output_at, problems));
    let definition = Definition {
        name: fields.name("name", problems),
        description: fields.text("description", problems).unwrap_or_default(),
        trigger: fields
            .get("trigger")
            .and_then(|node| trigger::trigger(node, problems)),
        timeout: fields.duration("timeout", problems),
        queue_timeout: fields.duration("queueTimeout", problems),
        concurrency: fields
            .get("concurrency")
            .and_then(|node| value::number(node, "concurrency", 1..=MAX_CONCURRENCY, problems)),
        failure_policy: fields
            .word("failurePolicy", &[], problems)
            .unwrap_or(FailurePolicy::Abort),
        escalation: escalation(&fields, problems),
        budget: budget::budget(&fields, problems),
        steps,
        compensation,
        output,
    };
    Some(Draft {
        at: node.at,
        definition,
        steps: places,
        compensation: compensation_at,
        output: output_at,
    })
}

fn compensation(node: &Node, problems: &mut Problems) -> Option<(Compensation, Position)> {
    let fields = Fields::read(node, &COMPENSATION, problems)?;
    let compensation = Compensation {
        step: fields.name("step", problems)?,
        action: fields.text("action", problems).unwrap_or_default(),
        agent: fields.text("agent", problems).unwrap_or_default(),
        timeout: fields.duration("timeout", problems),
        queue_timeout: fields.duration("queueTimeout", problems),
        compensate_unknown: fields.flag("compensateUnknown", problems).unwrap_or(true),
        retry_policy: fields
            .get("retryPolicy")
            .and_then(|node| policy::retry(node, problems)),
    };
    let at = fields.get("step").map_or(node.at, |node| node.at);
    Some((compensation, at))
}

/// The `escalation` block of a workflow or a step.
fn escalation(fields: &Fields<'_>, problems: &mut Problems) -> Option<Escalation> {
    let block = Fields::read(fields.get("escalation")?, &ESCALATION, problems)?;
    let role = block.name("role", problems)?;
    Some(Escalation { role })
}

/// Reads a value with references and notes where each of them stands.
fn template(
    node: &Node,
    places: &mut Vec<(Reference, Position)>,
    problems: &mut Problems,
) -> Option<Template> {
    let before = places.len();
    let fine = value::references(node, places, problems);
    if places.len() - before > MAX_REFERENCES {
        problems.error(
            Rule::Size,
            node.at,
            format!("more than {MAX_REFERENCES} references"),
            "Refer to a whole object once instead of to each of its fields.",
        );
        return None;
    }
    if fine {
        Template::parse(node.to_json()).ok()
    } else {
        None
    }
}
