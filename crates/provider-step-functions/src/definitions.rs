//! State machines as definitions: listed, read, checked, made and changed. Each change is published
//! as a version, so that a revision can be named and started.

use aws_sdk_sfn::types::{Tag, ValidateStateMachineDefinitionSeverity};
use serde_json::Value;
use stateway_model::Labels;
use stateway_provider_api::adapter::cursor::{self, DEFINITIONS};
use stateway_provider_api::adapter::page_size;
use stateway_provider_api::{
    ApplyDefinitionRequest, DefinitionProblem, DefinitionsPage, DefinitionsRequest, Error,
    ErrorKind, NativeDefinition, Result,
};

use crate::StepFunctionsProvider;
use crate::client::{Ask, NewMachine};
use crate::error::no_definition;
use crate::id::{machine_name, version};
use crate::request::LARGEST_PAGE;
use crate::response::time;
use crate::start::machine_arn;

/// The maximum number of versions that are listed; the service allows 1,000.
const MOST_VERSIONS: i32 = 1_000;

pub(crate) async fn list(
    provider: &StepFunctionsProvider,
    ask: Ask<'_>,
    request: &DefinitionsRequest,
) -> Result<DefinitionsPage> {
    let token: Option<String> = cursor::read(DEFINITIONS, request.cursor.as_deref(), ask.verb)?;
    let size = page_size(request.page_size, LARGEST_PAGE, ask.verb)?;
    let size = i32::try_from(size).unwrap_or(i32::MAX);
    let page = provider.reader.client.machines(ask, size, token).await?;
    let mine = page
        .rows
        .into_iter()
        .filter(|machine| machine.express == provider.config.express);
    let shown = mine.map(|machine| NativeDefinition {
        name: machine.name,
        create_time: machine.created,
        ..NativeDefinition::default()
    });
    Ok(DefinitionsPage {
        definitions: shown.collect(),
        next: page.next.map(|token| cursor::write(DEFINITIONS, &token)),
    })
}

pub(crate) async fn read(
    provider: &StepFunctionsProvider,
    ask: Ask<'_>,
    name: &str,
    revision: Option<&str>,
) -> Result<NativeDefinition> {
    let arn = machine_arn(provider, ask, name).await?;
    let asked = match revision {
        Some(revision) => format!("{arn}:{revision}"),
        None => arn.clone(),
    };
    let told = provider.reader.client.machine(ask, &asked).await;
    let told = told.map_err(|error| match error.kind {
        // A version that is not a number is no ARN, and so names nothing either.
        ErrorKind::NotFound | ErrorKind::InvalidArgument => no_definition(name),
        _ => error,
    })?;
    let versions = provider
        .reader
        .client
        .versions(ask, &arn, MOST_VERSIONS)
        .await?;
    let tags = provider.reader.client.tags(ask, &arn).await?;
    let revisions: Vec<String> = versions.iter().filter_map(|arn| number(arn)).collect();
    Ok(NativeDefinition {
        name: told.name,
        revision: match revision {
            Some(revision) => revision.to_owned(),
            None => revisions.first().cloned().unwrap_or_default(),
        },
        revisions,
        source: told.definition,
        labels: labels(tags),
        create_time: time(&told.creation_date),
        changed: false,
    })
}

pub(crate) async fn apply(
    provider: &StepFunctionsProvider,
    ask: Ask<'_>,
    request: &ApplyDefinitionRequest,
) -> Result<NativeDefinition> {
    let source = serde_json::from_str::<Value>(&request.source);
    let source =
        source.map_err(|_| Error::invalid(ask.verb, "a state machine is written in JSON"))?;
    let tags = tags(&request.labels);
    let arn = match machine_arn(provider, ask, &request.name).await {
        Ok(arn) => arn,
        Err(error) if error.kind == ErrorKind::NotFound => {
            return create(provider, ask, request, tags).await;
        }
        Err(error) => return Err(error),
    };
    let told = provider.reader.client.machine(ask, &arn).await?;
    let same = serde_json::from_str::<Value>(&told.definition).is_ok_and(|is| is == source);
    if !tags.is_empty() {
        provider.reader.client.tag(ask, &arn, tags).await?;
    }
    let revision = if same {
        let newest = provider.reader.client.versions(ask, &arn, 1).await?;
        newest.first().and_then(|arn| number(arn))
    } else {
        let updated = provider
            .reader
            .client
            .update(ask, &arn, &request.source)
            .await?;
        updated.as_deref().and_then(number)
    };
    Ok(NativeDefinition {
        name: told.name,
        revision: revision.unwrap_or_default(),
        source: request.source.clone(),
        labels: request.labels.clone(),
        create_time: time(&told.creation_date),
        changed: !same,
        ..NativeDefinition::default()
    })
}

async fn create(
    provider: &StepFunctionsProvider,
    ask: Ask<'_>,
    request: &ApplyDefinitionRequest,
    tags: Vec<Tag>,
) -> Result<NativeDefinition> {
    if machine_name(&request.name).is_some() {
        return Err(no_definition(&request.name));
    }
    if provider.config.role.is_empty() {
        let message = "a new state machine needs a role to run under";
        return Err(Error::new(ErrorKind::FailedPrecondition, ask.verb, message)
            .with_reason("ROLE_NOT_CONFIGURED")
            .with_hint("Set `role` of the provider to the ARN of an IAM role."));
    }
    let machine = NewMachine {
        name: &request.name,
        source: &request.source,
        role: &provider.config.role,
        express: provider.config.express,
        tags,
    };
    let (arn, published) = provider.reader.client.create(ask, machine).await?;
    provider.machines.forget();
    Ok(NativeDefinition {
        name: machine_name(&arn).unwrap_or(&request.name).to_owned(),
        revision: published.as_deref().and_then(number).unwrap_or_default(),
        source: request.source.clone(),
        labels: request.labels.clone(),
        changed: true,
        ..NativeDefinition::default()
    })
}

pub(crate) async fn validate(
    provider: &StepFunctionsProvider,
    ask: Ask<'_>,
    source: &str,
) -> Result<Vec<DefinitionProblem>> {
    let express = provider.config.express;
    let told = provider
        .reader
        .client
        .validate(ask, source, express)
        .await?;
    let problems = told.diagnostics.into_iter().map(|told| DefinitionProblem {
        is_error: told.severity != ValidateStateMachineDefinitionSeverity::Warning,
        code: told.code,
        message: told.message,
        location: told.location.unwrap_or_default(),
    });
    Ok(problems.collect())
}

/// The number of a version.
fn number(arn: &str) -> Option<String> {
    version(arn).map(str::to_owned)
}

fn tags(labels: &Labels) -> Vec<Tag> {
    let tag = |(key, value): (&String, &String)| Tag::builder().key(key).value(value).build();
    labels.iter().map(tag).collect()
}

fn labels(tags: Vec<Tag>) -> Labels {
    let label = |tag: Tag| Some((tag.key?, tag.value.unwrap_or_default()));
    tags.into_iter().filter_map(label).collect()
}
