//! Patterns with `*`.

use std::fmt;

/// A pattern in which `*` stands for any number of characters. Everything else stands for itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Glob(String);

impl Glob {
    /// The pattern of this text.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The pattern as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the pattern fits the whole text. Takes time in proportion to both.
    #[must_use]
    pub fn fits(&self, text: &str) -> bool {
        let (mut pieces, mut rest) = (self.0.split('*'), text);
        let first = pieces.next().unwrap_or_default();
        let Some(after) = rest.strip_prefix(first) else {
            return false;
        };
        rest = after;
        let Some(last) = pieces.next_back() else {
            // No star at all.
            return rest.is_empty();
        };
        for piece in pieces {
            // The leftmost place leaves the most for the others.
            let Some(at) = rest.find(piece) else {
                return false;
            };
            rest = &rest[at + piece.len()..];
        }
        rest.ends_with(last)
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, text) in [
            ("ada", "ada"),
            ("*", ""),
            ("*", "ada"),
            ("spiffe://prod/*", "spiffe://prod/ns/a"),
            ("*@example.org", "ada@example.org"),
            ("a*b*c", "a-b-b-c"),
            ("a*a", "aa"),
        ] {
            assert!(Glob::new(pattern).fits(text), "{pattern} {text}");
        }
        for (pattern, text) in [
            ("ada", "ada2"),
            ("ada", "bada"),
            ("", "a"),
            ("a*a", "a"),
            ("spiffe://prod/*", "spiffe://production/a"),
            ("*@example.org", "ada@example.org.evil.example"),
            ("a*b*c", "a-c-b"),
        ] {
            assert!(!Glob::new(pattern).fits(text), "{pattern} {text}");
        }
    }
}
