//! The explanation of a sub-state.

use serde::Serialize;
use stateway_client::{v1, word_of};

use super::{Execution, Row, Text};

/// The explanation of an execution's sub-state.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explanation {
    /// As a get shows it, without payloads.
    pub execution: Option<Execution>,
    /// One sentence for a person.
    pub summary: Text,
    /// The table row that applies; none for a state that is in no table.
    pub row: Option<Row>,
    /// The evidence, one item per line.
    pub evidence: Vec<Text>,
    /// The explanation of each step.
    pub steps: Vec<StepExplanation>,
}

/// The explanation of one step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StepExplanation {
    /// Its name.
    pub step: Text,
    /// The sub-state of the step.
    pub sub_state: &'static str,
    /// One sentence for a person.
    pub summary: Text,
    /// The table row that applies.
    pub row: Option<Row>,
    /// The evidence, one item per line.
    pub evidence: Vec<Text>,
}

impl From<&v1::ExplainExecutionResponse> for Explanation {
    fn from(wire: &v1::ExplainExecutionResponse) -> Self {
        let steps = wire.steps.iter().map(|step| StepExplanation {
            step: (&step.step).into(),
            sub_state: word_of(step.sub_state),
            summary: (&step.summary).into(),
            row: step.row.as_ref().map(Row::from),
            evidence: step.evidence.iter().map(Text::from).collect(),
        });
        Self {
            execution: wire.execution.as_ref().map(Execution::from),
            summary: (&wire.summary).into(),
            row: wire.row.as_ref().map(Row::from),
            evidence: wire.evidence.iter().map(Text::from).collect(),
            steps: steps.collect(),
        }
    }
}
