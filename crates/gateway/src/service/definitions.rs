//! `stateway.v1.Definitions`.

mod delete;
mod name;
mod native;
mod report;
mod steps;

pub(super) use name::check_revision;

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use stateway_definition::{Parsed, Revision};
use stateway_engine::{ApplyDefinition, DefinitionRecord, DisabledTrigger};
use stateway_model::DefinitionName;
use stateway_proto::v1;
use stateway_proto::v1::definitions_server::Definitions as Service;
use stateway_provider_api::Call;
use tonic::{Request, Response, Status};

use super::executions::page_token_refused;
use super::{Shell, triggers, validate};
use crate::convert;
use crate::engines::{Chosen, Directory, request_key};
use crate::similar;
use crate::status::Refusal;
use crate::token::Sealer;

const DEFINITIONS_PER_PAGE: usize = 50;
/// The most revisions that are named; older ones can still be asked for.
const MOST_REVISIONS: usize = 1_000;
const PURPOSE: &str = "definitions";
const WHAT: &str = "portable definitions";
/// What a source is called that nobody named.
const UNNAMED: &str = "definition";

/// The service over every built-in engine; checking needs none.
pub(crate) struct Definitions {
    pub(crate) shell: Arc<Shell>,
    pub(crate) directory: Arc<Directory>,
    pub(crate) sealer: Arc<Sealer>,
}

#[tonic::async_trait]
impl Service for Definitions {
    async fn apply_definition(
        &self,
        request: Request<v1::ApplyDefinitionRequest>,
    ) -> Result<Response<v1::Definition>, Status> {
        self.shell
            .run("ApplyDefinition", request, |call, message| {
                self.apply(call, message)
            })
            .await
    }

    async fn get_definition(
        &self,
        request: Request<v1::GetDefinitionRequest>,
    ) -> Result<Response<v1::Definition>, Status> {
        self.shell
            .run("GetDefinition", request, |call, message| {
                self.get(call, message)
            })
            .await
    }

    async fn list_definitions(
        &self,
        request: Request<v1::ListDefinitionsRequest>,
    ) -> Result<Response<v1::ListDefinitionsResponse>, Status> {
        self.shell
            .run("ListDefinitions", request, |call, message| {
                self.list(call, message)
            })
            .await
    }

    async fn delete_definition(
        &self,
        request: Request<v1::DeleteDefinitionRequest>,
    ) -> Result<Response<v1::DeleteDefinitionResponse>, Status> {
        self.shell
            .run("DeleteDefinition", request, |call, message| {
                self.delete(call, message)
            })
            .await
    }

    async fn validate_definition(
        &self,
        request: Request<v1::ValidateDefinitionRequest>,
    ) -> Result<Response<v1::ValidateDefinitionResponse>, Status> {
        self.shell
            .run("ValidateDefinition", request, |call, message| {
                self.validate(call, message)
            })
            .await
    }
}

impl Definitions {
    /// Every engine gets it, so that each can run it; applying again what one has already
    /// changes nothing there.
    async fn apply(
        &self,
        call: Call,
        mut request: v1::ApplyDefinitionRequest,
    ) -> Result<v1::Definition, Status> {
        if !request.parent.is_empty() {
            return self.apply_native(call, request).await;
        }
        if !request.definition_id.is_empty() || !request.labels.is_empty() {
            let message = "a portable definition says its own name and has no labels";
            return Err(Refusal::invalid("parent", message)
                .hint("Name the provider whose own definition is meant.")
                .into());
        }
        let engines = if request.validate_only {
            Vec::new()
        } else {
            self.directory.all(WHAT)?
        };
        let file = source_name(&request.source_name)?;
        let id = validate::request_id(&std::mem::take(&mut request.request_id))?;
        let parsed = stateway_definition::parse(&request.source, &file)
            .map_err(|invalid| report::refusal(&invalid))?;
        let name = report::named(&parsed, &file)?;
        let key = request_key(&id, "ApplyDefinition", &call, &request);
        let mut answer = checked(&name, &parsed, &request.source);
        for chosen in engines {
            let apply = ApplyDefinition {
                source: request.source.clone(),
                source_name: file.clone(),
                request: Some(key.clone()),
            };
            let applied = chosen.answer(&call, chosen.engine.apply(apply)).await?;
            answer.create_time = Some(convert::timestamp(applied.record.created));
            answer.changed |= applied.changed;
        }
        Ok(answer)
    }

    async fn get(
        &self,
        call: Call,
        request: v1::GetDefinitionRequest,
    ) -> Result<v1::Definition, Status> {
        if request.name.starts_with("providers/") {
            return self.get_native(call, &request.name).await;
        }
        let engines = self.directory.all(WHAT)?;
        let (name, revision) = name::parse(&request.name)?;
        let mut missing = None;
        for chosen in &engines {
            let wanted = find(&call, *chosen, &name, revision.as_deref());
            match wanted.await {
                Ok(record) => {
                    let now = chosen.engine.now();
                    let marks = chosen.engine.disabled_triggers();
                    let marks = chosen.answer(&call, marks).await?;
                    let mut answer = shown(record, true, (&marks, now));
                    answer.deleted =
                        revision.is_some() && is_deleted(&call, *chosen, &name).await?;
                    let all = chosen.engine.revisions(name.id.clone());
                    let all = chosen.answer(&call, all).await?;
                    let all = all.iter().take(MOST_REVISIONS);
                    answer.revisions = all.map(|record| record.revision.to_string()).collect();
                    return Ok(answer);
                }
                Err(status) if status.code() == tonic::Code::NotFound => missing = Some(status),
                Err(status) => return Err(status),
            }
        }
        match (missing, revision) {
            (Some(_), None) => {
                let refusal = similar::no_portable_definition(&call, &engines, &name.id);
                Err(refusal.await.into())
            }
            (Some(status), Some(_)) => Err(status),
            (None, _) => Err(Refusal::unsupported(WHAT).into()),
        }
    }

    /// Engines have the same definitions, so the first one's list is the list.
    async fn list(
        &self,
        call: Call,
        request: v1::ListDefinitionsRequest,
    ) -> Result<v1::ListDefinitionsResponse, Status> {
        if !request.parent.is_empty() {
            return self.list_native(call, request).await;
        }
        let engines = self.directory.all(WHAT)?;
        let size = validate::page_size(request.page_size, DEFINITIONS_PER_PAGE)?;
        let after: Option<String> = match request.page_token.as_str() {
            "" => None,
            token => Some(
                self.sealer
                    .open(PURPOSE, token)
                    .map_err(page_token_refused)?,
            ),
        };
        let Some(chosen) = engines.first() else {
            return Ok(v1::ListDefinitionsResponse::default());
        };
        let page = chosen.engine.definitions(after.map(Into::into), size + 1);
        let mut records = chosen.answer(&call, page).await?;
        let more = records.len() > size;
        records.truncate(size);
        let last = records.last().map(|record| record.name.to_string());
        let marks = chosen.engine.disabled_triggers();
        let marks = chosen.answer(&call, marks).await?;
        let now = chosen.engine.now();
        Ok(v1::ListDefinitionsResponse {
            next_page_token: match last.filter(|_| more) {
                Some(last) => self.sealer.seal(PURPOSE, last),
                None => String::new(),
            },
            definitions: records
                .into_iter()
                .map(|record| shown(record, false, (&marks, now)))
                .collect(),
        })
    }

    async fn validate(
        &self,
        call: Call,
        request: v1::ValidateDefinitionRequest,
    ) -> Result<v1::ValidateDefinitionResponse, Status> {
        if !request.parent.is_empty() {
            return self.validate_native(call, request).await;
        }
        let file = source_name(&request.source_name)?;
        Ok(report::response(
            stateway_definition::parse(&request.source, &file),
            &self.directory,
        ))
    }
}

/// Whether a definition of which a revision is stored has no current one.
async fn is_deleted(
    call: &Call,
    chosen: Chosen<'_>,
    name: &DefinitionName,
) -> Result<bool, Status> {
    let current = chosen.engine.definition(name.id.clone(), None);
    match chosen.answer(call, current).await {
        Ok(_) => Ok(false),
        Err(status) if status.code() == tonic::Code::NotFound => Ok(true),
        Err(status) => Err(status),
    }
}

/// The current revision, or the one that begins with these digits.
pub(super) async fn find(
    call: &Call,
    chosen: Chosen<'_>,
    name: &DefinitionName,
    digits: Option<&str>,
) -> Result<DefinitionRecord, Status> {
    let of_name = |revision| chosen.engine.definition(name.id.clone(), revision);
    let Some(digits) = digits else {
        return chosen.answer(call, of_name(None)).await;
    };
    if digits.len() == name::WHOLE {
        return chosen.answer(call, of_name(Some(digits.into()))).await;
    }
    let all = chosen.answer(call, chosen.engine.revisions(name.id.clone()));
    let mut fitting = all.await?;
    fitting.retain(|record| record.revision.starts_with(digits));
    match fitting.len() {
        0 => chosen.answer(call, of_name(Some(digits.into()))).await,
        1 => Ok(fitting.remove(0)),
        several => Err(name::ambiguous(digits, several)),
    }
}

fn source_name(sent: &str) -> Result<String, Status> {
    let name = validate::text("source_name", sent.to_owned())?;
    Ok(if name.is_empty() {
        UNNAMED.to_owned()
    } else {
        name
    })
}

/// A definition that was read and not yet stored.
fn checked(name: &DefinitionName, parsed: &Parsed, source: &str) -> v1::Definition {
    v1::Definition {
        name: name.to_string(),
        revision: Revision::of(&parsed.definition).to_string(),
        source: source.to_owned(),
        create_time: None,
        description: parsed.definition.description.clone(),
        steps: steps::of(&parsed.definition),
        warnings: parsed.warnings.iter().map(report::diagnostic).collect(),
        changed: false,
        ..v1::Definition::default()
    }
}

/// A definition as it is stored. Description, steps and trigger are read from the source.
fn shown(
    record: DefinitionRecord,
    with_source: bool,
    (marks, now): (&BTreeMap<Arc<str>, DisabledTrigger>, Timestamp),
) -> v1::Definition {
    let parsed = stateway_definition::parse(&record.source, UNNAMED);
    let parsed = parsed.ok().map(|parsed| parsed.definition);
    let name = DefinitionName {
        provider: None,
        id: Arc::clone(&record.name),
    };
    let trigger = parsed
        .as_ref()
        .and_then(|definition| triggers::of(definition, marks.get(&record.name), now))
        .map(|trigger| v1::Trigger {
            definition: name.to_string(),
            ..trigger
        });
    v1::Definition {
        trigger,
        steps: match (&parsed, with_source) {
            (Some(definition), true) => steps::of(definition),
            _ => Vec::new(),
        },
        name: name.to_string(),
        revision: record.revision.to_string(),
        source: if with_source {
            record.source
        } else {
            String::new()
        },
        create_time: Some(convert::timestamp(record.created)),
        description: parsed
            .map(|definition| definition.description)
            .unwrap_or_default(),
        ..v1::Definition::default()
    }
}
