//! A turn as statements of SQL: one for each table, with the rows as arrays. Pure.

use std::collections::HashSet;
use std::hash::Hash as Hashable;

use jiff::Timestamp;
use tokio_postgres::types::ToSql;

use crate::store::compact::{pack, pack_summary};
use crate::store::sqlite::ROW_FORM;
use crate::store::{
    Answered, Append, Branch, Created, DefinitionChange, Forget, Snapshot, Status, Turn,
};

/// A statement of a turn.
pub(super) struct Write<'t> {
    pub(super) sql: &'static str,
    pub(super) values: Vec<Box<dyn ToSql + Sync + Send + 't>>,
}

macro_rules! values {
    ($($value:expr),* $(,)?) => {
        vec![$(Box::new($value)),*]
    };
}

/// The statements of a turn, in their order. The events come after the position `last`.
pub(super) fn writes(turn: &Turn, last: i64) -> Vec<Write<'_>> {
    let mut writes = Writes(Vec::new());
    for change in &turn.definitions {
        writes.definition(change);
    }
    writes.created(&turn.created);
    writes.branches(&turn.branches);
    writes.appends(&turn.appends, last);
    writes.statuses(&turn.statuses);
    writes.revisions(turn);
    writes.snapshots(&turn.snapshots);
    writes.summaries(turn);
    writes.requests(&turn.requests);
    writes.schedules(turn);
    writes.sinks(turn);
    // After the executions of this turn, which may need the revisions.
    for change in &turn.definitions {
        if let DefinitionChange::Deleted(name) = change {
            writes.add(REMOVE_UNNEEDED, values![&**name]);
        }
    }
    writes.removed(&turn.removed);
    if let Some(Forget { before, limit }) = turn.forgotten {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        writes.add(FORGET, values![before.as_millisecond(), limit]);
    }
    writes.0
}

/// The highest number that a turn gives to an execution.
pub(super) fn last_number(turn: &Turn) -> i64 {
    let numbers = turn.created.iter().map(|created| created.origin.number);
    numbers.max().unwrap_or(0)
}

struct Writes<'t>(Vec<Write<'t>>);

const WITHOUT_CURRENT: &str = "UPDATE definitions SET current = false WHERE name = $1 AND current";
const APPLY: &str = "INSERT INTO definitions (name, revision, source, created_at, current) \
     VALUES ($1, $2, $3, $4, true) ON CONFLICT (name, revision) DO UPDATE SET current = true";
const REMOVE_UNNEEDED: &str = "DELETE FROM definitions WHERE name = $1 \
     AND NOT EXISTS (SELECT 1 FROM definitions WHERE name = $1 AND current) \
     AND NOT EXISTS (SELECT 1 FROM executions WHERE definition = $1)";
const ENABLE: &str = "DELETE FROM disabled_triggers WHERE definition = $1";
const DISABLE: &str = "INSERT INTO disabled_triggers (definition, disabled_by, disabled_at, comment) \
     VALUES ($1, $2, $3, $4) ON CONFLICT (definition) DO UPDATE SET \
     disabled_by = excluded.disabled_by, disabled_at = excluded.disabled_at, comment = excluded.comment";
const CREATE: &str = "INSERT INTO executions (number, id, definition, revision, labels, parent, \
     parent_step, parent_attempt, parent_branch, depth, not_before, created_at, branch, state, \
     sub_state, reason, wake_at, inbox, ended_at, forked_from, form) \
     SELECT *, $21::bigint FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], \
     $6::bigint[], $7::text[], $8::integer[], $9::integer[], $10::integer[], $11::bigint[], \
     $12::bigint[], $13::integer[], $14::text[], $15::text[], $16::text[], $17::bigint[], \
     $18::integer[], $19::bigint[], $20::text[])";
const LABEL: &str = "INSERT INTO labels (key, value, number) \
     SELECT * FROM unnest($1::bytea[], $2::bytea[], $3::bigint[]) ON CONFLICT DO NOTHING";
const BRANCH: &str = "INSERT INTO branches (execution, branch, parent, cutoff) \
     SELECT * FROM unnest($1::bigint[], $2::integer[], $3::integer[], $4::bigint[]) \
     ON CONFLICT (execution, branch) DO UPDATE SET parent = excluded.parent, cutoff = excluded.cutoff";
const APPEND: &str = "INSERT INTO events (position, execution, branch, sequence, hash, lines) \
     SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::integer[], $4::bigint[], $5::bytea[], \
     $6::bytea[])";
const STATUS: &str = "UPDATE executions SET branch = new.branch, state = new.state, \
     sub_state = new.sub_state, reason = new.reason, wake_at = new.wake_at, inbox = new.inbox, \
     ended_at = new.ended_at, form = $9::bigint \
     FROM unnest($1::bigint[], $2::integer[], $3::text[], $4::text[], $5::text[], $6::bigint[], \
     $7::integer[], $8::bigint[]) \
     AS new (number, branch, state, sub_state, reason, wake_at, inbox, ended_at) \
     WHERE executions.number = new.number";
const REVISION: &str = "UPDATE executions SET revision = new.revision \
     FROM unnest($1::bigint[], $2::text[]) AS new (number, revision) \
     WHERE executions.number = new.number";
const SNAPSHOT: &str = "INSERT INTO snapshots (execution, branch, sequence, revision, hash, data) \
     SELECT * FROM unnest($1::bigint[], $2::integer[], $3::bigint[], $4::text[], $5::bytea[], $6::bytea[]) \
     ON CONFLICT (execution) DO UPDATE SET branch = excluded.branch, sequence = excluded.sequence, \
     revision = excluded.revision, hash = excluded.hash, data = excluded.data";
const SUMMARY: &str = "UPDATE executions SET summary = new.summary \
     FROM unnest($1::bigint[], $2::bytea[]) AS new (number, summary) \
     WHERE executions.number = new.number";
/// A request that is written again comes last.
const REQUEST: &str = "INSERT INTO requests (id, body, execution, at) \
     SELECT * FROM unnest($1::bytea[], $2::bytea[], $3::bigint[], $4::bigint[]) \
     ON CONFLICT (id) DO UPDATE SET place = DEFAULT, body = excluded.body, \
     execution = excluded.execution, at = excluded.at";
const SCHEDULE: &str = "INSERT INTO schedules (definition, last_at) \
     SELECT * FROM unnest($1::text[], $2::bigint[]) \
     ON CONFLICT (definition) DO UPDATE SET last_at = excluded.last_at";
const SINK: &str = "INSERT INTO sinks (name, position) SELECT * FROM unnest($1::text[], $2::bigint[]) \
     ON CONFLICT (name) DO UPDATE SET position = excluded.position";
/// The executions, and the revisions of deleted definitions that no other execution needs.
const REMOVE: &str = "WITH removed AS (DELETE FROM executions WHERE number = ANY($1) RETURNING definition) \
     DELETE FROM definitions USING (SELECT DISTINCT definition FROM removed) AS used \
     WHERE definitions.name = used.definition \
     AND NOT EXISTS (SELECT 1 FROM definitions AS other WHERE other.name = used.definition AND other.current) \
     AND NOT EXISTS (SELECT 1 FROM executions AS other WHERE other.definition = used.definition \
     AND other.number <> ALL($1))";
/// In the order of `place` the times only grow, so this reads what it deletes and no more.
const FORGET: &str = "DELETE FROM requests WHERE place IN (SELECT place FROM \
     (SELECT place, at FROM requests ORDER BY place LIMIT $2) AS oldest WHERE at < $1)";

impl<'t> Writes<'t> {
    fn add(&mut self, sql: &'static str, values: Vec<Box<dyn ToSql + Sync + Send + 't>>) {
        self.0.push(Write { sql, values });
    }

    fn definition(&mut self, change: &'t DefinitionChange) {
        match change {
            DefinitionChange::Applied(record) => {
                self.add(WITHOUT_CURRENT, values![&*record.name]);
                self.add(
                    APPLY,
                    values![
                        &*record.name,
                        &*record.revision,
                        record.source.as_bytes(),
                        record.created.as_millisecond()
                    ],
                );
            }
            DefinitionChange::Deleted(name) => {
                self.add(WITHOUT_CURRENT, values![&**name]);
                self.add(
                    "DELETE FROM schedules WHERE definition = $1",
                    values![&**name],
                );
                self.add(ENABLE, values![&**name]);
            }
            DefinitionChange::TriggerDisabled(name, disabled) => self.add(
                DISABLE,
                values![
                    &**name,
                    disabled.by.as_bytes(),
                    disabled.at.as_millisecond(),
                    disabled.comment.as_bytes()
                ],
            ),
            DefinitionChange::TriggerEnabled(name) => self.add(ENABLE, values![&**name]),
        }
    }

    fn created(&mut self, rows: &'t [Created]) {
        if rows.is_empty() {
            return;
        }
        let origins = || rows.iter().map(|row| &*row.origin);
        let parents = || origins().map(|origin| origin.parent.as_ref());
        let statuses = || rows.iter().map(|row| &row.status);
        let labels =
            origins().map(|origin| serde_json::to_string(&*origin.labels).unwrap_or_default());
        self.add(
            CREATE,
            values![
                all(origins().map(|origin| origin.number)),
                all(origins().map(|origin| &*origin.id)),
                all(origins().map(|origin| &*origin.definition)),
                all(rows.iter().map(|row| &*row.revision)),
                all(labels),
                all(parents().map(|parent| parent.map(|it| it.number))),
                all(parents().map(|parent| parent.map(|it| &*it.step))),
                all(parents().map(|parent| parent.map(|it| small(it.attempt)))),
                all(parents().map(|parent| parent.map(|it| small(it.branch)))),
                all(origins().map(|origin| small(origin.depth))),
                all(origins().map(|origin| origin.not_before.map(Timestamp::as_millisecond))),
                all(rows.iter().map(|row| row.at.as_millisecond())),
                all(statuses().map(|status| small(status.branch))),
                all(statuses().map(|status| status.state.as_str())),
                all(statuses().map(|status| status.sub_state.as_str())),
                all(statuses().map(|status| status.reason.map(stateway_model::Reason::as_str))),
                all(statuses().map(|status| status.wake_at.map(Timestamp::as_millisecond))),
                all(statuses().map(|status| small(status.inbox))),
                all(statuses().map(|status| status.ended.map(Timestamp::as_millisecond))),
                all(origins().map(|origin| origin.forked_from.as_deref())),
                ROW_FORM,
            ],
        );
        let labels = || {
            origins().flat_map(|origin| {
                let labels = origin.labels.iter();
                labels.map(move |(key, value)| (key.as_bytes(), value.as_bytes(), origin.number))
            })
        };
        if labels().next().is_some() {
            self.add(
                LABEL,
                values![
                    all(labels().map(|(key, _, _)| key)),
                    all(labels().map(|(_, value, _)| value)),
                    all(labels().map(|(_, _, number)| number)),
                ],
            );
        }
    }

    fn branches(&mut self, rows: &'t [Branch]) {
        let rows = newest(rows, |row| (row.number, row.branch));
        if !rows.is_empty() {
            self.add(
                BRANCH,
                values![
                    all(rows.iter().map(|row| row.number)),
                    all(rows.iter().map(|row| small(row.branch))),
                    all(rows.iter().map(|row| small(row.parent))),
                    all(rows.iter().map(|row| long(row.cutoff))),
                ],
            );
        }
    }

    fn appends(&mut self, rows: &'t [Append], last: i64) {
        if !rows.is_empty() {
            self.add(
                APPEND,
                values![
                    all((last + 1..).zip(rows).map(|(position, _)| position)),
                    all(rows.iter().map(|row| row.number)),
                    all(rows.iter().map(|row| small(row.branch))),
                    all(rows.iter().map(|row| long(row.first))),
                    all(rows.iter().map(|row| &row.hash[..])),
                    all(rows.iter().map(|row| pack(&row.lines).into_owned())),
                ],
            );
        }
    }

    fn statuses(&mut self, rows: &'t [(i64, Status)]) {
        let rows = newest(rows, |(number, _)| *number);
        if rows.is_empty() {
            return;
        }
        let statuses = || rows.iter().map(|(_, status)| status);
        self.add(
            STATUS,
            values![
                all(rows.iter().map(|(number, _)| *number)),
                all(statuses().map(|status| small(status.branch))),
                all(statuses().map(|status| status.state.as_str())),
                all(statuses().map(|status| status.sub_state.as_str())),
                all(statuses().map(|status| status.reason.map(stateway_model::Reason::as_str))),
                all(statuses().map(|status| status.wake_at.map(Timestamp::as_millisecond))),
                all(statuses().map(|status| small(status.inbox))),
                all(statuses().map(|status| status.ended.map(Timestamp::as_millisecond))),
                ROW_FORM,
            ],
        );
    }

    fn revisions(&mut self, turn: &'t Turn) {
        let rows = newest(&turn.revisions, |(number, _)| *number);
        if !rows.is_empty() {
            let revisions = all(rows.iter().map(|(_, revision)| &**revision));
            let numbers = all(rows.iter().map(|(number, _)| *number));
            self.add(REVISION, values![numbers, revisions]);
        }
    }

    fn snapshots(&mut self, rows: &'t [Snapshot]) {
        let rows = newest(rows, |row| row.number);
        if !rows.is_empty() {
            self.add(
                SNAPSHOT,
                values![
                    all(rows.iter().map(|row| row.number)),
                    all(rows.iter().map(|row| small(row.branch))),
                    all(rows.iter().map(|row| long(row.sequence))),
                    all(rows.iter().map(|row| &*row.revision)),
                    all(rows.iter().map(|row| &row.hash[..])),
                    all(rows.iter().map(|row| &row.data[..])),
                ],
            );
        }
    }

    fn summaries(&mut self, turn: &'t Turn) {
        let rows = newest(&turn.summaries, |(number, _)| *number);
        if !rows.is_empty() {
            let summaries = all(rows
                .iter()
                .map(|(_, summary)| pack_summary(summary).to_vec()));
            let numbers = all(rows.iter().map(|(number, _)| *number));
            self.add(SUMMARY, values![numbers, summaries]);
        }
    }

    fn requests(&mut self, rows: &'t [Answered]) {
        let rows = newest(rows, |row| &*row.id);
        if !rows.is_empty() {
            self.add(
                REQUEST,
                values![
                    all(rows.iter().map(|row| row.id.as_bytes())),
                    all(rows.iter().map(|row| &row.body[..])),
                    all(rows.iter().map(|row| row.number)),
                    all(rows.iter().map(|row| row.at.as_millisecond())),
                ],
            );
        }
    }

    fn schedules(&mut self, turn: &'t Turn) {
        let rows = newest(&turn.schedules, |(name, _)| &**name);
        if !rows.is_empty() {
            let times = all(rows.iter().map(|(_, at)| at.as_millisecond()));
            let names = all(rows.iter().map(|(name, _)| &**name));
            self.add(SCHEDULE, values![names, times]);
        }
    }

    fn sinks(&mut self, turn: &'t Turn) {
        let rows = newest(&turn.sinks, |(name, _)| &**name);
        if !rows.is_empty() {
            let positions = all(rows.iter().map(|(_, position)| *position));
            let names = all(rows.iter().map(|(name, _)| &**name));
            self.add(SINK, values![names, positions]);
        }
    }

    fn removed(&mut self, numbers: &'t [i64]) {
        if numbers.is_empty() {
            return;
        }
        for sql in [
            "DELETE FROM events WHERE execution = ANY($1)",
            "DELETE FROM snapshots WHERE execution = ANY($1)",
            "DELETE FROM branches WHERE execution = ANY($1)",
            "DELETE FROM labels WHERE number = ANY($1)",
            REMOVE,
        ] {
            self.add(sql, values![numbers]);
        }
    }
}

fn all<T>(values: impl Iterator<Item = T>) -> Vec<T> {
    values.collect()
}

/// The last row of each key, in the order of the rows: a statement writes a row once.
fn newest<'t, T, K: Hashable + Eq>(rows: &'t [T], key: impl Fn(&'t T) -> K) -> Vec<&'t T> {
    let mut seen = HashSet::with_capacity(rows.len());
    let mut kept: Vec<&T> = rows
        .iter()
        .rev()
        .filter(|row| seen.insert(key(row)))
        .collect();
    kept.reverse();
    kept
}

fn small(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

fn long(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_rows_with_one_key_the_last_counts() {
        let rows = [("a", 1), ("b", 2), ("a", 3), ("c", 4)];
        let kept: Vec<_> = newest(&rows, |(name, _)| *name)
            .into_iter()
            .copied()
            .collect();
        assert_eq!(kept, [("b", 2), ("a", 3), ("c", 4)]);
    }

    #[test]
    fn a_turn_has_one_statement_for_each_table() {
        let append = |first| Append {
            number: 1,
            branch: 0,
            first,
            lines: b"{}\n".to_vec(),
            hash: [0; 16],
        };
        let turn = Turn {
            appends: vec![append(1), append(2)],
            sinks: vec![("s".into(), 1), ("s".into(), 2)],
            ..Turn::default()
        };
        let sql: Vec<_> = writes(&turn, 7).iter().map(|write| write.sql).collect();
        assert_eq!(sql, [APPEND, SINK]);
        assert!(writes(&Turn::default(), 7).is_empty());
    }
}
