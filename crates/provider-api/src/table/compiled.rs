//! The tables that come with the build.

use std::sync::{Arc, LazyLock};

use super::Table;

/// The text of the table of the built-in engine.
pub const BUILTIN: &str = include_str!("../../../../provider-tables/builtin.toml");
/// The text of the table of the in-memory provider.
pub const MEMORY: &str = include_str!("../../../../provider-tables/memory.toml");
/// The text of Restate's table.
pub const RESTATE: &str = include_str!("../../../../provider-tables/restate.toml");
/// The text of the table of AWS Step Functions.
pub const STEP_FUNCTIONS: &str = include_str!("../../../../provider-tables/step-functions.toml");
/// The text of Temporal's table.
pub const TEMPORAL: &str = include_str!("../../../../provider-tables/temporal.toml");

/// Kind and text of every table in `provider-tables/`.
pub const COMPILED_IN: &[(&str, &str)] = &[
    ("builtin", BUILTIN),
    ("memory", MEMORY),
    ("restate", RESTATE),
    ("step-functions", STEP_FUNCTIONS),
    ("temporal", TEMPORAL),
];

/// The compiled-in table of a kind of provider. A table need not be compiled in: a provider may bring
/// its own, checked by [`Table::parse`].
#[must_use]
pub fn compiled_in(kind: &str) -> Option<Arc<Table>> {
    static TABLES: LazyLock<Vec<Arc<Table>>> = LazyLock::new(|| {
        let parse = |(_, text): &(&str, &str)| Table::parse(text).map(Arc::new);
        let tables: Result<_, _> = COMPILED_IN.iter().map(parse).collect();
        tables.expect("the test `every_compiled_in_table_is_good` parses each of them")
    });
    TABLES.iter().find(|table| table.kind == kind).cloned()
}
