//! Whether files have changed since they were read.

use std::path::Path;
use std::time::SystemTime;

/// What files were like. A file that does not exist differs from every file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Stamp(Vec<Option<(SystemTime, u64, u64)>>);

impl Stamp {
    pub(super) fn of<'p>(files: impl IntoIterator<Item = &'p Path>) -> Self {
        Self(files.into_iter().map(stamp).collect())
    }
}

/// Links are followed, because mounted secrets are replaced by changing a link.
fn stamp(file: &Path) -> Option<(SystemTime, u64, u64)> {
    let metadata = std::fs::metadata(file).ok()?;
    let modified = metadata.modified().ok()?;
    Some((modified, metadata.len(), number(&metadata)))
}

#[cfg(unix)]
fn number(metadata: &std::fs::Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(metadata)
}

#[cfg(not(unix))]
const fn number(_: &std::fs::Metadata) -> u64 {
    0
}
