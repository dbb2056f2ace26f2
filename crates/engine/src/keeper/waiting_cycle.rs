//! Definitions that reach themselves through children while one of them limits its concurrency: each execution
//! may wait for a slot that its own ancestor has.

use std::collections::HashMap;
use std::sync::Arc;

use stateway_definition::{Diagnostic, Position, Rule, Severity, StepKind};
use stateway_machine::Plan;

use super::Keeper;
use crate::request::ApplyDefinition;

/// The most definitions that are followed.
const MOST_FOLLOWED: usize = 1_000;

impl Keeper {
    /// A warning where a definition reaches itself through others and one of them limits its concurrency.
    /// A definition that starts itself directly is found when it is parsed.
    pub(super) fn circle(
        &mut self,
        name: &Arc<str>,
        plan: &Arc<Plan>,
        apply: &ApplyDefinition,
    ) -> Option<Diagnostic> {
        let way = self.way_back(name, plan)?;
        let (limited, most) = way.iter().find_map(|(name, plan)| {
            let most = plan.definition().concurrency?;
            Some((Arc::clone(name), most))
        })?;
        let first = way.get(1).map(|(name, _)| Arc::clone(name))?;
        let next = way.iter().skip(1).map(|(name, _)| name).chain([name]);
        let starts = way.iter().zip(next);
        let starts: Vec<String> = starts
            .map(|((name, _), next)| format!("`{name}` starts `{next}`"))
            .collect();
        Some(Diagnostic {
            file: apply.source_name.clone(),
            at: position(&apply.source, &first),
            severity: Severity::Warning,
            rule: Rule::WaitsForItself,
            message: format!(
                "{}: at most {most} executions of `{limited}` run at a time, so a child can wait for its own \
                 parent forever",
                starts.join(", "),
            ),
            hint: format!(
                "Remove `concurrency` of `{limited}`, or do not start `{name}` from its children."
            ),
        })
    }

    /// The definitions from one back to itself through its children, if it reaches itself through others.
    fn way_back(
        &mut self,
        name: &Arc<str>,
        plan: &Arc<Plan>,
    ) -> Option<Vec<(Arc<str>, Arc<Plan>)>> {
        let mut followed: HashMap<Arc<str>, (Arc<str>, Arc<Plan>)> = HashMap::new();
        let mut open = vec![(Arc::clone(name), Arc::clone(plan))];
        while let Some((at, plan)) = open.pop() {
            for child in children(&plan) {
                if child == *name && at != *name {
                    return Some(trace(&followed, name, (at, plan)));
                }
                if child == *name
                    || followed.contains_key(&child)
                    || followed.len() >= MOST_FOLLOWED
                {
                    continue;
                }
                // A definition that is not applied yet is checked when it is.
                if let Ok(next) = self.current_plan(&child) {
                    followed.insert(Arc::clone(&child), (Arc::clone(&at), Arc::clone(&plan)));
                    open.push((child, next));
                }
            }
        }
        None
    }
}

/// The way to a definition, from the first one on.
fn trace(
    followed: &HashMap<Arc<str>, (Arc<str>, Arc<Plan>)>,
    first: &Arc<str>,
    last: (Arc<str>, Arc<Plan>),
) -> Vec<(Arc<str>, Arc<Plan>)> {
    let mut way = vec![last];
    while let Some(before) = way
        .last()
        .filter(|(name, _)| name != first)
        .and_then(|(name, _)| followed.get(name))
    {
        way.push(before.clone());
    }
    way.reverse();
    way
}

/// The definitions that a definition starts.
fn children(plan: &Plan) -> Vec<Arc<str>> {
    let steps = plan.definition().steps.iter();
    let children = steps.filter_map(|step| match &step.kind {
        StepKind::Workflow { definition } => Some(definition.as_str().into()),
        _ => None,
    });
    children.collect()
}

/// Where a source names a child.
fn position(source: &str, child: &str) -> Position {
    for (line, text) in (1..).zip(source.lines()) {
        let Some(after) = text.find("workflow") else {
            continue;
        };
        if let Some(at) = text[after..].find(child) {
            let column = text[..after + at].chars().count() + 1;
            let column = u32::try_from(column).unwrap_or(1);
            return Position { line, column };
        }
    }
    Position { line: 1, column: 1 }
}
