//! Requests that need more than a conversion.

use std::time::Duration;

use stateway_model::{ExecutionId, ProviderId};
use stateway_provider_api::{Call, Error, ListRequest, Result, Table, Verb, WatchScope};
use stateway_wire::v1::watch_executions_request::Scope;
use stateway_wire::{convert, v1};
use tonic::Request;

/// The message with the deadline of the call.
pub(crate) fn with_deadline<T>(call: &Call, message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(call.remaining());
    request
}

/// A cursor for the wire, where an empty one means the first page.
pub(crate) fn cursor(verb: Verb, cursor: Option<String>) -> Result<String> {
    match cursor {
        Some(text) if text.is_empty() => Err(Error::foreign_cursor(verb)),
        Some(text) => Ok(text),
        None => Ok(String::new()),
    }
}

/// The size of a page for the wire.
pub(crate) fn page_size(size: u32) -> i32 {
    i32::try_from(size).unwrap_or(i32::MAX)
}

pub(crate) fn list(
    call: &Call,
    request: ListRequest,
    table: &Table,
    id: &ProviderId,
) -> Result<v1::ListExecutionsRequest> {
    Ok(v1::ListExecutionsRequest {
        context: Some(convert::context(call)),
        page_size: page_size(request.page_size),
        hints: Some(convert::hints(&request.hints, table, id)),
        cursor: cursor(Verb::List, request.cursor)?,
    })
}

pub(crate) fn watch(
    call: &Call,
    scope: &WatchScope,
    heartbeat: Duration,
) -> v1::WatchExecutionsRequest {
    let (kind, id) = match scope {
        WatchScope::All | WatchScope::Within(_) => (Scope::All, None),
        WatchScope::One(id) => (Scope::One, Some(id)),
        WatchScope::End(id) => (Scope::End, Some(id)),
    };
    v1::WatchExecutionsRequest {
        context: Some(convert::context(call)),
        scope: kind.into(),
        id: id.map(ExecutionId::to_string).unwrap_or_default(),
        open_timeout: Some(convert::duration(call.remaining())),
        heartbeat_interval: Some(convert::duration(heartbeat)),
    }
}
