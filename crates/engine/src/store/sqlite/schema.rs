//! The tables, and how an older file becomes a present one.

use std::path::Path;

use rusqlite::Connection;

use super::{StoreError, labels};

/// The scripts that lead from each version to the next; a file's version is how many of them it
/// has seen. A script that was released is never changed.
const MIGRATIONS: &[&str] = &[
    include_str!("migration/001_first.sql"),
    include_str!("migration/002_disabled_triggers.sql"),
    include_str!("migration/003_forks.sql"),
    include_str!("migration/004_by_definition.sql"),
    include_str!("migration/005_summaries_and_labels.sql"),
    include_str!("migration/006_compact_rows.sql"),
];

/// The version this build writes.
pub const SCHEMA_VERSION: i64 = MIGRATIONS.len() as i64;

/// Marks the file as ours: "Stwy".
const APPLICATION_ID: i64 = 0x5374_7779;

/// Brings a file of this version to the present one.
pub(super) fn migrate(
    connection: &mut Connection,
    path: &Path,
    found: i64,
) -> Result<(), StoreError> {
    for (number, script) in (1..)
        .zip(MIGRATIONS)
        .skip(usize::try_from(found).unwrap_or(0))
    {
        let step = |connection: &mut Connection| -> rusqlite::Result<()> {
            let transaction = connection.transaction()?;
            transaction.execute_batch(script)?;
            transaction.pragma_update(None, "user_version", number)?;
            transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
            transaction.commit()
        };
        step(connection).map_err(|error| StoreError::of(path, error))?;
        // A new file has nothing that was migrated.
        if found > 0 {
            tracing::info!(version = number, "store migrated");
        }
    }
    labels::fill(connection, path)
}

/// The version of a file, if it is one of ours and not newer than this build.
pub(super) fn version(connection: &Connection, path: &Path) -> Result<i64, StoreError> {
    let read = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let (version, owner) = read("user_version")
        .and_then(|version| Ok((version, read("application_id")?)))
        .map_err(|error| StoreError::of(path, error))?;
    let tables: i64 = connection
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(|error| StoreError::of(path, error))?;
    if owner != APPLICATION_ID && tables > 0 {
        return Err(StoreError::opening(
            path,
            "it is a database of another program",
        ));
    }
    if version > SCHEMA_VERSION {
        return Err(StoreError::Newer {
            store: path.display().to_string(),
            found: version,
            known: SCHEMA_VERSION,
        });
    }
    Ok(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files of each version, as they were released.
    const RELEASED: &[&str] = &[
        include_str!("../../../tests/golden/store-v1.sql"),
        include_str!("../../../tests/golden/store-v2.sql"),
        include_str!("../../../tests/golden/store-v3.sql"),
        include_str!("../../../tests/golden/store-v4.sql"),
        include_str!("../../../tests/golden/store-v5.sql"),
        include_str!("../../../tests/golden/store-v6.sql"),
    ];

    fn schema(file: &Connection) -> Vec<String> {
        let sql = "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY type, name";
        let mut query = file.prepare(sql).unwrap();
        let rows = query.query_map([], |row| row.get(0)).unwrap();
        rows.map(Result::unwrap).collect()
    }

    #[test]
    fn a_script_that_was_released_is_never_changed() {
        assert_eq!(RELEASED.len(), MIGRATIONS.len());
        for (version, golden) in (1..).zip(RELEASED) {
            let released = Connection::open_in_memory().unwrap();
            released.execute_batch(golden).unwrap();
            let made = Connection::open_in_memory().unwrap();
            for script in &MIGRATIONS[..version] {
                made.execute_batch(script).unwrap();
            }
            assert_eq!(schema(&made), schema(&released), "version {version}");
        }
    }
}
