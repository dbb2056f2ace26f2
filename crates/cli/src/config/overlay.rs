//! A provider's state table, combined with rows of the operator.

use std::path::Path;
use std::sync::Arc;

use stateway_provider_api::{Table, table};

use super::{Kind, Problem};

/// The table of a kind. The rows of the file, if one is given, replace or extend its rows. A provider in another
/// process reports its table itself: for kind `remote` the rows of the file are all there is.
///
/// # Errors
/// A file that cannot be read, or that is not a table of this kind.
pub fn table(kind: Kind, overlay: Option<&Path>) -> Result<Option<Arc<Table>>, Problem> {
    let base = table::compiled_in(kind.table());
    let Some(path) = overlay else {
        return Ok(base);
    };
    let text = std::fs::read_to_string(path)
        .map_err(|error| Problem::of(path, format!("cannot be read: {error}")))?;
    let wrong = |error: table::TableError| Problem::of(path, error.to_string());
    let rows = Table::parse(&text).map_err(wrong)?;
    let table = match base {
        Some(base) => base.overlaid_with(&rows).map_err(wrong)?,
        None => rows,
    };
    Ok(Some(Arc::new(table)))
}
