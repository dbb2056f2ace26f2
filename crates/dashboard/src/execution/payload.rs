//! Input and output: short on the page, whole as plain text.

use axum::extract::State;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use stateway_proto::v1::{Execution, Payload};

use super::facts::execution;
use crate::Site;
use crate::executions::ExecutionPath;
use crate::problem::Problem;
use crate::text::{cut, lines, set_out};
use crate::visitor::Visitor;

/// Characters on the page; the whole is a click away.
const SHOWN: usize = 4_000;

/// Both, side by side.
pub(super) fn both(path: &ExecutionPath, execution: &Execution) -> Markup {
    html! {
        @if execution.input.is_some() || execution.output.is_some() {
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
            None => { pre.payload tabindex="0" { (lines(&text)) } }
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
    let execution = execution(&site, &visitor, &path).await?;
    whole(execution.input, "input")
}

pub(super) async fn output(
    State(site): State<Site>,
    visitor: Visitor,
    path: ExecutionPath,
) -> Result<Response, Problem> {
    let execution = execution(&site, &visitor, &path).await?;
    whole(execution.output, "output")
}

/// As plain text, whatever it says it is: a browser must not make a page of it.
fn whole(payload: Option<Payload>, word: &str) -> Result<Response, Problem> {
    let payload = payload
        .ok_or_else(|| Problem::not_found(&format!("The execution shows no {word}."), ""))?;
    let is_text = std::str::from_utf8(&payload.data).is_ok();
    let (kind, place) = match is_text {
        true => ("text/plain; charset=utf-8", "inline"),
        false => ("application/octet-stream", "attachment"),
    };
    let place = format!("{place}; filename=\"{word}\"");
    let headers = [(CONTENT_TYPE, kind), (CONTENT_DISPOSITION, place.as_str())];
    Ok((headers, payload.data).into_response())
}
