//! Input and output: short on the page, whole as plain text.

use axum::body::Body;
use axum::extract::State;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use futures::{StreamExt, stream};
use maud::{Markup, html};
use stateway_proto::v1::read_payload_request::Source;
use stateway_proto::v1::{Payload, ReadPayloadRequest};

use super::facts::Facts;
use crate::Site;
use crate::executions::ExecutionPath;
use crate::problem::Problem;
use crate::text::{cut, lines, set_out};
use crate::visitor::Visitor;

/// Characters on the page; the whole is a click away.
const SHOWN: usize = 4_000;

/// Both, side by side.
pub(super) fn both(path: &ExecutionPath, facts: &Facts) -> Markup {
    let execution = &facts.execution;
    html! {
        @if facts.payloads_left_out {
            section.card aria-labelledby="payloads-title" {
                h2 #payloads-title { "Input and output" }
                p {
                    "Too large for this page. " a href=(format!("{}/input", path.path())) { "Input" } " "
                    a href=(format!("{}/output", path.path())) { "Output" }
                }
            }
        } @else if execution.payloads_redacted {
            section.card aria-labelledby="payloads-title" {
                h2 #payloads-title { "Input and output" }
                p.muted { "Left out: no access rule allows you to read payloads." }
            }
        } @else if execution.input.is_some() || execution.output.is_some() {
            div.pair {
                (one("Input", "input", path, execution.input.as_ref()))
                (one("Output", "output", path, execution.output.as_ref()))
            }
        }
    }
}

fn one(title: &str, word: &str, path: &ExecutionPath, payload: Option<&Payload>) -> Markup {
    let id = format!("{word}-title");
    html! {
        section.card aria-labelledby=(id) {
            h2 id=(id) { (title) }
            @match payload {
                None => { p.muted { "None." } }
                Some(payload) => { (short(payload, &format!("{}/{word}", path.path()))) }
            }
        }
    }
}

fn short(payload: &Payload, whole: &str) -> Markup {
    let size = payload.data.len();
    let Some(text) = set_out(&payload.data) else {
        return html! {
            p { "Not text: " (size) " bytes. " a href=(whole) download { "Download" } }
        };
    };
    html! {
        @match cut(&text, SHOWN) {
            None => { pre.payload tabindex="0" data-copy="the payload" { (lines(&text)) } }
            Some(start) => {
                pre.payload tabindex="0" { (lines(start)) "…" }
                p { a href=(whole) { "All " (size) " bytes" } }
            }
        }
    }
}

pub(super) async fn input(
    State(site): State<Site>,
    visitor: Visitor,
    path: ExecutionPath,
) -> Result<Response, Problem> {
    whole(&site, &visitor, &path, Source::Input).await
}

pub(super) async fn output(
    State(site): State<Site>,
    visitor: Visitor,
    path: ExecutionPath,
) -> Result<Response, Problem> {
    whole(&site, &visitor, &path, Source::Output).await
}

/// The payload in parts, as plain text, whatever its content type is: a browser must not make a page of
/// it.
async fn whole(
    site: &Site,
    visitor: &Visitor,
    path: &ExecutionPath,
    source: Source,
) -> Result<Response, Problem> {
    let word = if source == Source::Input {
        "input"
    } else {
        "output"
    };
    let request = ReadPayloadRequest {
        name: path.name(),
        source: source.into(),
    };
    let mut api = site.api.executions();
    let opened = api.read_payload(visitor.request(request)).await?;
    let mut parts = opened.into_inner();
    let first = parts.message().await?.unwrap_or_default();
    let (kind, place) = if begins_as_text(&first.data) {
        ("text/plain; charset=utf-8", "inline")
    } else {
        ("application/octet-stream", "attachment")
    };
    let place = format!("{place}; filename=\"{word}\"");
    let headers = [(CONTENT_TYPE, kind), (CONTENT_DISPOSITION, place.as_str())];
    let rest = parts.map(|part| part.map(|part| part.data));
    let data = stream::iter([Ok(first.data)]).chain(rest);
    Ok((headers, Body::from_stream(data)).into_response())
}

/// Whether the first part of a payload is text. A character may be cut at its end.
fn begins_as_text(part: &[u8]) -> bool {
    match std::str::from_utf8(part) {
        Ok(_) => true,
        Err(error) => error.error_len().is_none(),
    }
}
