//! What an HTTP step sends, beside its input: method, address and headers.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use stateway_definition::{Reference, StepKind, Template, is_header_value};
use thiserror::Error;

use crate::State;
use crate::ledger::Ledger;
use crate::plan::StepIx;
use crate::scope::resolve;

/// A request with every reference resolved. Its body is the task's input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpRequest {
    /// The method.
    pub method: String,
    /// The address.
    pub url: String,
    /// The headers by name, each once.
    pub headers: Vec<(String, String)>,
}

/// Why a request cannot be made. A step fails by it before its attempt is open.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RequestError {
    /// A reference has no value.
    #[error("`${{{0}}}` has no value")]
    Missing(Reference),
    /// A value cannot stand in a header: it would begin another one.
    #[error("the header `{0}` would contain a line break or another control character")]
    BadHeader(String),
}

/// What the HTTP step of this name sends; nothing for a step of another kind.
///
/// # Errors
/// A reference without a value or a value that no header can hold; a task whose attempt is open
/// has neither.
pub fn task_request(state: &State, step: &str) -> Result<Option<HttpRequest>, RequestError> {
    match state.plan().find(step) {
        Some(ix) => of(state, ix),
        None => Ok(None),
    }
}

pub(crate) fn of(ledger: &impl Ledger, ix: StepIx) -> Result<Option<HttpRequest>, RequestError> {
    let plan = &ledger.head().plan;
    let StepKind::Http {
        method,
        url,
        headers,
    } = &plan.define(ix).kind
    else {
        return Ok(None);
    };
    let headers = headers.iter().map(|(name, value)| {
        let value = text(ledger, value)?;
        if is_header_value(&value) {
            Ok((name.clone(), value))
        } else {
            Err(RequestError::BadHeader(name.clone()))
        }
    });
    Ok(Some(HttpRequest {
        method: method.clone(),
        url: text(ledger, url)?,
        headers: headers.collect::<Result<_, _>>()?,
    }))
}

fn text(ledger: &impl Ledger, template: &Template) -> Result<String, RequestError> {
    let rendered = template.render(&|reference| resolve(ledger, reference));
    Ok(match rendered.map_err(RequestError::Missing)? {
        Value::String(text) => text,
        other => other.to_string(),
    })
}
