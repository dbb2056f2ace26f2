//! The right side of a condition, as it is written.

use super::Pattern;

/// The right side of a condition: a word, or the text between quotes with its escapes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operand {
    /// A character after `\` stands for itself.
    escaped: String,
}

impl Operand {
    /// The operand behind a text in which a character after `\` stands for itself.
    pub(super) const fn new(escaped: String) -> Self {
        Self { escaped }
    }

    /// The text without its escapes, for a field that takes no wildcard.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        let mut symbols = self.escaped.chars();
        while let Some(symbol) = symbols.next() {
            text.push(match symbol {
                '\\' => symbols.next().unwrap_or('\\'),
                _ => symbol,
            });
        }
        text
    }

    /// The text with its escapes, as [`Pattern::new`] takes it.
    #[must_use]
    pub fn escaped(&self) -> &str {
        &self.escaped
    }

    /// The pattern, for a field that takes wildcards.
    #[must_use]
    pub fn pattern(&self) -> Pattern {
        Pattern::new(&self.escaped)
    }

    /// Whether the operand is `*` alone: with `:`, the field must be set.
    #[must_use]
    pub fn is_star(&self) -> bool {
        self.escaped == "*"
    }
}
