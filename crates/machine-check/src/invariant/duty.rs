//! Separation of duties: nobody decides about an execution that they started, had run again or had adopt
//! another revision, nor
//! about a step that they worked on, nor about a request that they gave to another role.

use std::collections::BTreeMap;
use std::sync::Arc;

use stateway_machine::{Event, Fact, Resolution, State};

use super::{Checked, ensure};

/// Who must not decide.
#[derive(Debug, Default)]
pub(super) struct Duty {
    initiator: Arc<str>,
    redone_by: Vec<Arc<str>>,
    /// The worker of each step's present or last attempt.
    workers: BTreeMap<Arc<str>, Arc<str>>,
    /// People who gave a step to another role, by step.
    reassigned_by: BTreeMap<Arc<str>, Vec<Arc<str>>>,
}

impl Duty {
    pub(super) fn event(&mut self, before: &State, event: &Event) -> Checked {
        match &event.fact {
            Fact::ExecutionCreated { initiator, .. } => self.initiator = Arc::clone(initiator),
            Fact::BranchOpened {
                by, redo: Some(_), ..
            }
            | Fact::ExecutionForked {
                by, redo: Some(_), ..
            } => self.redone_by.push(Arc::clone(by)),
            Fact::RevisionAdopted { .. } => self.redone_by.push(Arc::clone(&event.actor)),
            Fact::TaskAssigned { task, worker, .. } => {
                let (step, worker) = (Arc::clone(&task.step), Arc::clone(worker));
                self.workers.insert(step, worker);
            }
            Fact::TaskReleased { task, .. } => drop(self.workers.remove(&task.step)),
            Fact::StepStarted { step, .. }
            | Fact::StepWaiting { step, .. }
            | Fact::CorrectionRequested { step, .. }
            | Fact::StepCompensationStarted { step, .. } => drop(self.workers.remove(step)),
            Fact::ApprovalGranted { step, by, .. } | Fact::ApprovalRejected { step, by, .. } => {
                let reassigned_by = self.reassigned_by.get(step).into_iter().flatten();
                not_among(reassigned_by, step, by)?;
                return self.decides(before, step, by);
            }
            Fact::EscalationResolved {
                step,
                by,
                resolution,
                ..
            } => {
                if matches!(resolution, Resolution::Reassign { .. }) {
                    let people = self.reassigned_by.entry(Arc::clone(step)).or_default();
                    people.push(Arc::clone(by));
                }
                return self.decides(before, step, by);
            }
            _ => {}
        }
        Ok(())
    }

    fn decides(&self, before: &State, step: &str, by: &str) -> Checked {
        let definition = before.plan().definition();
        let depends_on = definition.step(step).map(|step| &step.depends_on);
        let judged = depends_on.into_iter().flatten().map(String::as_str);
        let workers = judged
            .chain([step])
            .filter_map(|judged| self.workers.get(judged));
        let barred = workers.chain(&self.redone_by).chain([&self.initiator]);
        not_among(barred, step, by)
    }
}

fn not_among<'n>(mut barred: impl Iterator<Item = &'n Arc<str>>, step: &str, by: &str) -> Checked {
    let found = barred.find(|other| name(other) == name(by));
    ensure(found.is_none(), || {
        format!("`{by}` decides about `{step}` and is `{found:?}`")
    })
}

/// A second spelling of a name is not a second person.
fn name(person: &str) -> String {
    person.trim().to_lowercase()
}
