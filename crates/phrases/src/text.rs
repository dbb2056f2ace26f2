//! Text of engines and users: nothing in it may act on a terminal, forge a line, hide, or turn the
//! reading direction.

use std::borrow::Cow;

/// The text with every character escaped that acts or hides: `\n`, `\u{1b}`, `\u{202e}`.
#[must_use]
pub fn visible(text: &str) -> Cow<'_, str> {
    escaped(text, acts)
}

/// The same for a text of several lines: line breaks and tabs stay.
#[must_use]
pub fn visible_lines(text: &str) -> Cow<'_, str> {
    escaped(text, |symbol| {
        acts(symbol) && !matches!(symbol, '\n' | '\t')
    })
}

/// The first characters of a text that is longer; none for one that is not.
#[must_use]
pub fn cut(text: &str, longest: usize) -> Option<&str> {
    let (at, _) = text.char_indices().nth(longest)?;
    Some(&text[..at])
}

fn escaped(text: &str, acts: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&acts) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for symbol in text.chars() {
        if acts(symbol) {
            shown.extend(symbol.escape_default());
        } else {
            shown.push(symbol);
        }
    }
    Cow::Owned(shown)
}

/// Control characters, separators of lines and paragraphs, invisible blanks, and marks that turn
/// the reading direction.
fn acts(symbol: char) -> bool {
    symbol.is_control()
        || matches!(
            symbol,
            '\u{61c}'
                | '\u{200b}'
                | '\u{200e}'
                | '\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2066}'..='\u{2069}'
                | '\u{feff}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_act_or_hide_are_escaped() {
        for (text, shown) in [
            ("a\nb\r\tc", "a\\nb\\r\\tc"),
            ("\u{1b}[31mred", "\\u{1b}[31mred"),
            ("\u{0}\u{7}\u{7f}", "\\u{0}\\u{7}\\u{7f}"),
            ("\u{9b}2J", "\\u{9b}2J"),
            ("\u{202e}txt.exe\u{2069}", "\\u{202e}txt.exe\\u{2069}"),
            ("\u{200e}\u{2028}", "\\u{200e}\\u{2028}"),
            ("a\u{200b}b\u{feff}", "a\\u{200b}b\\u{feff}"),
        ] {
            assert_eq!(visible(text), shown);
        }
    }

    #[test]
    fn line_breaks_and_tabs_stay_in_a_text_of_lines() {
        assert_eq!(visible_lines("a\n\tb\u{202e}c\r"), "a\n\tb\\u{202e}c\\r");
    }

    #[test]
    fn ordinary_text_stays_as_it_is() {
        for text in ["", "card is blocked", "Größe 👩‍💻 שלום", r"C:\new"] {
            assert!(matches!(visible(text), Cow::Borrowed(same) if same == text));
        }
    }

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(cut("ééééé", 3), Some("ééé"));
        assert_eq!(cut("ééé", 3), None);
    }
}
