//! Reading the requests that were answered.

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
}
