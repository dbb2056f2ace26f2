//! The tables that come with the build.

use std::sync::LazyLock;

use super::Table;

/// Kind and text of every table in `provider-tables/`.
pub const COMPILED_IN: &[(&str, &str)] = &[
    (
        "builtin",
        include_str!("../../../../provider-tables/builtin.toml"),
    ),
    (
        "memory",
        include_str!("../../../../provider-tables/memory.toml"),
    ),
    (
        "restate",
        include_str!("../../../../provider-tables/restate.toml"),
    ),
    (
        "step-functions",
        include_str!("../../../../provider-tables/step-functions.toml"),
    ),
    (
        "temporal",
        include_str!("../../../../provider-tables/temporal.toml"),
    ),
];

/// The compiled-in table of a kind of provider.
#[must_use]
pub fn compiled_in(kind: &str) -> Option<&'static Table> {
    static TABLES: LazyLock<Vec<Table>> = LazyLock::new(|| {
        let parse = |(_, text): &(&str, &str)| Table::parse(text);
        let tables: Result<_, _> = COMPILED_IN.iter().map(parse).collect();
        tables.expect("the test `every_compiled_in_table_is_good` parses each of them")
    });
    TABLES.iter().find(|table| table.kind == kind)
}
