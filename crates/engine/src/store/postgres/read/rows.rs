//! Reading the rows of executions.

use std::collections::HashSet;
use std::sync::Arc;

use jiff::Timestamp;
use stateway_model::SubState;

use super::super::row::{KEPT, LISTED, field, kept, time, with_summary};
use super::{PostgresReader, is_storable};
use crate::request::ListQuery;
use crate::store::sqlite::ROW_FORM;
use crate::store::{ExecutionRow, Result, RowReading, StoreError};

/// The sub-states of executions that have not ended, as a list of SQL.
const OPEN: &str = "('running', 'waiting', 'backing-off', 'error')";

/// The executions that have begun and not ended.
fn begun_sql() -> String {
    format!(
        "SELECT definition, number FROM executions WHERE sub_state IN {OPEN} \
         AND state NOT IN ('created', 'queued')"
    )
}

/// The form is a part of the text: the index is only for rows of older forms.
fn outdated_sql() -> String {
    format!(
        "SELECT number FROM executions WHERE form < {ROW_FORM} AND number > $1 \
         ORDER BY number LIMIT $2"
    )
}

const ORPHANS: &str = "SELECT child.number, parent.reason IS NOT DISTINCT FROM 'KILLED' \
     FROM executions AS child JOIN executions AS parent ON parent.number = child.parent \
     WHERE child.parent IS NOT NULL AND child.ended_at IS NULL \
     AND parent.ended_at IS NOT NULL AND child.number > $1 \
     ORDER BY child.number LIMIT $2";

fn parents_of_ended_sql() -> String {
    format!(
        "SELECT number FROM executions AS parent WHERE sub_state IN {OPEN} \
         AND ended_at IS NULL AND wake_at IS NULL AND number > $1 AND EXISTS \
         (SELECT 1 FROM executions AS child \
         WHERE child.parent = parent.number AND child.ended_at IS NOT NULL) \
         ORDER BY number LIMIT $2"
    )
}

/// The queries of a start, each with the index that leads to its rows and its number of values.
#[cfg(test)]
pub(in crate::store) fn start_queries() -> [(String, &'static str, usize); 4] {
    [
        (begun_sql(), "executions_by_sub_state", 0),
        (outdated_sql(), "executions_outdated", 2),
        (ORPHANS.to_owned(), "executions_open_children", 2),
        (parents_of_ended_sql(), "executions_without_timer", 2),
    ]
}

impl PostgresReader {
    /// The numbers that a query of a start finds.
    fn numbers_at_start(&self, sql: &str, values: &[super::Value<'_>]) -> Result<Vec<i64>> {
        let rows = self.rows_patiently(sql, values)?;
        rows.iter().map(|row| field(row, 0)).collect()
    }

    fn numbers_of(&self, sql: &str, values: &[super::Value<'_>]) -> Result<Vec<i64>> {
        let rows = self.rows(sql, values)?;
        rows.iter().map(|row| field(row, 0)).collect()
    }

    fn count(&self, sql: &str, values: &[super::Value<'_>]) -> Result<u64> {
        self.value::<i64>(sql, values).map(i64::unsigned_abs)
    }
}

fn most(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

impl RowReading for PostgresReader {
    fn number_of(&self, id: &str) -> Result<Option<i64>> {
        if !is_storable(id) {
            return Ok(None);
        }
        let found = self.row("SELECT number FROM executions WHERE id = $1", &[&id])?;
        found.map(|row| field(&row, 0)).transpose()
    }

    fn id_of(&self, number: i64) -> Result<Option<Arc<str>>> {
        let found = self.row("SELECT id FROM executions WHERE number = $1", &[&number])?;
        found
            .map(|row| Ok(field::<&str>(&row, 0)?.into()))
            .transpose()
    }

    fn kept(&self, number: i64) -> Result<Option<ExecutionRow>> {
        let sql = format!("SELECT {KEPT} FROM executions WHERE number = $1");
        self.row(&sql, &[&number])?.as_ref().map(kept).transpose()
    }

    fn listed(&self, id: &str) -> Result<Option<ExecutionRow>> {
        if !is_storable(id) {
            return Ok(None);
        }
        let sql = format!("SELECT {LISTED} FROM executions WHERE id = $1");
        self.row(&sql, &[&id])?
            .as_ref()
            .map(with_summary)
            .transpose()
    }

    fn list(&self, query: &ListQuery) -> Result<Vec<ExecutionRow>> {
        if query
            .definition
            .as_deref()
            .is_some_and(|name| !is_storable(name))
        {
            return Ok(Vec::new());
        }
        self.page(query)
    }

    fn showing(&self, sub_state: SubState, most: u32) -> Result<u64> {
        let sql = "SELECT count(*) FROM \
                   (SELECT 1 FROM executions WHERE sub_state = $1 LIMIT $2) AS shown";
        self.count(sql, &[&sub_state.as_str(), &i64::from(most)])
    }

    fn numbers(&self, after: i64, limit: usize) -> Result<Vec<i64>> {
        let sql = "SELECT number FROM executions WHERE number > $1 ORDER BY number LIMIT $2";
        self.numbers_of(sql, &[&after, &most(limit)])
    }

    fn total(&self) -> Result<u64> {
        self.count("SELECT count(*) FROM executions", &[])
    }

    fn last_number(&self) -> Result<i64> {
        self.value("SELECT number FROM shards WHERE id = 0", &[])
    }

    fn due(
        &self,
        by: Timestamp,
        after: (Option<Timestamp>, i64),
        limit: usize,
    ) -> Result<Vec<ExecutionRow>> {
        let sql = format!(
            "SELECT {KEPT} FROM executions WHERE wake_at <= $1 \
             AND (wake_at, number) > ($2, $3) ORDER BY wake_at, number LIMIT $4"
        );
        let (wake, mut number) = after;
        let mut wake = wake.map_or(-1, Timestamp::as_millisecond);
        let mut found = Vec::new();
        loop {
            let wanted = limit.saturating_sub(found.len());
            let values: [super::Value<'_>; 4] =
                [&by.as_millisecond(), &wake, &number, &most(wanted)];
            let rows = self.rows(&sql, &values)?;
            for row in &rows {
                match kept(row) {
                    Ok(kept) => found.push(kept),
                    // One bad row must not hide the rows behind it: a short page is the last one.
                    Err(error) => tracing::error!("a row cannot be read: {error}"),
                }
            }
            let last = rows.last().filter(|_| rows.len() == wanted);
            let Some(last) = last.filter(|_| found.len() < limit) else {
                return Ok(found);
            };
            (wake, number) = (field(last, 14)?, field(last, 0)?);
        }
    }

    fn next_wake(&self, after: Timestamp) -> Result<Option<Timestamp>> {
        let sql = "SELECT min(wake_at) FROM executions WHERE wake_at > $1";
        Ok(time(self.value(sql, &[&after.as_millisecond()])?))
    }

    fn begun(&self) -> Result<Vec<(Arc<str>, i64)>> {
        let mut names: HashSet<Arc<str>> = HashSet::new();
        let rows = self.rows_patiently(&begun_sql(), &[])?;
        let found = rows.iter().map(|row| {
            let name: &str = field(row, 0)?;
            let known = names.get(name).map(Arc::clone);
            let name = known.unwrap_or_else(|| {
                let name: Arc<str> = name.into();
                names.insert(Arc::clone(&name));
                name
            });
            Ok((name, field(row, 1)?))
        });
        found.collect()
    }

    fn ended(&self, before: Timestamp, needed: Option<i64>, limit: usize) -> Result<Vec<i64>> {
        let sql = "SELECT number FROM executions WHERE ended_at < $1 AND NOT EXISTS \
                   (SELECT 1 FROM events WHERE execution = number AND position > $2) \
                   ORDER BY ended_at, number LIMIT $3";
        let needed = needed.unwrap_or(i64::MAX);
        self.numbers_of(sql, &[&before.as_millisecond(), &needed, &most(limit)])
    }

    fn ended_after(
        &self,
        (ended, number): (Timestamp, i64),
        before: Timestamp,
        limit: usize,
    ) -> Result<Vec<(Timestamp, i64, SubState)>> {
        let sql = "SELECT ended_at, number, sub_state FROM executions \
                   WHERE ended_at < $1 AND (ended_at, number) > ($2, $3) \
                   ORDER BY ended_at, number LIMIT $4";
        let (before, ended) = (before.as_millisecond(), ended.as_millisecond());
        let rows = self.rows(sql, &[&before, &ended, &number, &most(limit)])?;
        let found = rows.iter().map(|row| {
            let number = field(row, 1)?;
            let damaged = |what| StoreError::corrupt(format_args!("execution {number}: {what}"));
            let ended = time(field(row, 0)?).ok_or_else(|| damaged("ended_at"))?;
            let shown: &str = field(row, 2)?;
            let shown = shown.parse().map_err(|_| damaged("sub_state"))?;
            Ok((ended, number, shown))
        });
        found.collect()
    }

    fn held_back(&self, before: Timestamp, after: i64, limit: usize) -> Result<u64> {
        let sql = "SELECT count(*) FROM (SELECT 1 FROM executions WHERE ended_at < $1 AND EXISTS \
                   (SELECT 1 FROM events WHERE execution = number AND position > $2) LIMIT $3) AS held";
        self.count(sql, &[&before.as_millisecond(), &after, &most(limit)])
    }

    fn open_children(&self, parent: i64) -> Result<Vec<ExecutionRow>> {
        let sql = format!("SELECT {KEPT} FROM executions WHERE parent = $1 AND ended_at IS NULL");
        self.rows(&sql, &[&parent])?.iter().map(kept).collect()
    }

    fn outdated(&self, after: i64, limit: usize) -> Result<Vec<i64>> {
        self.numbers_at_start(&outdated_sql(), &[&after, &most(limit)])
    }

    fn orphans(&self, after: i64, limit: usize) -> Result<Vec<(i64, bool)>> {
        let rows = self.rows_patiently(ORPHANS, &[&after, &most(limit)])?;
        let found = rows.iter().map(|row| Ok((field(row, 0)?, field(row, 1)?)));
        found.collect()
    }

    fn parents_of_ended(&self, after: i64, limit: usize) -> Result<Vec<i64>> {
        self.numbers_at_start(&parents_of_ended_sql(), &[&after, &most(limit)])
    }

    fn tree_size(&self, root: i64, limit: usize) -> Result<usize> {
        let sql = "WITH RECURSIVE tree (number) AS (SELECT $1::bigint UNION ALL \
                   SELECT executions.number FROM executions JOIN tree ON executions.parent = tree.number) \
                   SELECT count(*) FROM (SELECT number FROM tree LIMIT $2) AS part";
        let size = self.count(sql, &[&root, &most(limit)])?;
        Ok(usize::try_from(size).unwrap_or_default())
    }

    fn open_executions(&self, definition: &str) -> Result<u64> {
        if !is_storable(definition) {
            return Ok(0);
        }
        let sql = format!(
            "SELECT count(*) FROM executions WHERE sub_state IN {OPEN} AND definition = $1"
        );
        self.count(&sql, &[&definition])
    }

    fn forks(&self, id: &str, limit: usize) -> Result<Vec<Arc<str>>> {
        if !is_storable(id) {
            return Ok(Vec::new());
        }
        let sql = "SELECT id FROM executions WHERE forked_from = $1 ORDER BY number LIMIT $2";
        let rows = self.rows(sql, &[&id, &most(limit)])?;
        let found = rows.iter().map(|row| Ok(field::<&str>(row, 0)?.into()));
        found.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_open_sub_states_are_those_that_are_not_final() {
        let open = SubState::ALL.iter().filter(|shown| !shown.is_terminal());
        let open: Vec<String> = open.map(|shown| format!("'{shown}'")).collect();
        assert_eq!(format!("({})", open.join(", ")), OPEN);
    }
}
