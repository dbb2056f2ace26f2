//! Names of qualifiers, checked when the adapter is compiled.

use std::fmt;

/// The name of a qualifier of a native state. An adapter declares each one once, as a constant that
/// the compiler checks against the table.
///
/// ```
/// use stateway_provider_api::table::{self, Qualifier};
/// const COMPLETION_RESULT: Qualifier = Qualifier::of(table::RESTATE, "completion_result");
/// assert_eq!(COMPLETION_RESULT.as_str(), "completion_result");
/// ```
///
/// ```compile_fail
/// use stateway_provider_api::table::{self, Qualifier};
/// const MISSPELT: Qualifier = Qualifier::of(table::RESTATE, "completion_resalt");
/// assert_eq!(MISSPELT.as_str(), "completion_resalt");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Qualifier(&'static str);

impl Qualifier {
    /// A qualifier of a table whose text is not known when the adapter is compiled.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self(name)
    }

    /// A qualifier that the table with this text declares.
    ///
    /// # Panics
    /// The table does not declare it. In a constant that is an error of the compiler.
    #[must_use]
    pub const fn of(table: &str, name: &'static str) -> Self {
        assert!(
            declares(table.as_bytes(), name.as_bytes()),
            "`[qualifiers]` of the table does not declare this name"
        );
        Self(name)
    }

    /// The name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        self.0
    }
}

impl fmt::Display for Qualifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.0)
    }
}

/// Whether a line of the section `[qualifiers]` begins with the name.
const fn declares(table: &[u8], name: &[u8]) -> bool {
    let mut at = 0;
    let mut inside = false;
    while at < table.len() {
        if starts_with(table, at, b"[") {
            inside = starts_with(table, at, b"[qualifiers]");
        }
        if inside && starts_with(table, at, name) && is_end(table, at + name.len()) {
            return true;
        }
        while at < table.len() && table[at] != b'\n' {
            at += 1;
        }
        at += 1;
    }
    false
}

const fn starts_with(text: &[u8], at: usize, wanted: &[u8]) -> bool {
    if at + wanted.len() > text.len() {
        return false;
    }
    let mut position = 0;
    while position < wanted.len() {
        if text[at + position] != wanted[position] {
            return false;
        }
        position += 1;
    }
    true
}

/// Whether a key ends here.
const fn is_end(text: &[u8], at: usize) -> bool {
    at < text.len() && matches!(text[at], b' ' | b'=')
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str =
        "version = 1\n[qualifiers]\nresult = \"r\"\nwhy=\"w\"\n\n[[rows]]\nnative = \"N\"\n";

    #[test]
    fn only_what_the_section_declares_is_declared() {
        for declared in ["result", "why"] {
            assert!(
                declares(TABLE.as_bytes(), declared.as_bytes()),
                "{declared}"
            );
        }
        for other in ["version", "native", "res", "result = ", "", "whyever"] {
            assert!(!declares(TABLE.as_bytes(), other.as_bytes()), "{other}");
        }
    }

    /// The constants of the adapters are checked against the same texts that are compiled in.
    #[test]
    fn every_compiled_in_table_declares_its_own_qualifiers() {
        for (kind, text) in crate::table::COMPILED_IN {
            for name in crate::table::compiled_in(kind).unwrap().qualifiers.keys() {
                assert!(declares(text.as_bytes(), name.as_bytes()), "{kind}: {name}");
            }
        }
    }
}
