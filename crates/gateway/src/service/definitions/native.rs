//! Definitions of an engine's own: `providers/{provider}/definitions/{definition}`.

use stateway_access::{KnownLabels, Object, Permission};
use stateway_model::{DefinitionName, ProviderId};
use stateway_proto::v1;
use stateway_proto::v1::diagnostic::Severity;
use stateway_provider_api::{
    ApplyDefinitionRequest, DefinitionProblem, DefinitionsRequest, Error, ErrorKind,
    NativeDefinition, Verb,
};
use tonic::{Code, Status};

use super::super::executions::page_token_refused;
use super::super::validate;
use super::{DEFINITIONS_PER_PAGE, Definitions, source_name};
use crate::access::ApiCall;
use crate::convert;
use crate::parent::Parent;
use crate::similar::{self, DEFINITION_NOT_FOUND};
use crate::status::{self, Refusal};
use crate::upstream::{CallError, Upstream, named};

/// Names the page tokens of a provider's own definitions.
const PURPOSE: &str = "native-definitions";

impl Definitions {
    pub(super) async fn apply_native(
        &self,
        call: ApiCall,
        request: v1::ApplyDefinitionRequest,
    ) -> Result<v1::ApplyDefinitionResponse, Status> {
        let upstream = self.upstream(&call, &request.parent)?;
        let apply = ApplyDefinitionRequest {
            name: validate::text("definition_id", request.definition_id)?,
            source: request.source,
            labels: validate::labels(request.labels)?,
            request_id: validate::request_id(&call, &request.request_id)?,
        };
        let named = DefinitionName::native(upstream.id.clone(), &apply.name);
        let name = named.map_err(|error| Refusal::invalid("definition_id", format!("{error}")))?;
        let full = name.to_string();
        let object = Object {
            provider: Some(upstream.id.as_str()),
            definition: Some(&full),
            labels: KnownLabels::All(&apply.labels),
            role: None,
        };
        call.require(Permission::Define, &object, &format!("`{full}`"))?;
        if request.validate_only {
            let problems = problems(upstream, &call, &apply.source).await?;
            return checked_only(upstream, &apply, &problems);
        }
        let guarded = upstream.within(&call);
        let applied = guarded.call(Verb::ApplyDefinition, |provider, call| {
            provider.apply_definition(call, apply)
        });
        let applied = applied.await?;
        Ok(v1::ApplyDefinitionResponse {
            changed: applied.changed,
            definition: Some(shown(&upstream.id, applied)?),
            warnings: Vec::new(),
        })
    }

    pub(super) async fn get_native(
        &self,
        call: ApiCall,
        name: &str,
    ) -> Result<v1::Definition, Status> {
        let (name, revision) = match name.split_once("/revisions/") {
            Some((name, revision)) => (name, Some(revision)),
            None => (name, None),
        };
        let wrong = |message: String| Status::from(Refusal::invalid("name", message));
        let name: DefinitionName = name.parse().map_err(|error| wrong(format!("{error}")))?;
        if revision.is_some_and(|revision| revision.is_empty() || revision.contains('/')) {
            return Err(wrong("a revision is one word".to_owned()));
        }
        let Some(provider) = &name.provider else {
            return Err(wrong(
                "the name of the definition has no provider".to_owned(),
            ));
        };
        let upstream = named(&call.access, &self.directory.upstreams, provider)?;
        let reads = call.access.reads_definition(provider, &name.to_string());
        let guarded = upstream.within(&call);
        let read = guarded.call(Verb::Definitions, |provider, call| {
            provider.definition(call, &name.id, revision)
        });
        match read.await {
            // What may not be read does not exist, with any revision.
            Ok(_) if !reads => Err(absent(&upstream.id, &name)),
            Err(failed) if failed.error.kind == ErrorKind::NotFound && !call.access.is_open() => {
                Err(absent(&upstream.id, &name))
            }
            Ok(found) => shown(&upstream.id, found),
            Err(failed) if failed.error.reason() == DEFINITION_NOT_FOUND && revision.is_none() => {
                let error = failed.error;
                let error = similar::no_native_definition(upstream, &call, &name.id, error).await;
                Err(status::of_provider(&upstream.id, &error))
            }
            Err(failed) => Err(failed.into()),
        }
    }

    pub(super) async fn list_native(
        &self,
        call: ApiCall,
        request: v1::ListDefinitionsRequest,
    ) -> Result<v1::ListDefinitionsResponse, Status> {
        let upstream = self.upstream(&call, &request.parent)?;
        let purpose = call.access.bound(PURPOSE.to_owned());
        let size = validate::page_size(request.page_size, DEFINITIONS_PER_PAGE)?;
        let after: Option<(String, String)> = match request.page_token.as_str() {
            "" => None,
            token => Some(
                self.sealer
                    .open(&purpose, token)
                    .map_err(page_token_refused)?,
            ),
        };
        let cursor = match after {
            Some((parent, _)) if parent != request.parent => {
                let message = "the page token belongs to another provider";
                return Err(Refusal::invalid("page_token", message)
                    .reason("INVALID_PAGE_TOKEN")
                    .into());
            }
            after => after.map(|(_, cursor)| cursor),
        };
        let list = DefinitionsRequest {
            page_size: u32::try_from(size).unwrap_or(u32::MAX),
            cursor,
        };
        let guarded = upstream.within(&call);
        let page = guarded.call(Verb::Definitions, |provider, call| {
            provider.definitions(call, list)
        });
        let page = page.await?;
        let definitions = page.definitions.into_iter();
        Ok(v1::ListDefinitionsResponse {
            definitions: definitions
                .map(|found| shown(&upstream.id, found))
                .filter(|shown| {
                    let shown = shown.as_ref();
                    shown.map_or(true, |shown| {
                        call.access.reads_definition(&upstream.id, &shown.name)
                    })
                })
                .collect::<Result<_, _>>()?,
            next_page_token: match page.next {
                Some(cursor) => self.sealer.seal(&purpose, (request.parent, cursor)),
                None => String::new(),
            },
        })
    }

    pub(super) async fn validate_native(
        &self,
        call: ApiCall,
        request: v1::ValidateDefinitionRequest,
    ) -> Result<v1::ValidateDefinitionResponse, Status> {
        let upstream = self.upstream(&call, &request.parent)?;
        let file = source_name(&request.source_name)?;
        let problems = problems(upstream, &call, &request.source).await?;
        Ok(v1::ValidateDefinitionResponse {
            diagnostics: problems
                .iter()
                .map(|problem| diagnostic(problem, &file))
                .collect(),
            ..v1::ValidateDefinitionResponse::default()
        })
    }

    fn upstream(&self, call: &ApiCall, parent: &str) -> Result<&Upstream, Status> {
        match validate::parent(parent)? {
            Parent::One(id) => Ok(named(&call.access, &self.directory.upstreams, &id)?),
            Parent::All => {
                let message =
                    "`parent` must name one provider: each provider has its own definitions";
                Err(Refusal::invalid("parent", message).into())
            }
        }
    }
}

/// The answer for a definition that does not exist, and for one that the caller may not know of.
fn absent(provider: &ProviderId, name: &DefinitionName) -> Status {
    let message = format!("no definition `{}`", name.id);
    let error = Error::new(ErrorKind::NotFound, Verb::Definitions, message);
    status::of_provider(provider, &error.with_reason(DEFINITION_NOT_FOUND))
}

/// What the engine finds wrong with a definition.
async fn problems(
    upstream: &Upstream,
    call: &ApiCall,
    source: &str,
) -> Result<Vec<DefinitionProblem>, CallError> {
    let guarded = upstream.within(call);
    let checked = guarded.call(Verb::ApplyDefinition, |provider, call| {
        provider.validate_definition(call, source)
    });
    checked.await
}

/// What `validate_only` answers: the engine's errors as a refusal, its warnings with the definition.
fn checked_only(
    upstream: &Upstream,
    apply: &ApplyDefinitionRequest,
    problems: &[DefinitionProblem],
) -> Result<v1::ApplyDefinitionResponse, Status> {
    if let Some(error) = problems.iter().find(|problem| problem.is_error) {
        let message = format!("{} {}", error.location, error.message);
        return Err(Refusal::invalid("source", message.trim())
            .reason("INVALID_DEFINITION")
            .with("native_code", &error.code)
            .into());
    }
    let definition = shown(
        &upstream.id,
        NativeDefinition {
            name: apply.name.clone(),
            source: apply.source.clone(),
            labels: apply.labels.clone(),
            ..NativeDefinition::default()
        },
    )?;
    Ok(v1::ApplyDefinitionResponse {
        definition: Some(definition),
        warnings: problems
            .iter()
            .map(|problem| diagnostic(problem, ""))
            .collect(),
        changed: false,
    })
}

fn shown(provider: &ProviderId, found: NativeDefinition) -> Result<v1::Definition, Status> {
    let name = DefinitionName::native(provider.clone(), &found.name).map_err(|error| {
        let message = format!("the definition has no usable name: {error}");
        Refusal::new(Code::Internal, "INTERNAL", message)
    })?;
    Ok(v1::Definition {
        name: name.to_string(),
        revision: found.revision,
        source: found.source,
        create_time: found.create_time.map(convert::timestamp),
        labels: found.labels.into_iter().collect(),
        revisions: found.revisions,
        ..v1::Definition::default()
    })
}

fn diagnostic(problem: &DefinitionProblem, file: &str) -> v1::Diagnostic {
    v1::Diagnostic {
        severity: if problem.is_error {
            Severity::Error.into()
        } else {
            Severity::Warning.into()
        },
        source_name: file.to_owned(),
        message: if problem.location.is_empty() {
            problem.message.clone()
        } else {
            format!("{}: {}", problem.location, problem.message)
        },
        rule: problem.code.clone(),
        ..v1::Diagnostic::default()
    }
}
