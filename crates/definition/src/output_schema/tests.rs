//! Output schemas: what they accept, and the words about what they do not.

use serde_json::json;

use super::*;

fn violations(schema: &Value, output: &Value) -> Vec<String> {
    let schema = OutputSchema::compile(schema);
    schema.expect("a schema").violations(output)
}

#[test]
fn violations_name_the_place() {
    let schema = json!({"type": "object", "required": ["id"],
        "properties": {"id": {"type": "integer"}}});
    assert_eq!(violations(&schema, &json!({"id": 1})), [""; 0]);
    let wrong = violations(&schema, &json!({"id": "x"}));
    assert_eq!(wrong, ["/id: \"x\" is not of type \"integer\""]);
    let wrong = violations(&schema, &json!({}));
    assert_eq!(wrong, ["the output: \"id\" is a required property"]);
}

#[test]
fn every_keyword_has_its_words() {
    let cases = [
        (
            json!({"type": ["integer", "null"]}),
            json!("x"),
            "\"x\" is not of types \"null\", \"integer\"",
        ),
        (
            json!({"enum": ["a", 2]}),
            json!("b"),
            "\"b\" is not one of \"a\", 2",
        ),
        (
            json!({"const": {"a": 1}}),
            json!(1),
            "{\"a\":1} was expected",
        ),
        (
            json!({"pattern": "^a+$"}),
            json!("b"),
            "\"b\" does not match \"^a+$\"",
        ),
        (
            json!({"properties": {"a": true}, "additionalProperties": false}),
            json!({"c": 1, "b": 2}),
            "additional properties are not allowed: \"b\", \"c\"",
        ),
        (
            json!({"propertyNames": {"maxLength": 1}}),
            json!({"ab": 1}),
            "\"ab\" is not an allowed property name",
        ),
        (
            json!({"dependentRequired": {"a": ["b"]}}),
            json!({"a": 1}),
            "\"b\" is required because \"a\" is present",
        ),
        (
            json!({"minimum": 2}),
            json!(1),
            "1 is less than the minimum of 2",
        ),
        (
            json!({"maximum": 2}),
            json!(3),
            "3 is greater than the maximum of 2",
        ),
        (
            json!({"exclusiveMinimum": 2}),
            json!(2),
            "2 is not greater than 2",
        ),
        (
            json!({"exclusiveMaximum": 2}),
            json!(2),
            "2 is not less than 2",
        ),
        (
            json!({"multipleOf": 2}),
            json!(3),
            "3 is not a multiple of 2",
        ),
        (
            json!({"minLength": 1}),
            json!(""),
            "\"\" is shorter than 1 character",
        ),
        (
            json!({"maxLength": 2}),
            json!("abc"),
            "\"abc\" is longer than 2 characters",
        ),
        (
            json!({"minItems": 2}),
            json!([1]),
            "has 1 item, at least 2 are required",
        ),
        (
            json!({"maxItems": 1}),
            json!([1, 2]),
            "has 2 items, at most 1 are allowed",
        ),
        (
            json!({"minProperties": 1}),
            json!({}),
            "has 0 properties, at least 1 are required",
        ),
        (
            json!({"maxProperties": 0}),
            json!({"a": 1}),
            "has 1 property, at most 0 are allowed",
        ),
        (
            json!({"contains": {"const": 1}}),
            json!([2]),
            "no item matches `contains`",
        ),
        (
            json!({"contains": {"const": 1}, "minContains": 2}),
            json!([1]),
            "1 item match `contains`, at least 2 must",
        ),
        (
            json!({"uniqueItems": true}),
            json!([1, 2, 1]),
            "the items 0 and 2 are equal",
        ),
        (
            json!({"not": {"type": "null"}}),
            json!(null),
            "null matches the schema under `not`",
        ),
        (
            json!({"anyOf": [{"const": 1}, {"const": 2}]}),
            json!(3),
            "3 matches no schema of `anyOf`",
        ),
        (
            json!({"oneOf": [{"const": 1}, {"const": 2}]}),
            json!(3),
            "3 matches no schema of `oneOf`",
        ),
        (
            json!({"oneOf": [true, true]}),
            json!(3),
            "3 matches several schemas of `oneOf`",
        ),
        (json!(false), json!(3), "nothing is allowed here"),
    ];
    for (schema, output, words) in cases {
        let expected = [format!("the output: {words}")];
        assert_eq!(violations(&schema, &output), expected, "{schema}");
    }
}

#[test]
fn violations_come_in_the_order_of_their_places_and_no_more_than_ten() {
    let schema = json!({"additionalProperties": {"type": "null"}});
    let output: Value = (0..20).map(|at| (format!("p{at:02}"), json!(at))).collect();
    let found = violations(&schema, &output);
    let expected = (0..10).map(|at| format!("/p{at:02}: {at} is not of type \"null\""));
    assert_eq!(found, expected.collect::<Vec<_>>());
}

#[test]
fn references_within_the_schema_are_followed() {
    let schema = json!({"$defs": {"id": {"$anchor": "id", "type": "integer"}},
        "properties": {"a": {"$ref": "#/$defs/id"}, "b": {"$ref": "#id"}, "c": {"$ref": "#"}}});
    let found = violations(&schema, &json!({"a": "x", "b": "y", "c": {"a": true}}));
    let places: Vec<_> = found
        .iter()
        .filter_map(|line| line.split(':').next())
        .collect();
    assert_eq!(places, ["/a", "/b", "/c/a"]);
}

#[test]
fn older_drafts_keep_their_meaning() {
    let schema = json!({"$schema": "http://json-schema.org/draft-07/schema#",
        "items": [{"type": "integer"}], "additionalItems": false});
    assert_eq!(violations(&schema, &json!([1])), [""; 0]);
    let found = violations(&schema, &json!([1, 2]));
    assert_eq!(found, ["the output: 1 additional items are not allowed"]);
}

#[test]
fn a_schema_that_cannot_be_used_is_refused_with_its_place() {
    let refused = |schema: Value| OutputSchema::compile(&schema).expect_err("a mistake");
    let text = refused(json!({"properties": {"a": {"type": "strin"}}}));
    assert_eq!(
        text,
        "/properties/a/type: \"strin\" is not one of \"array\", \"boolean\", \"integer\", \"null\", \"number\", \"object\", \"string\""
    );
    assert_eq!(
        refused(json!(3)),
        "the schema: 3 is not of types \"boolean\", \"object\""
    );
    let text = refused(json!({"pattern": "("}));
    assert!(text.contains('('), "{text}");
    let text = refused(json!({"$ref": "#/$defs/none"}));
    assert!(text.contains("$defs/none"), "{text}");
}

#[test]
fn a_schema_elsewhere_is_not_fetched() {
    let file = concat!("file://", env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    for elsewhere in ["http://example.com/s.json", "s.json", file] {
        let refused = OutputSchema::compile(&json!({"$ref": elsewhere}));
        let expected = format!("`{elsewhere}`: references to other documents are not followed");
        assert_eq!(
            refused.expect_err("a reference"),
            expected[..expected.len().min(MOST_CHARACTERS)]
        );
    }
}

#[test]
fn a_schema_that_refers_to_itself_ends() {
    let schema = json!({"$ref": "#"});
    if let Ok(schema) = OutputSchema::compile(&schema) {
        assert_eq!(schema.violations(&json!({"a": 1})).len(), 1);
    }
}
