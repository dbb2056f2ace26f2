//! The tables, and how an older database becomes a present one.
//!
//! A newer gateway migrates the tables while older ones serve. Each step says which versions may still write
//! afterwards: an older gateway continues to use newer tables unless it would damage them.

use std::time::Duration;

use super::row::field;
use super::session::{Server, Session};
use crate::store::{Result, StoreError};

/// One step from a version of the tables to the next.
struct Migration {
    /// A script that was released is never changed.
    script: &'static str,
    /// The oldest version whose gateways may write to the tables afterwards.
    writable_from: i64,
}

/// The steps that lead from each version to the next.
const MIGRATIONS: &[Migration] = &[
    Migration {
        script: include_str!("migration/001_first.sql"),
        writable_from: 1,
    },
    Migration {
        script: include_str!("migration/002_address.sql"),
        writable_from: 1,
    },
];
/// The version that this build writes.
const VERSION: i64 = MIGRATIONS.len() as i64;
/// The first version whose tables say which versions may write.
const FIRST_WITH_WRITERS: i64 = 2;
/// Gateways that start at the same time migrate one after the other: "Stwy".
const LOCK: i64 = 0x5374_7779;
/// How long a migration may take.
const PATIENCE: Duration = Duration::from_secs(60 * 60);

/// The version of the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Found {
    /// Zero if there are no tables.
    version: i64,
    /// The oldest version whose gateways may write.
    writable_from: i64,
}

/// Makes sure that this build can use the tables.
pub(super) fn ensure(server: &Server, session: &Session) -> Result<()> {
    if check(server, found(session)?)? < VERSION {
        migrate(server)?;
    }
    Ok(())
}

/// The version that was found, unless this build may not write to such tables.
fn check(server: &Server, found: Found) -> Result<i64> {
    if found.writable_from > VERSION {
        return Err(StoreError::Newer {
            store: server.shown.clone(),
            found: found.version,
            known: VERSION,
        });
    }
    Ok(found.version)
}

fn found(session: &Session) -> Result<Found> {
    let version = version(session)?;
    if version < FIRST_WITH_WRITERS {
        return Ok(Found {
            version,
            writable_from: version,
        });
    }
    let row = session.row("SELECT max(writable_from) FROM schema_version", &[])?;
    let writable_from: Option<i64> = row.map_or(Ok(None), |row| field(&row, 0))?;
    Ok(Found {
        version,
        writable_from: writable_from.unwrap_or(version),
    })
}

/// The version of the tables; zero if there are none.
fn version(session: &Session) -> Result<i64> {
    let found = session.row("SELECT to_regclass('schema_version') IS NOT NULL", &[])?;
    let exists: bool = found.map_or(Ok(false), |row| field(&row, 0))?;
    if !exists {
        return Ok(0);
    }
    let found = session.row("SELECT max(version) FROM schema_version", &[])?;
    let found: Option<i64> = found.map_or(Ok(None), |row| field(&row, 0))?;
    Ok(found.unwrap_or(0))
}

fn migrate(server: &Server) -> Result<()> {
    let session = server.connect_patiently()?;
    session.batch(&format!("SELECT pg_advisory_lock({LOCK})"), PATIENCE)?;
    let schema = &server.config.schema;
    refuse_other_encodings(server, &session)?;
    create_schema(server, &session)?;
    let found = check(server, found(&session)?)?;
    if found == 0 {
        refuse_other_tables(server, &session)?;
    }
    let steps = (1..).zip(MIGRATIONS);
    for (number, migration) in steps.skip(usize::try_from(found).unwrap_or(0)) {
        let script = migration.script;
        let columns = if number < FIRST_WITH_WRITERS {
            format!("(version) VALUES ({number})")
        } else {
            let writable_from = migration.writable_from;
            format!("(version, writable_from) VALUES ({number}, {writable_from})")
        };
        let step = format!(
            "BEGIN;\nCREATE TABLE IF NOT EXISTS schema_version (version bigint PRIMARY KEY);\n{script}\n\
             INSERT INTO schema_version {columns};\nCOMMIT;"
        );
        session.batch(&step, PATIENCE)?;
        tracing::info!(
            version = number,
            schema,
            "the tables of the store are created or migrated"
        );
    }
    Ok(())
}

/// Every text of a caller must fit into the database: a text that does not would break the turn of every caller.
fn refuse_other_encodings(server: &Server, session: &Session) -> Result<()> {
    let found = session.row("SELECT current_setting('server_encoding')", &[])?;
    let encoding: String = found.map_or(Ok(String::new()), |row| field(&row, 0))?;
    if encoding == "UTF8" {
        return Ok(());
    }
    Err(StoreError::Unopened {
        store: server.shown.clone(),
        why: format!(
            "the database has the encoding {encoding}; create a database with ENCODING 'UTF8'"
        ),
    })
}

/// Creates the schema if it is missing. PostgreSQL wants the right to create schemas even for one that exists, so that
/// it is asked first.
fn create_schema(server: &Server, session: &Session) -> Result<()> {
    let schema = &server.config.schema;
    let found = session.row("SELECT to_regnamespace($1::text) IS NOT NULL", &[schema])?;
    if found.map_or(Ok(false), |row| field(&row, 0))? {
        return Ok(());
    }
    let created = session.batch(&format!("CREATE SCHEMA IF NOT EXISTS {schema}"), PATIENCE);
    created.map_err(|error| match error {
        StoreError::Unopened { store, why } => {
            let user = server.config.address.get_user().unwrap_or_default();
            let why = format!(
                "the schema `{schema}` does not exist and cannot be created: {why}; \
                 an administrator can create it: CREATE SCHEMA {schema} AUTHORIZATION \"{user}\""
            );
            StoreError::Unopened { store, why }
        }
        other => other,
    })
}

/// Nothing is changed in a schema that another program uses.
fn refuse_other_tables(server: &Server, session: &Session) -> Result<()> {
    let schema = &server.config.schema;
    let sql = "SELECT count(*) FROM pg_tables WHERE schemaname = $1";
    let found = session.row(sql, &[schema])?;
    let tables: i64 = found.map_or(Ok(0), |row| field(&row, 0))?;
    if tables == 0 {
        return Ok(());
    }
    Err(StoreError::Unopened {
        store: server.shown.clone(),
        why: format!("the schema `{schema}` has tables of another program"),
    })
}

#[cfg(test)]
mod tests {
    use sha2::{Digest as _, Sha256};

    use super::MIGRATIONS;

    #[test]
    fn no_step_allows_only_versions_that_do_not_exist() {
        for (number, migration) in (1..).zip(MIGRATIONS) {
            assert!((1..=number).contains(&migration.writable_from), "{number}");
        }
    }

    #[test]
    fn a_script_that_was_released_is_never_changed() {
        let hashes = MIGRATIONS.iter().map(|migration| {
            let hash = Sha256::digest(migration.script);
            let hash = hash.iter().take(8).map(|byte| format!("{byte:02x}"));
            hash.collect::<String>()
        });
        assert_eq!(
            hashes.collect::<Vec<_>>(),
            ["dceafd9a5080b8de", "412dc83818ca7337"]
        );
    }
}
