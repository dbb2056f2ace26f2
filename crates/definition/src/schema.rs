//! The JSON Schema of the format, for editors. Printed from the tables the reader uses.

use serde_json::{Map, Value, json};

use crate::limits::{MAX_NAME_LENGTH, MAX_STEPS};
use crate::shape::{
    APPROVAL, COMPENSATION, ESCALATION, FILE, HTTP, METADATA, Object, RETRY_POLICY, STEP, Shape,
    TRIGGER, WORKFLOW,
};

/// Every mapping of the format.
static OBJECTS: [&Object; 10] = [
    &FILE,
    &METADATA,
    &WORKFLOW,
    &TRIGGER,
    &STEP,
    &HTTP,
    &APPROVAL,
    &RETRY_POLICY,
    &COMPENSATION,
    &ESCALATION,
];

/// The schema, as it is committed in `schemas/definition.schema.json`.
#[must_use]
pub fn json_schema() -> Value {
    let definitions: Map<String, Value> = OBJECTS
        .iter()
        .map(|known| (known.id(), object(known)))
        .collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Stateway workflow definition",
        "anyOf": [reference(&WORKFLOW), reference(&FILE)],
        "$defs": definitions,
    })
}

fn reference(object: &Object) -> Value {
    json!({"$ref": format!("#/$defs/{}", object.id())})
}

fn object(object: &Object) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for field in object.fields {
        let mut schema = shape(&field.shape);
        schema["description"] = Value::from(field.doc);
        for alias in field.aliases {
            let mut other = schema.clone();
            other["description"] = Value::from(format!("Another spelling of `{}`.", field.name));
            properties.insert((*alias).to_owned(), other);
        }
        properties.insert(field.name.to_owned(), schema);
        if field.required {
            required.push(field.name);
        }
    }
    let mut schema = json!({
        "type": "object",
        "properties": properties,
        "additionalProperties": false,
    });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

fn shape(shape: &Shape) -> Value {
    match shape {
        Shape::Text => json!({"type": ["string", "number", "boolean"]}),
        Shape::Name => json!({
            "type": "string", "pattern": "^[A-Za-z0-9_-]+$", "maxLength": MAX_NAME_LENGTH,
        }),
        Shape::Duration => json!({"type": "string", "pattern": "^([0-9]+(ms|s|m|h|d))+$"}),
        Shape::Flag => json!({"type": "boolean"}),
        Shape::Count(most) => json!({"type": "integer", "minimum": 0, "maximum": most}),
        Shape::Positive(most) => json!({"type": "integer", "minimum": 1, "maximum": most}),
        Shape::Amount(most) => json!({"type": "number", "exclusiveMinimum": 0, "maximum": most}),
        Shape::Fraction => json!({"type": "number", "minimum": 0, "maximum": 1}),
        Shape::Word(words, others) => {
            let all: Vec<_> = words().into_iter().chain(others.iter().copied()).collect();
            json!({"enum": all})
        }
        Shape::Any => json!({}),
        Shape::TextMap => {
            json!({"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}})
        }
        Shape::List(items) => json!({
            "type": "array", "items": self::shape(items), "maxItems": MAX_STEPS,
        }),
        Shape::Object(inner) => reference(inner),
    }
}
