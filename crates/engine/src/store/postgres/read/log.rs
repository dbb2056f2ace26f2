//! Reading logs along their lineage, and the log of all executions.

use std::sync::Arc;

use tokio_postgres::Row;

use super::super::row::{field, hash, small, unsigned};
use super::PostgresReader;
use crate::request::EventRecord;
use crate::store::compact::unpack;
use crate::store::load::events;
use crate::store::{Branch, EachRow, Hash, LogReading, LogRow, Result, Snapshot};

/// Where a read of the log ends, in bytes.
const LOG_BYTES: usize = 1024 * 1024;
/// The rows of the first answer, when a reader may want no more than a few.
const FIRST_ROWS: i64 = 16;
/// The rows of each further answer.
const MORE_ROWS: i64 = 512;

/// A log along its lineage: from the branch back over its parents, of each the rows up to where the next one grew
/// from it. A branch is always younger than its parent, so this ends.
const WALK: &str = "\
    WITH RECURSIVE lineage (branch, up_to) AS ( \
        SELECT $2::integer, 9223372036854775807::bigint \
        UNION ALL \
        SELECT b.parent, least(l.up_to, b.cutoff) FROM lineage l \
        JOIN branches b ON b.execution = $1 AND b.branch = l.branch \
        WHERE b.cutoff > $3 AND b.parent < b.branch \
    ) \
    SELECT e.position, e.branch, e.hash, e.lines, e.sequence, l.up_to FROM lineage l \
    JOIN events e ON e.execution = $1 AND e.branch = l.branch \
        AND e.sequence > $3 AND e.sequence <= l.up_to \
    ORDER BY e.sequence LIMIT $4";

/// The same of the first branch, which has no parent.
const WALK_FIRST: &str = "\
    SELECT position, branch, hash, lines, sequence, 9223372036854775807::bigint FROM events \
    WHERE execution = $1 AND branch = $2 AND sequence > $3 ORDER BY sequence LIMIT $4";

const FORTH: &str = "\
    SELECT position, branch, hash, lines, sequence, 9223372036854775807::bigint FROM events \
    WHERE execution = $1 AND (branch, sequence) >= ($2, $3) ORDER BY branch, sequence LIMIT $4";

const BACK: &str = "\
    SELECT position, branch, hash, lines, sequence, 9223372036854775807::bigint FROM events \
    WHERE execution = $1 AND (branch, sequence) < ($2, $3) ORDER BY branch DESC, sequence DESC \
    LIMIT $4";

/// The sequence of the last row of a lineage that begins at or before a sequence.
const ROW_START: &str = "\
    WITH RECURSIVE lineage (branch, up_to) AS ( \
        SELECT $2::integer, $3::bigint \
        UNION ALL \
        SELECT b.parent, least(l.up_to, b.cutoff) FROM lineage l \
        JOIN branches b ON b.execution = $1 AND b.branch = l.branch AND b.parent < b.branch \
    ) \
    SELECT max((SELECT max(e.sequence) FROM events e \
        WHERE e.execution = $1 AND e.branch = l.branch AND e.sequence <= l.up_to)) \
    FROM lineage l";

impl LogReading for PostgresReader {
    fn snapshot(&self, number: i64, branch: u32) -> Result<Option<Snapshot>> {
        let sql = "SELECT sequence, revision, hash, data FROM snapshots \
                   WHERE execution = $1 AND branch = $2";
        let Some(row) = self.row(sql, &[&number, &signed(branch)])? else {
            return Ok(None);
        };
        Ok(Some(Snapshot {
            number,
            branch,
            sequence: unsigned(&row, 0)?,
            revision: field::<&str>(&row, 1)?.into(),
            hash: hash(&row, 2)?,
            data: field(&row, 3)?,
        }))
    }

    fn walk(&self, number: i64, branch: u32, after: u64, each: EachRow<'_>) -> Result<()> {
        let sql = if branch == 0 { WALK_FIRST } else { WALK };
        self.pages(number, (branch, long(after)), (sql, Order::Walk), each)
    }

    fn chronicle(&self, number: i64, from: (u32, u64), each: EachRow<'_>) -> Result<()> {
        let sql = "SELECT coalesce(max(sequence), 0) FROM events \
                   WHERE execution = $1 AND branch = $2 AND sequence <= $3";
        let (branch, sequence) = (from.0, long(from.1));
        let start: i64 = self.value(sql, &[&number, &signed(branch), &sequence])?;
        self.pages(number, (branch, start), (FORTH, Order::Forth), each)
    }

    fn chronicle_back(&self, number: i64, before: (u32, u64), each: EachRow<'_>) -> Result<()> {
        let before = (before.0, long(before.1));
        self.pages(number, before, (BACK, Order::Back), each)
    }

    fn row_start(&self, number: i64, branch: u32, after: u64) -> Result<u64> {
        let wanted = long(after.saturating_add(1));
        let first: Option<i64> = self.value(ROW_START, &[&number, &signed(branch), &wanted])?;
        Ok(first.map_or(0, |first| first.unsigned_abs().saturating_sub(1)))
    }

    fn branches(&self, number: i64) -> Result<Vec<Branch>> {
        let sql =
            "SELECT branch, parent, cutoff FROM branches WHERE execution = $1 ORDER BY branch";
        let rows = self.rows(sql, &[&number])?;
        let branches = rows.iter().map(|row| {
            Ok(Branch {
                number,
                branch: small(row, 0)?,
                parent: small(row, 1)?,
                cutoff: unsigned(row, 2)?,
            })
        });
        branches.collect()
    }

    fn head(&self, number: i64) -> Result<Option<(u32, Hash)>> {
        let sql = "SELECT branch, hash FROM events WHERE execution = $1 \
                   ORDER BY branch DESC, sequence DESC LIMIT 1";
        let found = self.row(sql, &[&number])?;
        found
            .map(|row| Ok((small(&row, 0)?, hash(&row, 1)?)))
            .transpose()
    }

    fn recent(&self, rows: usize) -> Result<Vec<i64>> {
        let sql = "SELECT DISTINCT execution FROM \
                   (SELECT execution FROM events ORDER BY position DESC LIMIT $1) AS newest";
        let limit = i64::try_from(rows).unwrap_or(i64::MAX);
        let rows = self.rows(sql, &[&limit])?;
        rows.iter().map(|row| field(row, 0)).collect()
    }

    fn log(&self, after: i64, limit: usize) -> Result<Vec<EventRecord>> {
        let sql = "SELECT e.position, e.execution, e.branch, e.lines, x.id FROM events e \
                   JOIN executions x ON x.number = e.execution \
                   WHERE e.position > $1 ORDER BY e.position LIMIT $2";
        let (mut after, mut left) = (after, limit);
        let (mut found, mut bytes) = (Vec::new(), 0);
        while left > 0 && bytes < LOG_BYTES {
            let wanted = left.min(usize::try_from(MORE_ROWS).unwrap_or(left));
            let page = self.rows(sql, &[&after, &(wanted as i64)])?;
            for row in &page {
                let position: i64 = field(row, 0)?;
                let branch = small(row, 2)?;
                let id: Arc<str> = field::<&str>(row, 4)?.into();
                let lines = unpack(field(row, 3)?);
                for event in events(field(row, 1)?, &lines)? {
                    found.push(EventRecord {
                        position,
                        execution: Arc::clone(&id),
                        branch,
                        event,
                    });
                }
                after = position;
                bytes += lines.len();
                if bytes >= LOG_BYTES {
                    break;
                }
            }
            left -= page.len();
            if page.len() < wanted {
                break;
            }
        }
        Ok(found)
    }

    fn has_events_after(&self, number: i64, after: i64) -> Result<bool> {
        let sql = "SELECT EXISTS (SELECT 1 FROM events WHERE execution = $1 AND position > $2)";
        self.value(sql, &[&number, &after])
    }
}

/// How a log is read.
#[derive(Clone, Copy)]
enum Order {
    Walk,
    Forth,
    Back,
}

impl PostgresReader {
    /// Calls `each` with rows, page after page, until it returns false.
    fn pages(
        &self,
        number: i64,
        (branch, sequence): (u32, i64),
        (sql, order): (&str, Order),
        each: EachRow<'_>,
    ) -> Result<()> {
        let (mut branch, mut sequence) = (signed(branch), sequence);
        let mut rows = FIRST_ROWS;
        loop {
            let page = self.rows(sql, &[&number, &branch, &sequence, &rows])?;
            for row in &page {
                if !each(log_row(row, &unpack(field(row, 3)?))?)? {
                    return Ok(());
                }
            }
            let Some(last) = page.last().filter(|_| page.len() as i64 == rows) else {
                return Ok(());
            };
            let end: i64 = field(last, 4)?;
            match order {
                Order::Walk => sequence = end,
                Order::Forth => (branch, sequence) = (field(last, 1)?, end + 1),
                Order::Back => (branch, sequence) = (field(last, 1)?, end),
            }
            rows = MORE_ROWS;
        }
    }
}

fn log_row<'l>(row: &Row, lines: &'l [u8]) -> Result<LogRow<'l>> {
    Ok(LogRow {
        position: field(row, 0)?,
        branch: small(row, 1)?,
        first: unsigned(row, 4)?,
        up_to: unsigned(row, 5)?,
        hash: hash(row, 2)?,
        lines,
    })
}

/// A branch, as the tables have it.
fn signed(branch: u32) -> i32 {
    i32::try_from(branch).unwrap_or(i32::MAX)
}

/// A sequence, as the tables have it.
fn long(sequence: u64) -> i64 {
    i64::try_from(sequence).unwrap_or(i64::MAX)
}
