//! The names of the files of a log: `audit.jsonl` is written, `audit.jsonl.1`, `audit.jsonl.2`, … were
//! rotated, the highest number last. A number is never used again.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// The file beside a log that has a suffix of its own.
fn beside(log: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(log);
    name.push(suffix);
    name.into()
}

/// The file of the anchor.
#[must_use]
pub fn head(log: &Path) -> PathBuf {
    beside(log, ".head")
}

/// The file that keeps how far a receiver has got.
#[must_use]
pub fn sent(log: &Path) -> PathBuf {
    beside(log, ".sent")
}

/// The file that becomes the next one that is written.
#[must_use]
pub fn next(log: &Path) -> PathBuf {
    beside(log, ".next")
}

/// The file of a rotation.
#[must_use]
pub fn rotated(log: &Path, number: u64) -> PathBuf {
    beside(log, &format!(".{number}"))
}

/// The number of a rotated file of a log, by the names of both in their folder.
#[must_use]
pub fn number(log: &OsStr, name: &OsStr) -> Option<u64> {
    let rest = name.to_str()?.strip_prefix(log.to_str()?)?;
    let digits = rest.strip_prefix('.')?;
    // `.01` would be a second name of `.1`.
    let number: u64 = digits.parse().ok()?;
    (number > 0 && number.to_string() == digits).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_numbers_are_rotated_files() {
        let of = |name: &str| number(OsStr::new("a.jsonl"), OsStr::new(name));
        assert_eq!(of("a.jsonl.12"), Some(12));
        for other in [
            "a.jsonl",
            "a.jsonl.",
            "a.jsonl.head",
            "a.jsonl.01",
            "a.jsonl.0",
            "b.jsonl.1",
            "a.jsonl.+1",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
        assert_eq!(
            rotated(Path::new("/x/a.jsonl"), 3),
            Path::new("/x/a.jsonl.3")
        );
    }
}
