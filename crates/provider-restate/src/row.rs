//! The rows that queries answer with. A column that is NULL is left out by Restate, and one that
//! an older server does not have is never asked for, so nearly everything is optional.

use jiff::Timestamp;
use serde::Deserialize;

/// A row of `sys_invocation`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Invocation {
    pub(crate) id: String,
    pub(crate) status: String,
    pub(crate) target_service_name: Option<String>,
    pub(crate) target_service_key: Option<String>,
    pub(crate) target_handler_name: Option<String>,
    pub(crate) target_service_ty: Option<String>,
    pub(crate) completion_result: Option<String>,
    pub(crate) completion_failure: Option<String>,
    pub(crate) created_at: Option<Timestamp>,
    pub(crate) modified_at: Option<Timestamp>,
    pub(crate) inboxed_at: Option<Timestamp>,
    pub(crate) scheduled_start_at: Option<Timestamp>,
    pub(crate) running_at: Option<Timestamp>,
    pub(crate) completed_at: Option<Timestamp>,
    pub(crate) retry_count: Option<u64>,
    pub(crate) next_retry_at: Option<Timestamp>,
    pub(crate) last_failure: Option<String>,
    pub(crate) last_failure_error_code: Option<String>,
    pub(crate) last_failure_related_command_name: Option<String>,
    pub(crate) suspended_waiting_for_completions: Option<Vec<u32>>,
    pub(crate) suspended_waiting_for_signals: Option<Vec<u32>>,
}

impl Invocation {
    pub(crate) fn is_completed(&self) -> bool {
        self.status == "completed"
    }

    /// Whether it is among those that a partition's leader holds in memory.
    pub(crate) fn is_in_memory(&self) -> bool {
        matches!(self.status.as_str(), "running" | "backing-off")
    }
}

/// A row of `sys_invocation_state`: what a partition's leader holds in memory of each invocation that
/// runs or backs off, and of a back-off that was paused manually.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct RunningRow {
    pub(crate) id: String,
    pub(crate) in_flight: bool,
    pub(crate) retry_count: Option<u64>,
    pub(crate) next_retry_at: Option<Timestamp>,
    /// There is a failure since the last progress.
    pub(crate) failed: bool,
}

impl RunningRow {
    /// Whether the invocation's row still says what this says.
    pub(crate) fn confirms(&self, row: &Invocation) -> bool {
        self.in_flight == (row.status == "running")
            && self.retry_count == row.retry_count
            && self.next_retry_at == row.next_retry_at
            && self.failed == row.last_failure.is_some()
    }
}

/// A row of `sys_journal`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Entry {
    pub(crate) id: String,
    pub(crate) index: u32,
    pub(crate) entry_type: String,
    pub(crate) name: Option<String>,
    pub(crate) entry_json: Option<String>,
    pub(crate) entry_lite_json: Option<String>,
    pub(crate) appended_at: Option<Timestamp>,
}

/// A row of `sys_journal_events`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct JournalEvent {
    pub(crate) id: String,
    pub(crate) after_journal_entry_index: u32,
    pub(crate) appended_at: Option<Timestamp>,
    pub(crate) event_type: String,
    pub(crate) event_json: Option<String>,
}

/// A row of `sys_vqueue_entry_status`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct QueueEntry {
    pub(crate) entry_id: String,
    pub(crate) status: String,
    pub(crate) next_at: Option<Timestamp>,
    pub(crate) retry_attempts: Option<u64>,
}

/// A row of `information_schema.columns`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Column {
    pub(crate) table_name: String,
    pub(crate) column_name: String,
}
