//! A provider in a crate outside of this workspace builds and passes the kit: what authors elsewhere do.
//!
//! The crate is in `tests/outside/`. It is copied into a folder of its own and built there, offline, with the
//! versions of this workspace's lock file and with its compiled dependencies.

use std::path::{Path, PathBuf};
use std::process::Command;

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("the folder can be made");
    for entry in std::fs::read_dir(from).expect("the folder can be read") {
        let entry = entry.expect("an entry").path();
        let to = to.join(entry.file_name().expect("a name"));
        if entry.is_dir() {
            copy(&entry, &to);
        } else {
            std::fs::copy(&entry, to).expect("the file can be copied");
        }
    }
}

/// The target folder that this test was built into: the test is `<target>/<profile>/deps/<name>`.
fn target() -> PathBuf {
    let test = std::env::current_exe().expect("a path");
    let folder = test.ancestors().nth(3);
    folder.expect("the test is in a target folder").to_owned()
}

#[test]
fn a_crate_outside_of_the_workspace_passes_the_kit() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let root = root.canonicalize().expect("the workspace");
    let folder = target().join("tmp/acme-provider");
    std::fs::remove_dir_all(&folder).ok();
    copy(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/outside"),
        &folder,
    );
    let manifest = folder.join("manifest.toml");
    let text = std::fs::read_to_string(&manifest).expect("the manifest");
    let text = text.replace("STATEWAY", root.to_str().expect("a path that is text"));
    std::fs::write(folder.join("Cargo.toml"), text).expect("it can be written");
    std::fs::remove_file(manifest).expect("it exists");
    std::fs::copy(root.join("Cargo.lock"), folder.join("Cargo.lock")).expect("the lock file");

    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let ran = Command::new(cargo)
        .current_dir(&folder)
        .args(["test", "--offline", "--test", "contract"])
        .env("CARGO_TARGET_DIR", target())
        .output()
        .expect("cargo runs");
    let out = String::from_utf8_lossy(&ran.stdout);
    let error = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{out}\n{error}");
    let summary = out
        .lines()
        .find(|line| line.starts_with("contract of acme"));
    let summary = summary.unwrap_or_else(|| panic!("no summary in {out}"));
    assert!(summary.contains(", 0 failed,"), "{summary}");
    println!("{summary}");
}
