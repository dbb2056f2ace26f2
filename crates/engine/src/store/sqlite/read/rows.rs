//! Reading the rows of executions.

use std::collections::HashSet;
use std::sync::Arc;

use jiff::Timestamp;
use rusqlite::{OptionalExtension as _, params};
use stateway_model::SubState;

use crate::request::ListQuery;
use crate::store::sqlite::Sqlite;
use crate::store::sqlite::row::{KEPT, LISTED, ROW_FORM, kept, time, with_summary};
use crate::store::{ExecutionRow, RowReading, StoreError};

/// The highest number that was ever given.
const LAST_NUMBER: &str = "SELECT max(ifnull((SELECT max(number) FROM executions), 0), \
     ifnull((SELECT value FROM counters WHERE name = 'number'), 0))";

impl RowReading for Sqlite {
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

    fn kept(&self, number: i64) -> Result<Option<ExecutionRow>, StoreError> {
        let sql = format!("SELECT {KEPT} FROM executions WHERE number = ?1");
        let mut query = self.connection.prepare_cached(&sql)?;
        let mut rows = query.query([number])?;
        rows.next()?.map(kept).transpose()
    }

    fn listed(&self, id: &str) -> Result<Option<ExecutionRow>, StoreError> {
        let sql = format!("SELECT {LISTED} FROM executions WHERE id = ?1");
        let mut query = self.connection.prepare_cached(&sql)?;
        let mut rows = query.query([id])?;
        rows.next()?.map(with_summary).transpose()
    }

    fn list(&self, query: &ListQuery) -> Result<Vec<ExecutionRow>, StoreError> {
        self.page(query)
    }

    fn showing(&self, sub_state: SubState, most: u32) -> Result<u64, StoreError> {
        let mut query = self.connection.prepare_cached(
            "SELECT count(*) FROM (SELECT 1 FROM executions WHERE sub_state = ?1 LIMIT ?2)",
        )?;
        let count: i64 = query.query_row(params![sub_state.as_str(), most], |row| row.get(0))?;
        Ok(u64::try_from(count).unwrap_or_default())
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

    fn last_number(&self) -> Result<i64, StoreError> {
        let last = self
            .connection
            .query_row(LAST_NUMBER, [], |row| row.get(0))?;
        Ok(last)
    }

    fn due(
        &self,
        by: Timestamp,
        after: (Option<Timestamp>, i64),
        limit: usize,
    ) -> Result<Vec<ExecutionRow>, StoreError> {
        let sql = format!(
            "SELECT {KEPT} FROM executions WHERE wake_at <= ?1 \
             AND (wake_at, number) > (?2, ?3) ORDER BY wake_at, number"
        );
        let mut query = self.connection.prepare_cached(&sql)?;
        let (wake, number) = after;
        let mut rows = query.query(params![
            by.as_millisecond(),
            wake.map_or(-1, Timestamp::as_millisecond),
            number
        ])?;
        let mut found = Vec::new();
        while found.len() < limit
            && let Some(row) = rows.next()?
        {
            match kept(row) {
                Ok(kept) => found.push(kept),
                // One bad row must not hide the rows behind it: a short page is the last one.
                Err(error) => tracing::error!("a row cannot be read: {error}"),
            }
        }
        Ok(found)
    }

    fn next_wake(&self, after: Timestamp) -> Result<Option<Timestamp>, StoreError> {
        let mut query = self
            .connection
            .prepare_cached("SELECT min(wake_at) FROM executions WHERE wake_at > ?1")?;
        Ok(time(
            query.query_row([after.as_millisecond()], |row| row.get(0))?,
        ))
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

    fn ended_after(
        &self,
        (ended, number): (Timestamp, i64),
        before: Timestamp,
        limit: usize,
    ) -> Result<Vec<(Timestamp, i64, SubState)>, StoreError> {
        let mut query = self.connection.prepare_cached(
            "SELECT ended_at, number, sub_state FROM executions INDEXED BY executions_by_end \
             WHERE ended_at < ?1 AND (ended_at, number) > (?2, ?3) \
             ORDER BY ended_at, number LIMIT ?4",
        )?;
        let bounds = params![
            before.as_millisecond(),
            ended.as_millisecond(),
            number,
            i64::try_from(limit).unwrap_or(i64::MAX)
        ];
        let mut rows = query.query(bounds)?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let number = row.get(1)?;
            let damaged = |what| StoreError::corrupt(format_args!("execution {number}: {what}"));
            let ended = time(row.get(0)?).ok_or_else(|| damaged("ended_at"))?;
            let shown = row.get::<_, String>(2)?;
            found.push((
                ended,
                number,
                shown.parse().map_err(|_| damaged("sub_state"))?,
            ));
        }
        Ok(found)
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

    fn open_children(&self, parent: i64) -> Result<Vec<ExecutionRow>, StoreError> {
        let sql = format!("SELECT {KEPT} FROM executions WHERE parent = ?1 AND ended_at IS NULL");
        let mut query = self.connection.prepare_cached(&sql)?;
        let mut rows = query.query([parent])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(kept(row)?);
        }
        Ok(found)
    }

    fn outdated(&self, after: i64, limit: usize) -> Result<Vec<i64>, StoreError> {
        let sql = format!(
            "SELECT number FROM executions INDEXED BY executions_outdated \
             WHERE form < {ROW_FORM} AND number > ?1 ORDER BY number LIMIT ?2"
        );
        let mut query = self.connection.prepare_cached(&sql)?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = query.query_map([after, limit], |row| row.get(0))?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

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

    fn parents_of_ended(&self, after: i64, limit: usize) -> Result<Vec<i64>, StoreError> {
        let mut query = self.connection.prepare_cached(
            "SELECT number FROM executions AS parent \
             WHERE sub_state IN ('running', 'waiting', 'backing-off', 'error') \
             AND ended_at IS NULL AND wake_at IS NULL AND number > ?1 AND EXISTS \
             (SELECT 1 FROM executions AS child \
             WHERE child.parent = parent.number AND child.ended_at IS NOT NULL) \
             ORDER BY number LIMIT ?2",
        )?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = query.query_map([after, limit], |row| row.get(0))?;
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

    fn forks(&self, id: &str, limit: usize) -> Result<Vec<Arc<str>>, StoreError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let mut query = self.connection.prepare_cached(
            "SELECT id FROM executions WHERE forked_from = ?1 ORDER BY number LIMIT ?2",
        )?;
        let rows = query.query_map(params![id, limit], |row| row.get::<_, String>(0))?;
        rows.map(|row| Ok(row?.into())).collect()
    }
}
