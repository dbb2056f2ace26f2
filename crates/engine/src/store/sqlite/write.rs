//! Writing: a turn is one transaction, on disk when it returns.

use std::sync::Arc;

use jiff::Timestamp;
use rusqlite::{Transaction, params};

use super::definitions::{deleted_definitions_of, remove_unneeded};
use super::row::ROW_FORM;
use super::{LAST_POSITION, Sqlite};
use crate::store::compact::{pack, pack_summary};
use crate::store::{
    Answered, Append, Branch, Commit, Created, Epoch, Forget, Snapshot, Status, Store, StoreError,
    Turn,
};
use crate::view::Origin;
use crate::{Fate, Faults, Write};

/// Why a turn was not written to its end.
pub(super) enum Broken {
    Store(rusqlite::Error),
    /// The process dies here; whether what was written so far stays.
    Died {
        torn: bool,
    },
}

impl From<rusqlite::Error> for Broken {
    fn from(error: rusqlite::Error) -> Self {
        Self::Store(error)
    }
}

pub(super) type Written<T = ()> = Result<T, Broken>;

/// A turn on its way to the file.
pub(super) struct TurnWriter<'p> {
    pub(super) to: &'p Transaction<'p>,
    faults: &'p Faults,
}

impl TurnWriter<'_> {
    /// Whether the next write is done.
    pub(super) fn may(&self, write: Write) -> Written<bool> {
        match self.faults.fate(write) {
            Fate::Done => Ok(true),
            Fate::Lost => Ok(false),
            Fate::Torn => Err(Broken::Died { torn: true }),
            Fate::Crash => Err(Broken::Died { torn: false }),
        }
    }

    /// Writes all of a turn; the place of its last event.
    fn write(&self, turn: &Turn, last_position: i64) -> Written<i64> {
        self.definitions(&turn.definitions)?;
        self.created(&turn.created)?;
        self.branches(&turn.branches)?;
        let last_position = self.appends(&turn.appends, last_position)?;
        self.statuses(&turn.statuses)?;
        self.revisions(&turn.revisions)?;
        self.snapshots(&turn.snapshots)?;
        self.summaries(&turn.summaries)?;
        self.requests(&turn.requests)?;
        self.schedules(&turn.schedules)?;
        self.sinks(&turn.sinks)?;
        // After the executions of this turn, which may need the revisions.
        self.revisions_of_deleted(&turn.definitions)?;
        self.removed(&turn.removed, last_position)?;
        if let Some(forget) = turn.forgotten {
            self.forgotten(forget)?;
        }
        Ok(last_position)
    }
}

impl Sqlite {
    /// Fails if a test wants a full disk.
    fn has_room(&self) -> Result<(), StoreError> {
        if self.faults.is_full() {
            return Err(StoreError::Full);
        }
        Ok(())
    }
}

impl Store for Sqlite {
    fn own(&mut self) -> Result<Epoch, StoreError> {
        // The lock and the migration have shown that a file can be written that was just opened.
        if self.epoch > 0 {
            self.probe()?;
        }
        self.epoch += 1;
        Ok(self.epoch)
    }

    fn check(&self) -> Result<(), StoreError> {
        // The lock on the file is not lost while the process lives.
        Ok(())
    }

    fn commit(&mut self, turn: &Turn) -> Commit {
        self.store(turn).into()
    }

    fn last_position(&self) -> i64 {
        self.last_position
    }
}

impl Sqlite {
    /// Writes a turn. When this returns it is on disk.
    fn store(&mut self, turn: &Turn) -> Result<(), StoreError> {
        self.alive()?;
        self.same_files()?;
        self.has_room()?;
        let transaction = self.connection.unchecked_transaction()?;
        let pen = TurnWriter {
            to: &transaction,
            faults: &self.faults,
        };
        match pen.write(turn, self.last_position) {
            Ok(last_position) => {
                transaction.commit()?;
                self.last_position = last_position;
                // A commit to a file that was removed meanwhile is not on disk.
                self.same_files()
            }
            Err(Broken::Store(error)) => Err(error.into()),
            Err(Broken::Died { torn }) => {
                if torn {
                    transaction.commit()?;
                } else {
                    transaction.rollback()?;
                }
                self.dead = true;
                self.alive()
            }
        }
    }

    /// Whether the file can be written, after it could not.
    fn probe(&mut self) -> Result<(), StoreError> {
        self.alive()?;
        self.same_files()?;
        self.has_room()?;
        let transaction = self.connection.unchecked_transaction()?;
        // A write that changes nothing still needs the file, its log and some room.
        transaction.execute("DELETE FROM requests WHERE place < 0", [])?;
        let version: i64 =
            transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
        transaction.pragma_update(None, "user_version", version)?;
        // A commit that reported an error may be on disk all the same: its positions are taken.
        let last: i64 = transaction.query_row(LAST_POSITION, [], |row| row.get(0))?;
        transaction.commit()?;
        self.last_position = self.last_position.max(last);
        Ok(())
    }
}

impl Sqlite {
    /// Refuses to write to files that were removed or replaced.
    fn same_files(&mut self) -> Result<(), StoreError> {
        let Some(writer) = &mut self.writer else {
            return Ok(());
        };
        let checked = writer.files.check();
        if checked.is_err() && writer.files.rescues_log() {
            // The log is still open: what was acknowledged is moved from there to the database.
            let moved = self
                .connection
                .pragma(None, "wal_checkpoint", "full", |_| Ok(()));
            match moved {
                Ok(()) => tracing::error!(
                    "the write-ahead log of the store was removed by another program; its content is saved"
                ),
                Err(error) => tracing::error!(
                    "the write-ahead log of the store was removed by another program: {error}"
                ),
            }
        }
        checked
    }

    /// A process that has died writes nothing.
    fn alive(&self) -> Result<(), StoreError> {
        if self.dead {
            return Err(StoreError::Failed("the process has died".to_owned()));
        }
        Ok(())
    }
}

impl TurnWriter<'_> {
    fn created(&self, rows: &[Created]) -> Written {
        if rows.is_empty() {
            return Ok(());
        }
        let mut insert = self.to.prepare_cached(
            "INSERT INTO executions (number, id, definition, revision, labels, parent, parent_step, \
             parent_attempt, parent_branch, depth, not_before, created_at, branch, state, sub_state, reason, wake_at, \
             inbox, ended_at, forked_from, form) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, \
             ?19, ?20, ?21)",
        )?;
        for row in rows {
            if !self.may(Write::Execution)? {
                continue;
            }
            let (origin, status) = (&row.origin, &row.status);
            let parent = origin.parent.as_ref();
            insert.execute(params![
                origin.number,
                &*origin.id,
                &*origin.definition,
                &*row.revision,
                serde_json::to_string(&*origin.labels).unwrap_or_default(),
                parent.map(|parent| parent.number),
                parent.map(|parent| &*parent.step),
                parent.map(|parent| parent.attempt),
                parent.map(|parent| parent.branch),
                origin.depth,
                origin.not_before.map(Timestamp::as_millisecond),
                row.at.as_millisecond(),
                status.branch,
                status.state.as_str(),
                status.sub_state.as_str(),
                status.reason.map(stateway_model::Reason::as_str),
                status.wake_at.map(Timestamp::as_millisecond),
                status.inbox,
                status.ended.map(Timestamp::as_millisecond),
                origin.forked_from.as_deref(),
                ROW_FORM,
            ])?;
            self.labels(origin)?;
        }
        Ok(())
    }

    fn labels(&self, of: &Origin) -> Written {
        if of.labels.is_empty() {
            return Ok(());
        }
        let mut insert = self.to.prepare_cached(
            "INSERT OR IGNORE INTO labels (key, value, number) VALUES (?1, ?2, ?3)",
        )?;
        for (key, value) in &*of.labels {
            insert.execute(params![key, value, of.number])?;
        }
        Ok(())
    }

    /// Writes events after a place; the place of the last of them.
    fn appends(&self, rows: &[Append], mut last: i64) -> Written<i64> {
        let mut insert = self.to.prepare_cached(
            "INSERT INTO events (position, execution, branch, sequence, hash, lines) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?;
        for row in rows {
            if !self.may(Write::Events)? {
                continue;
            }
            last += 1;
            insert.execute(params![
                last,
                row.number,
                row.branch,
                i64::try_from(row.first).unwrap_or(i64::MAX),
                &row.hash[..],
                &pack(&row.lines)[..],
            ])?;
        }
        Ok(last)
    }

    fn statuses(&self, rows: &[(i64, Status)]) -> Written {
        if rows.is_empty() {
            return Ok(());
        }
        let mut update = self.to.prepare_cached(
            "UPDATE executions SET branch = ?2, state = ?3, sub_state = ?4, reason = ?5, \
             wake_at = ?6, inbox = ?7, ended_at = ?8, form = ?9 WHERE number = ?1",
        )?;
        for (number, status) in rows {
            if !self.may(Write::Status)? {
                continue;
            }
            update.execute(params![
                number,
                status.branch,
                status.state.as_str(),
                status.sub_state.as_str(),
                status.reason.map(stateway_model::Reason::as_str),
                status.wake_at.map(Timestamp::as_millisecond),
                status.inbox,
                status.ended.map(Timestamp::as_millisecond),
                ROW_FORM,
            ])?;
        }
        Ok(())
    }

    fn revisions(&self, rows: &[(i64, Arc<str>)]) -> Written {
        for (number, revision) in rows {
            if self.may(Write::Status)? {
                self.to.execute(
                    "UPDATE executions SET revision = ?2 WHERE number = ?1",
                    params![number, &**revision],
                )?;
            }
        }
        Ok(())
    }

    fn snapshots(&self, rows: &[Snapshot]) -> Written {
        for row in rows {
            if !self.may(Write::Snapshot)? {
                continue;
            }
            let mut put = self.to.prepare_cached(
                "INSERT OR REPLACE INTO snapshots (execution, branch, sequence, revision, hash, data) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )?;
            put.execute(params![
                row.number,
                row.branch,
                i64::try_from(row.sequence).unwrap_or(i64::MAX),
                &*row.revision,
                &row.hash[..],
                &row.data[..],
            ])?;
        }
        Ok(())
    }

    fn summaries(&self, rows: &[(i64, Arc<[u8]>)]) -> Written {
        if rows.is_empty() {
            return Ok(());
        }
        let mut update = self
            .to
            .prepare_cached("UPDATE executions SET summary = ?2 WHERE number = ?1")?;
        for (number, summary) in rows {
            if self.may(Write::Snapshot)? {
                update.execute(params![number, &pack_summary(summary)[..]])?;
            }
        }
        Ok(())
    }

    fn branches(&self, rows: &[Branch]) -> Written {
        for row in rows {
            if !self.may(Write::Branch)? {
                continue;
            }
            self.to.execute(
                "INSERT OR REPLACE INTO branches (execution, branch, parent, cutoff) \
                 VALUES (?1, ?2, ?3, ?4)",
                params![
                    row.number,
                    row.branch,
                    row.parent,
                    i64::try_from(row.cutoff).unwrap_or(i64::MAX)
                ],
            )?;
        }
        Ok(())
    }

    fn requests(&self, rows: &[Answered]) -> Written {
        if rows.is_empty() {
            return Ok(());
        }
        let mut insert = self.to.prepare_cached(
            "INSERT OR REPLACE INTO requests (id, body, execution, at) VALUES (?1, ?2, ?3, ?4)",
        )?;
        for row in rows {
            if !self.may(Write::Request)? {
                continue;
            }
            insert.execute(params![
                &*row.id,
                &row.body[..],
                row.number,
                row.at.as_millisecond()
            ])?;
        }
        Ok(())
    }

    fn schedules(&self, rows: &[(Arc<str>, Timestamp)]) -> Written {
        for (name, at) in rows {
            if self.may(Write::Schedule)? {
                self.to.execute(
                    "INSERT OR REPLACE INTO schedules (definition, last_at) VALUES (?1, ?2)",
                    params![&**name, at.as_millisecond()],
                )?;
            }
        }
        Ok(())
    }

    /// Removes executions. What was given so far stays known although its rows are gone.
    fn removed(&self, numbers: &[i64], last_position: i64) -> Written {
        if numbers.is_empty() {
            return Ok(());
        }
        let to = self.to;
        let deleted = deleted_definitions_of(to, numbers)?;
        to.execute(
            "INSERT OR REPLACE INTO counters (name, value) \
             SELECT 'number', max(coalesce((SELECT max(number) FROM executions), 0), \
             coalesce((SELECT value FROM counters WHERE name = 'number'), 0))",
            [],
        )?;
        to.execute(
            "INSERT OR REPLACE INTO counters (name, value) VALUES ('position', ?1)",
            [last_position],
        )?;
        for table in ["events", "snapshots", "branches"] {
            let sql = format!("DELETE FROM {table} WHERE execution = ?1");
            let mut delete = to.prepare_cached(&sql)?;
            for number in numbers {
                delete.execute([number])?;
            }
        }
        // Before the rows that say which labels they are.
        let mut delete = to.prepare_cached(
            "DELETE FROM labels WHERE (key, value, number) IN \
             (SELECT label.key, label.value, executions.number \
              FROM executions, json_each(CASE WHEN json_valid(labels) THEN labels ELSE '{}' END) AS label \
              WHERE executions.number = ?1)",
        )?;
        for number in numbers {
            delete.execute([number])?;
        }
        let mut delete = to.prepare_cached("DELETE FROM executions WHERE number = ?1")?;
        for number in numbers {
            delete.execute([number])?;
        }
        remove_unneeded(to, &deleted)?;
        Ok(())
    }

    fn forgotten(&self, Forget { before, limit }: Forget) -> Written {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        // In the order of `place` the times only grow, so this reads what it deletes and no more.
        self.to.execute(
            "DELETE FROM requests WHERE place IN \
             (SELECT place FROM (SELECT place, at FROM requests ORDER BY place LIMIT ?2) \
              WHERE at < ?1)",
            params![before.as_millisecond(), limit],
        )?;
        Ok(())
    }

    fn sinks(&self, rows: &[(Arc<str>, i64)]) -> Written {
        for (name, position) in rows {
            if self.may(Write::Sink)? {
                self.to.execute(
                    "INSERT OR REPLACE INTO sinks (name, position) VALUES (?1, ?2)",
                    params![&**name, position],
                )?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::store::Store;
    use crate::store::sqlite::{SharedHandle, open_writer};

    #[test]
    fn a_commit_that_was_written_although_it_failed_keeps_its_positions() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("store.db");
        let mut store = open_writer(&path, &SharedHandle::default()).expect("a store");
        store
            .connection
            .execute_batch(
                "INSERT INTO counters (name, value) VALUES ('position', 7) \
                 ON CONFLICT (name) DO UPDATE SET value = 7",
            )
            .expect("a commit that the store was not told of");
        assert_eq!(store.last_position(), 0);
        store.probe().expect("the store can be written");
        assert_eq!(store.last_position(), 7);
    }
}
