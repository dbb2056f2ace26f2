//! Colours of the six sub-states.

use anstyle::{AnsiColor, Style};

/// Colours text, or leaves it as it is.
#[derive(Debug, Clone, Copy)]
pub struct Paint {
    on: bool,
}

impl Paint {
    /// With or without colours.
    #[must_use]
    pub const fn new(on: bool) -> Self {
        Self { on }
    }

    /// Whether there are colours.
    #[must_use]
    pub const fn is_on(self) -> bool {
        self.on
    }

    /// A sub-state in its colour.
    #[must_use]
    pub fn sub_state(self, word: &str) -> String {
        self.with(style(word), word)
    }

    /// Something of less weight.
    #[must_use]
    pub fn dim(self, text: &str) -> String {
        self.with(Style::new().dimmed(), text)
    }

    /// Something of more weight.
    #[must_use]
    pub fn bold(self, text: &str) -> String {
        self.with(Style::new().bold(), text)
    }

    fn with(self, style: Style, text: &str) -> String {
        match self.on && !text.is_empty() {
            true => format!("{style}{text}{style:#}"),
            false => text.to_owned(),
        }
    }
}

/// Green is done, red is lost, magenta needs a person, yellow will try again by itself.
fn style(word: &str) -> Style {
    let color = match word {
        "running" => AnsiColor::Blue,
        "waiting" => AnsiColor::Cyan,
        "backing-off" => AnsiColor::Yellow,
        "error" => AnsiColor::Magenta,
        "succeeded" => AnsiColor::Green,
        "failed" => AnsiColor::Red,
        _ => return Style::new(),
    };
    let style = color.on_default();
    if matches!(word, "error" | "failed") {
        style.bold()
    } else {
        style
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_there_only_when_wanted() {
        assert_eq!(Paint::new(false).sub_state("failed"), "failed");
        let coloured = Paint::new(true).sub_state("failed");
        assert!(
            coloured.starts_with("\u{1b}[") && coloured.contains("failed"),
            "{coloured:?}"
        );
    }

    #[test]
    fn each_of_the_six_has_a_colour_of_its_own() {
        let words = stateway_client::SUB_STATES.map(|(_, word)| word);
        let styles: std::collections::BTreeSet<_> = words
            .iter()
            .map(|word| style(word).render().to_string())
            .collect();
        assert_eq!(styles.len(), 6);
    }
}
