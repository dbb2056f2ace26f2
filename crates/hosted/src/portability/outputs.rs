//! How large the outputs of steps are by their schemas, as JSON. The sizes are lower bounds: a schema that
//! does not bound its values adds nothing to them.

use serde_json::Value;

/// How deep schemas are read.
const MOST_LEVELS: usize = 32;

/// The bytes that every value of a schema has at least.
pub(super) fn least(schema: &Value) -> usize {
    bytes(schema, Bound::Least, MOST_LEVELS)
}

/// The bytes that a value of a schema can have by the bounds that the schema names (`maxLength`, `maxItems`); none
/// if the schema names none.
pub(super) fn most(schema: &Value) -> usize {
    bytes(schema, Bound::Most, MOST_LEVELS)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Bound {
    Least,
    Most,
}

fn bytes(schema: &Value, bound: Bound, levels: usize) -> usize {
    // Alternatives and references are not followed, so the value is only a lower bound.
    let Some(deeper) = levels.checked_sub(1) else {
        return 0;
    };
    let number = |key: &str| {
        let number = schema.get(key).and_then(Value::as_u64).unwrap_or(0);
        usize::try_from(number).unwrap_or(usize::MAX)
    };
    match schema.get("type").and_then(Value::as_str) {
        Some("string") => match bound {
            Bound::Least => number("minLength"),
            Bound::Most => number("maxLength"),
        },
        Some("array") => {
            let items = match bound {
                Bound::Least => number("minItems"),
                Bound::Most => number("maxItems"),
            };
            let item = schema.get("items").map_or(0, |it| bytes(it, bound, deeper));
            // The comma after each item.
            items.saturating_mul(item.saturating_add(1))
        }
        Some("object") => {
            let required: Vec<_> = schema
                .get("required")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .collect();
            let fields = schema.get("properties").and_then(Value::as_object);
            let fields = fields.into_iter().flatten();
            let counted = fields
                .filter(|(name, _)| bound == Bound::Most || required.contains(&name.as_str()));
            counted.fold(0, |sum, (_, field)| {
                sum.saturating_add(bytes(field, bound, deeper))
            })
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_bounds_of_a_schema_are_added_up() {
        let schema = json!({
            "type": "object",
            "required": ["text", "list"],
            "properties": {
                "text": {"type": "string", "minLength": 10, "maxLength": 100},
                "list": {"type": "array", "minItems": 2, "maxItems": 5, "items": {"type": "string", "minLength": 3, "maxLength": 9}},
                "more": {"type": "string", "minLength": 50, "maxLength": 1_000},
                "free": {"type": "string"},
            },
        });
        assert_eq!(least(&schema), 10 + 2 * 4);
        assert_eq!(most(&schema), 100 + 5 * 10 + 1_000);
        assert_eq!(least(&json!({"type": "object"})), 0);
        assert_eq!(most(&json!({"enum": ["a"]})), 0);
        let endless = json!({"type": "array", "maxItems": u64::MAX, "items": {"type": "string", "maxLength": u64::MAX}});
        assert_eq!(most(&endless), usize::MAX);
    }
}
