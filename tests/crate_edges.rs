//! Which crate may know which: the absences that ARCHITECTURE.md promises.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Every crate of ours and the crates of ours it may depend on. Tests may know more.
const EDGES: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("allocator", &[]),
    // Random numbers of tests and tools.
    ("chance", &[]),
    // A browser without a script, for tests.
    ("visitor", &[]),
    // A PostgreSQL server for tests.
    ("postgres-peer", &[]),
    ("provider-api", &["model"]),
    ("contract-kit", &["provider-api", "model"]),
    (
        "trajectory-kit",
        &[
            "chance",
            "machine-check",
            "provider-api",
            "replay",
            "machine",
            "definition",
            "model",
        ],
    ),
    ("definition", &["model"]),
    ("machine", &["definition", "model"]),
    ("driver", &["machine", "model"]),
    ("replay", &["driver", "machine", "definition", "model"]),
    (
        "machine-check",
        &[
            "chance",
            "driver",
            "machine",
            "replay",
            "definition",
            "model",
        ],
    ),
    ("engine-check", &["chance", "engine", "machine", "model"]),
    ("lease", &[]),
    ("provider-memory", &["provider-api", "model"]),
    (
        "hosted",
        &[
            "driver",
            "machine",
            "replay",
            "definition",
            "provider-api",
            "model",
        ],
    ),
    ("host-restate", &["hosted"]),
    (
        "host-temporal",
        &[
            "hosted",
            "machine",
            "provider-temporal",
            "provider-api",
            "model",
        ],
    ),
    ("provider-restate", &["hosted", "provider-api", "model"]),
    (
        "provider-step-functions",
        &["hosted", "provider-api", "model"],
    ),
    (
        "provider-temporal",
        &["hosted", "machine", "provider-api", "model"],
    ),
    (
        "provider-builtin",
        &["engine", "hosted", "machine", "provider-api", "model"],
    ),
    ("proto", &[]),
    ("identity", &[]),
    ("access", &["identity", "provider-api", "model"]),
    // Keys of chains are secrets.
    ("audit", &["identity"]),
    ("wire", &["provider-api", "model"]),
    ("provider-server", &["wire", "provider-api"]),
    ("provider-remote", &["wire", "provider-api", "model"]),
    (
        "conformance",
        &[
            "contract-kit",
            "model",
            "provider-api",
            "provider-remote",
            "provider-server",
            "wire",
        ],
    ),
    (
        "engine",
        &[
            "driver",
            "lease",
            "machine",
            "replay",
            "definition",
            "model",
        ],
    ),
    (
        "gateway",
        // Portable definitions are parsed here; no engine is known.
        &[
            "proto",
            "provider-api",
            "model",
            "definition",
            "identity",
            "access",
            "audit",
        ],
    ),
    ("client", &["proto"]),
    // Hints refer to actions of the model.
    ("phrases", &["proto", "model"]),
    // The identity of a visitor is passed on to the API unchanged.
    ("dashboard", &["proto", "phrases", "identity"]),
    (
        "cli",
        &[
            "access",
            "allocator",
            "audit",
            "client",
            "conformance",
            "dashboard",
            "gateway",
            "identity",
            "host-restate",
            "host-temporal",
            "model",
            "phrases",
            "proto",
            "provider-api",
            "provider-builtin",
            "provider-memory",
            "provider-remote",
            "provider-restate",
            "provider-step-functions",
            "provider-temporal",
            "definition",
            "engine",
        ],
    ),
    (
        "bench",
        &[
            "allocator",
            "chance",
            "client",
            "model",
            "proto",
            "provider-api",
            "provider-memory",
            "provider-server",
            "provider-temporal",
        ],
    ),
    ("xtask", &["provider-api"]),
];

/// Crates that never do IO, and what they would need for it.
const PURE: &[&str] = &[
    "model",
    "definition",
    "machine",
    "driver",
    "replay",
    "lease",
    "identity",
    "audit",
];
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

/// Names that two crates export for different types, although some crate imports both. Whoever adds a
/// name here has to say why it cannot be another one.
const SHARED_NAMES: &[(&str, &[&str], &str)] = &[
    (
        "ErrorKind",
        &["model", "provider-api", "engine"],
        "one type: the others export the model's",
    ),
    (
        "Config",
        &[
            "engine",
            "provider-builtin",
            "provider-memory",
            "provider-remote",
            "provider-restate",
            "provider-step-functions",
        ],
        "every adapter has one; only the composition root sees two, by their crates",
    ),
    (
        "ConfigError",
        &[
            "provider-builtin",
            "provider-memory",
            "provider-remote",
            "provider-restate",
            "provider-step-functions",
        ],
        "as `Config`",
    ),
];

/// The types and traits that a crate exports: the capitalised names of `pub use` in its `lib.rs`.
fn exports(name: &str) -> BTreeSet<String> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
    let file = crates.join(name).join("src/lib.rs");
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let uses = text.split("\npub use ").skip(1);
    let uses = uses.filter_map(|rest| rest.split_once(';'));
    uses.flat_map(|(used, _)| used.split(['{', '}', ',']))
        .filter_map(exported)
        .collect()
}

/// The name of one item of a `pub use`; none for a function, a constant or a module.
fn exported(item: &str) -> Option<String> {
    let name = item.rsplit(" as ").next()?.rsplit("::").next()?.trim();
    let is_type = name.starts_with(char::is_uppercase) && name.contains(char::is_lowercase);
    is_type.then(|| name.to_owned())
}

/// What the author of an adapter imports together.
const AUTHORS: &[&str] = &["model", "provider-api", "contract-kit"];

#[test]
fn no_two_types_that_an_adapter_imports_share_a_name() {
    let all = dependencies();
    let adapters = all.keys().filter(|name| name.starts_with("provider-"));
    for adapter in adapters {
        let mut owners: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
        for name in AUTHORS.iter().copied().chain([adapter.as_str()]) {
            for export in exports(name) {
                owners.entry(export).or_default().insert(name);
            }
        }
        owners.retain(|name, crates| crates.len() > 1 && !is_shared(name, crates));
        assert!(owners.is_empty(), "{adapter}: {owners:?}");
    }
}

fn is_shared(name: &str, crates: &BTreeSet<&str>) -> bool {
    SHARED_NAMES
        .iter()
        .any(|(shared, by, _)| *shared == name && crates.iter().all(|one| by.contains(one)))
}

#[test]
fn exports_are_read_from_every_form_of_a_use() {
    assert!(exports("model").contains("ExecutionId"));
    assert!(exports("provider-api").contains("Provider"));
    assert_eq!(exported(" a::Thing as Other"), Some("Other".to_owned()));
    assert_eq!(exported("MAX_LENGTH"), None);
    assert_eq!(exported("classify"), None);
}

/// Stories set an engine up and steer its clock, its faults and its policy; what it holds they read over
/// gRPC.
#[test]
fn no_story_reads_the_engine() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut stories = sources(folder, "support");
    stories.retain(|path| !path.ends_with("crate_edges.rs"));
    assert!(stories.len() > 40, "{stories:?}");
    for path in stories {
        let source = std::fs::read_to_string(&path).unwrap();
        for handle in ["Engine::", ": Engine", "&Engine", ".engine()"] {
            assert!(
                !source.contains(handle),
                "{} has `{handle}`",
                path.display()
            );
        }
    }
}

/// The Rust files of a folder, without one of its folders.
fn sources(folder: &Path, except: &str) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with(except) {
            found.extend(sources(&path, except));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}
