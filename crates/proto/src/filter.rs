//! Filters of lists, written by programs.

/// A text as one value of a filter: quoted, with the characters escaped that mean something there.
///
/// ```
/// use stateway_proto::filter::quoted;
///
/// assert_eq!(quoted("ship \"it\""), r#""ship \"it\"""#);
/// assert_eq!(quoted("a*b"), r#""a\*b""#);
/// ```
#[must_use]
pub fn quoted(text: &str) -> String {
    let mut value = String::with_capacity(text.len() + 2);
    value.push('"');
    for character in text.chars() {
        if matches!(character, '"' | '\\' | '*') {
            value.push('\\');
        }
        value.push(character);
    }
    value.push('"');
    value
}
