//! Where the stores of the tests are: in files.

use std::path::Path;

use stateway_engine::Config;

/// The settings of an engine with a store in this folder.
pub(crate) fn config(folder: &Path) -> Config {
    Config::new(folder.join("store.db"))
}

/// The file of another process, as it is at this moment.
pub(crate) fn copy(from: &Path, to: &Path) {
    // Copies of a file and its log that are taken one after the other fit together as long as
    // nothing is moved from the log to the file meanwhile, which takes far more than a test
    // writes.
    for name in ["store.db", "store.db-wal"] {
        std::fs::copy(from.join(name), to.join(name)).unwrap();
    }
}
