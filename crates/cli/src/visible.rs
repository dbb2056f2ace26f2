//! Text of others on a terminal: nothing in it may act on the terminal, forge a line or turn the
//! reading direction.
//!
//! Names, messages and payloads come from engines and from whoever starts executions. What people
//! see of them passes here: the views hold them as [`Text`](crate::view::Text), standard error
//! goes through [`talk`](crate::context::talk) and [`Failure::lines`](crate::failure::Failure::lines).
//! Our own colours are added after it. JSON is for programs and is left alone.

use std::borrow::Cow;

/// The text with everything in it that a terminal would act on written out: `\n`, `\u{1b}`.
#[must_use]
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for symbol in text.chars() {
        match acts(symbol) {
            true => shown.extend(symbol.escape_default()),
            false => shown.push(symbol),
        }
    }
    Cow::Owned(shown)
}

/// Control characters, line and paragraph separators, and what turns the reading direction.
fn acts(symbol: char) -> bool {
    symbol.is_control()
        || matches!(
            symbol,
            '\u{61c}'
                | '\u{200e}'
                | '\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2066}'..='\u{2069}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_act_on_is_written_out() {
        for (text, shown) in [
            ("a\nb\r\tc", "a\\nb\\r\\tc"),
            ("\u{1b}[31mred", "\\u{1b}[31mred"),
            ("\u{0}\u{7}\u{7f}", "\\u{0}\\u{7}\\u{7f}"),
            ("\u{9b}2J", "\\u{9b}2J"),
            ("\u{202e}txt.exe\u{2069}", "\\u{202e}txt.exe\\u{2069}"),
            ("\u{200e}\u{2028}", "\\u{200e}\\u{2028}"),
        ] {
            assert_eq!(visible(text), shown);
        }
    }

    #[test]
    fn what_people_write_stays_as_it_is() {
        for text in ["", "card is blocked", "Größe 👩‍💻 שלום", r"C:\new"] {
            assert!(matches!(visible(text), Cow::Borrowed(same) if same == text));
        }
    }
}
