//! The compiled-in tables: their form, their completeness, and their documentation pages.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use stateway_definition::OutputSchema;
use stateway_model::{ExecutionId, SubState};
use stateway_provider_api::table::{COMPILED_IN, Qualifier, Row, Scope, compiled_in, page};
use stateway_provider_api::{Decision, NativeState, Observation, StepObservation, Table, classify};

fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn schema() -> OutputSchema {
    let path = repository().join("provider-tables/schema.json");
    let text = std::fs::read_to_string(path).unwrap();
    OutputSchema::compile(&serde_json::from_str(&text).unwrap()).unwrap()
}

fn as_json(toml: &str) -> serde_json::Value {
    serde_json::to_value(toml::from_str::<toml::Table>(toml).unwrap()).unwrap()
}

fn tables() -> impl Iterator<Item = Arc<Table>> {
    COMPILED_IN
        .iter()
        .map(|(kind, _)| compiled_in(kind).unwrap())
}

#[test]
fn every_compiled_in_table_is_good() {
    for (kind, text) in COMPILED_IN {
        let table = Table::parse(text).unwrap_or_else(|error| panic!("{kind}: {error}"));
        assert_eq!(&table.kind, kind);
    }
}

#[test]
fn every_file_in_the_folder_is_compiled_in() {
    let files: BTreeSet<String> = std::fs::read_dir(repository().join("provider-tables"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter_map(|name| name.strip_suffix(".toml").map(str::to_owned))
        .collect();
    let kinds: BTreeSet<String> = COMPILED_IN
        .iter()
        .map(|(kind, _)| (*kind).to_owned())
        .collect();
    assert_eq!(files, kinds);
}

#[test]
fn every_file_follows_the_schema() {
    let schema = schema();
    for (kind, text) in COMPILED_IN {
        let errors = schema.violations(&as_json(text));
        assert!(errors.is_empty(), "{kind}: {errors:#?}");
    }
}

#[test]
fn a_wrong_file_fails_the_schema() {
    let schema = schema();
    let head = "version = 1\nkind = \"k\"\ntitle = \"K\"\nsummary = \"s\"\n";
    let row = "native = \"a\"\nsub_state = \"failed\"\nterminal = true\nsource = \"seen\"\n";
    let valid = |text: &str| schema.violations(&as_json(text)).is_empty();
    assert!(valid(&format!("{head}[[rows]]\n{row}")));
    let version_2 = head.replace("version = 1", "version = 2");
    for wrong in [
        head.to_owned(),
        format!("{version_2}[[rows]]\n{row}"),
        format!("{head}more = 1\n[[rows]]\n{row}"),
        format!("{head}[[rows]]\n{row}more = 1\n"),
        format!("{head}[[rows]]\n{}", row.replace("failed", "done")),
        format!("{head}[[rows]]\n{}", row.replace("true", "false")),
        format!("{head}[[rows]]\n{row}refine = true\n"),
        format!("{head}[[rows]]\n{row}basis = \"DEFAULTED\"\n"),
        format!("{head}[[rows]]\n{row}reason = \"BECAUSE\"\n"),
        format!("{head}[[rows]]\n{}", row.replace("source = \"seen\"\n", "")),
    ] {
        assert!(!valid(&wrong), "the schema lets this pass:\n{wrong}");
    }
}

fn observed(row: &Row) -> Observation {
    let mut native = NativeState::new(&row.native);
    native.qualifiers = row.when.clone();
    let id = ExecutionId::new("a").unwrap();
    match row.scope {
        Scope::Execution => Observation::new(id, native),
        Scope::Step => {
            let mut whole = Observation::new(id, NativeState::new("no such state"));
            whole.steps = vec![StepObservation::new("s", native)];
            whole
        }
    }
}

#[test]
fn every_row_classifies_to_itself() {
    let mut rows = 0;
    for table in tables() {
        for row in table.rows() {
            let observation = observed(row);
            let classified = classify(&table, &observation, Timestamp::UNIX_EPOCH);
            let verdict = match row.scope {
                Scope::Execution => classified.execution,
                Scope::Step => classified.steps[0],
            };
            let place = format!("{}: {} {}", table.kind, row.scope.as_str(), row.label());
            assert_eq!(verdict.row, Some(row), "{place}");
            assert_eq!(verdict.decision, Decision::Row, "{place}");
            assert_eq!(
                (verdict.sub_state, verdict.reason, verdict.basis),
                (row.sub_state, row.reason, row.basis),
                "{place}"
            );
            rows += 1;
        }
    }
    assert!(rows > 250, "only {rows} rows");
}

/// The states that must be in a table, written down from what the engines were seen to answer,
/// from their API references. Not taken from the tables.
const KNOWN_STATES: &[(&str, Scope, &str)] = &[
    (
        "restate",
        Scope::Execution,
        "pending scheduled ready running paused backing-off suspended completed \
         active succeeded failed error",
    ),
    (
        "restate",
        Scope::Step,
        "pending scheduled ready running paused backing-off suspended completed",
    ),
    (
        "step-functions",
        Scope::Execution,
        "RUNNING SUCCEEDED FAILED TIMED_OUT ABORTED PENDING_REDRIVE",
    ),
    (
        "step-functions",
        Scope::Step,
        "ActivityFailed ActivityScheduled ActivityScheduleFailed ActivityStarted ActivitySucceeded \
         ActivityTimedOut ChoiceStateEntered ChoiceStateExited FailStateEntered \
         LambdaFunctionFailed LambdaFunctionScheduled LambdaFunctionScheduleFailed \
         LambdaFunctionStarted LambdaFunctionStartFailed LambdaFunctionSucceeded \
         LambdaFunctionTimedOut MapIterationAborted MapIterationFailed MapIterationStarted \
         MapIterationSucceeded MapStateAborted MapStateEntered MapStateExited MapStateFailed \
         MapStateStarted MapStateSucceeded ParallelStateAborted ParallelStateEntered \
         ParallelStateExited ParallelStateFailed ParallelStateStarted ParallelStateSucceeded \
         PassStateEntered PassStateExited SucceedStateEntered SucceedStateExited TaskFailed \
         TaskScheduled TaskStarted TaskStartFailed TaskStateAborted TaskStateEntered \
         TaskStateExited TaskSubmitFailed TaskSubmitted TaskSucceeded TaskTimedOut \
         WaitStateAborted WaitStateEntered WaitStateExited MapRunAborted MapRunFailed \
         MapRunStarted MapRunSucceeded ExecutionRedriven MapRunRedriven EvaluationFailed",
    ),
    (
        "temporal",
        Scope::Execution,
        "RUNNING PAUSED COMPLETED FAILED CANCELED TERMINATED CONTINUED_AS_NEW TIMED_OUT",
    ),
    (
        "temporal",
        Scope::Step,
        "SCHEDULED STARTED CANCEL_REQUESTED PAUSED PAUSE_REQUESTED",
    ),
    (
        "builtin",
        Scope::Execution,
        "created queued running awaiting_signal awaiting_approval paused escalated compensating \
         completed rolled_back failed cancelled",
    ),
    (
        "builtin",
        Scope::Step,
        "pending running backing_off correcting waiting completed failed skipped cancelled \
         compensating compensated",
    ),
];

#[test]
fn every_state_an_engine_is_known_to_have_is_in_its_table() {
    for (kind, scope, states) in KNOWN_STATES {
        let table = compiled_in(kind).unwrap();
        for state in states.split_whitespace() {
            let there = |row: &Row| row.scope == *scope && row.native == state;
            assert!(
                table.rows().iter().any(there),
                "{kind} has no {} row for {state}",
                scope.as_str()
            );
        }
    }
}

#[test]
fn an_execution_that_restate_calls_completed_is_never_a_success_without_its_result() {
    let table = compiled_in("restate").unwrap();
    let completed = NativeState::new("completed");
    assert_eq!(table.find(Scope::Execution, &completed), None);
    assert_eq!(table.find(Scope::Step, &completed), None);
    let failure = completed.with(Qualifier::new("completion_result"), "failure");
    let row = table.find(Scope::Execution, &failure).unwrap();
    assert_eq!(row.sub_state, SubState::Failed);
}

#[test]
fn every_documentation_page_is_current() {
    for table in tables() {
        let path = repository().join(format!("docs/providers/{}.md", table.kind));
        let committed = std::fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let current = page(&committed, &table).unwrap();
        assert!(
            committed == current,
            "docs/providers/{}.md does not show its table any more; run `cargo xtask docs`",
            table.kind
        );
    }
}
