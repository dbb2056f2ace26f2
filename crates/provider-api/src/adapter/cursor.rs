//! Cursors: where the next page of a list begins, as a text that only its own list takes back.
//!
//! A cursor is the name of the list and a small document. The gateway seals cursors before clients
//! see them, so they need no signature here.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Error, Result, Verb};

/// Names the cursors of [`Provider::list`](crate::Provider::list).
pub const LIST: &str = "list";
/// Names the cursors of [`Provider::history`](crate::Provider::history).
pub const HISTORY: &str = "history";
/// Names the cursors of [`Provider::history`](crate::Provider::history) with the newest event first.
pub const NEWEST: &str = "newest";
/// Names the cursors of [`Provider::definitions`](crate::Provider::definitions).
pub const DEFINITIONS: &str = "definitions";

/// A cursor of this list.
///
/// # Panics
/// The position cannot be written as JSON: a map with keys that are not texts.
#[must_use]
pub fn write(list: &str, position: &impl Serialize) -> String {
    let text = serde_json::to_vec(position).expect("a position is plain data");
    format!("{list}.{}", URL_SAFE_NO_PAD.encode(text))
}

/// The position of a cursor of this list; `None` without a cursor.
///
/// # Errors
/// [`InvalidArgument`](crate::ErrorKind::InvalidArgument) for a cursor of another list or of another
/// provider.
pub fn read<T: DeserializeOwned>(
    list: &str,
    cursor: Option<&str>,
    verb: Verb,
) -> Result<Option<T>> {
    let Some(cursor) = cursor else {
        return Ok(None);
    };
    let position = cursor
        .strip_prefix(list)
        .and_then(|rest| rest.strip_prefix('.'))
        .and_then(|text| URL_SAFE_NO_PAD.decode(text).ok())
        .and_then(|text| serde_json::from_slice(&text).ok());
    position
        .map(Some)
        .ok_or_else(|| Error::foreign_cursor(verb))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn a_cursor_is_read_back_by_its_own_list_only() {
        let made = write(LIST, &("a", 1));
        let read_back = |list: &str, cursor: &str| {
            read::<(String, u32)>(list, Some(cursor), Verb::List).map_err(|error| error.kind)
        };
        assert_eq!(read_back(LIST, &made), Ok(Some(("a".to_owned(), 1))));
        assert_eq!(read::<u32>(LIST, None, Verb::List).unwrap(), None);
        let refused = Err(ErrorKind::InvalidArgument);
        assert_eq!(read_back(HISTORY, &made), refused);
        for foreign in ["", "kit", "list", "list.", "list.x", "list.1", "history.1"] {
            assert_eq!(read_back(LIST, foreign), refused, "{foreign}");
        }
        let other_form = write(LIST, &7);
        assert_eq!(read_back(LIST, &other_form), refused);
    }
}
