//! Reading definitions, their triggers and their schedules.

use std::sync::Arc;

use jiff::Timestamp;
use tokio_postgres::Row;

use super::super::row::{field, text, time};
use super::{PostgresReader, is_storable};
use crate::request::{DefinitionRecord, DisabledTrigger};
use crate::store::{DefinitionReading, Result};

impl DefinitionReading for PostgresReader {
    fn definition(&self, name: &str, revision: Option<&str>) -> Result<Option<DefinitionRecord>> {
        if !is_storable(name) || revision.is_some_and(|revision| !is_storable(revision)) {
            return Ok(None);
        }
        let found = match revision {
            Some(revision) => self.row(
                "SELECT name, revision, source, created_at FROM definitions \
                 WHERE name = $1 AND revision = $2",
                &[&name, &revision],
            )?,
            None => self.row(
                "SELECT name, revision, source, created_at FROM definitions \
                 WHERE name = $1 AND current",
                &[&name],
            )?,
        };
        found.as_ref().map(definition).transpose()
    }

    fn source(&self, revision: &str) -> Result<Option<(String, String)>> {
        if !is_storable(revision) {
            return Ok(None);
        }
        let sql = "SELECT name, source FROM definitions WHERE revision = $1 LIMIT 1";
        let found = self.row(sql, &[&revision])?;
        found
            .map(|row| Ok((field(&row, 0)?, text(&row, 1)?)))
            .transpose()
    }

    fn revisions(&self, name: &str) -> Result<Vec<DefinitionRecord>> {
        if !is_storable(name) {
            return Ok(Vec::new());
        }
        let sql = "SELECT name, revision, source, created_at FROM definitions WHERE name = $1 \
                   ORDER BY created_at DESC, revision";
        self.rows(sql, &[&name])?.iter().map(definition).collect()
    }

    fn definitions(&self, after: &str, limit: usize) -> Result<Vec<DefinitionRecord>> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        // No name has a zero byte: what follows this text in the order follows the part before the zero byte too.
        let after = after.split('\0').next().unwrap_or_default();
        let sql = "SELECT name, revision, source, created_at FROM definitions \
                   WHERE current AND name > $1 ORDER BY name LIMIT $2";
        let rows = self.rows(sql, &[&after, &limit])?;
        rows.iter().map(definition).collect()
    }

    fn disabled_triggers(&self) -> Result<Vec<(Arc<str>, DisabledTrigger)>> {
        let sql = "SELECT definition, disabled_by, disabled_at, comment FROM disabled_triggers \
                   ORDER BY definition";
        let rows = self.rows(sql, &[])?;
        let disabled = rows.iter().map(|row| {
            let disabled = DisabledTrigger {
                by: text(row, 1)?.into(),
                at: time(field(row, 2)?).unwrap_or_default(),
                comment: text(row, 3)?.into(),
            };
            Ok((field::<&str>(row, 0)?.into(), disabled))
        });
        disabled.collect()
    }

    fn last_scheduled(&self, name: &str) -> Result<Option<Timestamp>> {
        if !is_storable(name) {
            return Ok(None);
        }
        let sql = "SELECT last_at FROM schedules WHERE definition = $1";
        let found = self.row(sql, &[&name])?;
        Ok(time(found.map(|row| field(&row, 0)).transpose()?))
    }
}

fn definition(row: &Row) -> Result<DefinitionRecord> {
    Ok(DefinitionRecord {
        name: field::<&str>(row, 0)?.into(),
        revision: field::<&str>(row, 1)?.into(),
        source: text(row, 2)?,
        created: time(field(row, 3)?).unwrap_or_default(),
    })
}
