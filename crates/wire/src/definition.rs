//! Definitions of an engine's own.

use stateway_provider_api::{
    ApplyDefinitionRequest, Call, DefinitionProblem, DefinitionsPage, NativeDefinition,
};

use crate::request::{check_page, context, read_next_cursor, read_request_id};
use crate::time::{read_time, timestamp};
use crate::{Misfit, v1};

/// A definition for the wire.
#[must_use]
pub fn definition(definition: &NativeDefinition) -> v1::Definition {
    v1::Definition {
        name: definition.name.clone(),
        revision: definition.revision.clone(),
        revisions: definition.revisions.clone(),
        source: definition.source.clone(),
        labels: definition.labels.clone().into_iter().collect(),
        create_time: definition.create_time.map(timestamp),
        changed: definition.changed,
    }
}

/// A definition of the wire.
///
/// # Errors
/// A field breaks its rule.
pub fn read_definition(definition: v1::Definition) -> Result<NativeDefinition, Misfit> {
    if definition.name.is_empty() {
        return Err(Misfit::new("name", "is empty"));
    }
    Ok(NativeDefinition {
        name: definition.name,
        revision: definition.revision,
        revisions: definition.revisions,
        source: definition.source,
        labels: definition.labels.into_iter().collect(),
        create_time: read_time("create_time", definition.create_time)?,
        changed: definition.changed,
    })
}

/// A page of definitions for the wire.
#[must_use]
pub fn definitions_page(page: &DefinitionsPage) -> v1::ListDefinitionsResponse {
    v1::ListDefinitionsResponse {
        definitions: page.definitions.iter().map(definition).collect(),
        next_cursor: page.next.clone().unwrap_or_default(),
    }
}

/// A page of definitions of the wire.
///
/// # Errors
/// A definition breaks a rule, or there are more of them than asked for.
pub fn read_definitions_page(
    page: v1::ListDefinitionsResponse,
    page_size: u32,
) -> Result<DefinitionsPage, Misfit> {
    check_page("definitions", page.definitions.len(), page_size)?;
    let definitions = page.definitions.into_iter().map(read_definition);
    let definitions: Result<Vec<_>, _> = definitions.collect();
    Ok(DefinitionsPage {
        definitions: definitions.map_err(|misfit| misfit.inside("definitions"))?,
        next: read_next_cursor(page.next_cursor)?,
    })
}

/// An apply for the wire.
#[must_use]
pub fn apply_request(call: &Call, request: ApplyDefinitionRequest) -> v1::ApplyDefinitionRequest {
    v1::ApplyDefinitionRequest {
        context: Some(context(call)),
        name: request.name,
        source: request.source,
        labels: request.labels.into_iter().collect(),
        request_id: request.request_id.to_string(),
    }
}

/// An apply of the wire.
///
/// # Errors
/// A field breaks its rule.
pub fn read_apply_request(
    request: v1::ApplyDefinitionRequest,
) -> Result<ApplyDefinitionRequest, Misfit> {
    Ok(ApplyDefinitionRequest {
        name: request.name,
        source: request.source,
        labels: request.labels.into_iter().collect(),
        request_id: read_request_id(&request.request_id)?,
    })
}

/// What an engine finds in a definition, for the wire.
#[must_use]
pub fn problems(problems: Vec<DefinitionProblem>) -> v1::ValidateDefinitionResponse {
    let problems = problems.into_iter().map(|problem| v1::DefinitionProblem {
        is_error: problem.is_error,
        code: problem.code,
        message: problem.message,
        location: problem.location,
    });
    v1::ValidateDefinitionResponse {
        problems: problems.collect(),
    }
}

/// What an engine finds in a definition, of the wire.
#[must_use]
pub fn read_problems(response: v1::ValidateDefinitionResponse) -> Vec<DefinitionProblem> {
    let problems = response.problems.into_iter();
    let problems = problems.map(|problem| DefinitionProblem {
        is_error: problem.is_error,
        code: problem.code,
        message: problem.message,
        location: problem.location,
    });
    problems.collect()
}
