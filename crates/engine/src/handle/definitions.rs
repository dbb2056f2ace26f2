//! Definitions through the handle: apply, read, delete, disable and enable triggers, adopt.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::Engine;
use crate::error::Result;
use crate::keeper::{DefinitionAsk, Message};
use crate::request::{
    AdoptDefinition, Applied, ApplyDefinition, DefinitionRecord, DeleteDefinition,
    DeletedDefinition, DisabledTrigger, RequestKey, SwitchTrigger,
};
use crate::{EngineError, View};

impl Engine {
    /// Stores a definition, or makes another revision the current one.
    ///
    /// # Errors
    /// The source is not a valid definition, or has no name.
    pub async fn apply(&self, apply: ApplyDefinition) -> Result<Applied> {
        self.definition_ask(|answer| DefinitionAsk::Apply { apply, answer })
            .await
    }

    /// Reads a definition: its current revision, or the one named. A revision of a deleted
    /// definition can be read while executions of the definition are stored.
    ///
    /// # Errors
    /// The definition or the revision is unknown, or the definition was deleted.
    pub async fn definition(
        &self,
        name: Arc<str>,
        revision: Option<Arc<str>>,
    ) -> Result<DefinitionRecord> {
        self.read(move |reader| {
            let store = reader.store();
            if let Some(found) = store.definition(&name, revision.as_deref())? {
                return Ok(found);
            }
            let known = !store.revisions(&name)?.is_empty();
            Err(match revision {
                Some(revision) if known => EngineError::no_revision(&name, &revision),
                None if known => EngineError::deleted_definition(&name),
                _ => EngineError::no_definition(&name),
            })
        })
        .await
    }

    /// Lists the current revision of every definition, by name.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn definitions(
        &self,
        after: Option<Arc<str>>,
        limit: usize,
    ) -> Result<Vec<DefinitionRecord>> {
        self.read(move |reader| reader.definitions(after.as_deref(), limit))
            .await
    }

    /// Lists every revision of a definition, newest first.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn revisions(&self, name: Arc<str>) -> Result<Vec<DefinitionRecord>> {
        self.read(move |reader| reader.revisions(&name)).await
    }

    /// Deletes a definition. Nothing starts it any more; its stored executions stay readable.
    ///
    /// # Errors
    /// The definition is unknown, or executions of it are open and are not to keep running.
    pub async fn delete_definition(&self, delete: DeleteDefinition) -> Result<DeletedDefinition> {
        self.definition_ask(|answer| DefinitionAsk::Delete { delete, answer })
            .await
    }

    /// Counts the open executions of a definition.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn open_executions(&self, name: Arc<str>) -> Result<u64> {
        self.read(move |reader| Ok(reader.store().open_executions(&name)?))
            .await
    }

    /// Disables or enables the trigger of a definition. Doing it twice is the same as once.
    ///
    /// # Errors
    /// The definition is unknown, or has no trigger to disable.
    pub async fn switch_trigger(&self, switch: SwitchTrigger) -> Result<()> {
        self.definition_ask(|answer| DefinitionAsk::SwitchTrigger { switch, answer })
            .await
    }

    /// The disabled triggers, by definition.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn disabled_triggers(&self) -> Result<BTreeMap<Arc<str>, DisabledTrigger>> {
        self.read(|reader| Ok(reader.store().disabled_triggers()?.into_iter().collect()))
            .await
    }

    /// Offers a revision of its definition to an execution. A compatible revision is adopted;
    /// otherwise the execution pauses, and its last error names the differences.
    ///
    /// # Errors
    /// The execution or the revision is unknown, the execution has finished or is rolling back, or
    /// it is paused already and the revision is not compatible.
    pub async fn adopt_definition(
        &self,
        id: Arc<str>,
        adopt: AdoptDefinition,
        request: RequestKey,
    ) -> Result<View> {
        let (send, answer) = oneshot::channel();
        let ask = DefinitionAsk::Adopt {
            id,
            adopt,
            request,
            answer: send,
        };
        self.inner.inbox.ask(Message::Definition(Box::new(ask)))?;
        self.wait(answer).await
    }

    async fn definition_ask<T>(
        &self,
        ask: impl FnOnce(oneshot::Sender<Result<T>>) -> DefinitionAsk,
    ) -> Result<T> {
        let (send, answer) = oneshot::channel();
        let message = Message::Definition(Box::new(ask(send)));
        self.inner.inbox.ask(message)?;
        answer.await.unwrap_or_else(|_| Err(self.lost()))
    }
}
