//! Lines of a given width, not counting colours.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// A text without colours, cut or padded to this width.
pub(super) fn fit(text: &str, width: usize) -> String {
    let mut fitted = cut(text, width);
    let used = fitted.width();
    fitted.push_str(&" ".repeat(width.saturating_sub(used)));
    fitted
}

/// A line of at most this width. Colours do not count, and end with the line.
pub(super) fn cut(line: &str, width: usize) -> String {
    if pieces(line).map(Piece::width).sum::<usize>() <= width {
        return line.to_owned();
    }
    let mut shown = String::with_capacity(line.len());
    let mut left = width.saturating_sub(1);
    let mut coloured = false;
    for piece in pieces(line) {
        coloured |= matches!(piece, Piece::Colour(_));
        match left.checked_sub(piece.width()) {
            Some(after) => left = after,
            None => break,
        }
        match piece {
            Piece::Colour(colour) => shown.push_str(colour),
            Piece::Symbol(symbol) => shown.push(symbol),
        }
    }
    if width > 0 {
        shown.push('…');
    }
    if coloured {
        shown.push_str("\u{1b}[0m");
    }
    shown
}

/// A part of a line.
#[derive(Clone, Copy)]
enum Piece<'a> {
    Symbol(char),
    Colour(&'a str),
}

impl Piece<'_> {
    fn width(self) -> usize {
        match self {
            Self::Symbol(symbol) => symbol.width().unwrap_or(0),
            Self::Colour(_) => 0,
        }
    }
}

fn pieces(line: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = line;
    std::iter::from_fn(move || {
        let symbol = rest.chars().next()?;
        let end = rest.find('m').filter(|_| symbol == '\u{1b}');
        let (piece, length) = match end {
            Some(end) => (Piece::Colour(&rest[..=end]), end + 1),
            None => (Piece::Symbol(symbol), symbol.len_utf8()),
        };
        rest = &rest[length..];
        Some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_by_what_it_takes_on_the_screen() {
        assert_eq!(cut("abcdef", 4), "abc…");
        assert_eq!(cut("abcd", 4), "abcd");
        assert_eq!(cut("日本語", 5), "日本…");
        let red = "\u{1b}[31mab\u{1b}[0m";
        assert_eq!(cut(red, 2), red);
        assert_eq!(cut(red, 1), "\u{1b}[31m…\u{1b}[0m");
        assert_eq!(fit("ab", 4), "ab  ");
        assert_eq!(cut("ab", 0), "");
    }
}
