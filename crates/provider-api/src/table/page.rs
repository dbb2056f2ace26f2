//! A provider's documentation page: hand-written words around a generated table.
//!
//! Pure: the old page and the table go in, the new page comes out. Who reads and writes files is
//! `cargo xtask docs`; the test `tables.rs` checks that the page is current.

use thiserror::Error;

use super::{Table, markdown};

/// Where the generated part begins.
pub const BEGIN: &str = "<!-- table:begin -->";
/// Where the generated part ends.
pub const END: &str = "<!-- table:end -->";

/// Why a page cannot be brought up to date.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PageError {
    /// A marker is missing or stands twice.
    #[error("the page needs exactly one line `{0}`")]
    Marker(&'static str),
    /// The end stands before the beginning.
    #[error("`{END}` comes before `{BEGIN}`")]
    Order,
}

/// The page with its generated part made from the table. The text outside of the markers is
/// unchanged.
///
/// # Errors
/// A marker is missing or repeated, or the markers are in the wrong order.
pub fn page(old: &str, table: &Table) -> Result<String, PageError> {
    let begin = only(old, BEGIN)? + BEGIN.len();
    let end = only(old, END)?;
    if end < begin {
        return Err(PageError::Order);
    }
    let (before, after) = (&old[..begin], &old[end..]);
    Ok(format!("{before}\n\n{}\n{after}", markdown(table)))
}

fn only(text: &str, marker: &'static str) -> Result<usize, PageError> {
    let mut places = text.match_indices(marker);
    match (places.next(), places.next()) {
        (Some((at, _)), None) => Ok(at),
        _ => Err(PageError::Marker(marker)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let text = "version = 1\nkind = \"k\"\ntitle = \"K\"\nsummary = \"s\"\n[[rows]]\n\
                    native = \"a\"\nsub_state = \"running\"\nterminal = false\nsource = \"seen\"\n";
        Table::parse(text).unwrap()
    }

    #[test]
    fn only_what_is_between_the_markers_changes() {
        let old = format!("# K\n\nwords\n\n{BEGIN}\nold\n{END}\n\nmore words\n");
        let new = page(&old, &table()).unwrap();
        assert!(new.starts_with(&format!("# K\n\nwords\n\n{BEGIN}\n\n### Executions\n")));
        assert!(new.ends_with(&format!("\n{END}\n\nmore words\n")), "{new}");
        assert!(!new.contains("old"));
        assert_eq!(page(&new, &table()).unwrap(), new);
    }

    #[test]
    fn a_page_without_its_markers_is_refused() {
        let refused = |old: &str| page(old, &table()).unwrap_err();
        assert_eq!(refused("# K\n"), PageError::Marker(BEGIN));
        assert_eq!(refused(BEGIN), PageError::Marker(END));
        assert_eq!(
            refused(&format!("{BEGIN}{BEGIN}{END}")),
            PageError::Marker(BEGIN)
        );
        assert_eq!(refused(&format!("{END}{BEGIN}")), PageError::Order);
    }
}
