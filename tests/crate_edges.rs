//! Which crate may know which: the absences that ARCHITECTURE.md promises.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Every crate of ours and the crates of ours it may depend on. Tests may know more.
const EDGES: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("provider-api", &["model"]),
    ("contract-kit", &["provider-api", "model"]),
    ("definition", &["model"]),
    ("machine", &["definition", "model"]),
    ("driver", &["machine", "model"]),
    ("replay", &["driver", "machine", "definition", "model"]),
    (
        "machine-check",
        &["driver", "machine", "replay", "definition", "model"],
    ),
    ("engine-check", &["engine", "machine", "model"]),
    ("provider-memory", &["provider-api", "model"]),
    ("provider-restate", &["provider-api", "model"]),
    ("provider-step-functions", &["provider-api", "model"]),
    (
        "provider-builtin",
        &["engine", "machine", "replay", "provider-api", "model"],
    ),
    ("proto", &[]),
    ("engine-check", &["engine", "machine", "model"]),
    (
        "engine",
        &["driver", "machine", "replay", "definition", "model"],
    ),
    (
        "gateway",
        // Portable definitions are parsed here; no engine is known.
        &["proto", "provider-api", "model", "definition"],
    ),
    ("client", &["proto"]),
    ("dashboard", &["proto"]),
    (
        "cli",
        &[
            "client",
            "dashboard",
            "gateway",
            "model",
            "proto",
            "provider-api",
            "provider-builtin",
            "provider-memory",
            "provider-restate",
            "provider-step-functions",
            "definition",
            "engine",
        ],
    ),
    ("bench", &["client", "proto"]),
    ("xtask", &["provider-api"]),
];

/// Crates that never do IO, and what they would need for it.
const PURE: &[&str] = &["model", "definition", "machine", "driver", "replay"];
const IO: &[&str] = &[
    "tokio", "reqwest", "hyper", "axum", "tonic", "rusqlite", "mio", "socket2",
];

/// The dependencies of every crate in `crates/`, without those of tests and builds.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
    let entries = std::fs::read_dir(crates).expect("crates/ is there");
    let manifests = entries.map(|entry| entry.expect("an entry").path());
    manifests
        .map(|folder| {
            let text = std::fs::read_to_string(folder.join("Cargo.toml")).expect("a manifest");
            let manifest: toml::Table = text.parse().expect("TOML");
            let names = manifest.get("dependencies").and_then(toml::Value::as_table);
            let names = names
                .map(|table| table.keys().cloned().collect())
                .unwrap_or_default();
            (
                folder.file_name().unwrap().to_string_lossy().into_owned(),
                names,
            )
        })
        .collect()
}

#[test]
fn every_crate_knows_only_whom_it_may_know() {
    for (name, dependencies) in dependencies() {
        let (_, allowed) = EDGES
            .iter()
            .find(|(known, _)| *known == name)
            .unwrap_or_else(|| panic!("crate {name} is not in EDGES: say whom it may know"));
        let ours = dependencies
            .iter()
            .filter_map(|known| known.strip_prefix("stateway-"));
        let forbidden: Vec<_> = ours.filter(|known| !allowed.contains(known)).collect();
        assert!(forbidden.is_empty(), "{name} must not know {forbidden:?}");
    }
}

#[test]
fn the_pure_crates_cannot_do_io() {
    let all = dependencies();
    for name in PURE {
        let dependencies = all.get(*name).expect("the crate is there");
        let io: Vec<_> = IO
            .iter()
            .filter(|crate_| dependencies.contains(**crate_))
            .collect();
        assert!(io.is_empty(), "{name} depends on {io:?}");
    }
}

#[test]
fn no_provider_knows_another() {
    for (name, dependencies) in dependencies() {
        if name.starts_with("provider-") && name != "provider-api" {
            let others: Vec<_> = dependencies
                .iter()
                .filter(|known| known.starts_with("stateway-provider-"))
                .filter(|known| *known != "stateway-provider-api")
                .collect();
            assert!(others.is_empty(), "{name} knows {others:?}");
        }
    }
}
