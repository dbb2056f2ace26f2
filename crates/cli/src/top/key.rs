//! Keys, decoded from the bytes of the terminal.

/// A key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those on the keys")]
pub enum Key {
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    Enter,
    Escape,
    Backspace,
    /// Ctrl-C or Ctrl-D.
    Interrupt,
    /// Ctrl-U: everything typed so far.
    Clear,
    Char(char),
}

/// The keys in one read. Unknown sequences are skipped. Terminals send a sequence in one
/// write, so it is never split between two reads.
#[must_use]
pub fn keys(bytes: &[u8]) -> Vec<Key> {
    let text = String::from_utf8_lossy(bytes);
    let mut rest = text.as_ref();
    let mut found = Vec::new();
    while let Some(first) = rest.chars().next() {
        let (key, length) = match escaped(rest) {
            Some(known) => known,
            None => (plain(first), first.len_utf8()),
        };
        found.extend(key);
        rest = &rest[length..];
    }
    found
}

/// A sequence that begins with Escape, and how long it is.
fn escaped(text: &str) -> Option<(Option<Key>, usize)> {
    let after = text.strip_prefix('\u{1b}')?;
    let Some(body) = after.strip_prefix(['[', 'O']) else {
        return Some((Some(Key::Escape), 1));
    };
    let end = body.find(|symbol: char| symbol.is_ascii_alphabetic() || symbol == '~')?;
    let key = match &body[..=end] {
        "A" => Some(Key::Up),
        "B" => Some(Key::Down),
        "H" | "1~" | "7~" => Some(Key::Home),
        "F" | "4~" | "8~" => Some(Key::End),
        "5~" => Some(Key::PageUp),
        "6~" => Some(Key::PageDown),
        _ => None,
    };
    Some((key, 2 + end + 1))
}

fn plain(symbol: char) -> Option<Key> {
    match symbol {
        '\r' | '\n' => Some(Key::Enter),
        '\u{1b}' => Some(Key::Escape),
        '\u{7f}' | '\u{8}' => Some(Key::Backspace),
        '\u{3}' | '\u{4}' => Some(Key::Interrupt),
        '\u{15}' => Some(Key::Clear),
        symbol if symbol.is_control() => None,
        symbol => Some(Key::Char(symbol)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_and_letters_come_in_one_read() {
        assert_eq!(
            keys(b"j\x1b[A\x1bOB\x1b[5~\x1b[6~q\r\x7f\x03"),
            [
                Key::Char('j'),
                Key::Up,
                Key::Down,
                Key::PageUp,
                Key::PageDown,
                Key::Char('q'),
                Key::Enter,
                Key::Backspace,
                Key::Interrupt,
            ]
        );
    }

    #[test]
    fn escape_alone_is_a_key_and_an_unknown_sequence_is_none() {
        assert_eq!(keys(b"\x1b"), [Key::Escape]);
        assert_eq!(keys(b"\x1b[1;5Cx"), [Key::Char('x')]);
        assert_eq!(keys("é\t".as_bytes()), [Key::Char('é')]);
    }
}
