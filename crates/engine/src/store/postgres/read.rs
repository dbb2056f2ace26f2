//! Reading: one file for each subject of the contract, and the rest here.

mod definitions;
mod list;
mod log;
mod rows;

#[cfg(test)]
pub(in crate::store) use rows::start_queries;

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use jiff::Timestamp;
use tokio_postgres::Row;

use super::row::{field, text, time};
use super::session::{PATIENCE, Server, Session, Value};
use crate::store::{Answered, Reading, RequestReading, Result, StoreError};

/// A connection for reading. It is made when it is used, and again after it was lost.
#[derive(Debug)]
pub(super) struct PostgresReader {
    server: Arc<Server>,
    session: RefCell<Option<Session>>,
    /// Whether several reads see one moment: such a read cannot be repeated on another connection.
    at_once: Cell<bool>,
}

impl PostgresReader {
    pub(super) const fn new(server: Arc<Server>) -> Self {
        Self {
            server,
            session: RefCell::new(None),
            at_once: Cell::new(false),
        }
    }

    /// The rows of a query.
    fn rows(&self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>> {
        self.with(|session| session.rows(sql, values))
    }

    /// The rows of a query of a start or a take-over, which may take long.
    fn rows_patiently(&self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>> {
        self.with(|session| session.patiently(|session| session.rows(sql, values)))
    }

    /// The one row of a query, if there is one.
    fn row(&self, sql: &str, values: &[Value<'_>]) -> Result<Option<Row>> {
        self.with(|session| session.row(sql, values))
    }

    /// The one value of a query that always has one.
    fn value<T>(&self, sql: &str, values: &[Value<'_>]) -> Result<T>
    where
        T: for<'r> tokio_postgres::types::FromSql<'r>,
    {
        let row = self.row(sql, values)?;
        let row = row.ok_or_else(|| StoreError::Failed("a query has no row".to_owned()))?;
        field(&row, 0)
    }

    /// Does something with the connection. A read that broke with its connection is repeated once.
    fn with<T>(&self, work: impl Fn(&Session) -> Result<T>) -> Result<T> {
        let mut place = self.session.borrow_mut();
        if let Some(session) = place.as_ref().filter(|session| session.is_open()) {
            let done = work(session);
            if done.is_ok() || session.is_open() || self.at_once.get() {
                return done;
            }
        } else if self.at_once.get() {
            return Err(StoreError::Unreachable {
                store: self.server.shown.clone(),
                why: "the connection was lost".to_owned(),
            });
        }
        *place = None;
        let session = self.server.connect()?;
        let done = work(&session);
        *place = Some(session);
        done
    }
}

/// Whether a column of the type `text` can have this text. It has no zero byte, and a query with one fails, so that every
/// read checks the texts that a caller may have chosen: with a zero byte, nothing is found.
fn is_storable(text: &str) -> bool {
    !text.contains('\0')
}

impl Reading for PostgresReader {
    fn at_once(&self, work: &mut dyn FnMut(&dyn Reading)) -> Result<()> {
        if self.at_once.get() {
            work(self);
            return Ok(());
        }
        let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY";
        self.with(|session| session.batch(begin, PATIENCE))?;
        self.at_once.set(true);
        let moment = Moment(self);
        work(self);
        drop(moment);
        Ok(())
    }

    fn sink_position(&self, name: &str) -> Result<Option<i64>> {
        if !is_storable(name) {
            return Ok(None);
        }
        let found = self.row("SELECT position FROM sinks WHERE name = $1", &[&name])?;
        found.map(|row| field(&row, 0)).transpose()
    }
}

/// Ends the moment of several reads, also after a panic.
struct Moment<'r>(&'r PostgresReader);

impl Drop for Moment<'_> {
    fn drop(&mut self) {
        let ended = self.0.with(|session| session.batch("COMMIT", PATIENCE));
        self.0.at_once.set(false);
        if ended.is_err() {
            // The next read makes a new connection.
            self.0.session.take();
        }
    }
}

impl RequestReading for PostgresReader {
    fn answered(&self, id: &str) -> Result<Option<Answered>> {
        let sql = "SELECT id, body, execution, at FROM requests WHERE id = $1";
        let Some(row) = self.row(sql, &[&id.as_bytes()])? else {
            return Ok(None);
        };
        let body: &[u8] = field(&row, 1)?;
        let body = body.try_into();
        Ok(Some(Answered {
            id: text(&row, 0)?.into(),
            body: body.map_err(|_| StoreError::corrupt("the body of a request"))?,
            number: field(&row, 2)?,
            at: time(field(&row, 3)?).unwrap_or_default(),
        }))
    }

    fn has_requests_before(&self, before: Timestamp) -> Result<bool> {
        let first = self.row("SELECT at FROM requests ORDER BY place LIMIT 1", &[])?;
        let at: Option<i64> = first.map(|row| field(&row, 0)).transpose()?;
        Ok(at.is_some_and(|at| at < before.as_millisecond()))
    }
}
