//! The labels of executions in an older file become rows of their own.
//!
//! A large file takes a while. Each part is a transaction that also notes how far it got: a process that
//! is killed meanwhile continues there.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OptionalExtension as _, params};

use super::StoreError;

/// Executions per transaction.
const AT_ONCE: i64 = 20_000;
/// How often progress is logged.
const REPORT_EVERY: Duration = Duration::from_secs(2);

/// Fills the table `labels`, from where it was left.
pub(super) fn fill(connection: &mut Connection, path: &Path) -> Result<(), StoreError> {
    let mut reported = Instant::now();
    loop {
        let next = fill_part(connection).map_err(|error| StoreError::of(path, error))?;
        let Some((done, last)) = next else {
            return Ok(());
        };
        if reported.elapsed() >= REPORT_EVERY {
            reported = Instant::now();
            tracing::info!(done, of = last, "the store is being migrated: labels");
        }
    }
}

/// Fills one part; how far it got and the last number, or nothing at the end.
fn fill_part(connection: &mut Connection) -> rusqlite::Result<Option<(i64, i64)>> {
    let transaction = connection.transaction()?;
    let filled: Option<i64> = transaction
        .query_row(
            "SELECT value FROM counters WHERE name = 'labels_filled'",
            [],
            |row| row.get(0),
        )
        .optional()?;
    let Some(after) = filled else {
        return Ok(None);
    };
    let last: Option<i64> =
        transaction.query_row("SELECT max(number) FROM executions", [], |row| row.get(0))?;
    let Some(last) = last.filter(|last| *last > after) else {
        transaction.execute("DELETE FROM counters WHERE name = 'labels_filled'", [])?;
        transaction.commit()?;
        return Ok(None);
    };
    let done = after.saturating_add(AT_ONCE).min(last);
    transaction.execute(
        "INSERT OR IGNORE INTO labels (key, value, number) \
         SELECT label.key, label.value, number FROM executions, json_each(CASE WHEN json_valid(labels) THEN labels ELSE '{}' END) AS label \
         WHERE number > ?1 AND number <= ?2 AND labels <> '{}'",
        params![after, done],
    )?;
    transaction.execute(
        "UPDATE counters SET value = ?1 WHERE name = 'labels_filled'",
        [done],
    )?;
    transaction.commit()?;
    Ok(Some((done, last)))
}
