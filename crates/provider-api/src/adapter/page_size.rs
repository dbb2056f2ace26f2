//! The size of a page: at least one row, at most as many as the adapter reads at a time.

use crate::{Error, Result, Verb};

/// The number of rows to read for a page.
///
/// # Errors
/// A page without rows: following such pages would never end.
pub fn page_size(requested: u32, most: u32, verb: Verb) -> Result<u32> {
    if requested == 0 {
        return Err(Error::invalid(verb, "`page_size` must be at least 1"));
    }
    Ok(requested.min(most))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn a_page_has_at_least_one_row_and_at_most_what_the_adapter_reads() {
        assert_eq!(page_size(7, 100, Verb::List).unwrap(), 7);
        assert_eq!(page_size(u32::MAX, 100, Verb::List).unwrap(), 100);
        let refused = page_size(0, 100, Verb::History).unwrap_err();
        assert_eq!(refused.kind, ErrorKind::InvalidArgument);
    }
}
