//! Portable definitions, stored in an object of their own each.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use stateway_definition::parse;
use stateway_model::ErrorKind;
use stateway_provider_api::{
    AdoptRequest, AppliedDefinition, ApplyPortableRequest, Call, DeletePortableRequest,
    DisabledTrigger, Error, Portability, PortableDefinition, PortableDefinitions, PortablePage,
    Precondition, Result, SetHomeRequest, Verb,
};

use super::request::Body;
use super::{HostPort, HostedProvider, ObjectKind, ViewQuery, refused, stored, unreadable};
use crate::definition_object::{
    CURRENT, DefinitionAnswer, DefinitionRequest, DefinitionWork, REVISIONS, StoredDefinition,
    StoredTrigger, missing,
};
use crate::message::{ObjectRequest, VERSION, Work};
use crate::portability;

/// How many views are read at a time to count the open executions of a definition.
const VIEWS_PER_READ: usize = 1_000;

#[async_trait]
impl<P: HostPort> PortableDefinitions for HostedProvider<P> {
    async fn apply_portable(
        &self,
        call: &Call,
        request: ApplyPortableRequest,
    ) -> Result<AppliedDefinition> {
        let verb = Verb::ApplyPortable;
        let invalid =
            |message: String| Error::invalid(verb, message).with_reason("INVALID_DEFINITION");
        let parsed = parse(&request.source, &request.source_name);
        let parsed = parsed.map_err(|why| invalid(why.to_string()))?;
        // The schedule starts what a caller can start.
        let is_refused = self.check_portable(&request.source, &request.source_name);
        let never_scheduled = !self.abilities().schedules || is_refused.is_err();
        let name = parsed.definition.name;
        let name = name.ok_or_else(|| invalid("the definition has no name".to_owned()))?;
        let body = Body::of(call, verb, &request.request_id)
            .text(&request.source)
            .text(&request.source_name)
            .finish();
        let work = DefinitionWork::Apply {
            source: request.source.into(),
            source_name: request.source_name.into(),
            never_scheduled,
        };
        let (changed, kept) = self.define(call, verb, &name, (body, work)).await?;
        let definition = shown(&name, &kept, None, kept.source.to_string());
        let definition = definition.ok_or_else(|| refused(verb, missing(&name, true)))?;
        Ok(AppliedDefinition {
            definition,
            changed,
        })
    }

    async fn get_portable(
        &self,
        call: &Call,
        name: &str,
        revision: Option<&str>,
    ) -> Result<PortableDefinition> {
        let verb = Verb::PortableDefinitions;
        let kept = self.definition(call, verb, name).await?;
        let kept = kept.ok_or_else(|| refused(verb, missing(name, false)))?;
        let Some(digits) = revision else {
            let found = shown(name, &kept, None, kept.source.to_string());
            return found.ok_or_else(|| refused(verb, missing(name, true)));
        };
        let revision = chosen(name, &kept, digits)?;
        let source = self.source(call, name, &kept, &revision).await?;
        let found = shown(name, &kept, Some(&revision), source);
        found.ok_or_else(|| no_revision(name, digits))
    }

    async fn list_portable(
        &self,
        call: &Call,
        after: Option<&str>,
        page_size: usize,
    ) -> Result<PortablePage> {
        // One more than wanted shows whether there is more. Deleted definitions are read and left out.
        let mut page = PortablePage::default();
        let mut after = after.map(str::to_owned);
        loop {
            let found = self
                .host
                .port
                .definitions(call, after.as_deref(), page_size + 1)
                .await?;
            let is_last = found.len() <= page_size;
            for found in found {
                let kept = decode(&found.value)?;
                let source = kept.source.to_string();
                if let Some(definition) = shown(&found.object, &kept, None, source) {
                    if page.definitions.len() == page_size {
                        page.next = page.definitions.last().map(|last| last.name.clone());
                        return Ok(page);
                    }
                    page.definitions.push(definition);
                }
                after = Some(found.object);
            }
            if is_last {
                return Ok(page);
            }
        }
    }

    async fn portable_revisions(&self, call: &Call, name: &str) -> Result<Vec<PortableDefinition>> {
        let verb = Verb::PortableDefinitions;
        let Some(kept) = self.definition(call, verb, name).await? else {
            return Ok(Vec::new());
        };
        let mut found = Vec::new();
        for (revision, _) in kept.revisions.iter().rev() {
            let source = self.source(call, name, &kept, revision).await?;
            found.extend(shown(name, &kept, Some(revision), source));
        }
        Ok(found)
    }

    async fn delete_portable(&self, call: &Call, request: DeletePortableRequest) -> Result<u64> {
        let verb = Verb::DeletePortable;
        let open = self.open_executions(call, &request.name).await?;
        if open > 0 && !request.keep_running {
            let message = format!(
                "{open} executions of the definition `{}` are open",
                request.name
            );
            return Err(Error::precondition(verb, message)
                .with_reason("DEFINITION_IN_USE")
                .with_metadata([("open_executions", open.to_string())])
                .with_hint("Wait for their end, cancel them, or let them finish under their revision: `keep_running`, on the command line --keep-running."));
        }
        let keep = if request.keep_running { "keep" } else { "" };
        let body = Body::of(call, verb, &request.request_id)
            .text(&request.name)
            .text(keep)
            .finish();
        let work = DefinitionWork::Delete;
        self.define(call, verb, &request.name, (body, work)).await?;
        Ok(open)
    }

    async fn set_home(&self, call: &Call, request: SetHomeRequest) -> Result<()> {
        let verb = Verb::ApplyPortable;
        let wanted = if request.home { "home" } else { "" };
        let body = Body::of(call, verb, &request.request_id)
            .text(&request.name)
            .text(wanted)
            .finish();
        let work = DefinitionWork::SetHome { home: request.home };
        let set = self.define(call, verb, &request.name, (body, work));
        set.await.map(drop)
    }

    async fn open_executions(&self, call: &Call, name: &str) -> Result<u64> {
        let verb = Verb::PortableDefinitions;
        let (mut open, mut before) = (0, None);
        loop {
            let query = ViewQuery {
                before,
                limit: VIEWS_PER_READ,
                open_only: false,
                awaits_person: false,
                forked_from: None,
                definition: Some(name.to_owned()),
            };
            let found = self.host.port.views(call, verb, &query).await?;
            let is_last = found.len() < VIEWS_PER_READ;
            before = None;
            for found in found {
                let seen = stored(verb, &found)?;
                if *seen.view.definition == *name && !seen.view.state.is_terminal() {
                    open += 1;
                }
                before = Some((seen.n, found.object));
            }
            if is_last {
                return Ok(open);
            }
        }
    }

    async fn adopt(&self, call: &Call, request: AdoptRequest) -> Result<()> {
        let verb = Verb::AdoptDefinition;
        if request.precondition == Precondition::Broken {
            return Err(
                Error::new(ErrorKind::Conflict, verb, "the etag is not current")
                    .with_reason("ETAG_MISMATCH"),
            );
        }
        let seen = self.view(call, verb, &request.id).await?;
        let name = &seen.view.definition;
        let found = self
            .get_portable(call, name, request.revision.as_deref())
            .await?;
        let body = Body::of(call, verb, &request.request_id)
            .text(request.id.as_str())
            .text(request.revision.as_deref().unwrap_or_default())
            .finish();
        let adopt = ObjectRequest {
            v: VERSION,
            id: body.id,
            at: self.now(),
            body: Some(body.digest),
            work: Work::Adopt {
                source: found.source.into(),
                by: Arc::clone(&call.actor),
            },
            claim: None,
        };
        self.send(call, verb, &request.id, &adopt).await.map(drop)
    }

    async fn portability(&self, _: &Call, source: &str) -> Result<Portability> {
        let verb = Verb::PortableDefinitions;
        let parsed = parse(source, "definition");
        let parsed = parsed.map_err(|why| Error::invalid(verb, why.to_string()))?;
        let definition = (&parsed.definition, source);
        Ok(portability::report(definition, &self.abilities()))
    }
}

impl<P: HostPort> HostedProvider<P> {
    /// The source of the current revision, for a start. A source that the engine cannot run is refused.
    pub(super) async fn current_source(&self, call: &Call, name: &Arc<str>) -> Result<Arc<str>> {
        let verb = Verb::Start;
        let read = async {
            let source = match self.definition(call, verb, name).await? {
                Some(kept) if kept.current.is_some() => kept.source,
                kept => return Err(refused(verb, missing(name, kept.is_some()))),
            };
            self.check_portable(&source, name)?;
            Ok(source)
        };
        self.recent_sources.get(name, read).await
    }

    pub(super) async fn definition(
        &self,
        call: &Call,
        verb: Verb,
        name: &str,
    ) -> Result<Option<StoredDefinition>> {
        let object = (ObjectKind::Definition, &[name][..]);
        let found = self.host.port.values(call, verb, object, CURRENT).await?;
        found.first().map(|found| decode(&found.value)).transpose()
    }

    /// The source of a revision by which an execution ran.
    pub(super) async fn source_of(
        &self,
        call: &Call,
        verb: Verb,
        name: &str,
        revision: &str,
    ) -> Result<String> {
        let kept = self.definition(call, verb, name).await?;
        let kept = kept.ok_or_else(|| refused(verb, missing(name, false)))?;
        self.source(call, name, &kept, revision).await
    }

    async fn source(
        &self,
        call: &Call,
        name: &str,
        kept: &StoredDefinition,
        revision: &str,
    ) -> Result<String> {
        if kept.current.as_deref() == Some(revision) {
            return Ok(kept.source.to_string());
        }
        let verb = Verb::PortableDefinitions;
        let object = (ObjectKind::Definition, &[name][..]);
        let key = format!("{REVISIONS}{revision}");
        let found = self.host.port.values(call, verb, object, &key).await?;
        let found = found
            .into_iter()
            .next()
            .ok_or_else(|| no_revision(name, revision))?;
        String::from_utf8(found.value)
            .map_err(|error| Error::new(ErrorKind::DataLoss, verb, error.to_string()))
    }

    pub(super) async fn define(
        &self,
        call: &Call,
        verb: Verb,
        name: &str,
        (body, work): (Body, DefinitionWork),
    ) -> Result<(bool, StoredDefinition)> {
        let request = DefinitionRequest {
            v: VERSION,
            id: body.id,
            body: body.digest,
            at: self.now(),
            work,
        };
        let request = serde_json::to_vec(&request)
            .map_err(|error| Error::new(ErrorKind::Internal, verb, error.to_string()))?;
        let object = (ObjectKind::Definition, name);
        let answer = self.host.port.send(call, verb, object, request).await;
        // A request without an answer may have been carried out.
        self.recent_sources.forget(name);
        match serde_json::from_slice(&answer?) {
            Ok(DefinitionAnswer::Done { changed, kept }) => Ok((changed, kept)),
            Ok(DefinitionAnswer::Refused(refusal)) => Err(refused(verb, refusal)),
            Err(error) => Err(unreadable(verb, &error)),
        }
    }
}

pub(super) fn decode(value: &[u8]) -> Result<StoredDefinition> {
    serde_json::from_slice(value).map_err(|error| unreadable(Verb::PortableDefinitions, &error))
}

/// The revision with these first digits.
fn chosen(name: &str, kept: &StoredDefinition, digits: &str) -> Result<Arc<str>> {
    let mut fitting = kept.revisions.iter().map(|(revision, _)| revision);
    let mut fitting = fitting.by_ref().filter(|it| it.starts_with(digits));
    match (fitting.next(), fitting.count()) {
        (None, _) => Err(no_revision(name, digits)),
        (Some(only), 0) => Ok(Arc::clone(only)),
        (Some(_), others) => {
            let message = format!("{} revisions begin with {digits}", others + 1);
            Err(Error::invalid(Verb::PortableDefinitions, message)
                .with_reason("AMBIGUOUS_REVISION")
                .with_hint("Give more digits of the revision."))
        }
    }
}

fn no_revision(name: &str, revision: &str) -> Error {
    let message = format!("the definition `{name}` has no revision {revision}");
    Error::new(ErrorKind::NotFound, Verb::PortableDefinitions, message)
        .with_reason("REVISION_NOT_FOUND")
        .with_hint("{GetDefinition} lists the revisions.")
}

/// A revision, or the current one; none of a deleted definition.
fn shown(
    name: &str,
    kept: &StoredDefinition,
    revision: Option<&Arc<str>>,
    source: String,
) -> Option<PortableDefinition> {
    let revision = revision.or(kept.current.as_ref())?;
    Some(PortableDefinition {
        name: name.to_owned(),
        revision: revision.to_string(),
        source,
        create_time: kept.created(revision).unwrap_or(Timestamp::UNIX_EPOCH),
        deleted: kept.current.is_none(),
        disabled_trigger: kept.trigger.as_ref().and_then(disabled),
        home: kept.home,
    })
}

pub(super) fn disabled(trigger: &StoredTrigger) -> Option<DisabledTrigger> {
    let mark = trigger.disabled.as_ref()?;
    Some(DisabledTrigger {
        by: mark.by.to_string(),
        time: Timestamp::from_millisecond(mark.at).unwrap_or(Timestamp::UNIX_EPOCH),
        comment: mark.comment.to_string(),
    })
}
