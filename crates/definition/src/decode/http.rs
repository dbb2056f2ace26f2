//! The `http` block.

use std::collections::BTreeMap;

use serde_json::Value;

use super::fields::Fields;
use super::{StepPlaces, template, value};
use crate::Template;
use crate::definition::StepKind;
use crate::diagnostic::{Position, Problems};
use crate::header::{is_header_name, is_header_value};
use crate::limits::MAX_HEADERS;
use crate::rule::Rule;
use crate::shape::HTTP;
use crate::source::{Entry, Node, NodeValue};

pub(super) fn http(
    node: &Node,
    places: &mut StepPlaces,
    problems: &mut Problems,
) -> Option<StepKind> {
    let fields = Fields::read(node, &HTTP, problems)?;
    Some(StepKind::Http {
        method: method(&fields, problems),
        url: template(fields.get("url")?, &mut places.references, problems)?,
        headers: headers(&fields, places, problems),
    })
}

fn method(fields: &Fields<'_>, problems: &mut Problems) -> String {
    let given = fields.get("method").zip(fields.text("method", problems));
    let Some((node, method)) = given else {
        return "POST".to_owned();
    };
    if !is_header_name(&method) {
        let message = format!("`{}` is not an HTTP method", short(&method));
        let hint = "Use a word such as `GET`, `POST`, `PUT` or `DELETE`.";
        problems.error(Rule::BadName, node.at, message, hint);
    }
    method
}

fn headers(
    fields: &Fields<'_>,
    places: &mut StepPlaces,
    problems: &mut Problems,
) -> BTreeMap<String, Template> {
    let mut found: BTreeMap<String, Template> = BTreeMap::new();
    let Some(node) = fields.get("headers") else {
        return found;
    };
    let NodeValue::Map(entries) = &node.value else {
        let expected = "a mapping of header names to values";
        value::wrong::<()>(node, "headers", expected, problems);
        return found;
    };
    if entries.len() > MAX_HEADERS {
        let message = format!("more than {MAX_HEADERS} headers");
        let hint = "Combine several headers into one, or send the data in the body.";
        problems.error(Rule::Size, node.at, message, hint);
        return found;
    }
    for entry in entries {
        let twice = found
            .keys()
            .any(|name| name.eq_ignore_ascii_case(&entry.key));
        if twice {
            let message = format!("the header `{}` is given twice", short(&entry.key));
            let hint = "Keep one of the spellings: header names are not case-sensitive.";
            problems.error(Rule::DuplicateKey, entry.at, message, hint);
        } else if let Some(template) = header(entry, places, problems) {
            found.insert(entry.key.clone(), template);
        }
    }
    found
}

fn header(entry: &Entry, places: &mut StepPlaces, problems: &mut Problems) -> Option<Template> {
    if !is_header_name(&entry.key) {
        let hint = "Use letters, digits and `-`.";
        bad(
            entry.at,
            "cannot be a header's name",
            &entry.key,
            hint,
            problems,
        );
    }
    let text = value::text(&entry.node, "headers", problems)?;
    if !is_header_value(&text) {
        let hint = "Write the value in one line, without control characters.";
        bad(
            entry.node.at,
            "has a value with a line break",
            &entry.key,
            hint,
            problems,
        );
        return None;
    }
    template(&entry.node, &mut places.references, problems)?;
    // A number or a flag is sent as text.
    Template::parse(Value::String(text)).ok()
}

fn bad(at: Position, what: &str, name: &str, hint: &str, problems: &mut Problems) {
    let message = format!("`{}` {what}", short(name));
    problems.error(Rule::BadHeader, at, message, hint);
}

fn short(text: &str) -> String {
    let shown: String = text.chars().take(40).collect();
    shown.escape_debug().collect()
}
