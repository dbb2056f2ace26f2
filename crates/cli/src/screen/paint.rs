//! Colours of the six sub-states.

use anstyle::{AnsiColor, Style};
use stateway_phrases::State;

/// A colour of a state as a colour of a library, whose colours have the same names.
macro_rules! library_color {
    ($library:ident, $color:expr) => {
        match $color {
            stateway_phrases::Color::Blue => $library::Blue,
            stateway_phrases::Color::Cyan => $library::Cyan,
            stateway_phrases::Color::Yellow => $library::Yellow,
            stateway_phrases::Color::Magenta => $library::Magenta,
            stateway_phrases::Color::Green => $library::Green,
            stateway_phrases::Color::Red => $library::Red,
        }
    };
}
pub(super) use library_color;

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
        if self.on && !text.is_empty() {
            format!("{style}{text}{style:#}")
        } else {
            text.to_owned()
        }
    }
}

fn style(label: &str) -> Style {
    let Some(state) = State::of(label) else {
        return Style::new();
    };
    let style = library_color!(AnsiColor, state.color).on_default();
    if state.bold() { style.bold() } else { style }
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
}
