//! An event of the log as a CloudEvent 1.0.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};
use stateway_machine::Fact;
use stateway_model::SubState;

use crate::request::EventRecord;

/// The names by which facts are sent and selected: those of executions without their first word.
pub const EVENT_NAMES: &[&str] = &[
    "created",
    "queued",
    "started",
    "step-started",
    "step-waiting",
    "task-assigned",
    "task-released",
    "policy-decided",
    "outcome-unknown",
    "heartbeat-recorded",
    "progress-reported",
    "usage-reported",
    "step-completed",
    "attempt-failed",
    "retry-scheduled",
    "correction-requested",
    "step-skipped",
    "signal-received",
    "signal-delivered",
    "approval-granted",
    "approval-rejected",
    "approval-expired",
    "paused",
    "resumed",
    "escalated",
    "escalation-resolved",
    "compensation-started",
    "cancellation-started",
    "step-compensation-started",
    "step-compensation-failed",
    "step-compensated",
    "completed",
    "rolled-back",
    "failed",
    "cancelled",
    "revision-adopted",
    "branch-opened",
    "reopened",
    "forked",
    "recovered",
];

/// A CloudEvent in its JSON form.
#[derive(Debug, Serialize)]
pub(super) struct CloudEvent {
    specversion: &'static str,
    pub(super) id: String,
    source: String,
    #[serde(rename = "type")]
    kind: String,
    subject: String,
    time: Timestamp,
    datacontenttype: &'static str,
    data: Value,
}

impl CloudEvent {
    pub(super) fn of(provider: &str, record: &EventRecord) -> Self {
        let event = &record.event;
        let name = name(&event.fact);
        let mut data = json!({
            "execution": record.execution,
            "branch": record.branch,
            "sequence": event.sequence,
            "event": name,
            "cause": event.causation,
            "correlation": event.correlation,
            "detail": detail(&event.fact),
        });
        if let Some(sequence) = event.cause {
            data["causeSequence"] = sequence.into();
        }
        if !event.actor.is_empty() {
            data["actor"] = (*event.actor).into();
        }
        if let Some(sub_state) = final_sub_state(&event.fact) {
            data["subState"] = sub_state.as_str().into();
        }
        Self {
            specversion: "1.0",
            id: format!("{}/{}/{}", record.execution, record.branch, event.sequence),
            source: format!("stateway/providers/{provider}"),
            kind: format!("dev.stateway.execution.{name}.v1"),
            subject: record.execution.to_string(),
            time: event.at,
            datacontenttype: "application/json",
            data,
        }
    }
}

/// The name of a fact in an event: `ExecutionRolledBack` is `rolled-back`, `StepStarted` is
/// `step-started`.
pub(super) fn name(fact: &Fact) -> String {
    let name = fact.name();
    let name = name.strip_prefix("Execution").unwrap_or(name);
    let mut kebab = String::with_capacity(name.len() + 4);
    for (at, letter) in name.char_indices() {
        if letter.is_ascii_uppercase() && at > 0 {
            kebab.push('-');
        }
        kebab.push(letter.to_ascii_lowercase());
    }
    kebab
}

/// The fields of a fact, without its name.
fn detail(fact: &Fact) -> Value {
    match serde_json::to_value(fact) {
        Ok(Value::Object(named)) => named.into_iter().next().map_or(json!({}), |(_, held)| held),
        _ => json!({}),
    }
}

/// The state of an execution after its last event. The state after an earlier event would need a replay.
const fn final_sub_state(fact: &Fact) -> Option<SubState> {
    match fact {
        Fact::ExecutionCompleted { .. } => Some(SubState::Succeeded),
        Fact::ExecutionFailed { .. }
        | Fact::ExecutionRolledBack { .. }
        | Fact::ExecutionCancelled { .. } => Some(SubState::Failed),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use stateway_machine::Event;
    use stateway_model::Reason;

    use super::*;

    fn record(fact: Fact) -> EventRecord {
        EventRecord {
            position: 12,
            execution: "order-1".into(),
            branch: 2,
            event: Event {
                sequence: 7,
                at: "2026-01-01T00:00:00.5Z".parse().unwrap(),
                causation: "w1".into(),
                cause: Some(6),
                actor: "ada".into(),
                correlation: "order-1".into(),
                fact,
            },
        }
    }

    #[test]
    fn an_event_has_the_form_of_version_1() {
        let fact = Fact::ExecutionRolledBack {
            reason: Reason::RolledBack,
            left: Vec::new(),
        };
        let event = CloudEvent::of("main", &record(fact));
        let wanted = json!({
            "specversion": "1.0",
            "id": "order-1/2/7",
            "source": "stateway/providers/main",
            "type": "dev.stateway.execution.rolled-back.v1",
            "subject": "order-1",
            "time": "2026-01-01T00:00:00.5Z",
            "datacontenttype": "application/json",
            "data": {
                "execution": "order-1",
                "branch": 2,
                "sequence": 7,
                "event": "rolled-back",
                "cause": "w1",
                "causeSequence": 6,
                "actor": "ada",
                "correlation": "order-1",
                "subState": "failed",
                "detail": {"reason": "ROLLED_BACK"}
            }
        });
        assert_eq!(serde_json::to_value(event).unwrap(), wanted);
    }

    #[test]
    fn every_fact_has_a_name_of_the_list_and_no_two_have_the_same() {
        // The log's golden file has every fact there is.
        let golden = include_str!("../../../machine/tests/golden/events-v2.jsonl");
        let mut seen = std::collections::BTreeSet::new();
        for line in golden.lines().filter(|line| !line.is_empty()) {
            let event = stateway_machine::decode(line.as_bytes()).unwrap();
            seen.insert(name(&event.fact));
        }
        let listed: std::collections::BTreeSet<String> =
            EVENT_NAMES.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(listed.len(), EVENT_NAMES.len());
        assert_eq!(seen, listed);
    }
}
