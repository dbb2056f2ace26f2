//! Separation of duties: nobody decides about an execution that they started, had run again or had adopt
//! another revision, nor
//! about a step that they worked on, nor about a request that they gave to another role.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use stateway_definition::Definition;
use stateway_machine::{Event, Fact, Resolution, State};

use super::{Checked, ensure};

/// Who must not decide.
#[derive(Debug, Default)]
pub(super) struct Duty {
    initiator: Arc<str>,
    redone_by: Vec<Arc<str>>,
    /// Every worker of a step, and in whose name, by step.
    workers: BTreeMap<Arc<str>, Vec<Arc<str>>>,
    /// People who gave a step to another role, by step.
    reassigned_by: BTreeMap<Arc<str>, Vec<Arc<str>>>,
}

impl Duty {
    pub(super) fn event(&mut self, before: &State, event: &Event) -> Checked {
        match &event.fact {
            Fact::ExecutionCreated {
                initiator,
                redone_by,
                ..
            } => {
                self.initiator = Arc::clone(initiator);
                self.redone_by.clone_from(redone_by);
            }
            Fact::BranchOpened {
                by, redo: Some(_), ..
            }
            | Fact::ExecutionForked {
                by, redo: Some(_), ..
            } => self.redone_by.push(Arc::clone(by)),
            Fact::RevisionAdopted { .. } => self.redone_by.push(Arc::clone(&event.actor)),
            Fact::TaskAssigned {
                task,
                worker,
                identity,
                ..
            } => {
                let workers = self.workers.entry(Arc::clone(&task.step)).or_default();
                workers.extend([Arc::clone(worker), Arc::clone(identity)]);
            }
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
        let judged = judged(before.plan().definition(), step);
        let workers = judged
            .iter()
            .filter_map(|judged| self.workers.get(*judged))
            .flatten();
        let barred = workers.chain(&self.redone_by).chain([&self.initiator]);
        not_among(barred, step, by)
    }
}

/// The step and every step that it depends on, directly or through others.
fn judged<'d>(definition: &'d Definition, step: &'d str) -> BTreeSet<&'d str> {
    let mut found = BTreeSet::from([step]);
    loop {
        let dependencies = found.iter().filter_map(|name| definition.step(name));
        let dependencies = dependencies.flat_map(|step| &step.depends_on);
        let more: Vec<&str> = dependencies.map(String::as_str).collect();
        let before = found.len();
        found.extend(more);
        if found.len() == before {
            return found;
        }
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
