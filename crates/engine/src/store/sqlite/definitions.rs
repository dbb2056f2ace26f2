//! Writing definitions: which revision is current, which definitions are deleted, which triggers
//! are disabled.

use rusqlite::{Connection, params};

use super::write::{TurnWriter, Written};
use crate::Write;
use crate::request::{DefinitionRecord, DisabledTrigger};
use crate::store::DefinitionChange;

/// Definitions without a current revision.
const DELETED: &str = "SELECT DISTINCT name FROM definitions EXCEPT \
     SELECT name FROM definitions WHERE current = 1";
const REMOVE_UNNEEDED: &str = "DELETE FROM definitions WHERE name = ?1 \
     AND NOT EXISTS (SELECT 1 FROM definitions WHERE name = ?1 AND current = 1) \
     AND NOT EXISTS (SELECT 1 FROM executions WHERE definition = ?1)";

impl TurnWriter<'_> {
    pub(super) fn definitions(&self, changes: &[DefinitionChange]) -> Written {
        for change in changes {
            if !self.may(Write::Definition)? {
                continue;
            }
            match change {
                DefinitionChange::Applied(record) => self.applied(record)?,
                DefinitionChange::Deleted(name) => self.deleted(name)?,
                DefinitionChange::TriggerDisabled(name, disabled) => {
                    self.trigger_disabled(name, disabled)?;
                }
                DefinitionChange::TriggerEnabled(name) => self.trigger_enabled(name)?,
            }
        }
        Ok(())
    }

    fn applied(&self, record: &DefinitionRecord) -> Written {
        self.without_current(&record.name)?;
        self.to.execute(
            "INSERT INTO definitions (name, revision, source, created_at, current) \
             VALUES (?1, ?2, ?3, ?4, 1) \
             ON CONFLICT (name, revision) DO UPDATE SET current = 1",
            params![
                &*record.name,
                &*record.revision,
                record.source,
                record.created.as_millisecond()
            ],
        )?;
        Ok(())
    }

    fn deleted(&self, name: &str) -> Written {
        self.without_current(name)?;
        self.to
            .execute("DELETE FROM schedules WHERE definition = ?1", [name])?;
        self.trigger_enabled(name)
    }

    fn without_current(&self, name: &str) -> Written {
        self.to
            .execute("UPDATE definitions SET current = 0 WHERE name = ?1", [name])?;
        Ok(())
    }

    fn trigger_disabled(&self, name: &str, disabled: &DisabledTrigger) -> Written {
        self.to.execute(
            "INSERT OR REPLACE INTO disabled_triggers \
             (definition, disabled_by, disabled_at, comment) VALUES (?1, ?2, ?3, ?4)",
            params![
                name,
                &*disabled.by,
                disabled.at.as_millisecond(),
                &*disabled.comment
            ],
        )?;
        Ok(())
    }

    fn trigger_enabled(&self, name: &str) -> Written {
        self.to.execute(
            "DELETE FROM disabled_triggers WHERE definition = ?1",
            [name],
        )?;
        Ok(())
    }

    /// Removes the revisions of definitions that this turn deleted and that no execution needs.
    pub(super) fn revisions_of_deleted(&self, changes: &[DefinitionChange]) -> Written {
        for change in changes {
            if let DefinitionChange::Deleted(name) = change {
                self.to.execute(REMOVE_UNNEEDED, [&**name])?;
            }
        }
        Ok(())
    }
}

/// The deleted definitions that these executions belong to.
pub(super) fn deleted_definitions_of(
    connection: &Connection,
    numbers: &[i64],
) -> rusqlite::Result<Vec<String>> {
    let mut deleted: Vec<String> = connection
        .prepare_cached(DELETED)?
        .query_map([], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    if deleted.is_empty() {
        return Ok(deleted);
    }
    let mut used = std::collections::HashSet::new();
    let mut query =
        connection.prepare_cached("SELECT definition FROM executions WHERE number = ?1")?;
    for number in numbers {
        for name in query.query_map([number], |row| row.get::<_, String>(0))? {
            used.insert(name?);
        }
    }
    deleted.retain(|name| used.contains(name));
    Ok(deleted)
}

/// Removes the revisions of deleted definitions that no execution needs any more.
pub(super) fn remove_unneeded(connection: &Connection, deleted: &[String]) -> rusqlite::Result<()> {
    for name in deleted {
        connection.execute(REMOVE_UNNEEDED, [name])?;
    }
    Ok(())
}
