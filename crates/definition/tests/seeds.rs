//! The examples of the seeds, read as they stand.
#![allow(clippy::unwrap_used)] // In a test, a wrong value is meant to end it.

use std::time::Duration;

use stateway_definition::{
    Backoff, Definition, OnFailure, OutputSchema, Revision, StepKind, conflicts, dot, json_schema,
    mermaid, parse,
};

fn read(text: &str) -> Definition {
    parse(text, "seed.yaml")
        .unwrap_or_else(|invalid| panic!("{invalid}"))
        .definition
}

const COMPENSATION: &str = include_str!("examples/compensation.yaml");
const EVERY_KIND: &str = include_str!("examples/every-kind.yaml");

#[test]
fn seed_000_compensation_example_parses() {
    let definition = read(COMPENSATION);
    let names: Vec<_> = definition
        .steps
        .iter()
        .map(|step| step.name.as_str())
        .collect();
    assert_eq!(
        names,
        [
            "create-account",
            "provision-workspace",
            "setup-analytics",
            "send-welcome"
        ]
    );
    assert_eq!(definition.steps[0].on_failure, Some(OnFailure::Compensate));
    assert_eq!(definition.steps[3].on_failure, Some(OnFailure::Skip));
    assert_eq!(definition.compensation.len(), 3);
    assert_eq!(definition.compensation[0].agent, "data-pipeline");
}

#[test]
fn seed_000_timeout_example_parses() {
    let definition = read(
        "# Step-level timeout\nsteps:\n  - name: analyze\n    timeout: \"5m\"        # This step \
         must complete in 5 minutes\n\n# Workflow-level timeout\ntimeout: \"30m\"\n",
    );
    assert_eq!(definition.timeout, Some(Duration::from_secs(1800)));
    assert_eq!(definition.steps[0].timeout, Some(Duration::from_secs(300)));
}

#[test]
fn seed_000_parallel_example_parses() {
    let definition = read(
        "steps:\n  - name: step-a\n    # No dependencies → starts immediately\n  - name: step-b\n    \
         dependsOn: [step-a]\n  - name: step-c\n    dependsOn: [step-a]   # Same dependency as \
         step-b\n  - name: step-d\n    dependsOn: [step-b, step-c]  # Waits for BOTH\n",
    );
    assert_eq!(definition.steps[3].depends_on, ["step-b", "step-c"]);
}

#[test]
fn seed_000_retry_policy_parses_as_it_stands() {
    let policy = "retryPolicy:\n      maxRetries: 3           # Maximum retry attempts\n      \
                  backoff: \"exponential\"  # constant | linear | exponential\n      initialDelay: \
                  \"1s\"      # Delay before first retry\n      maxDelay: \"60s\"\n";
    let definition = read(&format!("steps:\n  - name: a\n    {policy}"));
    let policy = definition.steps[0].retry_policy.as_ref().unwrap();
    assert_eq!(
        (policy.max_retries, policy.backoff),
        (3, Backoff::Exponential)
    );
    assert_eq!(policy.max_delay, Duration::from_secs(60));
}

#[test]
fn seed_002_failure_words_are_accepted() {
    for (word, meaning) in [
        ("fail_workflow", OnFailure::Abort),
        ("pause_workflow", OnFailure::Pause),
        ("continue", OnFailure::Skip),
        ("compensate", OnFailure::Compensate),
    ] {
        let definition = read(&format!("steps: [{{name: a, on_failure: {word}}}]"));
        assert_eq!(definition.steps[0].on_failure, Some(meaning), "{word}");
    }
}

#[test]
fn every_step_kind_is_read() {
    let definition = read(EVERY_KIND);
    let kinds: Vec<_> = definition
        .steps
        .iter()
        .map(|step| step.kind.as_str())
        .collect();
    assert_eq!(
        kinds,
        ["task", "http", "sleep", "signal", "approval", "workflow"]
    );
    assert!(matches!(&definition.steps[4].kind, StepKind::Approval(a) if a.role == "finance"));
}

#[test]
fn yaml_and_json_mean_the_same_and_have_one_revision() {
    let yaml =
        read("steps:\n  - name: a\n    timeout: 90s # a comment\n    on_failure: continue\n");
    let json = read(r#"{"steps":[{"onFailure":"skip","timeout":"1m30s","name":"a"}]}"#);
    assert_eq!(yaml, json);
    assert_eq!(Revision::of(&yaml), Revision::of(&json));
    let other = read("steps: [{name: a, timeout: 91s, onFailure: skip}]");
    assert_ne!(Revision::of(&yaml), Revision::of(&other));
}

#[test]
fn a_revision_is_the_same_in_every_build() {
    assert_eq!(Revision::of(&read(COMPENSATION)).short(), "0140047a632f");
}

#[test]
fn a_definition_survives_its_own_serialisation() {
    for source in [COMPENSATION, EVERY_KIND] {
        let definition = read(source);
        let text = serde_json::to_string(&definition).unwrap();
        let back: Definition = serde_json::from_str(&text).unwrap();
        assert_eq!(back, definition);
        assert_eq!(Revision::of(&back), Revision::of(&definition));
    }
}

#[test]
fn what_has_begun_must_stay_and_the_rest_may_change() {
    let old = read("steps: [{name: a}, {name: b, dependsOn: [a]}]");
    let begun = |name: &str| name == "a";
    let longer = read(
        "steps: [{name: a}, {name: b, dependsOn: [a], timeout: 1m}, {name: c, dependsOn: [b]}]",
    );
    assert_eq!(conflicts(&old, &longer, &begun), Vec::<String>::new());
    let changed = read("steps: [{name: a, timeout: 1m}, {name: b, dependsOn: [a]}]");
    assert_eq!(
        conflicts(&old, &changed, &begun),
        [
            "step `a` has begun and is different in the new revision: `timeout` was not set and is now \
             1m"
        ]
    );
    let gone = read("steps: [{name: b}]");
    assert_eq!(
        conflicts(&old, &gone, &begun),
        ["step `a` has begun and is not in the new revision"]
    );
}

#[test]
fn the_graph_is_drawn_in_both_languages() {
    let definition =
        read("name: x\nsteps: [{name: a, agent: w}, {name: b, sleep: 1s, dependsOn: [a]}]");
    assert_eq!(
        mermaid(&definition),
        "flowchart TD\n    s0[\"a (w)\"]\n    s1([\"b (sleep)\"])\n    s0 --> s1\n"
    );
    assert_eq!(
        dot(&definition),
        "digraph \"x\" {\n    rankdir=TB;\n    s0 [label=\"a (w)\", shape=box];\n    s1 \
         [label=\"b (sleep)\", shape=ellipse];\n    s0 -> s1;\n}\n"
    );
}

#[test]
fn the_committed_json_schema_is_current_and_accepts_the_examples() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../schemas/definition.schema.json"
    );
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(path, format!("{:#}\n", json_schema())).unwrap();
    }
    // Compared as values: the order of keys depends on a feature that any crate may turn on.
    let committed = std::fs::read_to_string(path).unwrap();
    let committed: serde_json::Value = serde_json::from_str(&committed).unwrap();
    assert_eq!(committed, json_schema());
    let schema = OutputSchema::compile(&json_schema()).unwrap();
    let is_valid = |text: &str| {
        let value = serde_json::from_str(text).unwrap();
        schema.violations(&value).is_empty()
    };
    let bare = r#"{"steps":[{"name":"a","on_failure":"continue"}]}"#;
    assert!(is_valid(bare));
    let wrong = r#"{"steps":[{"name":"a","dependOn":["b"]}]}"#;
    assert!(!is_valid(wrong));
}

#[test]
fn json_is_read_with_its_own_escapes() {
    let json =
        "{\"description\": \"tab\\there \\u00e9 \\ud83d\\ude00\", \"steps\": [{\"name\": \"a\"}]}";
    assert_eq!(read(json).description, "tab\there \u{e9} \u{1f600}");
    let pretty = "{\n\t\"steps\": [\n\t\t{\"name\": \"a\", \"timeout\": \"5m\"}\n\t]\n}\n";
    assert_eq!(read(pretty).steps[0].name, "a");
}
