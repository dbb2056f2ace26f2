//! The queries. Pure: what is asked goes in, SQL comes out.
//!
//! Only ids that have the form of an id and texts that are quoted get in. Only the columns that are
//! used are asked for, and of those only what the server has. `id` is the one cheap predicate.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use crate::id::InvocationId;
use crate::row::Column;

/// The most ids in one query: up to here an id more costs next to nothing.
pub(crate) const MOST_IDS: usize = 100;

/// The columns an observation is made from.
const INVOCATION: &[&str] = &[
    "id",
    "status",
    "target_service_name",
    "target_service_key",
    "target_handler_name",
    "target_service_ty",
    "completion_result",
    "completion_failure",
    "created_at",
    "modified_at",
    "inboxed_at",
    "scheduled_start_at",
    "running_at",
    "completed_at",
    "retry_count",
    "next_retry_at",
    "last_failure",
    "last_failure_error_code",
    "last_failure_related_command_name",
    "suspended_waiting_for_completions",
    "suspended_waiting_for_signals",
];

/// The commands that an invocation can be suspended on.
const AWAITED: &str = "'Command: Sleep', 'Command: Call', 'Command: GetPromise', \
                       'Command: AttachInvocation'";

/// Which tables and columns a server has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Schema(BTreeMap<String, BTreeSet<String>>);

impl Schema {
    pub(crate) fn new(columns: Vec<Column>) -> Self {
        let mut tables = BTreeMap::<String, BTreeSet<String>>::new();
        for column in columns {
            let table = tables.entry(column.table_name).or_default();
            table.insert(column.column_name);
        }
        Self(tables)
    }

    pub(crate) fn has(&self, table: &str, column: &str) -> bool {
        let columns = self.0.get(table);
        columns.is_some_and(|columns| columns.contains(column))
    }

    /// What of the columns there is, ready for a SELECT.
    fn only(&self, table: &str, columns: &[&str]) -> String {
        let there = columns.iter().filter(|column| self.has(table, column));
        let spelled = there.map(|column| match *column {
            // The rest is a stack trace, which is not shown.
            "last_failure" => "split_part(last_failure, chr(10), 1) AS last_failure".to_owned(),
            column => column.to_owned(),
        });
        spelled.collect::<Vec<_>>().join(", ")
    }

    /// The journal's short form where there is one: it has no payloads.
    fn brief_entry(&self) -> &'static str {
        if self.has("sys_journal", "entry_lite_json") {
            "entry_lite_json"
        } else {
            "entry_json"
        }
    }
}

/// Which tables and columns there are.
pub(crate) const COLUMNS: &str = "SELECT table_name, column_name FROM information_schema.columns \
     WHERE table_name IN ('sys_invocation', 'sys_journal', 'sys_journal_events', \
     'sys_invocation_state', 'sys_vqueue_entry_status')";

/// Whether queries are answered at all.
pub(crate) const PROBE: &str = "SELECT id FROM sys_invocation LIMIT 1";

pub(crate) fn invocations(schema: &Schema, ids: &[InvocationId]) -> String {
    let columns = schema.only("sys_invocation", INVOCATION);
    let ids = id_list(ids);
    format!("SELECT {columns} FROM sys_invocation WHERE id IN ({ids})")
}

/// All that run or back off, of which the leaders know without looking into their stores. Two
/// milliseconds for a server that retains fifty thousand invocations.
pub(crate) fn beats(most: usize) -> String {
    format!(
        "SELECT id, in_flight, retry_count, next_retry_at, last_failure IS NOT NULL AS failed \
         FROM sys_invocation_state LIMIT {most}"
    )
}

/// What a list is narrowed to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Narrowing {
    /// Statuses that cannot be wanted. Those are named rather than the wanted ones, so that a
    /// status no table knows is never left out.
    pub(crate) unwanted: Vec<String>,
    /// Service and handler.
    pub(crate) target: Option<(String, String)>,
    /// Only what comes after this in the order of the list.
    pub(crate) after: Option<(Timestamp, InvocationId)>,
    pub(crate) limit: u32,
}

/// Newest first. The id breaks the tie of those that began in the same millisecond; without it
/// rows would be lost between pages.
pub(crate) fn list(schema: &Schema, narrowing: &Narrowing) -> String {
    let columns = schema.only("sys_invocation", INVOCATION);
    let mut conditions = Vec::new();
    if !narrowing.unwanted.is_empty() {
        let words: Vec<_> = narrowing.unwanted.iter().map(|word| quoted(word)).collect();
        conditions.push(format!("status NOT IN ({})", words.join(", ")));
    }
    if let Some((service, handler)) = &narrowing.target {
        let (service, handler) = (quoted(service), quoted(handler));
        conditions.push(format!(
            "target_service_name = {service} AND target_handler_name = {handler}"
        ));
    }
    if let Some((time, id)) = &narrowing.after {
        let (time, id) = (moment(*time), quoted(id.as_str()));
        conditions.push(format!(
            "(created_at < {time} OR (created_at = {time} AND id < {id}))"
        ));
    }
    let conditions = if conditions.is_empty() {
        String::new()
    } else {
        format!(" WHERE {}", conditions.join(" AND "))
    };
    let limit = narrowing.limit;
    format!(
        "SELECT {columns} FROM sys_invocation{conditions} ORDER BY created_at DESC, id DESC \
         LIMIT {limit}"
    )
}

/// The commands that suspended invocations may wait for.
pub(crate) fn awaited(schema: &Schema, ids: &[InvocationId]) -> String {
    let (brief, ids) = (schema.brief_entry(), id_list(ids));
    format!(
        "SELECT id, index, entry_type, name, {brief}, appended_at FROM sys_journal \
         WHERE id IN ({ids}) AND entry_type IN ({AWAITED}) ORDER BY id, index"
    )
}

/// The columns that show how an invocation ended.
pub(crate) fn endings(schema: &Schema, ids: &[InvocationId]) -> String {
    let (brief, ids) = (schema.brief_entry(), id_list(ids));
    format!(
        "SELECT id, index, entry_type, {brief} FROM sys_journal WHERE id IN ({ids}) AND \
         entry_type IN ('Command: Input', 'Command: Output', 'Notification: Signal')"
    )
}

/// Events of one type, the newest last.
pub(crate) fn events_of_type(ids: &[InvocationId], event_type: &str) -> String {
    let (ids, event_type) = (id_list(ids), quoted(event_type));
    format!(
        "SELECT id, after_journal_entry_index, appended_at, event_type, event_json \
         FROM sys_journal_events WHERE id IN ({ids}) AND event_type = {event_type} \
         ORDER BY id, appended_at"
    )
}

pub(crate) fn queue_entries(ids: &[InvocationId]) -> String {
    let ids = id_list(ids);
    format!(
        "SELECT entry_id, status, next_at, retry_attempts FROM sys_vqueue_entry_status \
         WHERE entry_id IN ({ids})"
    )
}

/// A whole journal, without payloads.
pub(crate) fn journal(schema: &Schema, id: &InvocationId) -> String {
    let (brief, id) = (schema.brief_entry(), quoted(id.as_str()));
    format!(
        "SELECT id, index, entry_type, name, {brief}, appended_at FROM sys_journal \
         WHERE id = {id} ORDER BY index"
    )
}

pub(crate) fn events(id: &InvocationId) -> String {
    let id = quoted(id.as_str());
    format!(
        "SELECT id, after_journal_entry_index, appended_at, event_type, event_json \
         FROM sys_journal_events WHERE id = {id} ORDER BY after_journal_entry_index, appended_at"
    )
}

/// The open invocations that were restarted from this one, the newest first.
pub(crate) fn restarted(schema: &Schema, id: &InvocationId) -> Option<String> {
    let id = quoted(id.as_str());
    schema.has("sys_invocation", "restarted_from").then(|| {
        format!(
            "SELECT id, created_at FROM sys_invocation WHERE restarted_from = {id} \
             AND status <> 'completed' ORDER BY created_at DESC LIMIT {MOST_IDS}"
        )
    })
}

/// When the entries of journals were written.
pub(crate) fn written(ids: &[InvocationId]) -> String {
    let ids = id_list(ids);
    format!("SELECT id, index, appended_at FROM sys_journal WHERE id IN ({ids})")
}

/// The most entries of a journal that are looked through for steps.
const MOST_ENTRIES: usize = 2_000;

/// What an invocation was started with, and what it did: of payloads only the input's.
pub(crate) fn whole(schema: &Schema, id: &InvocationId) -> String {
    let id = quoted(id.as_str());
    let entries = if schema.has("sys_journal", "entry_lite_json") {
        // The input is the first entry.
        "entry_lite_json, CASE WHEN index = 0 THEN entry_json END AS entry_json"
    } else {
        "entry_json"
    };
    format!(
        "SELECT id, index, entry_type, name, {entries}, appended_at FROM sys_journal \
         WHERE id = {id} ORDER BY index LIMIT {MOST_ENTRIES}"
    )
}

/// What an invocation was started with.
pub(crate) fn input(id: &InvocationId) -> String {
    let id = quoted(id.as_str());
    format!(
        "SELECT id, index, entry_type, entry_json FROM sys_journal \
         WHERE id = {id} AND entry_type = 'Command: Input'"
    )
}

/// What an invocation answered.
pub(crate) fn output(id: &InvocationId) -> String {
    let id = quoted(id.as_str());
    format!(
        "SELECT id, index, entry_type, entry_json FROM sys_journal \
         WHERE id = {id} AND entry_type = 'Command: Output'"
    )
}

fn id_list(ids: &[InvocationId]) -> String {
    let quoted: Vec<_> = ids.iter().map(|id| quoted(id.as_str())).collect();
    quoted.join(", ")
}

pub(crate) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn moment(time: Timestamp) -> String {
    format!("TIMESTAMP '{time}'")
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "inv_18ikDxF8r8Lh4BMQNeB4xdSxLZb0styRpH";

    fn schema(columns: &[&str]) -> Schema {
        let column = |name: &&str| Column {
            table_name: "sys_invocation".into(),
            column_name: (*name).to_owned(),
        };
        Schema::new(columns.iter().map(column).collect())
    }

    #[test]
    fn only_columns_that_the_server_has_are_asked_for() {
        let ids = [InvocationId::parse(ID).unwrap()];
        assert_eq!(
            invocations(
                &schema(&["id", "status", "unheard_of", "retry_count"]),
                &ids
            ),
            format!("SELECT id, status, retry_count FROM sys_invocation WHERE id IN ('{ID}')")
        );
    }

    #[test]
    fn of_a_failure_only_the_first_line_is_fetched() {
        let sql = invocations(&schema(&["last_failure"]), &[]);
        assert!(sql.contains("split_part(last_failure, chr(10), 1) AS last_failure"));
    }

    #[test]
    fn a_page_goes_on_after_the_last_row_of_the_one_before() {
        let narrowing = Narrowing {
            unwanted: vec!["completed".into()],
            target: Some(("Order's".into(), "run".into())),
            after: Some((
                "2026-11-15T23:33:25.17Z".parse().unwrap(),
                InvocationId::parse(ID).unwrap(),
            )),
            limit: 50,
        };
        assert_eq!(
            list(&schema(&["id"]), &narrowing),
            format!(
                "SELECT id FROM sys_invocation WHERE status NOT IN ('completed') AND \
                 target_service_name = 'Order''s' AND target_handler_name = 'run' AND \
                 (created_at < TIMESTAMP '2026-11-15T23:33:25.17Z' OR (created_at = TIMESTAMP \
                 '2026-11-15T23:33:25.17Z' AND id < '{ID}')) \
                 ORDER BY created_at DESC, id DESC LIMIT 50"
            )
        );
    }
}
