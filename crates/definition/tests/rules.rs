//! One wrong definition per rule, and the exact words a person gets.
//!
//! The golden file is rewritten by `UPDATE_GOLDEN=1 cargo test -p stateway-definition`; its diff
//! is what a reviewer reads.
#![allow(clippy::unwrap_used)] // In a test, a wrong value is meant to end it.

use std::fmt::Write as _;

use stateway_definition::{Rule, Severity, parse};

mod wrong;

fn transcript() -> String {
    let mut text = String::new();
    for (rule, source) in wrong::cases() {
        let _ = writeln!(text, "### {rule}\n");
        for line in source.lines().take(30) {
            let _ = writeln!(text, "    {}", line.chars().take(110).collect::<String>());
        }
        let outcome = match parse(&source, "order.yaml") {
            Ok(parsed) => parsed
                .warnings
                .iter()
                .map(|w| format!("{w}\n"))
                .collect::<String>(),
            Err(invalid) => format!("{invalid}\n"),
        };
        let _ = writeln!(text, "\n{outcome}");
    }
    text
}

#[test]
fn every_rule_tells_a_person_what_to_do() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/rules.txt");
    let transcript = transcript();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(path, &transcript).unwrap();
    }
    let golden = std::fs::read_to_string(path).unwrap();
    assert_eq!(
        golden, transcript,
        "the golden file is rewritten with UPDATE_GOLDEN=1"
    );
}

#[test]
fn each_case_breaks_the_rule_it_is_named_after() {
    for (rule, source) in wrong::cases() {
        let found = match parse(&source, "x.yaml") {
            Ok(parsed) => parsed.warnings,
            Err(invalid) => invalid.diagnostics,
        };
        assert!(
            found.iter().any(|diagnostic| diagnostic.rule == rule),
            "{rule}: {found:?}"
        );
    }
}

#[test]
fn no_rule_is_without_a_case() {
    let covered: Vec<Rule> = wrong::cases().into_iter().map(|(rule, _)| rule).collect();
    let missing: Vec<_> = Rule::ALL
        .iter()
        .filter(|rule| !covered.contains(rule))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn every_problem_is_told_at_once() {
    let source =
        "steps:\n  - name: a\n    timeout: 5\n    dependsOn: [b]\n    onFailure: explode\n";
    let invalid = parse(source, "many.yaml").unwrap_err();
    let rules: Vec<Rule> = invalid
        .diagnostics
        .iter()
        .map(|diagnostic| diagnostic.rule)
        .collect();
    for expected in [
        Rule::BadDuration,
        Rule::UnknownDependency,
        Rule::UnknownWord,
    ] {
        assert!(rules.contains(&expected), "{invalid}");
    }
}

#[test]
fn a_flood_of_problems_is_counted_and_not_printed() {
    let steps: String = (0..300)
        .map(|n| format!("  - name: s{n}\n    nonsense: 1\n"))
        .collect();
    let invalid = parse(&format!("steps:\n{steps}"), "flood.yaml").unwrap_err();
    assert_eq!(
        invalid.diagnostics.len(),
        stateway_definition::limits::MAX_DIAGNOSTICS
    );
    assert!(invalid.left_off > 100 && invalid.to_string().ends_with("more"));
}

/// Every field of the JSON Schema with its description, other spellings left out.
fn fields() -> Vec<(String, String)> {
    let schema = stateway_definition::json_schema();
    let mut found = Vec::new();
    for (object, shape) in schema["$defs"].as_object().unwrap() {
        // A wrapped file is described in a sentence and not in a table.
        if object == "definition-file" || object == "metadata" {
            continue;
        }
        for (name, field) in shape["properties"].as_object().unwrap() {
            let doc = field["description"].as_str().unwrap();
            if !doc.starts_with("Another spelling") {
                found.push((name.clone(), doc.to_owned()));
            }
        }
    }
    found
}

#[test]
fn the_documentation_has_every_field_with_its_description_and_every_rule() {
    let page = include_str!("../../../docs/definition.md");
    let fields = fields();
    assert!(fields.len() > 60, "{fields:?}");
    for (name, doc) in fields {
        let described = page
            .lines()
            .any(|line| line.starts_with(&format!("| `{name}`")) && line.contains(&doc));
        assert!(described, "`{name}` is not documented as: {doc}");
    }
    for rule in Rule::ALL {
        assert!(
            page.contains(&format!("| `{rule}` |")),
            "`{rule}` is not documented"
        );
    }
}

#[test]
fn an_error_is_told_even_after_more_warnings_than_are_shown() {
    let twice = "a, ".repeat(200);
    let source = format!(
        "steps: [{{name: a}}, {{name: b, dependsOn: [{twice} a]}}]\ncompensation: [{{step: c}}]"
    );
    let invalid = parse(&source, "x.yaml").unwrap_err();
    let errors = invalid
        .diagnostics
        .iter()
        .filter(|d| d.severity == Severity::Error);
    let rules: Vec<Rule> = errors.map(|error| error.rule).collect();
    assert_eq!(rules, [Rule::CompensationStep]);
}
