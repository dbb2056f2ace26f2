//! `stateway.v1.Definitions`.

mod delete;
mod migrate;
mod name;
mod native;
mod report;
mod steps;

pub(super) use name::check_revision;

use std::sync::Arc;

use jiff::Timestamp;
use stateway_access::Permission;
use stateway_definition::{Parsed, Revision};
use stateway_model::DefinitionName;
use stateway_proto::v1;
use stateway_proto::v1::definitions_server::Definitions as Service;
use stateway_provider_api::{ApplyPortableRequest, ErrorKind, PortableDefinition, Verb};
use tonic::{Request, Response, Status};

use super::executions::page_token_refused;
use super::{Shell, home, triggers, validate};
use crate::access::ApiCall;
use crate::convert;
use crate::similar;
use crate::status::Refusal;
use crate::token::Sealer;
use crate::upstream::{CallError, Directory, Topic, Upstream};

const DEFINITIONS_PER_PAGE: usize = 50;
/// The most revisions that are named; older ones can still be asked for.
const MOST_REVISIONS: usize = 1_000;
const PURPOSE: &str = "definitions";
/// The name of a source that was sent without one.
const UNNAMED: &str = "definition";

/// The service over every provider with portable definitions; validation needs none.
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
    ) -> Result<Response<v1::ApplyDefinitionResponse>, Status> {
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

    async fn migrate_definition(
        &self,
        request: Request<v1::MigrateDefinitionRequest>,
    ) -> Result<Response<v1::MigrateDefinitionResponse>, Status> {
        self.shell
            .run("MigrateDefinition", request, |call, message| {
                self.migrate(call, message)
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
    /// Every provider gets it, so that each can run it; a provider that has it already changes nothing. The
    /// default provider is the last one: its trigger starts executions, and those of the others are disabled
    /// before.
    async fn apply(
        &self,
        call: ApiCall,
        request: v1::ApplyDefinitionRequest,
    ) -> Result<v1::ApplyDefinitionResponse, Status> {
        if !request.parent.is_empty() {
            return self.apply_native(call, request).await;
        }
        if !request.definition_id.is_empty() || !request.labels.is_empty() {
            let message = "`definition_id` and `labels` require a `parent`";
            return Err(Refusal::invalid("parent", message)
                .hint("Set `parent` to the provider to apply one of its native definitions.")
                .into());
        }
        let mut upstreams = if request.validate_only {
            Vec::new()
        } else {
            self.directory
                .in_order(&call.access, Topic::PORTABLE_DEFINITIONS)?
        };
        let file = source_name(&request.source_name)?;
        let request_id = validate::request_id(&call, &request.request_id)?;
        let parsed = stateway_definition::parse(&request.source, &file)
            .map_err(|invalid| report::refusal(&invalid))?;
        let name = report::named(&parsed, &file)?;
        for upstream in &upstreams {
            call.require_definition(Permission::Define, &upstream.id, &name)?;
        }
        let mut definition = checked(&name, &parsed, &request.source);
        let mut changed = false;
        if upstreams.len() > 1 {
            let places = home::places(&call, &upstreams, &name.id).await?;
            let home = places.home.map(|home| home.upstream.id.clone());
            // A definition that is new has its default on the first provider.
            let home = home.unwrap_or_else(|| upstreams[0].id.clone());
            upstreams.sort_by_key(|upstream| upstream.id == home);
        }
        let last = upstreams.last().copied();
        for upstream in upstreams {
            let apply = ApplyPortableRequest {
                source: request.source.clone(),
                source_name: file.clone(),
                request_id: request_id.clone(),
            };
            let guarded = upstream.within(&call);
            let applied = guarded.portable_definitions(Verb::ApplyPortable, |definitions, call| {
                definitions.apply_portable(call, apply)
            });
            let applied = applied.await?;
            definition.create_time = Some(convert::timestamp(applied.definition.create_time));
            changed |= applied.changed;
            if let Some(home) = last.filter(|home| home.id != upstream.id)
                && parsed.definition.trigger.is_some()
            {
                let found = find(&call, upstream, &name.id, None).await?;
                let placed = home::Placed { upstream, found };
                home::disable_elsewhere(&call, &placed, home).await?;
            }
        }
        Ok(v1::ApplyDefinitionResponse {
            definition: Some(definition),
            warnings: parsed.warnings.iter().map(report::diagnostic).collect(),
            changed,
        })
    }

    async fn get(
        &self,
        call: ApiCall,
        request: v1::GetDefinitionRequest,
    ) -> Result<v1::Definition, Status> {
        if request.name.starts_with("providers/") {
            return self.get_native(call, &request.name).await;
        }
        let mut upstreams = self
            .directory
            .in_order(&call.access, Topic::PORTABLE_DEFINITIONS)?;
        let (name, revision) = name::parse(&request.name)?;
        let full = name.to_string();
        let reads = |upstream: &&Arc<Upstream>| call.access.reads_definition(&upstream.id, &full);
        if !upstreams.iter().all(reads) {
            // What may not be read does not exist, with any revision.
            upstreams.retain(reads);
            if upstreams.is_empty() {
                let refusal = similar::no_portable_definition(&call, &[], &name.id);
                return Err(refusal.await.into());
            }
        }
        // The default provider first: its trigger is the one that starts executions.
        let mut home = upstreams.first().map(|only| only.id.clone());
        if upstreams.len() > 1
            && let Ok(places) = home::places(&call, &upstreams, &name.id).await
        {
            home = places.home.map(|home| home.upstream.id.clone());
            upstreams.sort_by_key(|upstream| Some(&upstream.id) != home.as_ref());
        }
        let mut missing = None;
        for upstream in &upstreams {
            match find(&call, upstream, &name.id, revision.as_deref()).await {
                Ok(found) => {
                    let mut answer = shown(found, true);
                    let home = home.filter(|_| !answer.deleted);
                    answer.default_provider =
                        home.map(|home| home.resource_name()).unwrap_or_default();
                    let guarded = upstream.within(&call);
                    let all = guarded
                        .portable_definitions(Verb::PortableDefinitions, |definitions, call| {
                            definitions.portable_revisions(call, &name.id)
                        });
                    let all = all.await?.into_iter().take(MOST_REVISIONS);
                    answer.revisions = all.map(|found| found.revision).collect();
                    return Ok(answer);
                }
                Err(failed) if failed.error.kind == ErrorKind::NotFound => missing = Some(failed),
                Err(failed) => return Err(failed.into()),
            }
        }
        match (missing, revision) {
            (Some(failed), Some(_)) if call.access.is_open() => Err(failed.into()),
            (Some(_) | None, _) => {
                let refusal = similar::no_portable_definition(&call, &upstreams, &name.id);
                Err(refusal.await.into())
            }
        }
    }

    /// Every provider has the same portable definitions, so the list of one provider is the list.
    async fn list(
        &self,
        call: ApiCall,
        request: v1::ListDefinitionsRequest,
    ) -> Result<v1::ListDefinitionsResponse, Status> {
        if !request.parent.is_empty() {
            return self.list_native(call, request).await;
        }
        let upstreams = self
            .directory
            .all(&call.access, Topic::PORTABLE_DEFINITIONS)?;
        let purpose = call.access.bound(PURPOSE.to_owned());
        let size = validate::page_size(request.page_size, DEFINITIONS_PER_PAGE)?;
        let after: Option<String> = match request.page_token.as_str() {
            "" => None,
            token => Some(
                self.sealer
                    .open(&purpose, token)
                    .map_err(page_token_refused)?,
            ),
        };
        let mut last = None;
        for upstream in upstreams {
            let guarded = upstream.within(&call);
            let page = guarded
                .portable_definitions(Verb::PortableDefinitions, |definitions, call| {
                    definitions.list_portable(call, after.as_deref(), size)
                });
            match page.await {
                Ok(page) => {
                    let definitions = page.definitions.into_iter().filter(|found| {
                        let name = triggers::definition_name(&found.name);
                        call.access.reads_definition(&upstream.id, &name)
                    });
                    return Ok(v1::ListDefinitionsResponse {
                        next_page_token: match page.next {
                            Some(next) => self.sealer.seal(&purpose, next),
                            None => String::new(),
                        },
                        definitions: definitions.map(|found| shown(found, false)).collect(),
                    });
                }
                Err(failed) => last = Some(failed),
            }
        }
        match last {
            Some(failed) => Err(failed.into()),
            None => Ok(v1::ListDefinitionsResponse::default()),
        }
    }

    async fn validate(
        &self,
        call: ApiCall,
        request: v1::ValidateDefinitionRequest,
    ) -> Result<v1::ValidateDefinitionResponse, Status> {
        if !request.parent.is_empty() {
            return self.validate_native(call, request).await;
        }
        let file = source_name(&request.source_name)?;
        let parsed = stateway_definition::parse(&request.source, &file);
        Ok(report::response(&call, parsed, (&request.source, &self.directory)).await)
    }
}

/// The current revision, or the one that begins with these digits.
async fn find(
    call: &ApiCall,
    upstream: &Upstream,
    name: &str,
    digits: Option<&str>,
) -> Result<PortableDefinition, CallError> {
    let guarded = upstream.within(call);
    let found = guarded.portable_definitions(Verb::PortableDefinitions, |definitions, call| {
        definitions.get_portable(call, name, digits)
    });
    found.await
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
        ..v1::Definition::default()
    }
}

/// A definition as it is stored. Description, steps and trigger are read from the source.
fn shown(found: PortableDefinition, with_source: bool) -> v1::Definition {
    let parsed = stateway_definition::parse(&found.source, UNNAMED);
    let parsed = parsed.ok().map(|parsed| parsed.definition);
    let name = triggers::definition_name(&found.name);
    let mark = found.disabled_trigger.as_ref();
    let trigger = parsed
        .as_ref()
        .and_then(|definition| triggers::of(definition, mark, Timestamp::now()))
        .map(|trigger| v1::Trigger {
            name: triggers::trigger_name(&found.name),
            ..trigger
        });
    v1::Definition {
        trigger,
        steps: match (&parsed, with_source) {
            (Some(definition), true) => steps::of(definition),
            _ => Vec::new(),
        },
        name,
        revision: found.revision,
        source: if with_source {
            found.source
        } else {
            String::new()
        },
        create_time: Some(convert::timestamp(found.create_time)),
        description: parsed
            .map(|definition| definition.description)
            .unwrap_or_default(),
        deleted: found.deleted,
        ..v1::Definition::default()
    }
}
