//! A text to compare with, in which `*` stands for any text and `\*` for the character `*`.

/// A text with wildcards.
///
/// ```
/// use stateway_provider_api::filter::Pattern;
/// assert!(Pattern::new("order-*").matches("order-17"));
/// assert!(Pattern::new("*.failed").matches("payment.failed"));
/// assert!(!Pattern::new("order").matches("order-17"));
/// assert!(Pattern::new(r"5\*").matches("5*") && !Pattern::new(r"5\*").matches("5 stars"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Pattern {
    /// The texts between the wildcards; one when there is none.
    parts: Vec<String>,
}

impl Pattern {
    /// The pattern that a filter's value means: `*` is a wildcard, and a character after `\` stands for
    /// itself.
    #[must_use]
    pub fn new(value: &str) -> Self {
        let mut parts = vec![String::new()];
        let mut symbols = value.chars();
        while let Some(symbol) = symbols.next() {
            let symbol = match symbol {
                '*' => {
                    parts.push(String::new());
                    continue;
                }
                '\\' => symbols.next().unwrap_or('\\'),
                _ => symbol,
            };
            if let Some(part) = parts.last_mut() {
                part.push(symbol);
            }
        }
        Self { parts }
    }

    /// The text, if the pattern has no wildcard.
    #[must_use]
    pub fn literal(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [text] => Some(text),
            _ => None,
        }
    }

    /// What every text that matches begins with.
    #[must_use]
    pub fn prefix(&self) -> &str {
        self.parts.first().map_or("", String::as_str)
    }

    /// Whether a text matches.
    #[must_use]
    pub fn matches(&self, text: &str) -> bool {
        let [first, middle @ .., last] = self.parts.as_slice() else {
            return self.literal() == Some(text);
        };
        let Some(mut rest) = text.strip_prefix(first.as_str()) else {
            return false;
        };
        for part in middle {
            // The first place is as good as any later one: it leaves most for what follows.
            let Some(at) = rest.find(part.as_str()) else {
                return false;
            };
            rest = &rest[at + part.len()..];
        }
        rest.ends_with(last.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wildcard_stands_for_any_text() {
        for (pattern, text) in [
            ("*", ""),
            ("*", "a"),
            ("a*", "a"),
            ("a*", "ab"),
            ("*b", "ab"),
            ("a*c", "abc"),
            ("a*b*c", "aXbYc"),
            ("a*b*b", "abb"),
            ("*a*", "bab"),
            ("", ""),
            ("ab", "ab"),
        ] {
            assert!(Pattern::new(pattern).matches(text), "{pattern} {text}");
        }
        for (pattern, text) in [
            ("a", "ab"),
            ("a*", "ba"),
            ("*b", "ba"),
            ("a*a", "a"),
            ("a*b*c", "acb"),
            ("", "a"),
        ] {
            assert!(!Pattern::new(pattern).matches(text), "{pattern} {text}");
        }
    }

    #[test]
    fn an_escaped_star_is_a_character() {
        assert_eq!(Pattern::new(r"a\*b").literal(), Some("a*b"));
        assert_eq!(Pattern::new(r"a\\b\").literal(), Some(r"a\b\"));
        let mixed = Pattern::new(r"\**");
        assert_eq!((mixed.literal(), mixed.prefix()), (None, "*"));
        assert!(mixed.matches("*a") && !mixed.matches("a*"));
    }

    #[test]
    fn what_matches_begins_with_the_prefix() {
        assert_eq!(Pattern::new("ab*c").prefix(), "ab");
        assert_eq!(Pattern::new("ab").prefix(), "ab");
        assert_eq!(Pattern::new("*").prefix(), "");
        assert_eq!(Pattern::new("ab").literal(), Some("ab"));
        assert_eq!(Pattern::new("a*").literal(), None);
    }
}
