//! The report on a definition: its problems, and the providers that can run it.

use futures::future::join_all;
use stateway_definition::{Diagnostic, Invalid, Parsed, Revision, Severity};
use stateway_model::DefinitionName;
use stateway_proto::v1;
use stateway_proto::v1::portability::Verdict;
use stateway_provider_api::{PortabilityVerdict, Verb};
use tonic::{Code, Status};

use crate::access::ApiCall;
use crate::convert;
use crate::status::Refusal;
use crate::upstream::{Directory, Topic, Upstream};

const REASON: &str = "INVALID_DEFINITION";

/// The answer of ValidateDefinition.
pub(super) async fn response(
    call: &ApiCall,
    read: Result<Parsed, Invalid>,
    (source, directory): (&str, &Directory),
) -> v1::ValidateDefinitionResponse {
    let mut response = v1::ValidateDefinitionResponse::default();
    match read {
        Err(invalid) => {
            response.diagnostics = invalid.diagnostics.iter().map(diagnostic).collect();
            response.omitted_count = convert::int32(invalid.left_off);
        }
        Ok(parsed) => {
            response.diagnostics = parsed.warnings.iter().map(diagnostic).collect();
            response.revision = Revision::of(&parsed.definition).to_string();
            let name = parsed.definition.name.as_deref();
            let name = name.and_then(|name| DefinitionName::portable(name).ok());
            response.name = name.map(|name| name.to_string()).unwrap_or_default();
            let upstreams = directory.upstreams.values();
            let upstreams = upstreams.filter(|upstream| call.access.sees_provider(&upstream.id));
            let asked = upstreams.map(|upstream| portability(call, upstream, source));
            response.portability = join_all(asked).await;
        }
    }
    response
}

/// Whether a provider can run a definition, as the provider says.
pub(super) async fn portability(
    call: &ApiCall,
    upstream: &Upstream,
    source: &str,
) -> v1::Portability {
    let (verdict, reasons) = if Topic::PORTABLE_DEFINITIONS.is_offered_by(upstream) {
        let guarded = upstream.merged(call);
        let asked = guarded.portable_definitions(Verb::PortableDefinitions, |definitions, call| {
            definitions.portability(call, source)
        });
        match asked.await {
            Ok(found) => (word(found.verdict), found.reasons),
            Err(failed) => (Verdict::Unspecified, vec![failed.error.into_message()]),
        }
    } else {
        let reason = format!(
            "providers of kind {} run only their native definitions, not portable definitions",
            upstream.kind
        );
        (Verdict::Impossible, vec![reason])
    };
    v1::Portability {
        provider: upstream.id.resource_name(),
        verdict: verdict.into(),
        reasons,
    }
}

const fn word(verdict: PortabilityVerdict) -> Verdict {
    match verdict {
        PortabilityVerdict::Exact => Verdict::Exact,
        PortabilityVerdict::Emulated => Verdict::Emulated,
        PortabilityVerdict::Impossible => Verdict::Impossible,
    }
}

pub(super) fn diagnostic(from: &Diagnostic) -> v1::Diagnostic {
    let severity = match from.severity {
        Severity::Error => v1::diagnostic::Severity::Error,
        Severity::Warning => v1::diagnostic::Severity::Warning,
    };
    v1::Diagnostic {
        severity: severity.into(),
        source_name: from.file.clone(),
        line: convert::int32(from.at.line),
        column: convert::int32(from.at.column),
        message: from.message.clone(),
        hint: from.hint.clone(),
        rule: from.rule.to_string(),
    }
}

/// An invalid definition, refused with one violation for each error.
pub(super) fn refusal(invalid: &Invalid) -> Status {
    let errors: Vec<_> = invalid
        .diagnostics
        .iter()
        .filter(|found| found.severity == Severity::Error)
        .collect();
    let message = match errors.first() {
        Some(first) => format!("the definition is not valid: {}", place(first)),
        None => "the definition is not valid".to_owned(),
    };
    let refusal = Refusal::new(Code::InvalidArgument, REASON, message)
        .with("errors", errors.len().to_string())
        .with("left_off", invalid.left_off.to_string())
        .hint("{ValidateDefinition} lists every problem with line and column.");
    errors
        .into_iter()
        .fold(refusal, |refusal, found| {
            let description = if found.hint.is_empty() {
                place(found)
            } else {
                format!("{} ({})", place(found), found.hint)
            };
            refusal.violation("source", description)
        })
        .into()
}

fn place(found: &Diagnostic) -> String {
    let (line, column) = (found.at.line, found.at.column);
    format!("{}:{line}:{column}: {}", found.file, found.message)
}

/// The name under which a definition is kept.
pub(super) fn named(parsed: &Parsed, file: &str) -> Result<DefinitionName, Status> {
    let name = parsed.definition.name.as_deref().unwrap_or_default();
    DefinitionName::portable(name).map_err(|_| {
        let message = format!("{file}:1:1: a definition needs a name to be stored");
        Refusal::new(Code::InvalidArgument, REASON, message.clone())
            .violation("source", message)
            .hint("Add `name:` at the top.")
            .into()
    })
}
