//! Reading definitions, their triggers and their schedules.

use std::sync::Arc;

use jiff::Timestamp;
use rusqlite::{OptionalExtension as _, Row, params};

use crate::request::{DefinitionRecord, DisabledTrigger};
use crate::store::sqlite::Sqlite;
use crate::store::sqlite::row::time;
use crate::store::{DefinitionReading, StoreError};

impl DefinitionReading for Sqlite {
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

    fn source(&self, revision: &str) -> Result<Option<(String, String)>, StoreError> {
        let mut query = self
            .connection
            .prepare_cached("SELECT name, source FROM definitions WHERE revision = ?1")?;
        let found = query.query_row([revision], |row| Ok((row.get(0)?, row.get(1)?)));
        Ok(found.optional()?)
    }

    fn revisions(&self, name: &str) -> Result<Vec<DefinitionRecord>, StoreError> {
        let mut query = self.connection.prepare_cached(
            "SELECT name, revision, source, created_at FROM definitions WHERE name = ?1 \
             ORDER BY created_at DESC, revision",
        )?;
        let rows = query.query_map([name], definition)?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    fn definitions(&self, after: &str, limit: usize) -> Result<Vec<DefinitionRecord>, StoreError> {
        let mut query = self.connection.prepare_cached(
            "SELECT name, revision, source, created_at FROM definitions \
             WHERE current = 1 AND name > ?1 ORDER BY name LIMIT ?2",
        )?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = query.query_map(params![after, limit], definition)?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
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

    fn last_scheduled(&self, name: &str) -> Result<Option<Timestamp>, StoreError> {
        let mut query = self
            .connection
            .prepare_cached("SELECT last_at FROM schedules WHERE definition = ?1")?;
        Ok(query
            .query_row([name], |row| row.get(0))
            .optional()?
            .and_then(|at| time(Some(at))))
    }
}

fn definition(row: &Row<'_>) -> rusqlite::Result<DefinitionRecord> {
    Ok(DefinitionRecord {
        name: row.get::<_, String>(0)?.into(),
        revision: row.get::<_, String>(1)?.into(),
        source: row.get(2)?,
        created: time(row.get(3)?).unwrap_or_default(),
    })
}
