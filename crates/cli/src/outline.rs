//! An execution as a tree: its steps, and below a step the execution that does it.

mod child_loader;

use std::collections::BTreeMap;

pub use child_loader::ChildLoader;

use crate::view::{Execution, Step};

/// How deep children are shown.
const DEEPEST: usize = 3;

/// An execution and its steps.
#[derive(Debug, Clone, PartialEq)]
pub struct Outline {
    /// The execution.
    pub execution: Execution,
    /// Its steps, started or not.
    pub branches: Vec<Branch>,
}

/// A step of an execution.
#[derive(Debug, Clone, PartialEq)]
pub struct Branch {
    /// The step.
    pub step: Step,
    /// The execution that does it.
    pub child: Option<Outline>,
}

/// The children that were read so far, by their full names.
#[derive(Debug, Clone, Default)]
pub struct ChildExecutions {
    by_name: BTreeMap<String, Execution>,
}

impl Outline {
    /// The tree of an execution, as far as its children are known.
    #[must_use]
    pub fn of(execution: Execution, children: &ChildExecutions) -> Self {
        Self::within(execution, children, DEEPEST)
    }

    fn within(execution: Execution, children: &ChildExecutions, deep: usize) -> Self {
        let branches = execution.steps.iter().map(|step| Branch {
            step: step.clone(),
            child: children
                .child(step)
                .filter(|_| deep > 0)
                .map(|child| Self::within(child.clone(), children, deep - 1)),
        });
        Self {
            branches: branches.collect(),
            execution,
        }
    }
}

impl ChildExecutions {
    fn child(&self, step: &Step) -> Option<&Execution> {
        self.by_name.get(step.child.as_ref()?.raw())
    }
}

#[cfg(test)]
mod tests {
    use stateway_client::v1;

    use super::*;

    fn execution(id: &str, steps: &[(&str, &str)]) -> Execution {
        let step = |(name, child): &(&str, &str)| v1::Step {
            name: (*name).to_owned(),
            child: (*child).to_owned(),
            sub_state: v1::SubState::Running.into(),
            ..v1::Step::default()
        };
        Execution::from(&v1::Execution {
            name: format!("providers/p/executions/{id}"),
            steps: steps.iter().map(step).collect(),
            ..v1::Execution::default()
        })
    }

    #[test]
    fn a_child_is_below_the_step_that_it_does() {
        let name = "providers/p/executions/n~shop~1";
        let child = execution("n~shop~1", &[("fetch", "")]);
        let known = ChildExecutions {
            by_name: [(name.to_owned(), child)].into(),
        };
        let parent = execution("n", &[("shop", name), ("report", "")]);
        let outline = Outline::of(parent.clone(), &known);
        let below = outline.branches[0].child.as_ref().unwrap();
        assert_eq!(below.branches[0].step.name.raw(), "fetch");
        assert_eq!(outline.branches[1].child, None);
        // Steps that are not read yet are not shown.
        let outline = Outline::of(parent, &ChildExecutions::default());
        assert_eq!(outline.branches[0].child, None);
    }
}
