//! The workers of the examples compile outside of this repository, with the `Cargo.toml` of examples/README.md.

use std::path::Path;
use std::process::Command;

use stateway_examples::catalogue::EXAMPLES;

/// The first block of a language in a page.
fn block<'p>(page: &'p str, language: &str) -> &'p str {
    let (_, rest) = page.split_once(&format!("```{language}\n")).unwrap();
    rest.split_once("```").unwrap().0
}

#[test]
fn each_worker_compiles_in_a_folder_of_its_own() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = examples.parent().unwrap();
    let temporary = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let folder = temporary.join("copied-worker");
    std::fs::create_dir_all(folder.join("src/bin")).unwrap();
    let page = std::fs::read_to_string(examples.join("README.md")).unwrap();
    let manifest = block(&page, "toml").replace("STATEWAY", root.to_str().unwrap());
    // A folder inside of the target folder would belong to this workspace.
    let manifest = format!("{manifest}\n[workspace]\n");
    std::fs::write(folder.join("Cargo.toml"), manifest).unwrap();
    std::fs::copy(root.join("Cargo.lock"), folder.join("Cargo.lock")).unwrap();
    for example in EXAMPLES {
        let worker = examples.join(example.name).join("worker.rs");
        let copied = folder.join("src/bin").join(format!("{}.rs", example.name));
        std::fs::copy(worker, copied).unwrap();
    }
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let check = Command::new(cargo)
        .current_dir(&folder)
        .args(["check", "--offline", "--quiet"])
        .env("CARGO_TARGET_DIR", temporary.parent().unwrap())
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&check.stderr);
    assert!(check.status.success(), "{error}");
}
