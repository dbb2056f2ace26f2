//! Input, output and signal bodies, carried as the engine has them.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// A body and its content type. Never parsed on the way through, so nothing is lost: neither a
/// number beyond 2^53 nor bytes that are not JSON.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Payload {
    /// A media type (default: `application/json`).
    pub content_type: String,
    /// The bytes.
    pub data: Bytes,
}

impl Payload {
    /// The content type nearly every engine speaks.
    pub const JSON: &'static str = "application/json";
    /// Text of no particular form.
    pub const TEXT: &'static str = "text/plain; charset=utf-8";

    /// A JSON document that is already serialised.
    #[must_use]
    pub fn json(document: impl Into<Bytes>) -> Self {
        Self {
            content_type: Self::JSON.to_owned(),
            data: document.into(),
        }
    }

    /// The first `most` bytes, and whether anything was cut off. A text that was cut is no document
    /// of its type any more, so it is `text/plain`, and it ends with a whole character.
    #[must_use]
    pub fn cut(mut self, most: usize) -> (Self, bool) {
        if self.data.len() <= most {
            return (self, false);
        }
        let end = match std::str::from_utf8(&self.data) {
            Ok(text) => {
                self.content_type = Self::TEXT.to_owned();
                text.floor_char_boundary(most)
            }
            Err(_) => most,
        };
        self.data.truncate(end);
        (self, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_that_is_cut_is_text_and_ends_with_a_whole_character() {
        let whole = Payload::json("\"aü\"");
        assert_eq!(whole.clone().cut(5), (whole.clone(), false));
        let (cut, was_cut) = whole.cut(3);
        assert!(was_cut);
        assert_eq!(
            (&*cut.data, &*cut.content_type),
            (&b"\"a"[..], Payload::TEXT)
        );
    }
}
