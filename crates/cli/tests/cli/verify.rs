//! `stateway verify` and `recover`, with the built-in engine.

use serde_json::json;
use stateway_engine::{ApplyDefinition, Config, Engine, Fate, Faults, RequestKey, Start, Write};

use crate::binary::Gateway;
use crate::built_in::{apply, gateway, start};

const GATE: &str = "name: gate\nsteps: [{name: a, signal: go}]\n";

#[test]
fn a_clean_store_reports_nothing_and_how_fast() {
    let gateway = gateway();
    apply(&gateway, GATE);
    for id in ["a", "b", "c"] {
        start(&gateway, "gate", id, "ada");
    }
    let one = gateway.run(&["verify", "builtin/a"]).exits(0);
    assert_eq!(one.out, "builtin/a: 4 events checked, no problem found\n");
    let all = gateway.run(&["verify", "--all"]).exits(0);
    assert!(
        all.out.starts_with("3 executions checked in 0."),
        "{}",
        all.out
    );
    assert!(all.out.ends_with("/s): no problem found\n"), "{}", all.out);
    let json = gateway
        .run(&["verify", "--all", "-o", "json"])
        .exits(0)
        .json();
    assert_eq!(
        (&json["checked_count"], &json["faulty_count"]),
        (&json!(3), &json!(0))
    );
    assert!(json["executions_per_second"].as_f64().unwrap() > 0.0);
    let well = gateway.run(&["recover", "builtin/a"]).exits(0);
    assert_eq!(well.out, "no problem was found, and nothing was changed\n");
    let dry = gateway.run(&["recover", "builtin/a", "--dry-run"]).exits(0);
    assert_eq!(dry.out, "would be done: nothing\n");
    gateway.run(&["verify", "builtin/nope"]).exits(3);
    gateway.run(&["verify"]).exits(2);
    gateway.run(&["verify", "builtin/a", "--all"]).exits(2);
}

/// A store that lost the definition of its only execution.
fn without_its_definition(folder: &std::path::Path) {
    let mut config = Config::new(folder.join("store.db"));
    config.faults = Faults::by(|write| match write {
        Write::Definition => Fate::Lost,
        _ => Fate::Done,
    });
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.build().unwrap().block_on(async {
        let engine = Engine::open(&config).unwrap();
        let apply = ApplyDefinition {
            source: GATE.to_owned(),
            source_name: "gate.yaml".to_owned(),
            request: None,
        };
        engine.apply(apply).await.unwrap();
        let start = Start {
            definition: "gate".into(),
            id: Some("lost".into()),
            input: Default::default(),
            labels: Default::default(),
            not_before: None,
            actor: "ada".into(),
            request: RequestKey {
                id: "r1".into(),
                body: [0; 16],
            },
        };
        engine.start(start).await.unwrap();
    });
}

#[test]
fn what_is_found_is_told_with_its_code_and_an_exit_code_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    without_its_definition(folder.path());
    let path = folder.path().join("store.db");
    let config = format!(
        "[providers.builtin]\nkind = \"builtin\"\npath = {:?}\n",
        path.display()
    );
    let gateway = Gateway::just(&config, &[]);
    let found = gateway.run(&["verify", "builtin/lost"]).exits(8);
    assert!(
        found.out.starts_with("builtin/lost\n  E2  "),
        "{}",
        found.out
    );
    assert!(
        found.out.contains("\n  to do: cannot be recovered: "),
        "{}",
        found.out
    );
    let all = gateway.run(&["verify", "--all"]).exits(8);
    assert!(all.out.contains("  E2  "), "{}", all.out);
    assert!(
        all.out.ends_with(": 1 of them differs from its log\n"),
        "{}",
        all.out
    );
    let json = gateway
        .run(&["verify", "--all", "-o", "json"])
        .exits(8)
        .json();
    assert_eq!(json["verdicts"][0]["findings"][0]["code"], "E2");
    assert_eq!(json["verdicts"][0]["remedy"]["kind"], "refused");
    let dry = gateway
        .run(&["recover", "builtin/lost", "--dry-run"])
        .exits(0);
    assert!(dry.out.starts_with("found: E2  "), "{}", dry.out);
    let refused = gateway.run(&["recover", "builtin/lost"]).exits(4);
    assert!(refused.err.contains("hint: "), "{}", refused.err);

    // With the definition applied again it is what it was.
    apply(&gateway, GATE);
    gateway.run(&["verify", "builtin/lost"]).exits(0);
    gateway.run(&["signal", "builtin/lost", "go"]).exits(0);
    gateway.run(&["wait", "builtin/lost"]).exits(0);
}
