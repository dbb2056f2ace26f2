//! Definitions: applying and deleting them, disabling and enabling their triggers, and offering a
//! revision to a running execution.

use std::collections::HashMap;
use std::sync::Arc;

use stateway_machine::{Plan, Verb};
use tokio::sync::oneshot;

use super::requests::NO_EXECUTION;
use super::{Keeper, Live};
use crate::catalogue::Catalogue;
use crate::error::{EngineError, ErrorKind, Result};
use crate::request::{
    AdoptDefinition, Applied, ApplyDefinition, DefinitionRecord, DeleteDefinition,
    DeletedDefinition, DisabledTrigger, RequestKey, SwitchTrigger,
};
use crate::store::{DefinitionChange, Turn, plan};
use crate::worker::Answer;

/// A request about a definition.
#[derive(Debug)]
pub(crate) enum DefinitionAsk {
    Apply {
        apply: ApplyDefinition,
        answer: oneshot::Sender<Result<Applied>>,
    },
    Delete {
        delete: DeleteDefinition,
        answer: oneshot::Sender<Result<DeletedDefinition>>,
    },
    SwitchTrigger {
        switch: SwitchTrigger,
        answer: oneshot::Sender<Result<()>>,
    },
    /// The id of an execution that is offered a revision.
    Adopt {
        id: Arc<str>,
        adopt: AdoptDefinition,
        request: RequestKey,
        answer: oneshot::Sender<Answer>,
    },
}

/// The definitions that the keeper has read.
#[derive(Debug)]
pub(super) struct Definitions {
    pub(super) catalogue: Arc<Catalogue>,
    /// The plans of current revisions, by name; none for a definition that was deleted.
    pub(super) current: HashMap<Arc<str>, Option<Arc<Plan>>>,
}

impl Definitions {
    pub(super) fn new(catalogue: Arc<Catalogue>) -> Self {
        Self {
            catalogue,
            current: HashMap::new(),
        }
    }
}

impl DefinitionAsk {
    /// Answers with an error. A caller that has gone away is no failure.
    pub(super) fn refuse(self, error: EngineError) {
        match self {
            Self::Apply { answer, .. } => drop(answer.send(Err(error))),
            Self::Delete { answer, .. } => drop(answer.send(Err(error))),
            Self::SwitchTrigger { answer, .. } => drop(answer.send(Err(error))),
            Self::Adopt { answer, .. } => drop(answer.send(Err(error))),
        }
    }
}

impl Keeper {
    pub(super) fn definition_ask(&mut self, ask: DefinitionAsk) {
        match ask {
            DefinitionAsk::Apply { apply, answer } => {
                let applied = self.applied(&apply);
                self.outbox.answer(answer, applied);
            }
            DefinitionAsk::Delete { delete, answer } => {
                let deleted = self.deleted(&delete);
                self.outbox.answer(answer, deleted);
            }
            DefinitionAsk::SwitchTrigger { switch, answer } => {
                let switched = self.trigger_switched(&switch);
                self.outbox.answer(answer, switched);
            }
            DefinitionAsk::Adopt {
                id,
                adopt,
                request,
                answer,
            } => {
                let done = self.once(&id, &request, |keeper, number| {
                    keeper.adopt(number, &adopt, &request.id)?;
                    Ok(number)
                });
                self.reply(answer, done);
            }
        }
    }

    /// The plan of a definition's current revision.
    pub(super) fn current_plan(&mut self, name: &str) -> Result<Arc<Plan>> {
        match self.definitions.current.get(name) {
            Some(Some(plan)) => return Ok(Arc::clone(plan)),
            Some(None) => return Err(EngineError::deleted_definition(name)),
            None => {}
        }
        let Some(found) = self.store.definition(name, None)? else {
            let deleted = !self.store.revisions(name)?.is_empty();
            return Err(if deleted {
                EngineError::deleted_definition(name)
            } else {
                EngineError::no_definition(name)
            });
        };
        let plan = plan(&*self.store, &found.revision, &self.definitions.catalogue)?;
        self.definitions
            .current
            .insert(found.name, Some(Arc::clone(&plan)));
        Ok(plan)
    }

    fn applied(&mut self, apply: &ApplyDefinition) -> Result<Applied> {
        let usable = self
            .definitions
            .catalogue
            .usable(&apply.source, &apply.source_name)?;
        let circle = self.circle(&usable.name, &usable.plan, apply);
        let revision = usable.plan.shared_revision();
        let repeated = match &apply.request {
            Some(request) => self.seen(request)?.is_some(),
            None => false,
        };
        let present = self.store.definition(&usable.name, None)?;
        // A change of this very turn is not on disk yet.
        let current = match self.definitions.current.get(&usable.name) {
            Some(plan) => plan.as_ref().map(|plan| plan.shared_revision()),
            None => present
                .as_ref()
                .map(|present| Arc::clone(&present.revision)),
        };
        let changed = !repeated && current.as_ref() != Some(&revision);
        let known = self.store.definition(&usable.name, Some(&revision))?;
        let record = match (changed, present, known) {
            (false, Some(present), _) if present.revision == revision => present,
            (_, _, Some(known)) => known,
            _ => DefinitionRecord {
                name: Arc::clone(&usable.name),
                revision,
                source: apply.source.clone(),
                created: self.now.wall,
            },
        };
        if changed {
            let change = DefinitionChange::Applied(record.clone());
            self.outbox.turn.definitions.push(change);
            let plan = self.definitions.catalogue.keep(usable.plan);
            self.set_trigger(&usable.name, &plan, self.now.wall);
            // A new schedule counts from now on, after a restart too.
            self.outbox
                .turn
                .schedules
                .push((Arc::clone(&usable.name), self.now.wall));
            self.definitions.current.insert(usable.name, Some(plan));
        }
        if let Some(request) = apply.request.as_ref().filter(|_| !repeated) {
            self.remember(request, NO_EXECUTION);
        }
        Ok(Applied {
            record,
            changed,
            warnings: usable.warnings.into_iter().chain(circle).collect(),
        })
    }

    fn deleted(&mut self, delete: &DeleteDefinition) -> Result<DeletedDefinition> {
        // The status of an execution that was gathered is not on disk yet, and the disk is asked below.
        let is_of = |live: &Live| live.gathered && *live.origin.definition == *delete.name;
        if self.executions.iter().any(is_of) {
            self.write_down()?;
        }
        let open_executions = self.open_executions(&delete.name)?;
        let deleted = DeletedDefinition { open_executions };
        if self.seen(&delete.request)?.is_some() {
            return Ok(deleted);
        }
        self.current_plan(&delete.name)?;
        if open_executions > 0 && !delete.keep_running {
            return Err(EngineError::new(
                ErrorKind::FailedPrecondition,
                "DEFINITION_IN_USE",
                match open_executions {
                    1 => format!("an execution of the definition `{}` is open", delete.name),
                    open => format!("{open} executions of the definition `{}` are open", delete.name),
                },
            )
            .with("open_executions", open_executions)
            .hint("Wait for their end, cancel them, or let them finish under their revision: `keep_running`, on the command line --keep-running."));
        }
        self.clear_trigger(&delete.name);
        self.definitions
            .current
            .insert(Arc::clone(&delete.name), None);
        let change = DefinitionChange::Deleted(Arc::clone(&delete.name));
        self.outbox.turn.definitions.push(change);
        self.remember(&delete.request, NO_EXECUTION);
        Ok(deleted)
    }

    /// The deletions of a turn are on disk, so memory need not know them any more.
    pub(super) fn forget_deleted(&mut self, turn: &Turn) {
        let deletion = |change: &DefinitionChange| matches!(change, DefinitionChange::Deleted(_));
        if turn.definitions.iter().any(deletion) {
            self.definitions.current.retain(|_, plan| plan.is_some());
        }
    }

    /// How many executions of a definition have not ended, with the changes of this turn, which are
    /// not on disk yet.
    fn open_executions(&self, name: &str) -> Result<u64> {
        let mut open = self.store.open_executions(name)?;
        for live in self
            .executions
            .iter()
            .filter(|live| *live.origin.definition == *name)
        {
            let status = live.status.as_ref();
            let counted = status.is_some_and(|status| !status.sub_state.is_terminal());
            let is_open = !live.state.state().is_terminal();
            if is_open && !counted {
                open += 1;
            } else if counted && !is_open {
                open = open.saturating_sub(1);
            }
        }
        Ok(open)
    }

    fn trigger_switched(&mut self, switch: &SwitchTrigger) -> Result<()> {
        if self.seen(&switch.request)?.is_some() {
            return Ok(());
        }
        let plan = self.current_plan(&switch.name)?;
        if plan.definition().trigger.is_none() && !switch.enabled {
            return Err(EngineError::new(
                ErrorKind::FailedPrecondition,
                "NO_TRIGGER",
                format_args!("the definition `{}` has no trigger", switch.name),
            )
            .hint("Add `trigger:` to the definition first."));
        }
        let name = &switch.name;
        let was_disabled = self.triggers.disabled(name).is_some();
        if switch.enabled && was_disabled {
            self.triggers.enable(name);
            let change = DefinitionChange::TriggerEnabled(Arc::clone(name));
            self.outbox.turn.definitions.push(change);
            // Times that passed meanwhile are not made up for, after a restart neither.
            self.outbox
                .turn
                .schedules
                .push((Arc::clone(name), self.now.wall));
            self.set_trigger(name, &plan, self.now.wall);
        } else if !switch.enabled && !was_disabled {
            let disabled = DisabledTrigger {
                by: Arc::clone(&switch.actor),
                at: self.now.wall,
                comment: Arc::clone(&switch.comment),
            };
            let change = DefinitionChange::TriggerDisabled(Arc::clone(name), disabled.clone());
            self.outbox.turn.definitions.push(change);
            self.triggers.disable(name, disabled);
            self.set_trigger(name, &plan, self.now.wall);
        }
        self.remember(&switch.request, NO_EXECUTION);
        Ok(())
    }

    /// Offers a revision to an execution: adopted if compatible, otherwise the execution pauses.
    fn adopt(&mut self, number: i64, adopt: &AdoptDefinition, cause: &Arc<str>) -> Result<()> {
        let Some(live) = self.executions.get(number) else {
            return Err(EngineError::no_execution(&number.to_string()));
        };
        let name = Arc::clone(&live.origin.definition);
        let plan = match &adopt.revision {
            None => self.current_plan(&name)?,
            Some(revision) => self.plan_of(&name, revision)?,
        };
        let definition = Arc::new(plan.definition().clone());
        let by = Arc::clone(&adopt.actor);
        self.command(number, cause, Verb::OfferDefinition { definition, by })
            .map(drop)
    }

    /// The plan of a named revision of a definition.
    fn plan_of(&self, name: &str, revision: &str) -> Result<Arc<Plan>> {
        // A revision that was applied in this very turn is not on disk yet.
        if let Some(Some(plan)) = self.definitions.current.get(name)
            && plan.revision() == revision
        {
            return Ok(Arc::clone(plan));
        }
        if self.store.definition(name, Some(revision))?.is_none() {
            return Err(EngineError::no_revision(name, revision));
        }
        Ok(plan(&*self.store, revision, &self.definitions.catalogue)?)
    }
}
