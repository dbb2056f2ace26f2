//! A definition that does not exist: the refusal, with the name that the caller probably meant.

use std::collections::BTreeSet;
use std::sync::Arc;

use stateway_model::encoded;
use stateway_provider_api::{DefinitionsRequest, Error, Verb, nearest};
use tonic::Code;

use crate::access::ApiCall;
use crate::status::Refusal;
use crate::upstream::Upstream;

/// The reason of an error about a definition that does not exist.
pub(crate) const DEFINITION_NOT_FOUND: &str = "DEFINITION_NOT_FOUND";
/// The most names that are compared.
const MOST_COMPARED: u32 = 500;

/// The refusal of a portable definition that none of these providers has.
pub(crate) async fn no_portable_definition(
    call: &ApiCall,
    upstreams: &[&Arc<Upstream>],
    id: &str,
) -> Refusal {
    let mut known = BTreeSet::new();
    for upstream in upstreams {
        let guarded = upstream.merged(call);
        let page = guarded.portable_definitions(Verb::PortableDefinitions, |definitions, call| {
            definitions.list_portable(call, None, MOST_COMPARED as usize)
        });
        // A provider that cannot list its definitions now only costs the suggestion.
        let page = page.await.unwrap_or_default();
        let names = page.definitions.into_iter().map(|found| found.name);
        let readable = |name: &String| {
            let name = format!("definitions/{}", encoded(name));
            call.access.reads_definition(&upstream.id, &name)
        };
        known.extend(names.filter(readable));
    }
    let message = format!("no definition `{id}`");
    let similar = nearest(id, known.iter().map(String::as_str));
    let refusal = match similar {
        Some(similar) => {
            let message = format!("{message}; did you mean `{similar}`?");
            Refusal::new(Code::NotFound, DEFINITION_NOT_FOUND, message)
                .with("suggestion", similar)
                .hint("{ListDefinitions} shows every definition.")
        }
        None => Refusal::new(Code::NotFound, DEFINITION_NOT_FOUND, message).hint(
            "{ApplyDefinition} uploads a definition; {ListDefinitions} shows every definition.",
        ),
    };
    match upstreams {
        [only] => refusal.with("provider", only.id.to_string()),
        _ => refusal,
    }
}

/// The error of the provider for an unknown native definition. If the provider can list its definitions and its
/// error has no suggestion, a similar name is added.
pub(crate) async fn no_native_definition(
    upstream: &Upstream,
    call: &ApiCall,
    id: &str,
    error: Error,
) -> Error {
    if !call.access.reads_all(&upstream.id) {
        // The name of a definition that the caller may not read is no suggestion.
        let mut error = error;
        error.suggestion = None;
        return error;
    }
    if error.suggestion.is_some() || !upstream.capabilities().definitions {
        return error;
    }
    let request = DefinitionsRequest {
        page_size: MOST_COMPARED,
        cursor: None,
    };
    let guarded = upstream.within(call);
    let page = guarded.call(Verb::Definitions, |provider, call| {
        provider.definitions(call, request)
    });
    let page = page.await;
    // A provider that cannot list its definitions now only costs the suggestion.
    let known = page.map(|page| page.definitions).unwrap_or_default();
    match nearest(id, known.iter().map(|known| known.name.as_str())) {
        Some(similar) => error.with_suggestion(similar),
        None => error,
    }
}
