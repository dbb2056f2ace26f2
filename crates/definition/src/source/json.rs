//! The one thing JSON writes that YAML does not read: a character beyond `\uffff` as two escapes.

use std::borrow::Cow;

use serde::de::IgnoredAny;

/// The same document with such pairs as one escape of YAML's. Only for text that is JSON as it
/// stands; in YAML the same letters may mean themselves.
pub(super) fn readable(text: &str) -> Cow<'_, str> {
    let pairs = text.contains("\\ud") || text.contains("\\uD");
    if !pairs || serde_json::from_str::<IgnoredAny>(text).is_err() {
        return Cow::Borrowed(text);
    }
    let mut readable = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        readable.push_str(&rest[..at]);
        rest = &rest[at..];
        let taken = match pair(rest) {
            Some(character) => {
                readable.push_str(&format!("\\U{:08x}", u32::from(character)));
                12
            }
            // Any other escape is two bytes or begins with two; both are YAML's too.
            None => {
                readable.push_str(rest.get(..2).unwrap_or(rest));
                2.min(rest.len())
            }
        };
        rest = rest.get(taken..).unwrap_or_default();
    }
    readable.push_str(rest);
    Cow::Owned(readable)
}

/// The character that `\ud83d\ude00` stands for.
fn pair(escape: &str) -> Option<char> {
    let unit = |from: usize| {
        let digits = escape.get(from..from + 6)?.strip_prefix("\\u")?;
        u16::from_str_radix(digits, 16).ok()
    };
    let (high, low) = (unit(0)?, unit(6)?);
    let surrogates = (0xd800..0xdc00).contains(&high);
    surrogates.then(|| char::decode_utf16([high, low]).next()?.ok())?
}
