//! The parts of a sentence, for a client to render.

use std::borrow::Cow;

use jiff::Timestamp;

/// A part of a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Words of this crate.
    Text(Cow<'a, str>),
    /// A name that an engine or a user chose.
    Name(&'a str),
    /// A message that an engine, a worker or a user wrote.
    Message(&'a str),
    /// A time to come: `in 12 s`.
    Until(Timestamp),
    /// The start of something that still lasts, such as `for 3 min`. It has a blank before it, so
    /// that a client can leave it out.
    Lasting(Timestamp),
}

impl<'a> From<&'a str> for Piece<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

impl From<String> for Piece<'_> {
    fn from(text: String) -> Self {
        Self::Text(Cow::Owned(text))
    }
}

/// The sentence as a line of text: names in backticks, times as `time` writes them, no `Lasting`.
#[must_use]
pub fn plain(pieces: &[Piece<'_>], time: impl Fn(Timestamp) -> String) -> String {
    let mut line = String::new();
    for piece in pieces {
        match piece {
            Piece::Text(text) => line.push_str(text),
            Piece::Name(name) => {
                line.push('`');
                line.push_str(&crate::visible(name));
                line.push('`');
            }
            Piece::Message(message) => line.push_str(&crate::visible(message)),
            Piece::Until(then) => line.push_str(&time(*then)),
            Piece::Lasting(_) => {}
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_others_cannot_act_on_the_terminal() {
        let pieces = [
            "waits for ".into(),
            Piece::Name("a\u{1b}[2J"),
            ": ".into(),
            Piece::Message("b\nc"),
        ];
        let line = plain(&pieces, |_| String::new());
        assert_eq!(line, "waits for `a\\u{1b}[2J`: b\\nc");
    }
}
