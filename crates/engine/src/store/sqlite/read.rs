//! Reading: rows, logs along their lineage, definitions.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use rusqlite::{OptionalExtension as _, Row, params, params_from_iter};
use stateway_model::SubState;

use super::Sqlite;
use super::row::{KEPT, kept, time};
use crate::request::{DefinitionRecord, DisabledTrigger, EventRecord, ListQuery};
use crate::store::load::events;
use crate::store::{Answered, Branch, Hash, Kept, LogRow, Reading, Snapshot, StoreError};

/// Where a read of the log ends, in bytes.
const LOG_BYTES: usize = 1024 * 1024;
/// The highest number that was ever given.
const LAST_NUMBER: &str = "SELECT max(ifnull((SELECT max(number) FROM executions), 0), \
     ifnull((SELECT value FROM counters WHERE name = 'number'), 0))";
/// The most branches a lineage may have; more is damage.
const LONGEST_LINEAGE: usize = 10_000;

/// A log along its lineage, in one query: from the branch back over its parents, of each the rows up
/// to where the next one grew from it. A branch is always younger than its parent, so this ends.
const WALK: &str = "\
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

/// A piece of a lineage: a branch and after which sequence it counts.
struct Segment {
    branch: u32,
    after: u64,
}

impl Reading for Sqlite {
    fn number_of(&self, id: &str) -> Result<Option<i64>, StoreError> {
        let mut query = self
            .connection
            .prepare_cached("SELECT number FROM executions WHERE id = ?1")?;
        Ok(query.query_row([id], |row| row.get(0)).optional()?)
    }

    fn id_of(&self, number: i64) -> Result<Option<Arc<str>>, StoreError> {
        let mut query = self
            .connection
            .prepare_cached("SELECT id FROM executions WHERE number = ?1")?;
        let found = query.query_row([number], |row| row.get::<_, String>(0));
        Ok(found.optional()?.map(Into::into))
    }

    fn kept(&self, number: i64) -> Result<Option<Kept>, StoreError> {
        let sql = format!("SELECT {KEPT} FROM executions WHERE number = ?1");
        let mut query = self.connection.prepare_cached(&sql)?;
        let mut rows = query.query([number])?;
        rows.next()?.map(kept).transpose()
    }

    /// Executions by the query, newest first.
    fn list(&self, query: &ListQuery) -> Result<Vec<Kept>, StoreError> {
        let mut wheres = vec!["number < ?1".to_owned()];
        let mut values: Vec<rusqlite::types::Value> = vec![query.before.unwrap_or(i64::MAX).into()];
        let words: Vec<_> = query.sub_states.iter().map(|word| word.as_str()).collect();
        any_of("sub_state", &words, &mut wheres, &mut values);
        let words: Vec<_> = query.states.iter().map(|word| word.as_str()).collect();
        any_of("state", &words, &mut wheres, &mut values);
        if let Some(definition) = &query.definition {
            any_of("definition", &[definition], &mut wheres, &mut values);
        }
        if query.inbox {
            wheres.push("inbox > 0".to_owned());
        }
        let sql = format!(
            "SELECT {KEPT} FROM executions WHERE {} ORDER BY number DESC LIMIT {}",
            wheres.join(" AND "),
            query.limit
        );
        let mut query = self.connection.prepare_cached(&sql)?;
        let mut rows = query.query(params_from_iter(values))?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(kept(row)?);
        }
        Ok(found)
    }

    fn showing(&self, sub_state: SubState, most: u32) -> Result<u64, StoreError> {
        let mut query = self.connection.prepare_cached(
            "SELECT count(*) FROM (SELECT 1 FROM executions WHERE sub_state = ?1 LIMIT ?2)",
        )?;
        let count: i64 = query.query_row(params![sub_state.as_str(), most], |row| row.get(0))?;
        Ok(u64::try_from(count).unwrap_or_default())
    }

    /// Hands over the rows of a log along its lineage, each after the one it follows, until told
    /// to stop.
    fn walk(
        &self,
        number: i64,
        branch: u32,
        after: u64,
        each: &mut dyn FnMut(LogRow<'_>) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        let mut query = self.connection.prepare_cached(WALK)?;
        let after = i64::try_from(after).unwrap_or(i64::MAX);
        let mut rows = query.query(params![number, branch, after])?;
        while let Some(row) = rows.next()? {
            let found = LogRow {
                position: row.get(0)?,
                branch: row.get(1)?,
                first: row.get::<_, i64>(5)?.unsigned_abs(),
                up_to: row.get::<_, i64>(2)?.unsigned_abs(),
                hash: hash_of(row, 3)?,
                lines: row.get_ref(4)?.as_blob().map_err(rusqlite::Error::from)?,
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
        let mut rows = query.query(params![number, branch, start])?;
        while let Some(row) = rows.next()? {
            let found = LogRow {
                position: row.get(0)?,
                branch: row.get(1)?,
                first: row.get::<_, i64>(4)?.unsigned_abs(),
                up_to: u64::MAX,
                hash: hash_of(row, 2)?,
                lines: row.get_ref(3)?.as_blob().map_err(rusqlite::Error::from)?,
            };
            if !each(found)? {
                break;
            }
        }
        Ok(())
    }

    /// The sequence just before the row that holds the event after this one.
    fn row_start(&self, number: i64, branch: u32, after: u64) -> Result<u64, StoreError> {
        let mut query = self.connection.prepare_cached(
            "SELECT max(sequence) FROM events \
             WHERE execution = ?1 AND branch = ?2 AND sequence <= ?3",
        )?;
        let wanted = i64::try_from(after.saturating_add(1)).unwrap_or(i64::MAX);
        let mut start = 0;
        for segment in self.lineage(number, branch, 0)? {
            if segment.after > after {
                break;
            }
            let bounds = params![number, segment.branch, wanted];
            let found: Option<i64> = query.query_row(bounds, |row| row.get(0))?;
            start = found.map_or(start, |first| first.unsigned_abs().saturating_sub(1));
        }
        Ok(start)
    }

    /// The branches of an execution.
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

    fn numbers(&self, after: i64, limit: usize) -> Result<Vec<i64>, StoreError> {
        let mut query = self.connection.prepare_cached(
            "SELECT number FROM executions WHERE number > ?1 ORDER BY number LIMIT ?2",
        )?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let found = query.query_map(params![after, limit], |row| row.get(0))?;
        Ok(found.collect::<rusqlite::Result<_>>()?)
    }

    fn total(&self) -> Result<u64, StoreError> {
        let mut query = self
            .connection
            .prepare_cached("SELECT count(*) FROM executions")?;
        let count: i64 = query.query_row([], |row| row.get(0))?;
        Ok(count.unsigned_abs())
    }

    /// The rows of all logs from a place on.
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
            let lines = row.get_ref(3)?.as_blob().map_err(rusqlite::Error::from)?;
            for event in events(row.get(1)?, lines)? {
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

    /// Executions the keeper has to look at by this time, after a place.
    fn due(
        &self,
        by: Timestamp,
        after: (Option<Timestamp>, i64),
        limit: usize,
    ) -> Result<Vec<Kept>, StoreError> {
        let sql = format!(
            "SELECT {KEPT} FROM executions WHERE wake_at <= ?1 \
             AND (wake_at, number) > (?2, ?3) ORDER BY wake_at, number LIMIT ?4"
        );
        let mut query = self.connection.prepare_cached(&sql)?;
        let (wake, number) = after;
        let mut rows = query.query(params![
            by.as_millisecond(),
            wake.map_or(-1, Timestamp::as_millisecond),
            number,
            i64::try_from(limit).unwrap_or(i64::MAX)
        ])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            match kept(row) {
                Ok(kept) => found.push(kept),
                // One bad row must not keep the others from being looked at.
                Err(error) => tracing::error!("a row cannot be read: {error}"),
            }
        }
        Ok(found)
    }

    /// When the first execution after this time has to be looked at.
    fn next_wake(&self, after: Timestamp) -> Result<Option<Timestamp>, StoreError> {
        let mut query = self
            .connection
            .prepare_cached("SELECT min(wake_at) FROM executions WHERE wake_at > ?1")?;
        Ok(time(
            query.query_row([after.as_millisecond()], |row| row.get(0))?,
        ))
    }

    /// Executions that ended before this time, oldest first.
    fn ended(
        &self,
        before: Timestamp,
        needed: Option<i64>,
        limit: usize,
    ) -> Result<Vec<i64>, StoreError> {
        let mut query = self.connection.prepare_cached(
            "SELECT number FROM executions WHERE ended_at < ?1 AND NOT EXISTS \
             (SELECT 1 FROM events WHERE execution = number AND position > ?2) \
             ORDER BY ended_at LIMIT ?3",
        )?;
        let bounds = params![
            before.as_millisecond(),
            needed.unwrap_or(i64::MAX),
            i64::try_from(limit).unwrap_or(i64::MAX)
        ];
        let rows = query.query_map(bounds, |row| row.get(0))?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    fn has_events_after(&self, number: i64, after: i64) -> Result<bool, StoreError> {
        let mut query = self.connection.prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM events WHERE execution = ?1 AND position > ?2)",
        )?;
        Ok(query.query_row([number, after], |row| row.get(0))?)
    }

    fn held_back(&self, before: Timestamp, after: i64, limit: usize) -> Result<u64, StoreError> {
        let mut query = self.connection.prepare_cached(
            "SELECT count(*) FROM (SELECT 1 FROM executions WHERE ended_at < ?1 AND EXISTS \
             (SELECT 1 FROM events WHERE execution = number AND position > ?2) LIMIT ?3)",
        )?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let bounds = params![before.as_millisecond(), after, limit];
        let count: i64 = query.query_row(bounds, |row| row.get(0))?;
        Ok(count.unsigned_abs())
    }

    /// The open children of an execution.
    fn orphans(&self, after: i64, limit: usize) -> Result<Vec<(i64, bool)>, StoreError> {
        let mut query = self.connection.prepare_cached(
            "SELECT child.number, parent.reason IS 'KILLED' FROM executions AS child \
             JOIN executions AS parent ON parent.number = child.parent \
             WHERE child.parent IS NOT NULL AND child.ended_at IS NULL \
             AND parent.ended_at IS NOT NULL AND child.number > ?1 ORDER BY child.number LIMIT ?2",
        )?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = query.query_map([after, limit], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    fn tree_size(&self, root: i64, most: usize) -> Result<usize, StoreError> {
        let mut query = self.connection.prepare_cached(
            "WITH RECURSIVE tree (number) AS (VALUES (?1) UNION ALL \
             SELECT executions.number FROM executions JOIN tree ON executions.parent = tree.number) \
             SELECT count(*) FROM (SELECT number FROM tree LIMIT ?2)",
        )?;
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let size: i64 = query.query_row([root, most], |row| row.get(0))?;
        Ok(usize::try_from(size).unwrap_or_default())
    }

    fn open_children(&self, parent: i64) -> Result<Vec<Kept>, StoreError> {
        let sql = format!("SELECT {KEPT} FROM executions WHERE parent = ?1 AND ended_at IS NULL");
        let mut query = self.connection.prepare_cached(&sql)?;
        let mut rows = query.query([parent])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(kept(row)?);
        }
        Ok(found)
    }

    /// How many executions of each definition have begun and not ended.
    fn forks(&self, id: &str, limit: usize) -> Result<Vec<Arc<str>>, StoreError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let mut query = self.connection.prepare_cached(
            "SELECT id FROM executions WHERE forked_from = ?1 ORDER BY number LIMIT ?2",
        )?;
        let rows = query.query_map(params![id, limit], |row| row.get::<_, String>(0))?;
        rows.map(|row| Ok(row?.into())).collect()
    }

    fn begun(&self) -> Result<Vec<(Arc<str>, i64)>, StoreError> {
        let mut query = self.connection.prepare_cached(
            "SELECT definition, number FROM executions \
             WHERE sub_state IN ('running', 'waiting', 'backing-off', 'error') \
             AND state NOT IN ('created', 'queued')",
        )?;
        let mut names: HashSet<Arc<str>> = HashSet::new();
        let mut rows = query.query([])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let name = row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?;
            let name = match names.get(name) {
                Some(known) => Arc::clone(known),
                None => {
                    let name: Arc<str> = name.into();
                    names.insert(Arc::clone(&name));
                    name
                }
            };
            found.push((name, row.get(1)?));
        }
        Ok(found)
    }

    fn last_number(&self) -> Result<i64, StoreError> {
        let last = self
            .connection
            .query_row(LAST_NUMBER, [], |row| row.get(0))?;
        Ok(last)
    }

    fn answered(&self, id: &str) -> Result<Option<Answered>, StoreError> {
        let mut query = self
            .connection
            .prepare_cached("SELECT id, body, execution, at FROM requests WHERE id = ?1")?;
        let found = query.query_row([id], |row| {
            Ok(Answered {
                id: row.get::<_, String>(0)?.into(),
                body: hash_of(row, 1)?,
                number: row.get(2)?,
                at: time(row.get(3)?).unwrap_or_default(),
            })
        });
        Ok(found.optional()?)
    }

    /// A definition: the named revision, or the current one.
    fn definition(
        &self,
        name: &str,
        revision: Option<&str>,
    ) -> Result<Option<DefinitionRecord>, StoreError> {
        let sql = match revision {
            Some(_) => {
                "SELECT name, revision, source, created_at FROM definitions \
                 WHERE name = ?1 AND revision = ?2"
            }
            None => {
                "SELECT name, revision, source, created_at FROM definitions \
                 WHERE name = ?1 AND current = 1 AND ?2 = ''"
            }
        };
        let mut query = self.connection.prepare_cached(sql)?;
        let found = query.query_row([name, revision.unwrap_or("")], definition);
        Ok(found.optional()?)
    }

    fn disabled_triggers(&self) -> Result<Vec<(Arc<str>, DisabledTrigger)>, StoreError> {
        let mut query = self.connection.prepare_cached(
            "SELECT definition, disabled_by, disabled_at, comment FROM disabled_triggers \
             ORDER BY definition",
        )?;
        let rows = query.query_map([], |row| {
            let disabled = DisabledTrigger {
                by: row.get::<_, String>(1)?.into(),
                at: time(row.get(2)?).unwrap_or_default(),
                comment: row.get::<_, String>(3)?.into(),
            };
            Ok((row.get::<_, String>(0)?.into(), disabled))
        })?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    fn open_executions(&self, definition: &str) -> Result<u64, StoreError> {
        // By sub-state, which has an index: finished executions are not read.
        let open = SubState::ALL.iter().filter(|shown| !shown.is_terminal());
        let open: Vec<String> = open.map(|shown| format!("'{shown}'")).collect();
        let sql = format!(
            "SELECT count(*) FROM executions WHERE sub_state IN ({}) AND definition = ?1",
            open.join(", ")
        );
        let mut query = self.connection.prepare_cached(&sql)?;
        let count: i64 = query.query_row([definition], |row| row.get(0))?;
        Ok(u64::try_from(count).unwrap_or(0))
    }

    /// When a definition's schedule last started something.
    fn last_scheduled(&self, name: &str) -> Result<Option<Timestamp>, StoreError> {
        let mut query = self
            .connection
            .prepare_cached("SELECT last_at FROM schedules WHERE definition = ?1")?;
        Ok(query
            .query_row([name], |row| row.get(0))
            .optional()?
            .and_then(|at| time(Some(at))))
    }

    /// How far a receiver of events has got.
    fn sink_position(&self, name: &str) -> Result<Option<i64>, StoreError> {
        let mut query = self
            .connection
            .prepare_cached("SELECT position FROM sinks WHERE name = ?1")?;
        Ok(query.query_row([name], |row| row.get(0)).optional()?)
    }

    /// Every revision of a definition, newest first.
    fn revisions(&self, name: &str) -> Result<Vec<DefinitionRecord>, StoreError> {
        let mut query = self.connection.prepare_cached(
            "SELECT name, revision, source, created_at FROM definitions WHERE name = ?1 \
             ORDER BY created_at DESC, revision",
        )?;
        let rows = query.query_map([name], definition)?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// The current revisions, by name.
    fn definitions(&self, after: &str, limit: usize) -> Result<Vec<DefinitionRecord>, StoreError> {
        let mut query = self.connection.prepare_cached(
            "SELECT name, revision, source, created_at FROM definitions \
             WHERE current = 1 AND name > ?1 ORDER BY name LIMIT ?2",
        )?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = query.query_map(params![after, limit], definition)?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    fn at_once(&self, work: &mut dyn FnMut(&dyn Reading)) -> Result<(), StoreError> {
        let moment = self.connection.unchecked_transaction()?;
        work(self);
        moment.finish()?;
        Ok(())
    }

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

    fn source(&self, revision: &str) -> Result<Option<(String, String)>, StoreError> {
        let mut query = self
            .connection
            .prepare_cached("SELECT name, source FROM definitions WHERE revision = ?1")?;
        let found = query.query_row([revision], |row| Ok((row.get(0)?, row.get(1)?)));
        Ok(found.optional()?)
    }

    fn backup(&self, to: &Path) -> Result<(), StoreError> {
        // One statement reads as of one moment, and the copy has no gaps to carry along.
        let to = to.to_string_lossy();
        self.connection.execute("VACUUM INTO ?1", [to.as_ref()])?;
        Ok(())
    }
}

impl Sqlite {
    /// The pieces of a lineage from the oldest on, without what ends at or before `after`.
    fn lineage(&self, number: i64, branch: u32, after: u64) -> Result<Vec<Segment>, StoreError> {
        let mut query = self.connection.prepare_cached(
            "SELECT parent, cutoff FROM branches WHERE execution = ?1 AND branch = ?2",
        )?;
        let mut segments = Vec::new();
        let mut branch = branch;
        for _ in 0..LONGEST_LINEAGE {
            let grown = query
                .query_row(params![number, branch], |row| {
                    Ok((row.get::<_, u32>(0)?, row.get::<_, i64>(1)?.unsigned_abs()))
                })
                .optional()?;
            let from = grown.map_or(0, |(_, cutoff)| cutoff);
            segments.push(Segment {
                branch,
                after: from.max(after),
            });
            match grown {
                Some((parent, cutoff)) if cutoff > after => branch = parent,
                _ => {
                    segments.reverse();
                    return Ok(segments);
                }
            }
        }
        Err(StoreError::corrupt(format_args!(
            "the branches of execution {number} go in a circle"
        )))
    }
}

fn any_of(
    column: &str,
    words: &[&str],
    wheres: &mut Vec<String>,
    values: &mut Vec<rusqlite::types::Value>,
) {
    if words.is_empty() {
        return;
    }
    let marks: Vec<_> = words
        .iter()
        .map(|word| {
            values.push((*word).to_owned().into());
            format!("?{}", values.len())
        })
        .collect();
    wheres.push(format!("{column} IN ({})", marks.join(", ")));
}

fn definition(row: &Row<'_>) -> rusqlite::Result<DefinitionRecord> {
    Ok(DefinitionRecord {
        name: row.get::<_, String>(0)?.into(),
        revision: row.get::<_, String>(1)?.into(),
        source: row.get(2)?,
        created: time(row.get(3)?).unwrap_or_default(),
    })
}

fn hash_of(row: &Row<'_>, at: usize) -> rusqlite::Result<Hash> {
    row.get(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Append, Backend as _, Store, Turn};

    fn row(branch: u32, first: u64) -> Append {
        let hash = [0; 16];
        Append {
            number: 1,
            branch,
            first,
            lines: format!("{branch}/{first}\n").into_bytes(),
            hash,
        }
    }

    fn grown(branch: u32, parent: u32, cutoff: u64) -> Branch {
        Branch {
            number: 1,
            branch,
            parent,
            cutoff,
        }
    }

    fn store(folder: &Path) -> Box<dyn Store> {
        let file = super::super::SqliteFile::new(
            folder.join("store.db"),
            &crate::fault::Faults::default(),
        );
        let mut store = file.open().unwrap();
        let turn = Turn {
            appends: vec![
                row(0, 1),
                row(0, 4),
                row(0, 6),
                row(1, 5),
                row(1, 9),
                row(2, 3),
                row(3, 8),
            ],
            branches: vec![grown(1, 0, 4), grown(2, 1, 2), grown(3, 1, 7)],
            ..Turn::default()
        };
        store.commit(&turn).unwrap();
        store
    }

    #[test]
    fn a_log_along_its_lineage_is_one_query_over_the_index() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(folder.path());
        let walked = |branch, after| {
            let mut found = Vec::new();
            let mut each = |row: LogRow<'_>| {
                found.push(String::from_utf8(row.lines.to_vec()).unwrap());
                Ok(true)
            };
            store.walk(1, branch, after, &mut each).unwrap();
            found.concat()
        };
        assert_eq!(walked(0, 0), "0/1\n0/4\n0/6\n");
        assert_eq!(walked(1, 0), "0/1\n0/4\n1/5\n1/9\n");
        // It grew from before where its parent grew from: nothing of the parent counts.
        assert_eq!(walked(2, 0), "0/1\n2/3\n");
        assert_eq!(walked(3, 0), "0/1\n0/4\n1/5\n3/8\n");
        assert_eq!(walked(3, 4), "1/5\n3/8\n");
        assert_eq!(walked(3, 7), "3/8\n");

        let file = rusqlite::Connection::open(folder.path().join("store.db")).unwrap();
        let mut plan = file.prepare(&format!("EXPLAIN QUERY PLAN {WALK}")).unwrap();
        let steps = plan.query_map(params![1, 3, 0], |row| row.get::<_, String>(3));
        let steps: Vec<_> = steps.unwrap().map(Result::unwrap).collect();
        let told = steps.join("\n");
        let of_events = "SEARCH e USING INDEX events_of (execution=? AND branch=? AND sequence>?";
        assert!(told.contains(of_events), "{told}");
        assert!(told.contains("SEARCH b USING PRIMARY KEY"), "{told}");
        assert!(
            !told.contains("SCAN e") && !told.contains("SCAN b"),
            "{told}"
        );
    }
}
