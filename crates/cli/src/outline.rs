//! An execution as a tree: its steps in the order of its definition, those that have not begun
//! included, and below a step the execution that does it.
//!
//! An execution tells only of steps that have begun; the rest follows from the revision of its
//! definition. [`Beside`] asks for that, and for the children.

mod beside;

use std::collections::BTreeMap;

use stateway_definition::StepKind;
use stateway_model::{ExecutionId, ExecutionName};

pub use beside::{Beside, look_once};

use crate::view::{Execution, Step, Text};

/// How deep children are shown.
const DEEPEST: usize = 3;

/// An execution and its steps.
#[derive(Debug, Clone, PartialEq)]
pub struct Outline {
    /// The execution.
    pub execution: Execution,
    /// Its steps, begun or not.
    pub branches: Vec<Branch>,
}

/// A step of an execution.
#[derive(Debug, Clone, PartialEq)]
pub struct Branch {
    /// The step's name.
    pub name: Text,
    /// What it has come to; none before it begins.
    pub step: Option<Step>,
    /// The steps that have to be settled before it.
    pub after: Vec<Text>,
    /// The execution that does it.
    pub child: Option<Outline>,
}

/// What is known of executions beside what they tell themselves.
#[derive(Debug, Clone, Default)]
pub struct Known {
    /// By definition and revision.
    plans: BTreeMap<(String, String), Plan>,
    /// The children, by the full names they must have.
    children: BTreeMap<String, Execution>,
}

/// What a definition says of its steps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Plan {
    steps: Vec<Planned>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Planned {
    name: String,
    after: Vec<String>,
    /// The full name of the definition whose execution does it.
    child: Option<String>,
}

/// A child that a step must have.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Expected {
    name: String,
    definition: String,
}

impl Outline {
    /// The tree of an execution, as far as it is known.
    #[must_use]
    pub fn of(execution: Execution, known: &Known) -> Self {
        Self::within(execution, known, DEEPEST)
    }

    /// The steps that have not begun.
    #[must_use]
    pub fn to_come(&self) -> Vec<&Branch> {
        let branches = self.branches.iter();
        branches.filter(|branch| branch.step.is_none()).collect()
    }

    fn within(execution: Execution, known: &Known, deep: usize) -> Self {
        let plan = known.plan(&execution);
        let planned = plan.map_or(&[][..], |plan| &plan.steps);
        let mut branches: Vec<Branch> = planned
            .iter()
            .map(|planned| Branch {
                name: (&planned.name).into(),
                step: step_of(&execution, &planned.name).cloned(),
                after: planned.after.iter().map(Text::from).collect(),
                child: expected(&execution, planned)
                    .filter(|_| deep > 0)
                    .and_then(|expected| known.child(&expected))
                    .map(|child| Self::within(child.clone(), known, deep - 1)),
            })
            .collect();
        let others = execution.steps.iter().filter(|step| {
            let is_it = |planned: &Planned| planned.name == step.name.raw();
            !planned.iter().any(is_it)
        });
        branches.extend(others.map(|step| Branch {
            name: step.name.clone(),
            step: Some(step.clone()),
            after: Vec::new(),
            child: None,
        }));
        Self {
            execution,
            branches,
        }
    }
}

impl Known {
    fn plan(&self, execution: &Execution) -> Option<&Plan> {
        self.plans.get(&key(execution))
    }

    fn child(&self, expected: &Expected) -> Option<&Execution> {
        let child = self.children.get(&expected.name)?;
        // Whoever has that name by chance is not a child.
        (child.definition.raw() == expected.definition).then_some(child)
    }

    /// The children that an execution must have by now.
    fn expected(&self, execution: &Execution) -> Vec<Expected> {
        let planned = self.plan(execution).map_or(&[][..], |plan| &plan.steps);
        let found = planned.iter().filter_map(|it| expected(execution, it));
        found.collect()
    }
}

impl Plan {
    /// Of a portable definition; one that cannot be read says nothing.
    fn of(source: &str) -> Self {
        let Ok(parsed) = stateway_definition::parse(source, "definition") else {
            return Self::default();
        };
        let steps = parsed.definition.steps.into_iter();
        let steps = steps.map(|step| Planned {
            name: step.name,
            after: step.depends_on,
            child: match step.kind {
                StepKind::Workflow { definition } => Some(format!("definitions/{definition}")),
                _ => None,
            },
        });
        Self {
            steps: steps.collect(),
        }
    }
}

fn key(execution: &Execution) -> (String, String) {
    let (definition, revision) = (execution.definition.raw(), execution.revision.raw());
    (definition.to_owned(), revision.to_owned())
}

fn step_of<'a>(execution: &'a Execution, name: &str) -> Option<&'a Step> {
    execution.steps.iter().find(|step| step.name.raw() == name)
}

/// The name of a child follows from the attempt that it does (docs/builtin.md).
fn expected(execution: &Execution, planned: &Planned) -> Option<Expected> {
    let definition = planned.child.clone()?;
    let attempt = step_of(execution, &planned.name)?.retry.attempt.max(1);
    let parent: ExecutionName = execution.name.raw().parse().ok()?;
    let id = format!("{}~{}~{attempt}", parent.id, planned.name);
    let id = ExecutionId::new(id).ok()?;
    Some(Expected {
        name: ExecutionName::new(parent.provider, id).to_string(),
        definition,
    })
}

#[cfg(test)]
mod tests {
    use stateway_client::v1;

    use super::*;

    const PARENT: &str = "
name: nightly
steps:
  - {name: shop, workflow: import}
  - {name: report, dependsOn: [shop], agent: etl}
";

    fn execution(id: &str, definition: &str, steps: &[&str]) -> Execution {
        let step = |name: &&str| v1::Step {
            name: (*name).to_owned(),
            sub_state: v1::SubState::Running.into(),
            ..v1::Step::default()
        };
        Execution::from(&v1::Execution {
            name: format!("providers/p/executions/{id}"),
            definition: format!("definitions/{definition}"),
            steps: steps.iter().map(step).collect(),
            ..v1::Execution::default()
        })
    }

    fn known(child: Option<Execution>) -> Known {
        let plans = [(
            ("definitions/nightly".to_owned(), String::new()),
            Plan::of(PARENT),
        )];
        let children = child.map(|child| (child.name.raw().to_owned(), child));
        Known {
            plans: plans.into(),
            children: children.into_iter().collect(),
        }
    }

    #[test]
    fn steps_that_have_not_begun_come_in_their_place() {
        let outline = Outline::of(execution("n", "nightly", &["extra", "shop"]), &known(None));
        let told = outline.branches.iter();
        let told: Vec<_> = told.map(|it| (it.name.raw(), it.step.is_some())).collect();
        assert_eq!(told, [("shop", true), ("report", false), ("extra", true)]);
        assert_eq!(outline.branches[1].after, [Text::from("shop")]);
    }

    #[test]
    fn a_child_is_below_the_step_that_it_does() {
        let child = execution("n~shop~1", "import", &["fetch"]);
        let parent = execution("n", "nightly", &["shop"]);
        let outline = Outline::of(parent.clone(), &known(Some(child)));
        let child = outline.branches[0].child.as_ref().unwrap();
        assert_eq!(child.branches[0].name.raw(), "fetch");
        // The name alone does not make a child.
        let other = execution("n~shop~1", "other", &["fetch"]);
        let outline = Outline::of(parent, &known(Some(other)));
        assert_eq!(outline.branches[0].child, None);
    }

    #[test]
    fn without_a_definition_what_has_begun_is_shown() {
        let outline = Outline::of(execution("n", "else", &["a"]), &known(None));
        assert_eq!(outline.branches.len(), 1);
    }
}
