//! Names of executions. An execution is a workflow id: the runs that continue, retry or reset it are the
//! same execution. `workflow-id~run:<run id>` names one run.

use stateway_model::ExecutionId;
use stateway_provider_api::{Error, Verb};

/// What separates a workflow id from the run.
const RUN: &str = "~run:";
/// The server's own limit.
const LONGEST: usize = 1_000;

/// A workflow, or one run of it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct WorkflowRef {
    pub(crate) workflow_id: String,
    /// `None`: the current run.
    pub(crate) run_id: Option<String>,
}

impl WorkflowRef {
    /// What an execution id names. An id that the server cannot have is not found.
    pub(crate) fn of(id: &ExecutionId, verb: Verb) -> Result<Self, Error> {
        let found = Self::parse(id.as_str());
        if found.workflow_id.is_empty() || found.workflow_id.len() > LONGEST {
            return Err(Error::not_found(verb, id).without_engine());
        }
        Ok(found)
    }

    fn parse(id: &str) -> Self {
        match id.rsplit_once(RUN) {
            Some((workflow_id, run_id)) if is_uuid(run_id) => Self {
                workflow_id: workflow_id.to_owned(),
                run_id: Some(run_id.to_owned()),
            },
            _ => Self {
                workflow_id: id.to_owned(),
                run_id: None,
            },
        }
    }

    /// The same workflow, this run.
    pub(crate) fn run(&self, run_id: &str) -> Self {
        Self {
            workflow_id: self.workflow_id.clone(),
            run_id: Some(run_id.to_owned()),
        }
    }

    /// The execution id.
    pub(crate) fn name(&self) -> String {
        match &self.run_id {
            Some(run_id) => run_name(&self.workflow_id, run_id),
            None => self.workflow_id.clone(),
        }
    }
}

/// The execution id of one run.
pub(crate) fn run_name(workflow_id: &str, run_id: &str) -> String {
    format!("{workflow_id}{RUN}{run_id}")
}

/// Whether the text looks like a UUID. SDKs use UUIDs as ids of activities, too.
pub(crate) fn is_uuid(text: &str) -> bool {
    let is_right = |(at, byte): (usize, u8)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    text.len() == 36 && text.bytes().enumerate().all(is_right)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_a_workflow_and_perhaps_a_run() {
        let run = "01a1e1af-a730-7a2f-9258-5d9e1c37b7b5";
        let of = |id: &str| WorkflowRef::of(&ExecutionId::new(id).unwrap(), Verb::Get).unwrap();
        let named = of(&run_name("order/7", run));
        assert_eq!(named.workflow_id, "order/7");
        assert_eq!(named.run_id.as_deref(), Some(run));
        assert_eq!(named.name(), format!("order/7~run:{run}"));
        for whole in ["order~run:7", "a~run:", "order"] {
            let named = of(whole);
            assert_eq!((named.name().as_str(), named.run_id), (whole, None));
        }
    }

    #[test]
    fn what_cannot_be_a_workflow_id_is_not_found_without_asking() {
        let long = ExecutionId::new("a".repeat(LONGEST + 1)).unwrap();
        let refused = WorkflowRef::of(&long, Verb::Get).unwrap_err();
        assert!(!refused.engine_answered());
    }
}
