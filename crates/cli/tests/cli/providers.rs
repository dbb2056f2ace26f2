//! `stateway providers`.

use crate::binary::{Gateway, run};

#[test]
fn every_provider_is_listed_with_its_health() {
    let gateway = Gateway::with(
        "[providers.a]\nkind = \"memory\"\n[providers.b]\nkind = \"memory\"\n",
        &[],
    );
    let listed = gateway
        .run(&["providers", "list", "-o", "json"])
        .exits(0)
        .json();
    let names: Vec<_> = listed["providers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|provider| provider["name"].clone())
        .collect();
    assert_eq!(names, ["providers/a", "providers/b"]);
    assert_eq!(listed["providers"][0]["capabilities"]["retry_now"], true);
    assert_eq!(listed["providers"][0]["health"]["breaker"], "CLOSED");
    assert!(
        gateway
            .run(&["providers", "list"])
            .exits(0)
            .out
            .starts_with("NAME")
    );
}

#[test]
fn one_provider_shows_what_it_can_and_cannot_do() {
    let gateway = Gateway::with(
        "[providers.memory]\nkind = \"memory\"\ndisable = [\"pause\"]\n",
        &[],
    );
    let shown = gateway.run(&["providers", "get", "memory"]).exits(0).out;
    let cannot = shown
        .lines()
        .find(|line| line.starts_with("cannot"))
        .unwrap();
    assert!(cannot.contains("pause"), "{shown}");
    gateway.run(&["providers", "get", "nobody"]).exits(3);
}

#[test]
fn a_table_is_the_providers_own_with_its_overlay() {
    let directory = tempfile::tempdir().unwrap();
    let overlay = directory.path().join("overlay.toml");
    let text = "version = 1\nkind = \"memory\"\ntitle = \"t\"\nsummary = \"s\"\n[[rows]]\n\
                native = \"DREAMING\"\nsub_state = \"waiting\"\nterminal = false\nsource = \"us\"\n";
    std::fs::write(&overlay, text).unwrap();
    let config = format!(
        "[providers.memory]\nkind = \"memory\"\ntable = {:?}\n",
        overlay
    );
    let gateway = Gateway::with(&config, &[]);
    let table = gateway.run(&["providers", "table", "memory"]).exits(0).out;
    assert!(table.contains("DREAMING"), "{table}");
    let pose = r#"{"pose": {"state": "DREAMING"}}"#;
    gateway.start("a", pose);
    let shown = gateway
        .run(&["get", "memory/a", "-o", "json"])
        .exits(0)
        .json();
    assert_eq!(shown["sub_state"], "waiting");
}

#[test]
fn the_tables_of_the_build_need_no_gateway() {
    for kind in ["step-functions", "restate", "temporal", "builtin"] {
        let rows = run(&[
            "providers",
            "table",
            kind,
            "-o",
            "json",
            "--server",
            "http://127.0.0.1:1",
        ])
        .exits(0)
        .json();
        assert!(!rows.as_array().unwrap().is_empty(), "{kind}");
    }
    run(&[
        "providers",
        "table",
        "nothing",
        "--server",
        "http://127.0.0.1:1",
    ])
    .exits(6);
}
