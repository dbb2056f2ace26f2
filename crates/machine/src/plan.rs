//! A definition made ready to run: steps by number, who waits for whom, schemas compiled.
//!
//! Built once per revision and shared by every execution of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use stateway_definition::{
    Budget, Compensation, Definition, FailurePolicy, OutputSchema, Reference, Revision, Root, Step,
    StepKind, Template,
};
use thiserror::Error;

use crate::limits::Limits;

/// A step's place in its plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct StepIx(pub(crate) u32);

impl StepIx {
    pub(crate) const fn at(self) -> usize {
        self.0 as usize
    }
}

/// A definition made ready to run.
#[derive(Debug)]
pub struct Plan {
    definition: Definition,
    revision: Arc<str>,
    steps: Vec<PlanStep>,
    by_name: BTreeMap<Arc<str>, StepIx>,
    signals: BTreeMap<Arc<str>, Vec<StepIx>>,
    limits: Limits,
}

impl PartialEq for Plan {
    /// Two plans of one revision are the same plan.
    fn eq(&self, other: &Self) -> bool {
        self.revision == other.revision
    }
}

/// What the machine needs to know of one step.
#[derive(Debug)]
pub(crate) struct PlanStep {
    pub(crate) name: Arc<str>,
    pub(crate) dependencies: u32,
    pub(crate) dependants: Vec<StepIx>,
    /// Steps whose output its input cannot do without.
    pub(crate) needs: Vec<StepIx>,
    pub(crate) compensation: Option<usize>,
    pub(crate) schema: Option<OutputSchema>,
}

/// Why a definition cannot be run. A definition that [`stateway_definition::parse`] gave can.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PlanError {
    /// A dependency names no step.
    #[error("step `{step}` depends on `{dependency}`, which does not exist")]
    UnknownDependency {
        /// The step.
        step: String,
        /// What it names.
        dependency: String,
    },
    /// An output schema does not compile.
    #[error("the output schema of step `{step}` is not a valid JSON Schema: {reason}")]
    BadSchema {
        /// The step.
        step: String,
        /// Why.
        reason: String,
    },
}

impl Plan {
    /// Makes a definition ready to run.
    ///
    /// # Errors
    /// A dependency that does not exist or a schema that does not compile.
    pub fn new(definition: Definition) -> Result<Self, PlanError> {
        let revision = Revision::of(&definition).shared();
        let by_name: BTreeMap<Arc<str>, StepIx> = (0..)
            .map(StepIx)
            .zip(&definition.steps)
            .map(|(ix, step)| (Arc::from(step.name.as_str()), ix))
            .collect();
        let mut plan = Self {
            revision,
            steps: Vec::new(),
            by_name,
            signals: BTreeMap::new(),
            limits: Limits::default(),
            definition,
        };
        plan.steps = plan
            .definition
            .steps
            .iter()
            .map(|step| plan.step_of(step))
            .collect::<Result<_, _>>()?;
        plan.connect()?;
        Ok(plan)
    }

    /// The same plan under the limits of its host.
    #[must_use]
    pub const fn limited(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// The limits of its host.
    #[must_use]
    pub const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// A plan of nothing, for as long as a snapshot is read and its own plan is not in place.
    pub(crate) fn none() -> Arc<Self> {
        let definition = Definition {
            name: None,
            description: String::new(),
            trigger: None,
            timeout: None,
            queue_timeout: None,
            concurrency: None,
            failure_policy: FailurePolicy::default(),
            escalation: None,
            budget: Budget::default(),
            steps: Vec::new(),
            compensation: Vec::new(),
            output: None,
        };
        Arc::new(Self {
            definition,
            revision: "".into(),
            steps: Vec::new(),
            by_name: BTreeMap::new(),
            signals: BTreeMap::new(),
            limits: Limits::default(),
        })
    }

    fn step_of(&self, step: &Step) -> Result<PlanStep, PlanError> {
        // Only the output of a worker, a call or a child has a schema, not a signal, a sleep or a decision.
        let schema = step
            .output_schema
            .as_ref()
            .filter(|_| step.kind.answers())
            .map(OutputSchema::compile)
            .transpose();
        let schema = schema.map_err(|reason| PlanError::BadSchema {
            step: step.name.clone(),
            reason,
        })?;
        Ok(PlanStep {
            name: self
                .by_name
                .get_key_value(step.name.as_str())
                .map_or_else(|| step.name.as_str().into(), |(name, _)| Arc::clone(name)),
            dependencies: 0,
            dependants: Vec::new(),
            needs: needs(step)
                .iter()
                .filter_map(|name| self.by_name.get(*name).copied())
                .collect(),
            compensation: if step.read_only {
                None
            } else {
                self.definition
                    .compensation
                    .iter()
                    .position(|entry| entry.step == step.name)
            },
            schema,
        })
    }

    fn connect(&mut self) -> Result<(), PlanError> {
        for (ix, step) in (0..).map(StepIx).zip(&self.definition.steps) {
            let mut seen = Vec::new();
            for name in &step.depends_on {
                let Some(dependency) = self.by_name.get(name.as_str()).copied() else {
                    return Err(PlanError::UnknownDependency {
                        step: step.name.clone(),
                        dependency: name.clone(),
                    });
                };
                if !seen.contains(&dependency) {
                    self.steps[dependency.at()].dependants.push(ix);
                    seen.push(dependency);
                }
            }
            self.steps[ix.at()].dependencies = u32::try_from(seen.len()).unwrap_or(u32::MAX);
            if let StepKind::Signal { name } = &step.kind {
                self.signals
                    .entry(name.as_str().into())
                    .or_default()
                    .push(ix);
            }
        }
        Ok(())
    }

    /// The definition it was made from.
    #[must_use]
    pub const fn definition(&self) -> &Definition {
        &self.definition
    }

    /// The definition's revision.
    #[must_use]
    pub fn revision(&self) -> &str {
        &self.revision
    }

    /// The definition's revision, shared.
    #[must_use]
    pub fn shared_revision(&self) -> Arc<str> {
        Arc::clone(&self.revision)
    }

    /// The definition of a step.
    #[must_use]
    pub fn step_definition(&self, name: &str) -> Option<&Step> {
        self.find(name).map(|ix| self.define(ix))
    }

    /// The compensation of a step, if it has one.
    #[must_use]
    pub fn undo_of(&self, name: &str) -> Option<&Compensation> {
        self.find(name).and_then(|ix| self.compensation(ix))
    }

    pub(crate) fn len(&self) -> usize {
        self.steps.len()
    }

    pub(crate) fn find(&self, name: &str) -> Option<StepIx> {
        self.by_name.get(name).copied()
    }

    pub(crate) fn step(&self, ix: StepIx) -> &PlanStep {
        &self.steps[ix.at()]
    }

    pub(crate) fn steps(&self) -> impl Iterator<Item = (StepIx, &PlanStep)> {
        (0..).map(StepIx).zip(&self.steps)
    }

    pub(crate) fn name(&self, ix: StepIx) -> Arc<str> {
        Arc::clone(&self.steps[ix.at()].name)
    }

    pub(crate) fn define(&self, ix: StepIx) -> &Step {
        &self.definition.steps[ix.at()]
    }

    pub(crate) fn compensation(&self, ix: StepIx) -> Option<&Compensation> {
        self.steps[ix.at()]
            .compensation
            .map(|at| &self.definition.compensation[at])
    }

    /// The steps that wait for a signal of this name.
    pub(crate) fn consumers(&self, signal: &str) -> &[StepIx] {
        self.signals.get(signal).map_or(&[], Vec::as_slice)
    }
}

fn needs(step: &Step) -> Vec<&str> {
    let mut references: Vec<&Reference> = Vec::new();
    if let Some(input) = &step.input {
        references.extend(input.references());
    }
    if let StepKind::Http { url, headers, .. } = &step.kind {
        references.extend(url.references());
        references.extend(headers.values().flat_map(Template::references));
    }
    references
        .into_iter()
        .filter_map(|reference| match &reference.root {
            Root::Output(name) => Some(name.as_str()),
            Root::Input | Root::State(_) | Root::ExecutionId | Root::Event => None,
        })
        .collect()
}
