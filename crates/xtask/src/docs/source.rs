//! The source text of the product, without its tests.

use std::path::Path;

use crate::run::root;

/// Crates that are no part of the product: tests, tools and benchmarks.
const TOOLS: [&str; 6] = [
    "bench",
    "conformance",
    "contract-kit",
    "engine-check",
    "machine-check",
    "xtask",
];

/// Files that contain only tests.
const TEST_FILES: [&str; 2] = ["tests.rs", "suite.rs"];

pub(super) struct Source {
    /// The name of the folder in `crates/`.
    pub(super) package: String,
    /// The path from the root of the repository, with `/`.
    pub(super) path: String,
    /// The text up to the tests at its end.
    pub(super) text: String,
}

/// Every source file of the product.
///
/// # Errors
/// A folder or a file cannot be read.
pub(super) fn product() -> Result<Vec<Source>, String> {
    let mut sources = Vec::new();
    for path in files(&root().join("crates"), "rs")? {
        let parts: Vec<&str> = path.split('/').collect();
        let [_, package, "src", inside @ ..] = parts.as_slice() else {
            continue;
        };
        let is_test = inside
            .iter()
            .any(|part| *part == "tests" || TEST_FILES.contains(part));
        if is_test || TOOLS.contains(package) {
            continue;
        }
        let text = read(&path)?;
        let text = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        sources.push(Source {
            package: (*package).to_owned(),
            text: text.to_owned(),
            path,
        });
    }
    Ok(sources)
}

/// The files below a folder with one extension, as sorted paths from the root of the repository. Hidden folders
/// and build results are left out.
pub(super) fn files(folder: &Path, extension: &str) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    let wrong = |error: std::io::Error| format!("{}: {error}", folder.display());
    for entry in std::fs::read_dir(folder).map_err(wrong)? {
        let path = entry.map_err(wrong)?.path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let is_skipped = name.starts_with('.') || name == "target" || name == "node_modules";
        if path.is_dir() && !is_skipped {
            found.extend(files(&path, extension)?);
        } else if path.extension().is_some_and(|it| it == extension) {
            let relative = path.strip_prefix(root()).unwrap_or(&path);
            found.push(relative.to_string_lossy().replace('\\', "/"));
        }
    }
    found.sort();
    Ok(found)
}

/// The text of a file, by its path from the root of the repository.
pub(super) fn read(path: &str) -> Result<String, String> {
    std::fs::read_to_string(root().join(path)).map_err(|error| format!("{path}: {error}"))
}
