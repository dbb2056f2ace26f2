//! What HTTP can carry as a header (RFC 9110, section 5): checked where a definition is read, and
//! again when references have become values, because a value can hold a line break.

/// True for what can be the name of a header or of a method: a token.
#[must_use]
pub fn is_header_name(name: &str) -> bool {
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(token)
}

/// True for what can be the value of a header: no control characters but tabs.
#[must_use]
pub fn is_header_value(value: &str) -> bool {
    value.chars().all(|c| c == '\t' || !c.is_control())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_tokens() {
        for name in ["x-api", "Content-Type", "X_1"] {
            assert!(is_header_name(name), "{name}");
        }
        for name in ["", "a b", "a:", "a\r\n", "ä", "a\0"] {
            assert!(!is_header_name(name), "{name:?}");
        }
    }

    #[test]
    fn values_hold_no_line_break() {
        for value in ["", "Bearer x", "a\tb", "größe"] {
            assert!(is_header_value(value), "{value}");
        }
        for value in ["a\r\nx: y", "a\nb", "a\0", "\u{7f}"] {
            assert!(!is_header_value(value), "{value:?}");
        }
    }
}
