//! Text with the colours of [`Paint`](super::Paint), for a view that fills the terminal.

use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use stateway_phrases::State;

use super::Paint;
use super::paint::library_color;

/// A line that may have colours.
#[must_use]
pub fn styled(text: &str) -> Line<'static> {
    let mut spans = Vec::new();
    let mut style = Style::new();
    for (number, part) in text.split("\u{1b}[").enumerate() {
        let rest = match part.split_once('m').filter(|_| number > 0) {
            Some((codes, rest)) => {
                style = codes.split(';').fold(style, apply);
                rest
            }
            None => part,
        };
        if !rest.is_empty() {
            spans.push(Span::styled(rest.to_owned(), style));
        }
    }
    Line::from(spans)
}

/// A sub-state with its symbol, in its colour.
#[must_use]
pub fn sub_state(label: &str, paint: Paint) -> Span<'static> {
    let Some(state) = State::of(label) else {
        return Span::raw(label.to_owned());
    };
    let text = format!("{} {label}", state.symbol);
    if !paint.is_on() {
        return Span::raw(text);
    }
    let style = Style::new().fg(library_color!(Color, state.color));
    let style = if state.bold() {
        style.add_modifier(Modifier::BOLD)
    } else {
        style
    };
    Span::styled(text, style)
}

/// The text in at most this many columns.
#[must_use]
pub fn cut(text: &str, width: usize) -> String {
    if Span::raw(text).width() <= width {
        return text.to_owned();
    }
    let (mut shown, mut left) = (String::new(), width.saturating_sub(1));
    for symbol in text.chars() {
        let wide = Span::raw(symbol.to_string()).width();
        if wide > left {
            break;
        }
        left -= wide;
        shown.push(symbol);
    }
    if width > 0 {
        shown.push('…');
    }
    shown
}

/// Applies one code of a colour sequence; `Paint` writes no other than these.
fn apply(style: Style, code: &str) -> Style {
    match code {
        "1" => style.add_modifier(Modifier::BOLD),
        "2" => style.add_modifier(Modifier::DIM),
        "31" => style.fg(Color::Red),
        "32" => style.fg(Color::Green),
        "33" => style.fg(Color::Yellow),
        "34" => style.fg(Color::Blue),
        "35" => style.fg(Color::Magenta),
        "36" => style.fg(Color::Cyan),
        _ => Style::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_colours_of_paint_become_styles() {
        let paint = Paint::new(true);
        let text = format!("a {} b", paint.sub_state("failed"));
        let line = styled(&text);
        let red = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);
        assert_eq!(
            line.spans,
            [
                Span::raw("a "),
                Span::styled("failed", red),
                Span::raw(" b")
            ]
        );
        let dim = Style::new().add_modifier(Modifier::DIM);
        assert_eq!(styled(&paint.dim("x")).spans[0].style, dim);
    }

    #[test]
    fn a_state_has_a_symbol_even_without_colour() {
        assert_eq!(sub_state("error", Paint::new(false)), Span::raw("! error"));
        let coloured = sub_state("succeeded", Paint::new(true));
        assert_eq!(coloured.style.fg, Some(Color::Green));
    }

    #[test]
    fn a_text_is_cut_by_the_columns_that_it_takes() {
        assert_eq!(cut("abcdef", 4), "abc…");
        assert_eq!(cut("abcd", 4), "abcd");
        assert_eq!(cut("日本語", 5), "日本…");
        assert_eq!(cut("ab", 0), "");
    }
}
