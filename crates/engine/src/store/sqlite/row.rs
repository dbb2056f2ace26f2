//! Converts rows of the file to the types of the contract.

use std::sync::Arc;

use jiff::Timestamp;
use rusqlite::Row;

use crate::store::compact::unpack_summary;
use crate::store::{ExecutionRow, Status, StoreError};
use crate::view::{Origin, Parent};

/// The form of the columns of a row that repeat what the log says. A build that computes a column in
/// another way has another form: rows of older forms are written again, and are no damage.
pub(in crate::store) const ROW_FORM: i64 = 2;

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

/// A row with its summary.
pub(super) fn with_summary(row: &Row<'_>) -> Result<ExecutionRow, StoreError> {
    let stored = row.get_ref(20)?;
    let stored = stored.as_blob_or_null().map_err(rusqlite::Error::from)?;
    Ok(ExecutionRow {
        summary: stored.map(unpack_summary),
        ..kept(row)?
    })
}

pub(super) fn kept(row: &Row<'_>) -> Result<ExecutionRow, StoreError> {
    let number: i64 = row.get(0)?;
    let damaged = |what: &str| StoreError::corrupt(format_args!("execution {number}: {what}"));
    let labels: String = row.get(4)?;
    let parent = match row.get::<_, Option<i64>>(5)? {
        Some(parent) => Some(Parent {
            number: parent,
            step: row.get::<_, String>(6)?.into(),
            attempt: row.get(7)?,
            branch: row.get(17)?,
        }),
        None => None,
    };
    let origin = Origin {
        number,
        id: row.get::<_, String>(1)?.into(),
        definition: row.get::<_, String>(2)?.into(),
        labels: Arc::new(serde_json::from_str(&labels).map_err(|_| damaged("labels"))?),
        parent,
        depth: row.get(8)?,
        not_before: time(row.get(9)?),
        forked_from: row.get::<_, Option<String>>(18)?.map(Into::into),
    };
    let word = |at: usize| row.get::<_, String>(at);
    let status = Status {
        branch: row.get(10)?,
        state: word(11)?.parse().map_err(|_| damaged("state"))?,
        sub_state: word(12)?.parse().map_err(|_| damaged("sub_state"))?,
        reason: match row.get::<_, Option<String>>(13)? {
            Some(reason) => Some(reason.parse().map_err(|_| damaged("reason"))?),
            None => None,
        },
        wake_at: time(row.get(14)?),
        inbox: row.get(15)?,
        ended: time(row.get(16)?),
    };
    Ok(ExecutionRow {
        origin: Arc::new(origin),
        revision: row.get::<_, String>(3)?.into(),
        status,
        older: row.get::<_, i64>(19)? < ROW_FORM,
        summary: None,
    })
}

/// A time as it is stored.
pub(super) fn time(milliseconds: Option<i64>) -> Option<Timestamp> {
    Timestamp::from_millisecond(milliseconds?).ok()
}
