//! Reading the requests that were answered.

use jiff::Timestamp;
use rusqlite::OptionalExtension as _;

use crate::store::sqlite::Sqlite;
use crate::store::sqlite::row::time;
use crate::store::{Answered, RequestReading, StoreError};

impl RequestReading for Sqlite {
    fn answered(&self, id: &str) -> Result<Option<Answered>, StoreError> {
        let mut query = self
            .connection
            .prepare_cached("SELECT id, body, execution, at FROM requests WHERE id = ?1")?;
        let found = query.query_row([id], |row| {
            Ok(Answered {
                id: row.get::<_, String>(0)?.into(),
                body: row.get(1)?,
                number: row.get(2)?,
                at: time(row.get(3)?).unwrap_or_default(),
            })
        });
        Ok(found.optional()?)
    }

    fn has_requests_before(&self, before: Timestamp) -> Result<bool, StoreError> {
        let mut query = self
            .connection
            .prepare_cached("SELECT at FROM requests ORDER BY place LIMIT 1")?;
        let first = query.query_row([], |row| row.get::<_, i64>(0)).optional()?;
        Ok(first.is_some_and(|at| at < before.as_millisecond()))
    }
}
