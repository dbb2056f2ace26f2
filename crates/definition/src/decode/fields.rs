//! One mapping, checked against its table.

use std::str::FromStr;
use std::time::Duration;

use super::value;
use crate::diagnostic::{Position, Problems};
use crate::rule::Rule;
use crate::shape::Object;
use crate::source::{Node, NodeValue};
use crate::suggest::nearest;

/// The known fields of one mapping, by their first spelling.
pub(super) struct Fields<'n> {
    found: Vec<(&'static str, Position, &'n Node)>,
}

impl<'n> Fields<'n> {
    /// Checks the keys. Nothing when the node is no mapping.
    pub(super) fn read(
        node: &'n Node,
        object: &'static Object,
        problems: &mut Problems,
    ) -> Option<Self> {
        let NodeValue::Map(entries) = &node.value else {
            let names: Vec<_> = object
                .fields
                .iter()
                .map(|field| field.name)
                .take(4)
                .collect();
            problems.error(
                Rule::WrongType,
                node.at,
                format!("{} is {}, not a mapping", object.what, node.kind()),
                format!("Write `key: value` pairs such as `{}`.", names.join("`, `")),
            );
            return None;
        };
        let mut fields = Self { found: Vec::new() };
        for entry in entries {
            match object.field(&entry.key) {
                Some(field) => fields.add(field.name, entry.at, &entry.node, problems),
                None => unknown(&entry.key, entry.at, object, problems),
            }
        }
        fields.check_required(node, object, problems);
        Some(fields)
    }

    fn add(&mut self, name: &'static str, at: Position, node: &'n Node, problems: &mut Problems) {
        if self.get_with_place(name).is_some() {
            let hint = "Keep one of the spellings.";
            problems.error(
                Rule::DuplicateKey,
                at,
                format!("`{name}` is given twice"),
                hint,
            );
            return;
        }
        self.found.push((name, at, node));
    }

    fn check_required(&self, node: &Node, object: &'static Object, problems: &mut Problems) {
        for field in object.fields.iter().filter(|field| field.required) {
            if self.get(field.name).is_none() {
                problems.error(
                    Rule::MissingField,
                    node.at,
                    format!("{} has no `{}`", object.what, field.name),
                    format!("Add `{}:`. {}", field.name, field.doc),
                );
            }
        }
    }

    fn get_with_place(&self, name: &str) -> Option<(Position, &'n Node)> {
        self.found
            .iter()
            .find(|(found, ..)| *found == name)
            .map(|(_, at, node)| (*at, *node))
    }

    /// The field's value; a field that is given as nothing counts as not given.
    pub(super) fn get(&self, name: &str) -> Option<&'n Node> {
        self.get_with_place(name)
            .map(|(_, node)| node)
            .filter(|node| !matches!(node.value, NodeValue::Null))
    }

    /// Where the field's key stands.
    pub(super) fn place(&self, name: &str) -> Option<Position> {
        self.get_with_place(name).map(|(at, _)| at)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    pub(super) fn text(&self, name: &str, problems: &mut Problems) -> Option<String> {
        value::text(self.get(name)?, name, problems)
    }

    pub(super) fn name(&self, name: &str, problems: &mut Problems) -> Option<String> {
        value::name(self.get(name)?, name, problems)
    }

    pub(super) fn duration(&self, name: &str, problems: &mut Problems) -> Option<Duration> {
        value::duration(self.get(name)?, name, problems)
    }

    pub(super) fn flag(&self, name: &str, problems: &mut Problems) -> Option<bool> {
        let node = self.get(name)?;
        match node.value {
            NodeValue::Bool(flag) => Some(flag),
            _ => value::wrong(node, name, "true or false", problems),
        }
    }

    pub(super) fn count(&self, name: &str, most: u32, problems: &mut Problems) -> Option<u32> {
        value::count(self.get(name)?, name, most, problems)
    }

    pub(super) fn word<W: FromStr<Err = stateway_model::UnknownWord> + Clone>(
        &self,
        name: &str,
        others: &[(&str, W)],
        problems: &mut Problems,
    ) -> Option<W> {
        value::word(self.get(name)?, name, others, problems)
    }

    pub(super) fn list(&self, name: &str, problems: &mut Problems) -> &'n [Node] {
        match self.get(name) {
            None => &[],
            Some(Node {
                value: NodeValue::List(items),
                ..
            }) => items,
            Some(node) => {
                value::wrong::<()>(node, name, "a list", problems);
                &[]
            }
        }
    }
}

fn unknown(key: &str, at: Position, object: &'static Object, problems: &mut Problems) {
    let known = || object.fields.iter().map(|field| field.name);
    let hint = match nearest(key, known()) {
        Some(meant) => format!("Did you mean `{meant}`?"),
        None => format!("Known here: {}.", known().collect::<Vec<_>>().join(", ")),
    };
    let shown: String = key.chars().take(40).collect();
    problems.error(
        Rule::UnknownField,
        at,
        format!("`{shown}` is not a field of {}", object.what),
        hint,
    );
}
