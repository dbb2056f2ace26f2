//! The tables, and how an older database becomes a present one.

use std::time::Duration;

use super::row::field;
use super::session::{Server, Session};
use crate::store::{Result, StoreError};

/// The scripts that lead from each version to the next. A script that was released is never changed.
const MIGRATIONS: &[&str] = &[include_str!("migration/001_first.sql")];
/// The version that this build writes.
const VERSION: i64 = MIGRATIONS.len() as i64;
/// Gateways that start at the same time migrate one after the other: "Stwy".
const LOCK: i64 = 0x5374_7779;
/// How long a migration may take.
const PATIENCE: Duration = Duration::from_secs(60 * 60);

/// Makes sure that the tables are those of this build.
pub(super) fn ensure(server: &Server, session: &Session) -> Result<()> {
    if check(server, version(session)?)? < VERSION {
        migrate(server)?;
    }
    Ok(())
}

/// The version that was found, unless it is newer than this build.
fn check(server: &Server, found: i64) -> Result<i64> {
    if found > VERSION {
        return Err(StoreError::Newer {
            store: server.shown.clone(),
            found,
            known: VERSION,
        });
    }
    Ok(found)
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
    let found = check(server, version(&session)?)?;
    if found == 0 {
        refuse_other_tables(server, &session)?;
    }
    for (number, script) in (1..)
        .zip(MIGRATIONS)
        .skip(usize::try_from(found).unwrap_or(0))
    {
        let step = format!(
            "BEGIN;\nCREATE TABLE IF NOT EXISTS schema_version (version bigint PRIMARY KEY);\n{script}\n\
             INSERT INTO schema_version VALUES ({number});\nCOMMIT;"
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
    fn a_script_that_was_released_is_never_changed() {
        let hashes = MIGRATIONS.iter().map(|script| {
            let hash = Sha256::digest(script);
            let hash = hash.iter().take(8).map(|byte| format!("{byte:02x}"));
            hash.collect::<String>()
        });
        assert_eq!(hashes.collect::<Vec<_>>(), ["dceafd9a5080b8de"]);
    }
}
