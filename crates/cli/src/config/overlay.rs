//! A provider's state table with the operator's rows laid over it.

use std::path::Path;
use std::sync::Arc;

use stateway_provider_api::{Table, table};

use super::{Kind, Problem};

/// The table of a kind, with the rows of a file laid over it where one is given.
///
/// # Errors
/// A file that cannot be read, or that is not a table of this kind.
pub fn table(kind: Kind, overlay: Option<&Path>) -> Result<Arc<Table>, Problem> {
    let base = table::compiled_in(kind.as_str())
        .expect("the test `every_kind_has_a_table` looks each of them up");
    let Some(path) = overlay else {
        return Ok(base);
    };
    let text = std::fs::read_to_string(path)
        .map_err(|error| Problem::of(path, format!("cannot be read: {error}")))?;
    let wrong = |error: table::TableError| Problem::of(path, error.to_string());
    base.overlaid_with(&Table::parse(&text).map_err(wrong)?)
        .map(Arc::new)
        .map_err(wrong)
}
