//! Portable definitions: the engine runs them as they are written.

use std::sync::Arc;

use async_trait::async_trait;
use stateway_engine::{AdoptDefinition, ApplyDefinition, DefinitionRecord, DeleteDefinition};
use stateway_provider_api::{
    AdoptRequest, AppliedDefinition, ApplyPortableRequest, Call, DeletePortableRequest,
    DisabledTrigger, Error, ErrorKind, Portability, PortabilityVerdict, PortableDefinition,
    PortableDefinitions, PortablePage, Result, Verb,
};

use crate::BuiltinProvider;
use crate::request::key;

/// The number of digits of a whole revision.
const WHOLE: usize = 64;

#[async_trait]
impl PortableDefinitions for BuiltinProvider {
    async fn apply_portable(
        &self,
        call: &Call,
        request: ApplyPortableRequest,
    ) -> Result<AppliedDefinition> {
        let texts = [request.source.as_str(), &request.source_name];
        let verb = Verb::ApplyPortable;
        let applied = self.engine.apply(ApplyDefinition {
            request: Some(key(call, verb, &texts, None, &request.request_id)),
            source: request.source,
            source_name: request.source_name,
        });
        let applied = self.line.carry(call, verb, applied).await?;
        Ok(AppliedDefinition {
            definition: shown(applied.record),
            changed: applied.changed,
        })
    }

    async fn get_portable(
        &self,
        call: &Call,
        name: &str,
        revision: Option<&str>,
    ) -> Result<PortableDefinition> {
        let mut found = shown(self.revision(call, name, revision).await?);
        found.disabled_trigger = self.marks(call).await?.get(name).map(disabled);
        if revision.is_some() {
            let current = self.engine.definition(name.into(), None);
            let current = self.line.carry(call, Verb::PortableDefinitions, current);
            found.deleted = match current.await {
                Ok(_) => false,
                Err(error) if error.kind == ErrorKind::NotFound => true,
                Err(error) => return Err(error),
            };
        }
        Ok(found)
    }

    async fn list_portable(
        &self,
        call: &Call,
        after: Option<&str>,
        page_size: usize,
    ) -> Result<PortablePage> {
        // One more than wanted shows whether there is more.
        let records = self
            .engine
            .definitions(after.map(Into::into), page_size + 1);
        let records = self.line.carry(call, Verb::PortableDefinitions, records);
        let mut records = records.await?;
        let more = records.len() > page_size;
        records.truncate(page_size);
        let marks = self.marks(call).await?;
        let definitions: Vec<_> = records
            .into_iter()
            .map(|record| PortableDefinition {
                disabled_trigger: marks.get(&record.name).map(disabled),
                ..shown(record)
            })
            .collect();
        let last = definitions.last().filter(|_| more);
        Ok(PortablePage {
            next: last.map(|last| last.name.clone()),
            definitions,
        })
    }

    async fn portable_revisions(&self, call: &Call, name: &str) -> Result<Vec<PortableDefinition>> {
        let all = self.engine.revisions(name.into());
        let all = self.line.carry(call, Verb::PortableDefinitions, all);
        Ok(all.await?.into_iter().map(shown).collect())
    }

    async fn delete_portable(&self, call: &Call, request: DeletePortableRequest) -> Result<u64> {
        let keep = if request.keep_running { "keep" } else { "" };
        let texts = [request.name.as_str(), keep];
        let verb = Verb::DeletePortable;
        let deleted = self.engine.delete_definition(DeleteDefinition {
            name: request.name.as_str().into(),
            keep_running: request.keep_running,
            request: key(call, verb, &texts, None, &request.request_id),
        });
        Ok(self.line.carry(call, verb, deleted).await?.open_executions)
    }

    async fn open_executions(&self, call: &Call, name: &str) -> Result<u64> {
        let open = self.engine.open_executions(name.into());
        self.line.carry(call, Verb::PortableDefinitions, open).await
    }

    async fn adopt(&self, call: &Call, request: AdoptRequest) -> Result<()> {
        let verb = Verb::AdoptDefinition;
        let wanted = request.revision.as_deref();
        let texts = [request.id.as_str(), wanted.unwrap_or_default()];
        let request_key = key(call, verb, &texts, None, &request.request_id);
        self.check_precondition(call, verb, request.precondition, &request_key)
            .await?;
        let id: Arc<str> = request.id.as_str().into();
        let revision = match wanted {
            None => None,
            Some(digits) => {
                let view = self.engine.get(Arc::clone(&id));
                let view = self.line.carry(call, verb, view).await?;
                let found = self.revision(call, &view.definition, Some(digits)).await?;
                Some(found.revision)
            }
        };
        let adopt = AdoptDefinition {
            revision,
            actor: Arc::clone(&call.actor),
        };
        let adopted = self.engine.adopt_definition(id, adopt, request_key);
        self.line.carry(call, verb, adopted).await.map(drop)
    }

    async fn portability(&self, _: &Call, _: &str) -> Result<Portability> {
        Ok(Portability {
            verdict: PortabilityVerdict::Exact,
            reasons: Vec::new(),
        })
    }
}

impl BuiltinProvider {
    /// The current revision, or the one with these first digits.
    async fn revision(
        &self,
        call: &Call,
        name: &str,
        digits: Option<&str>,
    ) -> Result<DefinitionRecord> {
        let Some(digits) = digits.filter(|digits| digits.len() < WHOLE) else {
            return self.whole_revision(call, name, digits).await;
        };
        let all = self.engine.revisions(name.into());
        let all = self.line.carry(call, Verb::PortableDefinitions, all);
        let mut fitting = all.await?;
        fitting.retain(|record| record.revision.starts_with(digits));
        match fitting.len() {
            0 => self.whole_revision(call, name, Some(digits)).await,
            1 => Ok(fitting.remove(0)),
            several => Err(ambiguous(digits, several)),
        }
    }

    async fn whole_revision(
        &self,
        call: &Call,
        name: &str,
        revision: Option<&str>,
    ) -> Result<DefinitionRecord> {
        let found = self
            .engine
            .definition(name.into(), revision.map(Into::into));
        self.line
            .carry(call, Verb::PortableDefinitions, found)
            .await
    }

    async fn marks(
        &self,
        call: &Call,
    ) -> Result<std::collections::BTreeMap<Arc<str>, stateway_engine::DisabledTrigger>> {
        let marks = self.engine.disabled_triggers();
        self.line
            .carry(call, Verb::PortableDefinitions, marks)
            .await
    }
}

fn ambiguous(digits: &str, several: usize) -> Error {
    let message = format!("{several} revisions begin with {digits}");
    Error::new(
        ErrorKind::InvalidArgument,
        Verb::PortableDefinitions,
        message,
    )
    .with_reason("AMBIGUOUS_REVISION")
    .with_hint("Give more digits of the revision.")
    .by_engine()
}

fn shown(record: DefinitionRecord) -> PortableDefinition {
    PortableDefinition {
        name: record.name.to_string(),
        revision: record.revision.to_string(),
        source: record.source,
        create_time: record.created,
        deleted: false,
        disabled_trigger: None,
        home: false,
    }
}

pub(super) fn disabled(mark: &stateway_engine::DisabledTrigger) -> DisabledTrigger {
    DisabledTrigger {
        by: mark.by.to_string(),
        time: mark.at,
        comment: mark.comment.to_string(),
    }
}
