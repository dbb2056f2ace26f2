//! What verifying, recovering and replaying found; branches.

use jiff::Timestamp;
use serde::Serialize;
use stateway_client::v1;
use stateway_client::v1::remedy::Kind;

use super::{Execution, Text, Usage, timestamp};
use crate::paging::Listed;

/// One place where what is kept contradicts the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// For example A1.
    pub code: Text,
    /// In words.
    pub summary: Text,
    /// What was seen, a line each.
    pub evidence: Vec<Text>,
}

impl From<&v1::Finding> for Finding {
    fn from(wire: &v1::Finding) -> Self {
        Self {
            code: (&wire.code).into(),
            summary: (&wire.summary).into(),
            evidence: texts(&wire.evidence),
        }
    }
}

impl From<&stateway_engine::recovery::Finding> for Finding {
    fn from(found: &stateway_engine::recovery::Finding) -> Self {
        Self {
            code: found.code.as_str().into(),
            summary: (&found.summary).into(),
            evidence: texts(&found.evidence),
        }
    }
}

/// What would be done about the findings.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Remedy {
    /// nothing, repair, branch or refused.
    pub kind: String,
    /// With `branch`: the last event that can be trusted.
    pub cutoff_sequence: i64,
    /// With `branch`: the steps whose side effects run again.
    pub repeated_steps: Vec<Text>,
    /// With `refused`: why not.
    pub why: Text,
    /// With `refused`: what would help.
    pub hint: Text,
}

impl From<&v1::Remedy> for Remedy {
    fn from(wire: &v1::Remedy) -> Self {
        let kind = match wire.kind() {
            Kind::Unspecified => "unknown",
            Kind::Nothing => "nothing",
            Kind::Repair => "repair",
            Kind::Branch => "branch",
            Kind::Refused => "refused",
        };
        Self {
            kind: kind.to_owned(),
            cutoff_sequence: wire.cutoff_sequence,
            repeated_steps: texts(&wire.repeated_steps),
            why: (&wire.why).into(),
            hint: (&wire.hint).into(),
        }
    }
}

impl From<&stateway_engine::recovery::Remedy> for Remedy {
    fn from(found: &stateway_engine::recovery::Remedy) -> Self {
        use stateway_engine::recovery::Remedy as Of;
        let kind = |kind: &str| Self {
            kind: kind.to_owned(),
            ..Self::default()
        };
        match found {
            Of::Nothing => kind("nothing"),
            Of::Repair => kind("repair"),
            Of::Branch { cutoff, again } => Self {
                cutoff_sequence: i64::try_from(*cutoff).unwrap_or(i64::MAX),
                repeated_steps: again.iter().map(|step| (&**step).into()).collect(),
                ..kind("branch")
            },
            Of::Refused { why, hint } => Self {
                why: why.into(),
                hint: hint.into(),
                ..kind("refused")
            },
        }
    }
}

/// The result of the verification of one execution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// The execution's full name.
    pub name: Text,
    /// Empty when all is well.
    pub findings: Vec<Finding>,
    /// What would be done about them.
    pub remedy: Remedy,
    /// The branch that is current by the log.
    pub branch: Text,
    /// The last event that can be trusted.
    pub sequence: i64,
    /// How many events were read.
    pub event_count: i64,
    /// The last link of the chain of hashes.
    pub head_hash: Text,
}

impl From<&v1::Verdict> for Verdict {
    fn from(wire: &v1::Verdict) -> Self {
        Self {
            name: (&wire.name).into(),
            findings: wire.findings.iter().map(Finding::from).collect(),
            remedy: wire.remedy.as_ref().map(Remedy::from).unwrap_or_default(),
            branch: (&wire.branch).into(),
            sequence: wire.sequence,
            event_count: wire.event_count,
            head_hash: (&wire.head_hash).into(),
        }
    }
}

impl From<&stateway_engine::recovery::Verdict> for Verdict {
    fn from(found: &stateway_engine::recovery::Verdict) -> Self {
        Self {
            name: (&*found.id).into(),
            findings: found.findings.iter().map(Finding::from).collect(),
            remedy: (&found.remedy).into(),
            branch: (&format!("{}/branches/{}", found.id, found.branch)).into(),
            sequence: i64::try_from(found.sequence).unwrap_or(i64::MAX),
            event_count: i64::try_from(found.events).unwrap_or(i64::MAX),
            head_hash: (&found.head).into(),
        }
    }
}

/// What a recovery did.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Recovered {
    /// As it is now.
    pub execution: Option<Execution>,
    /// What was repaired.
    pub repaired: Vec<Finding>,
    /// The branch on which the execution continues; empty if no step runs again.
    pub branch: Text,
    /// Steps whose side effects run again.
    pub repeated_steps: Vec<Text>,
    /// The branch that was current before.
    pub previous_branch: Text,
    /// The last event that counts of what was there before.
    pub cutoff_sequence: i64,
}

impl From<&v1::RecoverExecutionResponse> for Recovered {
    fn from(wire: &v1::RecoverExecutionResponse) -> Self {
        Self {
            execution: wire.execution.as_ref().map(Execution::from),
            repaired: wire.repaired.iter().map(Finding::from).collect(),
            branch: (&wire.branch).into(),
            repeated_steps: texts(&wire.repeated_steps),
            previous_branch: (&wire.previous_branch).into(),
            cutoff_sequence: wire.cutoff_sequence,
        }
    }
}

/// A replay.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Replayed {
    /// At that event, or the shadow in the end.
    pub execution: Option<Execution>,
    /// The branch that was replayed.
    pub branch: Text,
    /// The revision a shadow ran by; empty without one.
    pub revision: Text,
    /// Events that were replayed.
    pub event_count: i64,
    /// Events of the shadow.
    pub derived_event_count: i64,
    /// How the recorded run ended; empty without a shadow.
    pub recorded_outcome: Text,
    /// How the shadow ended; empty without one.
    pub derived_outcome: Text,
    /// Both runs, step by step.
    pub steps: Vec<StepRow>,
    /// Where they differ.
    pub divergences: Vec<Divergence>,
    /// Steps that stay open in the shadow because the recording has no result for them.
    pub unrecorded_steps: Vec<Unrecorded>,
    /// Recorded events that the shadow cannot reproduce.
    pub notes: Vec<Text>,
    /// A hash of everything stored, before.
    pub source_hash_before: Text,
    /// The same, after.
    pub source_hash_after: Text,
    /// The last link of the chain of hashes.
    pub head_hash: Text,
}

/// One step in both runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StepRow {
    /// The step.
    pub step: Text,
    /// What the recorded run did with it.
    pub recorded: Text,
    /// What the shadow does with it.
    pub derived: Text,
}

/// One difference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Divergence {
    /// The recorded event where it shows first.
    pub sequence: i64,
    /// order, path, retries, back_off, input, step_added, step_removed, refused or outcome.
    pub kind: &'static str,
    /// Empty for the execution as a whole.
    pub step: Text,
    /// What the recorded run did.
    pub recorded: Text,
    /// What the shadow does.
    pub derived: Text,
}

/// Something without a recorded end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unrecorded {
    /// Empty when the execution itself is paused.
    pub step: Text,
    /// From 1.
    pub attempt: i32,
    /// Whether it is being compensated.
    pub compensation: bool,
    /// What is missing.
    pub why: Text,
}

impl From<&v1::ReplayExecutionResponse> for Replayed {
    fn from(wire: &v1::ReplayExecutionResponse) -> Self {
        let steps = wire.steps.iter().map(|row| StepRow {
            step: (&row.step).into(),
            recorded: (&row.recorded).into(),
            derived: (&row.derived).into(),
        });
        let divergences = wire.divergences.iter().map(|found| Divergence {
            sequence: found.sequence,
            kind: found.kind().label(),
            step: (&found.step).into(),
            recorded: (&found.recorded).into(),
            derived: (&found.derived).into(),
        });
        let unrecorded = wire.unrecorded_steps.iter().map(|open| Unrecorded {
            step: (&open.step).into(),
            attempt: open.attempt,
            compensation: open.compensation,
            why: (&open.why).into(),
        });
        Self {
            execution: wire.execution.as_ref().map(Execution::from),
            branch: (&wire.branch).into(),
            revision: (&wire.revision).into(),
            event_count: wire.event_count,
            derived_event_count: wire.derived_event_count,
            recorded_outcome: (&wire.recorded_outcome).into(),
            derived_outcome: (&wire.derived_outcome).into(),
            steps: steps.collect(),
            divergences: divergences.collect(),
            unrecorded_steps: unrecorded.collect(),
            notes: texts(&wire.notes),
            source_hash_before: (&wire.source_hash_before).into(),
            source_hash_after: (&wire.source_hash_after).into(),
            head_hash: (&wire.head_hash).into(),
        }
    }
}

/// One branch of a log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Branch {
    /// The full name.
    pub name: Text,
    /// The full name of the one it grew from; empty for the first.
    pub parent_branch: Text,
    /// The last event it shares with its parent.
    pub cutoff_sequence: i64,
    /// Whether the execution continues on this branch.
    pub current: bool,
    /// Why it was opened.
    pub cause: Text,
    /// When.
    pub create_time: Option<Timestamp>,
    /// Who opened it.
    pub created_by: Text,
    /// What its own events cost.
    pub usage: Option<Usage>,
}

impl Listed for Branch {
    const PLURAL: &'static str = "branches";
    const PAGE_SIZE: i32 = 100;
}

impl From<&v1::Branch> for Branch {
    fn from(wire: &v1::Branch) -> Self {
        Self {
            name: (&wire.name).into(),
            parent_branch: (&wire.parent_branch).into(),
            cutoff_sequence: wire.cutoff_sequence,
            current: wire.current,
            cause: (&wire.cause).into(),
            create_time: timestamp(wire.create_time.as_ref()),
            created_by: (&wire.created_by).into(),
            usage: wire.usage.as_ref().map(Usage::from),
        }
    }
}

fn texts(wire: &[String]) -> Vec<Text> {
    wire.iter().map(Text::from).collect()
}
