//! An execution as every client sees it, whichever engine runs it.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    ExecutionError, ExecutionName, MappingBasis, Payload, Reason, Retry, Step, SubState, Usage,
    Wait,
};

/// Names and values a caller attached to an execution.
pub type Labels = BTreeMap<String, String>;

/// Where an execution is, why, and what it does next.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Execution {
    /// `providers/{provider}/executions/{id}`.
    pub name: ExecutionName,
    /// The definition it runs, by full name; empty when the engine does not tell.
    pub definition: String,
    /// The definition's revision; empty when the engine has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub revision: String,
    /// Where it really is: exactly one of six words.
    pub sub_state: SubState,
    /// The engine's own word, verbatim.
    pub native_state: String,
    /// Why, where six words are not enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// How the sub-state was arrived at.
    pub mapping_basis: MappingBasis,
    /// Its attempts, or those of the step that decides what the execution shows.
    pub retry: Retry,
    /// What it waits for, its steps' waits included.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<Wait>,
    /// Its steps, where the engine shows them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Step>,
    /// The steps are told by the full view only: they are no part of the etag.
    #[serde(skip)]
    pub steps_are_detail: bool,
    /// What went wrong last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<ExecutionError>,
    /// When it was accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub create_time: Option<Timestamp>,
    /// When it began to run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Timestamp>,
    /// When it last changed, where the engine tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_time: Option<Timestamp>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_time: Option<Timestamp>,
    /// What it was started with. Left out of lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Payload>,
    /// What it answered. Left out of lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Payload>,
    /// What the caller attached.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: Labels,
    /// What its attempts cost so far, where the engine tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

impl Execution {
    /// The names of the steps that are open now. An array, because steps run in parallel.
    pub fn current_steps(&self) -> impl Iterator<Item = &str> {
        self.steps
            .iter()
            .filter(|step| !step.sub_state.is_terminal())
            .map(|step| step.name.as_str())
    }

    /// A tag that changes whenever anything a client could act on changes.
    ///
    /// Computed from the content, so that every replica gives the same tag. Payloads have no part
    /// in it, and no steps that only the full view has: a list, which leaves them out, must show the
    /// same tag as a get. Nor have progress and usage: a worker that tells how far it is must not
    /// foil the one who wants to pause it.
    #[must_use]
    pub fn etag(&self) -> String {
        format!("{:016x}", self.hash_acted_on().finish())
    }

    /// A number that changes whenever a reader would see a difference, payloads aside: with the
    /// tag, with the progress of a step, and with what it all cost.
    #[must_use]
    pub fn look(&self) -> u64 {
        let mut hasher = self.hash_acted_on();
        self.usage.hash(&mut hasher);
        for step in &self.steps {
            step.progress.hash(&mut hasher);
        }
        hasher.finish()
    }

    fn hash_acted_on(&self) -> Fnv1a {
        let mut hasher = Fnv1a::default();
        (&self.name, self.sub_state, &self.native_state, self.reason).hash(&mut hasher);
        let steps = match self.steps_are_detail {
            true => &[][..],
            false => &self.steps,
        };
        (&self.retry, &self.waits).hash(&mut hasher);
        hasher.write_usize(steps.len());
        for step in steps {
            hash_step(step, &mut hasher);
        }
        self.last_error.hash(&mut hasher);
        (&self.revision, self.end_time, &self.labels).hash(&mut hasher);
        hasher
    }
}

/// Everything of a step but its progress.
fn hash_step(step: &Step, hasher: &mut Fnv1a) {
    let Step {
        name,
        sub_state,
        native_state,
        reason,
        mapping_basis,
        retry,
        waits,
        last_error,
        start_time,
        end_time,
        progress: _,
    } = step;
    (name, sub_state, native_state, reason, mapping_basis).hash(hasher);
    (retry, waits, last_error, start_time, end_time).hash(hasher);
}

/// FNV-1a, 64 bits. The standard library's hasher may change between compiler versions; a tag
/// that two replicas compare must not.
struct Fnv1a(u64);

impl Default for Fnv1a {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for Fnv1a {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn execution() -> Execution {
        Execution {
            name: "providers/memory/executions/a".parse().unwrap(),
            definition: "definitions/order".into(),
            revision: String::new(),
            sub_state: SubState::Running,
            native_state: "RUNNING".into(),
            reason: None,
            mapping_basis: MappingBasis::Native,
            retry: Retry::UNKNOWN,
            waits: vec![],
            steps: vec![],
            steps_are_detail: false,
            last_error: None,
            create_time: None,
            start_time: None,
            update_time: None,
            end_time: None,
            input: None,
            output: None,
            labels: Labels::new(),
            usage: None,
        }
    }

    #[test]
    fn etag_changes_with_the_state_but_not_with_the_view() {
        let running = execution();
        let with_payload = Execution {
            input: Some(Payload::json("{}")),
            ..execution()
        };
        let waiting = Execution {
            sub_state: SubState::Waiting,
            ..execution()
        };
        assert_eq!(running.etag(), with_payload.etag());
        assert_ne!(running.etag(), waiting.etag());
    }

    #[test]
    fn progress_and_usage_are_seen_but_do_not_change_the_tag() {
        let at = |progress| Execution {
            steps: vec![Step {
                name: "a".into(),
                sub_state: SubState::Running,
                native_state: "WORKING".into(),
                reason: None,
                mapping_basis: MappingBasis::Native,
                retry: Retry::UNKNOWN,
                waits: vec![],
                last_error: None,
                start_time: None,
                end_time: None,
                progress,
            }],
            ..execution()
        };
        let begun = at(None);
        let further = at(crate::Progress::new(0.5, "reading"));
        let dearer = Execution {
            usage: Some(Usage {
                cost_micros: 1,
                ..Usage::default()
            }),
            ..begun.clone()
        };
        for other in [&further, &dearer] {
            assert_eq!(other.etag(), begun.etag());
            assert_ne!(other.look(), begun.look());
        }
        assert_eq!(begun.look(), at(None).look());
    }

    #[test]
    fn etag_is_the_same_in_every_build() {
        assert_eq!(execution().etag(), "51d03d1420347266");
    }

    #[test]
    fn json_uses_the_words_of_the_api() {
        let json = serde_json::to_value(Execution {
            sub_state: SubState::BackingOff,
            reason: Some(Reason::RetriesExhausted),
            ..execution()
        })
        .unwrap();
        assert_eq!(json["sub_state"], "backing-off");
        assert_eq!(json["reason"], "RETRIES_EXHAUSTED");
        assert_eq!(json["name"], "providers/memory/executions/a");
    }
}
