//! JSON Schema for the output of a step: checked when the definition is read, applied by the
//! machine. Nothing is ever fetched, and patterns run in linear time.

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

/// How many violations are told to a worker.
const MOST_VIOLATIONS: usize = 10;

/// A schema that is ready to be applied.
#[derive(Debug)]
pub struct OutputSchema(Validator);

impl OutputSchema {
    /// Compiles a schema.
    ///
    /// # Errors
    /// One line that says what is wrong with it.
    pub fn compile(schema: &Value) -> Result<Self, String> {
        jsonschema::options()
            .with_pattern_options(PatternOptions::regex())
            .build(schema)
            .map(Self)
            .map_err(|error| first_line(&error.to_string()))
    }

    /// What is wrong with an output, one line each; empty when it fits.
    #[must_use]
    pub fn violations(&self, output: &Value) -> Vec<String> {
        self.0
            .iter_errors(output)
            .take(MOST_VIOLATIONS)
            .map(|error| {
                let at = error.instance_path().to_string();
                let place = if at.is_empty() {
                    "the output".to_owned()
                } else {
                    at
                };
                format!("{place}: {}", first_line(&error.to_string()))
            })
            .collect()
    }
}

fn first_line(text: &str) -> String {
    const MOST: usize = 200;
    text.lines()
        .next()
        .unwrap_or_default()
        .chars()
        .take(MOST)
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn violations_name_the_place() {
        let schema = json!({"type": "object", "required": ["id"],
            "properties": {"id": {"type": "integer"}}});
        let schema = OutputSchema::compile(&schema).unwrap();
        assert_eq!(schema.violations(&json!({"id": 1})), Vec::<String>::new());
        let wrong = schema.violations(&json!({"id": "x"}));
        assert_eq!(wrong, ["/id: \"x\" is not of type \"integer\""]);
    }

    #[test]
    fn a_schema_elsewhere_is_not_fetched() {
        assert!(OutputSchema::compile(&json!({"$ref": "http://example.com/s.json"})).is_err());
        assert!(OutputSchema::compile(&json!({"type": "strin"})).is_err());
    }
}
