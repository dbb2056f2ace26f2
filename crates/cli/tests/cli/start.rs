//! `stateway start`.

use serde_json::json;

use crate::binary::{Gateway, finish, run};
use crate::scripts::{BAD, GOOD, LONG};

#[test]
fn an_execution_is_started_by_each_form_of_name() {
    let gateway = Gateway::new();
    for arguments in [
        &["start", "memory/hello", "-o", "json"][..],
        &["start", "hello", "--provider", "memory", "-o", "json"],
        &["start", "providers/memory/definitions/hello", "-o", "json"],
    ] {
        let started = gateway.run(arguments).exits(0).json();
        assert_eq!(started["definition"], "providers/memory/definitions/hello");
        assert_eq!(started["sub_state"], "running");
    }
}

#[test]
fn waiting_tells_success_from_failure() {
    let gateway = Gateway::new();
    let start = |script| {
        gateway.run(&[
            "start",
            "memory/script",
            "--input",
            script,
            "--wait",
            "-o",
            "json",
        ])
    };
    let good = start(GOOD).exits(0);
    assert_eq!(good.json()["sub_state"], "succeeded");
    assert_eq!(good.json()["output"], json!({ "done": true }));
    assert!(
        good.err.contains("started providers/memory/executions/"),
        "{}",
        good.err
    );
    assert_eq!(start(BAD).exits(1).json()["sub_state"], "failed");
}

#[test]
fn the_same_request_id_starts_once() {
    let gateway = Gateway::new();
    let start = |input| {
        gateway.run(&[
            "start",
            "memory/script",
            "--request-id",
            "r-1",
            "--input",
            input,
            "-o",
            "json",
        ])
    };
    let name = |answer: crate::binary::Answer| answer.exits(0).json()["name"].clone();
    assert_eq!(name(start(LONG)), name(start(LONG)));
    let other = start(GOOD).exits(4);
    assert!(other.err.contains("REQUEST_ID_REUSED"), "{}", other.err);
}

#[test]
fn input_comes_from_a_file_or_standard_input() {
    let gateway = Gateway::new();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), GOOD).unwrap();
    let at = format!("@{}", file.path().display());
    gateway
        .run(&["start", "memory/script", "--input", &at, "--wait"])
        .exits(0);
    let mut piped = gateway.command(&["start", "memory/script", "--input", "-", "--wait"]);
    finish(&mut piped, GOOD).exits(0);
}

#[test]
fn labels_and_a_delay_arrive() {
    let gateway = Gateway::new();
    let started = gateway
        .run(&[
            "start",
            "memory/hello",
            "--label",
            "team=shop",
            "--label",
            "a=b=c",
            "--delay",
            "1h",
            "-o",
            "json",
        ])
        .exits(0)
        .json();
    assert_eq!(started["labels"], json!({ "team": "shop", "a": "b=c" }));
    assert_eq!(started["sub_state"], "waiting");
    assert_eq!(started["reason"], "SCHEDULED");
}

#[test]
fn wrong_arguments_never_reach_a_gateway() {
    for arguments in [
        &["start", "hello", "--input", "{"][..],
        &["start", "memory/hello", "--input", "{"],
        &["start", "memory/hello", "--input", "@no-such-file"],
        &["start", "memory/hello", "--label", "x"],
        &["start", "memory/hello", "--delay", "10"],
        &["start", "MEMORY/hello"],
        &["start", "providers/memory/executions/hello"],
        &["start"],
    ] {
        let answer = run(arguments).exits(2);
        assert!(
            answer.out.is_empty() && answer.err.starts_with("error: "),
            "{answer:?}"
        );
    }
}

#[test]
fn an_unknown_definition_and_an_unknown_provider_are_not_found() {
    let gateway = Gateway::new();
    let definition = gateway.run(&["start", "memory/no-such-thing"]).exits(3);
    assert!(
        definition.err.contains("DEFINITION_NOT_FOUND"),
        "{}",
        definition.err
    );
    let provider = gateway.run(&["start", "nobody/hello"]).exits(3);
    assert!(
        provider.err.contains("PROVIDER_NOT_FOUND"),
        "{}",
        provider.err
    );
}

#[test]
fn an_id_that_is_taken_is_refused() {
    let gateway = Gateway::new();
    gateway.start("a", LONG);
    let again = gateway
        .run(&["start", "memory/script", "--id", "a", "--input", LONG])
        .exits(4);
    assert!(
        again.err.contains("EXECUTION_ALREADY_EXISTS"),
        "{}",
        again.err
    );
}

#[test]
fn a_bare_name_is_enough_where_it_is_clear_who_runs_it() {
    let memory = Gateway::new();
    let started = memory
        .run(&["start", "hello", "-o", "json"])
        .exits(0)
        .json();
    assert_eq!(started["definition"], "providers/memory/definitions/hello");

    let both = "[providers.builtin]\nkind = \"builtin\"\n[providers.memory]\nkind = \"memory\"\n";
    let both = Gateway::just(both, &[]);
    let ours = "name: ours\nsteps: [{name: a, agent: b}]\n";
    crate::built_in::apply(&both, ours);
    let started = both.run(&["start", "ours", "-o", "json"]).exits(0).json();
    assert_eq!(started["definition"], "definitions/ours");
    let elsewhere = both.run(&["start", "hello"]).exits(3);
    assert_eq!(
        elsewhere.err,
        "error: no definition `hello` (DEFINITION_NOT_FOUND)\n\
         hint: If a provider has a definition of this name, add --provider: builtin, memory.\n"
    );
    run(&["start", "hello", "--server", "http://127.0.0.1:1"]).exits(6);
}

#[test]
fn a_misspelt_name_is_answered_with_the_name_that_was_meant() {
    let one = "[providers.builtin]\nkind = \"builtin\"\n";
    let two = format!("{one}[providers.memory]\nkind = \"memory\"\n");
    for config in [one, &two] {
        let gateway = Gateway::just(config, &[]);
        crate::built_in::apply(&gateway, "name: order-saga\nsteps: [{name: a, agent: b}]\n");
        let refused = gateway.run(&["start", "order-sage"]).exits(3);
        assert_eq!(
            refused.err,
            "error: no definition `order-sage`; did you mean `order-saga`? (DEFINITION_NOT_FOUND)\n\
             hint: `stateway definitions list` shows every definition.\n"
        );
    }
    let gateway = Gateway::just(&two, &[]);
    let refused = gateway.run(&["start", "memory/helo"]).exits(3);
    assert!(
        refused
            .err
            .contains("no definition `helo`; did you mean `hello`?"),
        "{}",
        refused.err
    );
}

#[test]
fn a_hint_names_commands_and_not_calls() {
    let gateway = Gateway::new();
    let refused = gateway.run(&["start", "definitions/hello"]).exits(5);
    assert!(
        refused
            .err
            .contains("hint: `stateway providers get NAME` lists"),
        "{}",
        refused.err
    );
}
