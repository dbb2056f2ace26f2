//! Ready-made filters, in the filter language of the API.

use jiff::Timestamp;
use stateway_proto::v1::SubState;

use crate::sub_state::word;

/// A filter and what it is called.
pub(super) struct Preset {
    pub(super) title: &'static str,
    pub(super) filter: String,
}

/// What operators ask for most. "Today" begins at midnight, UTC.
pub(super) fn presets(now: Timestamp) -> [Preset; 4] {
    let midnight = now.strftime("%Y-%m-%dT00:00:00Z");
    let preset = |title, filter: String| Preset { title, filter };
    [
        preset("Stuck", stuck()),
        preset("Backing off", by_sub_state(SubState::BackingOff)),
        preset(
            "Waiting for a person",
            "waits.kind:APPROVAL OR waits.kind:ESCALATION".into(),
        ),
        preset(
            "Failed today",
            format!(r#"sub_state = "failed" AND end_time >= "{midnight}""#),
        ),
    ]
}

/// The executions that do not continue until someone acts: repairs, decides, or connects a worker.
fn stuck() -> String {
    format!(
        r#"{} OR reason = "NO_WORKER""#,
        by_sub_state(SubState::Error)
    )
}

/// The executions of one sub-state.
pub(super) fn by_sub_state(sub_state: SubState) -> String {
    format!(r#"sub_state = "{}""#, word(sub_state))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_execution_without_a_worker_is_stuck() {
        let [stuck, ..] = presets(Timestamp::UNIX_EPOCH);
        assert_eq!(
            stuck.filter,
            r#"sub_state = "error" OR reason = "NO_WORKER""#
        );
    }

    #[test]
    fn today_begins_at_midnight() {
        let now = "2026-11-16T08:12:03Z".parse().unwrap();
        let [.., failed] = presets(now);
        assert_eq!(
            failed.filter,
            r#"sub_state = "failed" AND end_time >= "2026-11-16T00:00:00Z""#
        );
    }
}
