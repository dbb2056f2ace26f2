//! The guards of a definition: approvals, escalation roles and budgets. A running execution does not
//! adopt a revision that removes or changes a guard: a new revision must not bypass it.

use std::collections::BTreeSet;

use super::bounded;
use super::difference::{FieldValues, differences, step_fields};
use crate::{Budget, Definition, Escalation, Step, StepKind};

/// How far a step of a running execution is.
pub struct Standing<'s> {
    /// Whether the step of that name has left `pending`.
    pub begun: &'s dyn Fn(&str) -> bool,
    /// Whether the step of that name has completed.
    pub completed: &'s dyn Fn(&str) -> bool,
}

/// The guards that another revision removes or changes. Steps that have begun are the subject of
/// [`super::conflicts`]. A guard that only the new revision has is no conflict.
#[must_use]
pub fn guard_conflicts(old: &Definition, new: &Definition, standing: &Standing<'_>) -> Vec<String> {
    let mut found = Vec::new();
    let role = escalation_difference(old.escalation.as_ref(), new.escalation.as_ref());
    found.extend(
        role.map(|role| format!("the definition is different in the new revision: {role}")),
    );
    let budget = budget_difference(old.budget, new.budget);
    found.extend(
        budget.map(|budget| format!("the definition is different in the new revision: {budget}")),
    );
    for step in &old.steps {
        if !(standing.begun)(&step.name) {
            found.extend(step_conflict(step, new.step(&step.name)));
        }
    }
    found.extend(skipped_approvals(old, new, standing));
    bounded(found, "approvals, escalation roles or budgets")
}

fn step_conflict(step: &Step, other: Option<&Step>) -> Option<String> {
    let name = &step.name;
    let approves = matches!(step.kind, StepKind::Approval(_));
    let Some(other) = other else {
        return approves.then(|| format!("the approval `{name}` is not in the new revision"));
    };
    if approves {
        return (step != other).then(|| {
            let fields = differences(&step_fields(step), &step_fields(other));
            format!("the approval `{name}` is different in the new revision: {fields}")
        });
    }
    let role = escalation_difference(step.escalation.as_ref(), other.escalation.as_ref());
    let budget = budget_difference(step.budget, other.budget);
    let fields: Vec<String> = role.into_iter().chain(budget).collect();
    (!fields.is_empty()).then(|| {
        let fields = fields.join("; ");
        format!("step `{name}` is different in the new revision: {fields}")
    })
}

fn escalation_difference(old: Option<&Escalation>, new: Option<&Escalation>) -> Option<String> {
    let fields = |escalation: Option<&Escalation>| -> FieldValues {
        let role = escalation.map(|escalation| escalation.role.clone());
        role.into_iter()
            .map(|role| ("escalation.role".to_owned(), role))
            .collect()
    };
    (old != new).then(|| differences(&fields(old), &fields(new)))
}

/// A limit that the old revision does not have may be added.
fn budget_difference(old: Budget, new: Budget) -> Option<String> {
    let kept = |old: Option<u64>, new: Option<u64>| old.is_none() || old == new;
    let same =
        kept(old.max_cost_micros, new.max_cost_micros) && kept(old.max_tokens, new.max_tokens);
    (!same).then(|| {
        differences(
            &super::difference::budget_fields(old),
            &super::difference::budget_fields(new),
        )
    })
}

/// Steps whose approval is pending, and which the new revision no longer makes wait for it.
fn skipped_approvals(old: &Definition, new: &Definition, standing: &Standing<'_>) -> Vec<String> {
    let mut found = Vec::new();
    for step in &old.steps {
        if (standing.begun)(&step.name) || new.step(&step.name).is_none() {
            continue;
        }
        let (before, after) = (upstream(old, &step.name), upstream(new, &step.name));
        for approval in before.difference(&after) {
            let approves = |step: &Step| matches!(step.kind, StepKind::Approval(_));
            let kept = new.step(approval).is_some();
            if kept && old.step(approval).is_some_and(approves) && !(standing.completed)(approval) {
                found.push(format!(
                    "step `{}` does not depend on the approval `{approval}` in the new revision",
                    step.name
                ));
            }
        }
    }
    found
}

/// Every step that a step depends on, directly or through others.
fn upstream<'d>(definition: &'d Definition, step: &str) -> BTreeSet<&'d str> {
    let mut found = BTreeSet::new();
    let mut open: Vec<&Step> = definition.step(step).into_iter().collect();
    while let Some(step) = open.pop() {
        for name in &step.depends_on {
            if found.insert(name.as_str()) {
                open.extend(definition.step(name));
            }
        }
    }
    found
}
