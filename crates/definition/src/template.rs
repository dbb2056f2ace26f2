//! Data with references in it: what a step is given, what an execution answers.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::Reference;

/// A JSON document in which text may hold `${…}`. Text that consists of one reference becomes
/// the value itself, whatever its type; a reference inside longer text becomes text. `$${` stands
/// for `${`.
#[derive(Debug, Clone, PartialEq)]
pub struct Template {
    source: Value,
    body: Body,
}

#[derive(Debug, Clone, PartialEq)]
enum Body {
    Fixed(Value),
    Whole(Reference),
    Text(Vec<Part>),
    List(Vec<Body>),
    Object(Vec<(String, Body)>),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Part {
    Text(String),
    Reference(Reference),
}

impl Template {
    /// Reads a document.
    ///
    /// # Errors
    /// A lower-case fragment about the first reference that does not parse.
    pub fn parse(source: Value) -> Result<Self, String> {
        let body = Body::parse(&source)?;
        Ok(Self { source, body })
    }

    /// The document as it was written.
    #[must_use]
    pub const fn source(&self) -> &Value {
        &self.source
    }

    /// Every reference in it.
    #[must_use]
    pub fn references(&self) -> Vec<&Reference> {
        let mut found = Vec::new();
        self.body.collect(&mut found);
        found
    }

    /// Puts values in the place of references.
    ///
    /// # Errors
    /// The first reference that has no value.
    pub fn render(&self, resolve: &Resolve<'_>) -> Result<Value, Reference> {
        self.body.render(resolve)
    }
}

/// Looks a reference up.
pub type Resolve<'r> = dyn Fn(&Reference) -> Option<Value> + 'r;

impl Body {
    fn parse(source: &Value) -> Result<Self, String> {
        Ok(match source {
            Value::String(text) => Self::text(text)?,
            Value::Array(items) => {
                Self::List(items.iter().map(Self::parse).collect::<Result<_, _>>()?)
            }
            Value::Object(fields) => Self::Object(
                fields
                    .iter()
                    .map(|(key, value)| Ok((key.clone(), Self::parse(value)?)))
                    .collect::<Result<_, String>>()?,
            ),
            fixed => Self::Fixed(fixed.clone()),
        })
    }

    fn text(text: &str) -> Result<Self, String> {
        let mut parts = parts(text)?;
        Ok(match parts.as_slice() {
            [] => Self::Fixed(Value::String(String::new())),
            [Part::Text(_)] => match parts.remove(0) {
                Part::Text(text) => Self::Fixed(Value::String(text)),
                Part::Reference(reference) => Self::Whole(reference),
            },
            [Part::Reference(reference)] => Self::Whole(reference.clone()),
            _ => Self::Text(parts),
        })
    }

    fn collect<'b>(&'b self, found: &mut Vec<&'b Reference>) {
        match self {
            Self::Fixed(_) => {}
            Self::Whole(reference) => found.push(reference),
            Self::Text(parts) => found.extend(parts.iter().filter_map(|part| match part {
                Part::Reference(reference) => Some(reference),
                Part::Text(_) => None,
            })),
            Self::List(items) => items.iter().for_each(|item| item.collect(found)),
            Self::Object(fields) => fields.iter().for_each(|(_, value)| value.collect(found)),
        }
    }

    fn render(&self, resolve: &Resolve<'_>) -> Result<Value, Reference> {
        let look_up = |reference: &Reference| resolve(reference).ok_or_else(|| reference.clone());
        Ok(match self {
            Self::Fixed(value) => value.clone(),
            Self::Whole(reference) => look_up(reference)?,
            Self::Text(parts) => {
                let mut text = String::new();
                for part in parts {
                    match part {
                        Part::Text(fixed) => text.push_str(fixed),
                        Part::Reference(reference) => text.push_str(&plain(look_up(reference)?)),
                    }
                }
                Value::String(text)
            }
            Self::List(items) => Value::Array(
                items
                    .iter()
                    .map(|item| item.render(resolve))
                    .collect::<Result<_, _>>()?,
            ),
            Self::Object(fields) => Value::Object(
                fields
                    .iter()
                    .map(|(key, value)| Ok((key.clone(), value.render(resolve)?)))
                    .collect::<Result<Map<_, _>, Reference>>()?,
            ),
        })
    }
}

fn plain(value: Value) -> String {
    match value {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

/// Splits text at its references.
pub(crate) fn parts(text: &str) -> Result<Vec<Part>, String> {
    let mut found = Vec::new();
    let mut literal = String::new();
    let mut rest = text;
    while let Some(dollar) = rest.find("${") {
        if let Some(escaped) = rest[..dollar].strip_suffix('$') {
            literal.push_str(escaped);
            literal.push_str("${");
            rest = &rest[dollar + 2..];
            continue;
        }
        literal.push_str(&rest[..dollar]);
        let Some((inside, after)) = rest[dollar + 2..].split_once('}') else {
            return Err("a `${` without its `}`".to_owned());
        };
        if !literal.is_empty() {
            found.push(Part::Text(std::mem::take(&mut literal)));
        }
        found.push(Part::Reference(Reference::parse(inside.trim())?));
        rest = after;
    }
    literal.push_str(rest);
    if !literal.is_empty() {
        found.push(Part::Text(literal));
    }
    Ok(found)
}

impl Serialize for Template {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.source.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Template {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(Value::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rendered(template: Value) -> Result<Value, Reference> {
        let input = json!({"id": 7, "who": "ada", "items": [1, 2]});
        Template::parse(template)
            .unwrap()
            .render(&|reference| reference.follow(&input).cloned())
    }

    #[test]
    fn a_whole_reference_keeps_its_type_and_one_in_text_becomes_text() {
        assert_eq!(
            rendered(json!({"n": "${input.id}", "t": "order ${input.id} of ${input.who}"})),
            Ok(json!({"n": 7, "t": "order 7 of ada"}))
        );
        assert_eq!(
            rendered(json!(["${input.items}", 1])),
            Ok(json!([[1, 2], 1]))
        );
    }

    #[test]
    fn a_doubled_dollar_is_a_dollar() {
        assert_eq!(
            rendered(json!("$${input.id} costs $5")),
            Ok(json!("${input.id} costs $5"))
        );
    }

    #[test]
    fn a_reference_without_a_value_is_named() {
        let missing = rendered(json!("${input.nothing.here}")).unwrap_err();
        assert_eq!(missing.to_string(), "input.nothing.here");
    }

    #[test]
    fn open_braces_are_refused() {
        assert!(Template::parse(json!("${input.id")).is_err());
        assert!(Template::parse(json!({"a": ["${nothing}"]})).is_err());
    }
}
