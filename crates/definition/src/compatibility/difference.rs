//! The fields in which two steps or two compensations differ, by the names of the format.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::revision::write_sorted;
use crate::{Budget, Compensation, Step};

/// How many fields of one step are listed.
const MAX_FIELDS: usize = 5;
/// How much of a value is shown, in characters.
const MAX_VALUE_LENGTH: usize = 40;

/// Values by field name, as a file has them.
pub(super) type FieldValues = BTreeMap<String, String>;

pub(super) fn step_fields(step: &Step) -> FieldValues {
    let mut object = object(step);
    let kind = object.remove("does").unwrap_or_default();
    object.remove("budget");
    let mut fields = shown(object, "");
    fields.insert("kind".to_owned(), step.kind.as_str().to_owned());
    fields.extend(kind_fields(step.kind.as_str(), kind));
    fields.extend(budget_fields(step.budget));
    fields
}

pub(super) fn budget_fields(budget: Budget) -> FieldValues {
    let cost = budget.max_cost_micros.map(amount);
    let tokens = budget.max_tokens.map(|tokens| tokens.to_string());
    let named = [("maxCost", cost), ("maxTokens", tokens)].into_iter();
    named
        .filter_map(|(name, value)| value.map(|value| (name.to_owned(), value)))
        .collect()
}

pub(super) fn compensation_fields(compensation: &Compensation) -> FieldValues {
    shown(object(compensation), "")
}

/// One sentence part per field: `` `timeout` was 1m and is now 2m ``.
pub(super) fn differences(old: &FieldValues, new: &FieldValues) -> String {
    let names = old
        .keys()
        .chain(new.keys().filter(|name| !old.contains_key(*name)));
    let mut parts: Vec<String> = names
        .filter(|name| old.get(*name) != new.get(*name))
        .map(|name| {
            let value = |fields: &FieldValues| match fields.get(name) {
                Some(value) => cut(value),
                None => "not set".to_owned(),
            };
            format!("`{name}` was {} and is now {}", value(old), value(new))
        })
        .collect();
    let more = parts.len().saturating_sub(MAX_FIELDS);
    if more > 0 {
        parts.truncate(MAX_FIELDS);
        parts.push(format!("{more} more fields differ"));
    }
    parts.join("; ")
}

fn object(value: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(value) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}

/// The fields of the step's block. A block with one value stands for that value.
fn kind_fields(kind: &str, value: Value) -> FieldValues {
    let Value::Object(mut blocks) = value else {
        return FieldValues::new();
    };
    let Some(Value::Object(fields)) = blocks.remove(kind) else {
        return FieldValues::new();
    };
    match kind {
        "task" => shown(fields, ""),
        "sleep" | "signal" | "workflow" => fields
            .into_iter()
            .map(|(_, value)| (kind.to_owned(), text(&value)))
            .collect(),
        _ => shown(fields, &format!("{kind}.")),
    }
}

fn shown(fields: Map<String, Value>, prefix: &str) -> FieldValues {
    fields
        .into_iter()
        .map(|(name, value)| (format!("{prefix}{name}"), text(&value)))
        .collect()
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => {
            let mut text = String::new();
            write_sorted(other, &mut text);
            text
        }
    }
}

fn amount(micros: u64) -> String {
    let whole = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
    whole.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn cut(value: &str) -> String {
    let mut shown: String = value.chars().take(MAX_VALUE_LENGTH).collect();
    if shown.len() < value.len() {
        shown.push('…');
    }
    shown
}
