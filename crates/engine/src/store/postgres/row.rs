//! Converts rows of the tables to the types of the contract.

use std::sync::Arc;

use jiff::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use crate::store::compact::unpack_summary;
use crate::store::sqlite::ROW_FORM;
use crate::store::{ExecutionRow, Hash, Result, Status, StoreError};
use crate::view::{Origin, Parent};

/// The columns [`kept`] reads, in its order.
pub(super) const KEPT: &str = "number, id, definition, revision, labels, parent, parent_step, \
     parent_attempt, depth, not_before, branch, state, sub_state, reason, wake_at, inbox, ended_at, \
     parent_branch, forked_from, form";

/// The same with the summary, which [`with_summary`] reads: none if the log does not end with the row whose
/// hash the summary begins with.
pub(super) const LISTED: &str = "number, id, definition, revision, labels, parent, parent_step, \
     parent_attempt, depth, not_before, branch, state, sub_state, reason, wake_at, inbox, ended_at, \
     parent_branch, forked_from, form, \
     CASE WHEN substr(summary, 1, 16) = (SELECT hash FROM events WHERE execution = executions.number \
     ORDER BY branch DESC, sequence DESC LIMIT 1) THEN summary END";

/// A column of a row.
pub(super) fn field<'r, T: FromSql<'r>>(row: &'r Row, at: usize) -> Result<T> {
    row.try_get(at)
        .map_err(|error| StoreError::corrupt(format_args!("column {at}: {error}")))
}

/// A text that is stored as bytes.
pub(super) fn text(row: &Row, at: usize) -> Result<String> {
    let bytes: &[u8] = field(row, at)?;
    String::from_utf8(bytes.to_vec())
        .map_err(|_| StoreError::corrupt(format_args!("column {at} is no text")))
}

pub(super) fn hash(row: &Row, at: usize) -> Result<Hash> {
    let bytes: &[u8] = field(row, at)?;
    bytes
        .try_into()
        .map_err(|_| StoreError::corrupt(format_args!("column {at} is no hash")))
}

/// A number that is never negative, as the tables have it.
pub(super) fn unsigned(row: &Row, at: usize) -> Result<u64> {
    field::<i64>(row, at).map(i64::unsigned_abs)
}

/// The same of a column with small numbers.
pub(super) fn small(row: &Row, at: usize) -> Result<u32> {
    field::<i32>(row, at).map(i32::unsigned_abs)
}

/// A time as it is stored.
pub(super) fn time(milliseconds: Option<i64>) -> Option<Timestamp> {
    Timestamp::from_millisecond(milliseconds?).ok()
}

/// A row with its summary.
pub(super) fn with_summary(row: &Row) -> Result<ExecutionRow> {
    let stored: Option<&[u8]> = field(row, 20)?;
    Ok(ExecutionRow {
        summary: stored.map(unpack_summary),
        ..kept(row)?
    })
}

pub(super) fn kept(row: &Row) -> Result<ExecutionRow> {
    let number: i64 = field(row, 0)?;
    let damaged = |what: &str| StoreError::corrupt(format_args!("execution {number}: {what}"));
    let labels: &str = field(row, 4)?;
    let parent = match field::<Option<i64>>(row, 5)? {
        Some(parent) => Some(Parent {
            number: parent,
            step: field::<&str>(row, 6)?.into(),
            attempt: small(row, 7)?,
            branch: small(row, 17)?,
        }),
        None => None,
    };
    let origin = Origin {
        number,
        id: field::<&str>(row, 1)?.into(),
        definition: field::<&str>(row, 2)?.into(),
        labels: Arc::new(serde_json::from_str(labels).map_err(|_| damaged("labels"))?),
        parent,
        depth: small(row, 8)?,
        not_before: time(field(row, 9)?),
        forked_from: field::<Option<&str>>(row, 18)?.map(Into::into),
    };
    let word = |at: usize| field::<&str>(row, at);
    let status = Status {
        branch: small(row, 10)?,
        state: word(11)?.parse().map_err(|_| damaged("state"))?,
        sub_state: word(12)?.parse().map_err(|_| damaged("sub_state"))?,
        reason: match field::<Option<&str>>(row, 13)? {
            Some(reason) => Some(reason.parse().map_err(|_| damaged("reason"))?),
            None => None,
        },
        wake_at: time(field(row, 14)?),
        inbox: small(row, 15)?,
        ended: time(field(row, 16)?),
    };
    Ok(ExecutionRow {
        origin: Arc::new(origin),
        revision: field::<&str>(row, 3)?.into(),
        status,
        older: field::<i64>(row, 19)? < ROW_FORM,
        summary: None,
    })
}
