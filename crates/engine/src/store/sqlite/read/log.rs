//! Reading logs along their lineage, and the log of all executions.

use std::borrow::Cow;
use std::sync::Arc;

use rusqlite::{OptionalExtension as _, Row, Rows, params};

use crate::request::EventRecord;
use crate::store::compact::unpack;
use crate::store::load::events;
use crate::store::sqlite::Sqlite;
use crate::store::{Branch, Hash, LogReading, LogRow, Snapshot, StoreError};

/// A log from its end: branch after branch, of each the rows that begin before an event.
const BACK: &str = "\
    SELECT position, branch, hash, lines, sequence FROM events \
    WHERE execution = ?1 AND (branch, sequence) < (?2, ?3) ORDER BY branch DESC, sequence DESC";
/// Where a read of the log ends, in bytes.
const LOG_BYTES: usize = 1024 * 1024;
/// A log along its lineage, in one query: from the branch back over its parents, of each the rows up
/// to where the next one grew from it. A branch is always younger than its parent, so this ends.
pub(in crate::store::sqlite) const WALK: &str = "\
    WITH RECURSIVE lineage (branch, up_to) AS ( \
        SELECT ?2, 9223372036854775807 \
        UNION ALL \
        SELECT b.parent, min(l.up_to, b.cutoff) FROM lineage l \
        JOIN branches b ON b.execution = ?1 AND b.branch = l.branch \
        WHERE b.cutoff > ?3 AND b.parent < b.branch \
    ) \
    SELECT e.position, e.branch, l.up_to, e.hash, e.lines, e.sequence FROM lineage l \
    JOIN events e ON e.execution = ?1 AND e.branch = l.branch \
        AND e.sequence > ?3 AND e.sequence <= l.up_to \
    ORDER BY e.sequence";

/// The same of the first branch, which has no parent.
const WALK_FIRST: &str = "\
    SELECT position, branch, 9223372036854775807, hash, lines, sequence FROM events \
    WHERE execution = ?1 AND branch = ?2 AND sequence > ?3 ORDER BY sequence";

/// The sequence of the last row of a lineage that begins at or before a sequence.
const ROW_START: &str = "\
    WITH RECURSIVE lineage (branch, up_to) AS ( \
        SELECT ?2, ?3 \
        UNION ALL \
        SELECT b.parent, min(l.up_to, b.cutoff) FROM lineage l \
        JOIN branches b ON b.execution = ?1 AND b.branch = l.branch AND b.parent < b.branch \
    ) \
    SELECT max((SELECT max(e.sequence) FROM events e \
        WHERE e.execution = ?1 AND e.branch = l.branch AND e.sequence <= l.up_to)) \
    FROM lineage l";

impl LogReading for Sqlite {
    fn snapshot(&self, number: i64, branch: u32) -> Result<Option<Snapshot>, StoreError> {
        let mut query = self.connection.prepare_cached(
            "SELECT sequence, revision, hash, data FROM snapshots \
             WHERE execution = ?1 AND branch = ?2",
        )?;
        let found = query.query_row(params![number, branch], |row| {
            Ok(Snapshot {
                number,
                branch,
                sequence: row.get::<_, i64>(0)?.unsigned_abs(),
                revision: row.get::<_, String>(1)?.into(),
                hash: row.get(2)?,
                data: row.get(3)?,
            })
        });
        Ok(found.optional()?)
    }

    fn walk(
        &self,
        number: i64,
        branch: u32,
        after: u64,
        each: &mut dyn FnMut(LogRow<'_>) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        let sql = if branch == 0 { WALK_FIRST } else { WALK };
        let mut query = self.connection.prepare_cached(sql)?;
        let after = i64::try_from(after).unwrap_or(i64::MAX);
        let mut rows = query.query(params![number, branch, after])?;
        while let Some(row) = rows.next()? {
            let found = LogRow {
                position: row.get(0)?,
                branch: row.get(1)?,
                first: row.get::<_, i64>(5)?.unsigned_abs(),
                up_to: row.get::<_, i64>(2)?.unsigned_abs(),
                hash: hash_of(row, 3)?,
                lines: &lines_of(row, 4)?,
            };
            if !each(found)? {
                break;
            }
        }
        Ok(())
    }

    fn chronicle(
        &self,
        number: i64,
        (branch, sequence): (u32, u64),
        each: &mut dyn FnMut(LogRow<'_>) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        let mut query = self.connection.prepare_cached(
            "SELECT coalesce(max(sequence), 0) FROM events \
             WHERE execution = ?1 AND branch = ?2 AND sequence <= ?3",
        )?;
        let sequence = i64::try_from(sequence).unwrap_or(i64::MAX);
        let bounds = params![number, branch, sequence];
        let start: i64 = query.query_row(bounds, |row| row.get(0))?;
        let mut query = self.connection.prepare_cached(
            "SELECT position, branch, hash, lines, sequence FROM events \
             WHERE execution = ?1 AND (branch, sequence) >= (?2, ?3) ORDER BY branch, sequence",
        )?;
        each_row(query.query(params![number, branch, start])?, each)
    }

    fn chronicle_back(
        &self,
        number: i64,
        (branch, sequence): (u32, u64),
        each: &mut dyn FnMut(LogRow<'_>) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        let mut query = self.connection.prepare_cached(BACK)?;
        let sequence = i64::try_from(sequence).unwrap_or(i64::MAX);
        each_row(query.query(params![number, branch, sequence])?, each)
    }

    fn row_start(&self, number: i64, branch: u32, after: u64) -> Result<u64, StoreError> {
        let mut query = self.connection.prepare_cached(ROW_START)?;
        let wanted = i64::try_from(after.saturating_add(1)).unwrap_or(i64::MAX);
        let first: Option<i64> =
            query.query_row(params![number, branch, wanted], |row| row.get(0))?;
        Ok(first.map_or(0, |first| first.unsigned_abs().saturating_sub(1)))
    }

    fn branches(&self, number: i64) -> Result<Vec<Branch>, StoreError> {
        let mut query = self.connection.prepare_cached(
            "SELECT branch, parent, cutoff FROM branches WHERE execution = ?1 ORDER BY branch",
        )?;
        let rows = query.query_map([number], |row| {
            Ok(Branch {
                number,
                branch: row.get(0)?,
                parent: row.get(1)?,
                cutoff: row.get::<_, i64>(2)?.unsigned_abs(),
            })
        })?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    fn head(&self, number: i64) -> Result<Option<(u32, Hash)>, StoreError> {
        let mut query = self.connection.prepare_cached(
            "SELECT branch, hash FROM events WHERE execution = ?1 \
             ORDER BY branch DESC, sequence DESC LIMIT 1",
        )?;
        let found = query.query_row([number], |row| Ok((row.get(0)?, hash_of(row, 1)?)));
        Ok(found.optional()?)
    }

    fn recent(&self, rows: usize) -> Result<Vec<i64>, StoreError> {
        let mut query = self.connection.prepare_cached(
            "SELECT DISTINCT execution FROM \
             (SELECT execution FROM events ORDER BY position DESC LIMIT ?1)",
        )?;
        let rows = i64::try_from(rows).unwrap_or(i64::MAX);
        let found = query.query_map([rows], |row| row.get(0))?;
        Ok(found.collect::<rusqlite::Result<_>>()?)
    }

    fn log(&self, after: i64, limit: usize) -> Result<Vec<EventRecord>, StoreError> {
        let mut query = self.connection.prepare_cached(
            "SELECT e.position, e.execution, e.branch, e.lines, x.id FROM events e \
             JOIN executions x ON x.number = e.execution \
             WHERE e.position > ?1 ORDER BY e.position LIMIT ?2",
        )?;
        let mut rows = query.query(params![after, i64::try_from(limit).unwrap_or(i64::MAX)])?;
        let mut found = Vec::new();
        let mut bytes = 0;
        while let Some(row) = rows.next()? {
            let position: i64 = row.get(0)?;
            let branch: u32 = row.get(2)?;
            let id: Arc<str> = row.get::<_, String>(4)?.into();
            let lines = lines_of(row, 3)?;
            for event in events(row.get(1)?, &lines)? {
                found.push(EventRecord {
                    position,
                    execution: Arc::clone(&id),
                    branch,
                    event,
                });
            }
            bytes += lines.len();
            if bytes >= LOG_BYTES {
                break;
            }
        }
        Ok(found)
    }

    fn has_events_after(&self, number: i64, after: i64) -> Result<bool, StoreError> {
        let mut query = self.connection.prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM events WHERE execution = ?1 AND position > ?2)",
        )?;
        Ok(query.query_row([number, after], |row| row.get(0))?)
    }
}

/// Calls `each` with rows of position, branch, hash, lines and first sequence.
fn each_row(
    mut rows: Rows<'_>,
    each: &mut dyn FnMut(LogRow<'_>) -> Result<bool, StoreError>,
) -> Result<(), StoreError> {
    while let Some(row) = rows.next()? {
        let found = LogRow {
            position: row.get(0)?,
            branch: row.get(1)?,
            first: row.get::<_, i64>(4)?.unsigned_abs(),
            up_to: u64::MAX,
            hash: hash_of(row, 2)?,
            lines: &lines_of(row, 3)?,
        };
        if !each(found)? {
            break;
        }
    }
    Ok(())
}

fn lines_of<'r>(row: &'r Row<'_>, at: usize) -> rusqlite::Result<Cow<'r, [u8]>> {
    Ok(unpack(row.get_ref(at)?.as_blob()?))
}

fn hash_of(row: &Row<'_>, at: usize) -> rusqlite::Result<Hash> {
    row.get(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Backend as _, SqliteFile};

    #[test]
    fn a_log_from_its_end_is_read_over_the_index_and_not_sorted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        let file = SqliteFile::new(path.clone(), &crate::fault::Faults::default());
        drop(file.open().unwrap());
        let file = rusqlite::Connection::open(path).unwrap();
        let mut plan = file.prepare(&format!("EXPLAIN QUERY PLAN {BACK}")).unwrap();
        let steps = plan.query_map(params![1, 3, 9], |row| row.get::<_, String>(3));
        let steps: Vec<_> = steps.unwrap().map(Result::unwrap).collect();
        let plan = steps.join("\n");
        let index = "SEARCH events USING INDEX events_of (execution=? AND (branch,sequence)<(?,?))";
        assert_eq!(plan, index);
    }

    #[test]
    fn a_log_along_its_lineage_is_one_query_over_the_index() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        let faults = crate::fault::Faults::default();
        let file = SqliteFile::new(path.clone(), &faults);
        drop(file.open().unwrap());

        let file = rusqlite::Connection::open(path).unwrap();
        let mut plan = file.prepare(&format!("EXPLAIN QUERY PLAN {WALK}")).unwrap();
        let steps = plan.query_map(params![1, 3, 0], |row| row.get::<_, String>(3));
        let steps: Vec<_> = steps.unwrap().map(Result::unwrap).collect();
        let plan = steps.join("\n");
        let of_events = "SEARCH e USING INDEX events_of (execution=? AND branch=? AND sequence>?";
        assert!(plan.contains(of_events), "{plan}");
        assert!(plan.contains("SEARCH b USING PRIMARY KEY"), "{plan}");
        assert!(
            !plan.contains("SCAN e") && !plan.contains("SCAN b"),
            "{plan}"
        );
    }
}
