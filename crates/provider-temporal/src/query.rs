//! Visibility queries: what a list is narrowed to. Pure.

use jiff::{SignedDuration, Timestamp};
use stateway_model::{ProviderId, SubState};
use stateway_provider_api::Table;
use stateway_provider_api::filter::Hints;
use stateway_provider_api::table::{Row, Scope};

use crate::api::enums::v1::WorkflowExecutionStatus;
use crate::qualifier::NEXT_RUN;

/// The words of the table and those of queries.
const STATUSES: [(&str, &str); 8] = [
    ("RUNNING", "Running"),
    ("PAUSED", "Paused"),
    ("COMPLETED", "Completed"),
    ("FAILED", "Failed"),
    ("CANCELED", "Canceled"),
    ("TERMINATED", "Terminated"),
    ("CONTINUED_AS_NEW", "ContinuedAsNew"),
    ("TIMED_OUT", "TimedOut"),
];

/// Never left out by name: runs that continued as new are left out anyway, and older servers refuse a query
/// with a status that they do not know.
const KEPT: [&str; 2] = ["CONTINUED_AS_NEW", "PAUSED"];

/// Databases keep times less exactly than descriptions show them.
pub(crate) const IMPRECISION: SignedDuration = SignedDuration::from_millis(1);

/// Every run that may be the current one of its workflow: what continues as new never is.
pub(crate) const ALL: &str = "ExecutionStatus != 'ContinuedAsNew'";

/// How many runs there are in each status.
pub(crate) fn by_status() -> String {
    format!("{ALL} GROUP BY ExecutionStatus")
}

/// The number of a status that a count names.
pub(crate) fn status(word: &str) -> Option<i32> {
    let (name, _) = STATUSES.into_iter().find(|(_, status)| *status == word)?;
    let name = format!("WORKFLOW_EXECUTION_STATUS_{name}");
    WorkflowExecutionStatus::from_str_name(&name).map(i32::from)
}

/// A query for the executions that the hints admit.
pub(crate) fn list(hints: &Hints, table: &Table, provider: &ProviderId) -> String {
    let mut terms = vec![ALL.to_owned()];
    for (word, status) in STATUSES {
        if !KEPT.contains(&word) && !may_show(table, word, &hints.sub_states) {
            terms.push(format!("ExecutionStatus != '{status}'"));
        }
    }
    if let Some(definition) = &hints.definition {
        let types: Vec<_> = definition.native_ids(provider).map(quoted).collect();
        if !types.is_empty() {
            terms.push(format!("WorkflowType IN ({})", types.join(", ")));
        }
    }
    if let Some(from) = hints.started_from {
        let from = from.checked_sub(IMPRECISION).unwrap_or(from);
        terms.push(format!("ExecutionTime >= '{from}'"));
    }
    if let Some(until) = hints.started_until {
        let until = until.checked_add(IMPRECISION).unwrap_or(until);
        terms.push(format!("ExecutionTime <= '{until}'"));
    }
    terms.join(" AND ")
}

/// Whether the current run of an execution in this status may show one of these sub-states. Rows about
/// runs that another run has replaced do not count: lists do not show those.
fn may_show(table: &Table, word: &str, wanted: &[SubState]) -> bool {
    let counts = |row: &&Row| {
        let is_current = !row.when.contains_key(NEXT_RUN.as_str());
        row.scope == Scope::Execution && row.native == word && is_current
    };
    let mut rows = table.rows().iter().filter(counts).peekable();
    rows.peek().is_none() || rows.any(|row| row.may_show(wanted))
}

/// A query for all runs of these workflows.
pub(crate) fn runs_of<'w>(workflows: impl Iterator<Item = &'w str>) -> String {
    let ids: Vec<_> = workflows.map(quoted).collect();
    format!("WorkflowId IN ({}) AND {ALL}", ids.join(", "))
}

/// A query for all runs of one workflow, those that continued as new included.
pub(crate) fn chain_of(workflow: &str) -> String {
    format!("WorkflowId = {}", quoted(workflow))
}

/// A query for the runs of one workflow type.
pub(crate) fn of_type(name: &str) -> String {
    format!("WorkflowType = {}", quoted(name))
}

/// A query for what began or ended at this time or later.
pub(crate) fn changed_since(time: Timestamp) -> String {
    format!("{ALL} AND (StartTime >= '{time}' OR CloseTime >= '{time}')")
}

pub(crate) fn quoted(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('\'', "\\'");
    format!("'{text}'")
}

#[cfg(test)]
mod tests {
    use stateway_provider_api::filter::DefinitionPattern;
    use stateway_provider_api::table::compiled_in;

    use super::*;

    fn of(hints: &Hints) -> String {
        let table = compiled_in("temporal").unwrap();
        list(hints, &table, &"shop".parse().unwrap())
    }

    #[test]
    fn only_statuses_that_cannot_be_wanted_are_left_out() {
        let wanted = |sub_states: &[SubState]| {
            of(&Hints {
                sub_states: sub_states.to_vec(),
                ..Hints::none()
            })
        };
        assert_eq!(wanted(SubState::ALL), ALL);
        let backing_off = wanted(&[SubState::BackingOff]);
        assert!(!backing_off.contains("'Running'"), "{backing_off}");
        for closed in ["Completed", "Failed", "Canceled", "Terminated", "TimedOut"] {
            assert!(backing_off.contains(&format!("!= '{closed}'")), "{closed}");
        }
        assert!(!backing_off.contains("'Paused'"), "{backing_off}");
        let failed = wanted(&[SubState::Failed]);
        assert!(failed.contains("!= 'Running'") && failed.contains("!= 'Completed'"));
        assert!(!failed.contains("'Failed'"));
    }

    #[test]
    fn types_and_times_are_narrowed_and_quoted() {
        let hints = Hints {
            definition: Some(DefinitionPattern::new("it's")),
            started_from: Some("2026-01-01T00:00:00Z".parse().unwrap()),
            ..Hints::none()
        };
        let query = of(&hints);
        assert!(query.contains(r"WorkflowType IN ('it\'s')"), "{query}");
        assert!(
            query.contains("ExecutionTime >= '2025-12-31T23:59:59.999Z'"),
            "{query}"
        );
    }
}
