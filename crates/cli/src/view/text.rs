//! Text that an engine or a user wrote.

use std::fmt;

use serde::Serialize;

use stateway_phrases::visible;

/// Text of others. In JSON it is as it came; shown to people it cannot act on the terminal.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Text(String);

impl Text {
    /// Without anything in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// As it came: to be compared or parsed, never to be shown.
    #[must_use]
    pub fn raw(&self) -> &str {
        &self.0
    }

    /// Its lines, each as a text of its own.
    pub fn lines(&self) -> impl Iterator<Item = Self> {
        self.0.lines().map(Self::from)
    }
}

/// For people.
impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&visible(&self.0))
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl From<&String> for Text {
    fn from(text: &String) -> Self {
        Self(text.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_see_what_programs_get_raw() {
        let text = Text::from("a\u{1b}[2J\nb");
        assert_eq!(text.to_string(), "a\\u{1b}[2J\\nb");
        let lines: Vec<_> = text.lines().map(|line| line.to_string()).collect();
        assert_eq!(lines, ["a\\u{1b}[2J", "b"]);
        assert_eq!(serde_json::to_string(&text).unwrap(), "\"a\\u001b[2J\\nb\"");
        assert_eq!(format!("{:<4}|", Text::from("\u{7f}")), "\\u{7f}|");
        assert_eq!(format!("{:<4}|", Text::from("é")), "é   |");
    }
}
