//! Words, quoted texts and signs, each with its place.

use super::{FilterError, MAX_LENGTH};

/// One token and the byte it starts at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) at: usize,
    pub(super) kind: TokenKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TokenKind {
    /// A bare word: a field, a keyword, a number or a plain value.
    Word(String),
    /// A text in quotes, without them. A character after `\` stands for itself.
    Quoted(String),
    /// `=`, `!=`, `<`, `<=`, `>`, `>=` or `:`.
    Operator(&'static str),
    Open,
    Close,
    /// A `-` that stands for NOT.
    Minus,
}

/// Characters of a bare word. `:` and `.` are inside times and field paths; a word ends before a
/// `:` that is not followed by a digit, so that `labels:key` is three tokens and a time is one.
fn is_word(symbol: char) -> bool {
    symbol.is_alphanumeric() || matches!(symbol, '_' | '.' | '-' | '/' | '+' | '*' | '%' | '~')
}

pub(super) fn tokens(text: &str) -> Result<Vec<Token>, FilterError> {
    if text.len() > MAX_LENGTH {
        return Err(FilterError {
            column: 1,
            message: format!(
                "a filter of {} bytes is longer than {MAX_LENGTH}",
                text.len()
            ),
            hint: String::new(),
        });
    }
    let mut tokens = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start();
        let at = text.len() - rest.len();
        let Some(first) = rest.chars().next() else {
            return Ok(tokens);
        };
        let (kind, length) = match first {
            '(' => (TokenKind::Open, 1),
            ')' => (TokenKind::Close, 1),
            '"' | '\'' => quoted(text, at, first)?,
            '-' => (TokenKind::Minus, 1),
            _ if is_word(first) => word(rest),
            _ => operator(text, at)?,
        };
        tokens.push(Token { at, kind });
        rest = &rest[length..];
    }
}

fn word(rest: &str) -> (TokenKind, usize) {
    let mut end = 0;
    let mut symbols = rest.char_indices().peekable();
    while let Some((at, symbol)) = symbols.next() {
        let digit_follows = symbols
            .peek()
            .is_some_and(|(_, next)| next.is_ascii_digit());
        let in_time =
            symbol == ':' && digit_follows && rest.starts_with(|c: char| c.is_ascii_digit());
        if !is_word(symbol) && !in_time {
            break;
        }
        end = at + symbol.len_utf8();
    }
    (TokenKind::Word(rest[..end].to_owned()), end)
}

fn quoted(text: &str, at: usize, quote: char) -> Result<(TokenKind, usize), FilterError> {
    let mut value = String::new();
    let mut symbols = text[at + 1..].char_indices();
    while let Some((offset, symbol)) = symbols.next() {
        match symbol {
            '\\' => match symbols.next() {
                // A `*` is a wildcard unless it is escaped, so the escape is kept.
                Some((_, escaped)) => value.extend(['\\', escaped]),
                None => break,
            },
            _ if symbol == quote => return Ok((TokenKind::Quoted(value), offset + 2)),
            _ => value.push(symbol),
        }
    }
    Err(error(
        text,
        at,
        "the closing quote of a text is missing",
        "Close it with the same quote.",
    ))
}

fn operator(text: &str, at: usize) -> Result<(TokenKind, usize), FilterError> {
    // The longer signs first, so that `<=` is not read as `<`.
    const OPERATORS: [&str; 7] = ["!=", "<=", ">=", "=", "<", ">", ":"];
    match OPERATORS.iter().find(|sign| text[at..].starts_with(**sign)) {
        Some(sign) => Ok((TokenKind::Operator(sign), sign.len())),
        None => {
            let symbol = text[at..].chars().next().unwrap_or(' ');
            let hint = match symbol {
                '&' => "Write AND.",
                '|' => "Write OR.",
                _ => "",
            };
            Err(error(
                text,
                at,
                &format!("`{symbol}` is not allowed here"),
                hint,
            ))
        }
    }
}

/// An error at a byte of the filter, reported as a column.
pub(super) fn error(text: &str, at: usize, message: &str, hint: &str) -> FilterError {
    let column = text[..at.min(text.len())].chars().count() + 1;
    FilterError {
        column,
        message: message.to_owned(),
        hint: hint.to_owned(),
    }
}
