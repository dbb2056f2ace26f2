//! Single values: text, names, durations, numbers, words.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use stateway_model::UnknownWord;

use crate::diagnostic::{Position, Problems};
use crate::limits::MAX_NAME_LENGTH;
use crate::rule::Rule;
use crate::source::{Entry, Node, NodeValue};
use crate::suggest::nearest;
use crate::template::{Part, parts};
use crate::{Reference, parse_duration};

/// Notes a value of the wrong kind.
pub(super) fn wrong<T>(
    node: &Node,
    name: &str,
    expected: &str,
    problems: &mut Problems,
) -> Option<T> {
    problems.error(
        Rule::WrongType,
        node.at,
        format!("`{name}` is {}", node.kind()),
        format!("Write {expected} here."),
    );
    None
}

pub(super) fn text(node: &Node, name: &str, problems: &mut Problems) -> Option<String> {
    match &node.value {
        NodeValue::Text(text) => Some(text.clone()),
        NodeValue::Number(number) => Some(number.to_string()),
        NodeValue::Bool(flag) => Some(flag.to_string()),
        _ => wrong(node, name, "text", problems),
    }
}

/// A name is letters, digits, `-` and `_`, so that it can stand in a reference.
pub(super) fn name(node: &Node, field: &str, problems: &mut Problems) -> Option<String> {
    let name = text(node, field, problems)?;
    let clean = name
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    if clean && !name.is_empty() && name.len() <= MAX_NAME_LENGTH {
        return Some(name);
    }
    let shown: String = name.chars().take(40).collect();
    problems.error(
        Rule::BadName,
        node.at,
        format!("`{shown}` cannot be a name"),
        format!("Use 1 to {MAX_NAME_LENGTH} letters, digits, `-` or `_`."),
    );
    None
}

pub(super) fn duration(node: &Node, name: &str, problems: &mut Problems) -> Option<Duration> {
    let (reason, hint) = match &node.value {
        NodeValue::Text(text) => match parse_duration(text) {
            Ok(duration) => return Some(duration),
            Err(reason) => (
                reason,
                "Write a number with ms, s, m, h or d: `500ms`, `30s`, `1h30m`.".into(),
            ),
        },
        NodeValue::Number(number) => (
            format!("`{number}` has no unit"),
            format!("Write `{number}s` if you mean seconds, `{number}m` for minutes."),
        ),
        _ => return wrong(node, name, "a duration such as `30s`", problems),
    };
    problems.error(Rule::BadDuration, node.at, reason, hint);
    None
}

pub(super) fn count(node: &Node, name: &str, most: u32, problems: &mut Problems) -> Option<u32> {
    number(node, name, 0..=most, problems)
}

pub(super) fn number<N: TryFrom<u64> + PartialOrd + Display>(
    node: &Node,
    name: &str,
    bounds: RangeInclusive<N>,
    problems: &mut Problems,
) -> Option<N> {
    let NodeValue::Number(number) = &node.value else {
        return wrong(node, name, "a whole number", problems);
    };
    let count = number.as_u64().and_then(|count| N::try_from(count).ok());
    match count {
        Some(count) if bounds.contains(&count) => Some(count),
        _ => {
            let (least, most) = bounds.into_inner();
            let hint = format!("Use a whole number from {least} to {most}.");
            problems.error(
                Rule::OutOfRange,
                node.at,
                format!("`{name}` is {number}"),
                hint,
            );
            None
        }
    }
}

pub(super) fn fraction(node: &Node, name: &str, problems: &mut Problems) -> Option<f64> {
    let NodeValue::Number(number) = &node.value else {
        return wrong(node, name, "a number from 0 to 1", problems);
    };
    match number.as_f64() {
        Some(part) if (0.0..=1.0).contains(&part) => Some(part),
        _ => {
            let hint = "Use a number from 0 (none) to 1 (down to no pause at all).";
            problems.error(
                Rule::OutOfRange,
                node.at,
                format!("`{name}` is {number}"),
                hint,
            );
            None
        }
    }
}

pub(super) fn word<W: FromStr<Err = UnknownWord> + Clone>(
    node: &Node,
    name: &str,
    others: &[(&str, W)],
    problems: &mut Problems,
) -> Option<W> {
    let text = text(node, name, problems)?;
    if let Some((_, word)) = others.iter().find(|(other, _)| *other == text) {
        return Some(word.clone());
    }
    match text.parse::<W>() {
        Ok(word) => Some(word),
        Err(unknown) => {
            unknown_word(node.at, name, &unknown, problems);
            None
        }
    }
}

fn unknown_word(at: Position, name: &str, unknown: &UnknownWord, problems: &mut Problems) {
    let shown: String = unknown.word.chars().take(40).collect();
    let hint = match nearest(&unknown.word, unknown.known.iter().copied()) {
        Some(meant) => format!("Did you mean `{meant}`?"),
        None => format!("Use one of: {}.", unknown.known.join(", ")),
    };
    let message = format!("`{shown}` is not a {} for `{name}`", unknown.list);
    problems.error(Rule::UnknownWord, at, message, hint);
}

/// Collects the references of a value; false when one of them does not parse.
pub(super) fn references(
    node: &Node,
    places: &mut Vec<(Reference, Position)>,
    problems: &mut Problems,
) -> bool {
    match &node.value {
        NodeValue::Text(text) => match parts(text) {
            Ok(parts) => {
                places.extend(parts.into_iter().filter_map(|part| match part {
                    Part::Reference(reference) => Some((reference, node.at)),
                    Part::Text(_) => None,
                }));
                true
            }
            Err(reason) => {
                let hint = "Write `${input.field}` or `${steps.name.output.field}`; `$${` stands \
                            for a plain `${`.";
                problems.error(Rule::BadReference, node.at, reason, hint);
                false
            }
        },
        // Counted and not short-circuited, so that every broken reference is reported.
        NodeValue::List(items) => {
            items
                .iter()
                .filter(|item| !references(item, places, problems))
                .count()
                == 0
        }
        NodeValue::Map(entries) => {
            let broken = |entry: &&Entry| !references(&entry.node, places, problems);
            entries.iter().filter(broken).count() == 0
        }
        NodeValue::Null | NodeValue::Bool(_) | NodeValue::Number(_) => true,
    }
}
