//! Hints of engines and of the gateway name no command of this program: they refer to actions, which
//! each client words.

use std::path::{Path, PathBuf};

use stateway_model::hint::Action;

/// The crates whose errors reach every client.
const CRATES: [&str; 14] = [
    "access",
    "definition",
    "driver",
    "engine",
    "gateway",
    "hosted",
    "machine",
    "provider-api",
    "provider-builtin",
    "provider-memory",
    "provider-restate",
    "provider-step-functions",
    "provider-temporal",
    "replay",
];

/// Commands for the operator of a gateway on its machine, which no other client has.
const PROCESSES: [&str; 7] = ["access", "audit", "config", "demo", "host", "keys", "serve"];

fn sources() -> Vec<(PathBuf, String)> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut folders: Vec<_> = CRATES.map(|name| crates.join(name).join("src")).into();
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                found.push((path, text));
            }
        }
    }
    found
}

/// The lines of code, without comments.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .filter(|line| !line.trim_start().starts_with("//"))
}

#[test]
fn no_hint_names_a_command() {
    let mut wrong = Vec::new();
    for (path, text) in sources() {
        for line in code(&text).filter(|line| line.contains('"')) {
            for (at, _) in line.match_indices("`stateway ") {
                let command: String = line[at + "`stateway ".len()..]
                    .chars()
                    .take_while(char::is_ascii_lowercase)
                    .collect();
                if !PROCESSES.contains(&command.as_str()) {
                    wrong.push(format!("{}: {}", path.display(), line.trim()));
                }
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn every_action_of_a_hint_is_known() {
    let mut seen = 0;
    for (path, text) in sources() {
        for line in code(&text).filter(|line| line.contains("hint") || line.contains("\"{")) {
            for (at, _) in line.match_indices('{') {
                let name: String = line[at + 1..]
                    .chars()
                    .take_while(char::is_ascii_alphanumeric)
                    .collect();
                let verbs = [
                    "List", "Get", "Retry", "Verify", "Recover", "Apply", "Validate",
                ];
                let closed = line[at + 1 + name.len()..].starts_with('}');
                if closed && verbs.iter().any(|verb| name.starts_with(verb)) {
                    seen += 1;
                    let known: Result<Action, ()> = name.parse();
                    assert!(known.is_ok(), "{name} in {}", path.display());
                }
            }
        }
    }
    assert!(seen >= 10, "only {seen} references were found");
}
