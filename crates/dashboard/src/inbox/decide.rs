//! The question before an approval is granted or rejected, and the answer.

use axum::extract::State as Extract;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use stateway_proto::v1::approval::State;
use stateway_proto::v1::decide_approval_request::Choice;
use stateway_proto::v1::{Approval, DecideApprovalRequest};

use super::reader::{Request, read_approval};
use super::{approval, given};
use crate::Site;
use crate::acting::own_path;
use crate::fields::Fields;
use crate::flash::Flash;
use crate::form::{Submitted, hidden};
use crate::layout::Section;
use crate::page::dialog;
use crate::problem::Problem;
use crate::text::said_within;
use crate::time::Now;
use crate::visitor::Visitor;

/// The longest comment; the API takes more, a line for the record does not need it.
const LONGEST_COMMENT: usize = 2_000;

pub(super) async fn ask(
    Extract(site): Extract<Site>,
    visitor: Visitor,
    fields: Fields,
) -> Result<Response, Problem> {
    let request = read_approval(&site, &visitor, fields.get("name")).await?;
    let grant = wants(&fields)?;
    let content = question(&visitor, &request, grant, &fields, None);
    Ok(dialog(&visitor, Section::Inbox, title(grant), &content))
}

pub(super) async fn send(
    Extract(site): Extract<Site>,
    submitted: Submitted,
) -> Result<Response, Problem> {
    let (visitor, fields) = (&submitted.visitor, &submitted.fields);
    let grant = wants(fields)?;
    let decided = if visitor.acting.actor.is_empty() {
        Err(unnamed())
    } else {
        decide(&site, &submitted, grant).await
    };
    let problem = match decided {
        Ok(done) => return Ok(submitted.redirect(back(fields), &done)),
        Err(problem) => problem,
    };
    let status = problem.status;
    // The question again, as it stands now, with the reason beside it.
    let request = read_approval(&site, visitor, fields.get("name")).await?;
    let content = question(visitor, &request, grant, fields, Some(&problem));
    Ok((
        status,
        dialog(visitor, Section::Inbox, title(grant), &content),
    )
        .into_response())
}

async fn decide(site: &Site, submitted: &Submitted, grant: bool) -> Result<Flash, Problem> {
    let fields = &submitted.fields;
    let request = DecideApprovalRequest {
        name: fields.get("name").to_owned(),
        decision: if grant { Choice::Grant } else { Choice::Reject }.into(),
        comment: fields.get("comment").to_owned(),
        request_id: submitted.request_id(),
        etag: fields.get("etag").to_owned(),
    };
    let mut api = site.api.approvals();
    let decided = api
        .decide_approval(submitted.visitor.request(request))
        .await?;
    let decided = decided.into_inner();
    let what = if grant { "Granted" } else { "Rejected" };
    let definition = given::definition(&decided.definition);
    Ok(Flash::done(format!(
        "{what}: step {} of {definition}.",
        decided.step
    )))
}

fn wants(fields: &Fields) -> Result<bool, Problem> {
    match fields.get("answer") {
        "grant" => Ok(true),
        "reject" => Ok(false),
        _ => Err(Problem::invalid(
            "Choose grant or reject.",
            "Open it from the inbox.",
        )),
    }
}

pub(super) fn unnamed() -> Problem {
    Problem::forbidden(
        "A decision needs your name.",
        "Enter your name with the button at the top, then decide.",
    )
}

/// The page to return to: the one that the question was asked from.
pub(super) fn back(fields: &Fields) -> &str {
    match fields.get("back") {
        "" => "/inbox",
        path => own_path(path),
    }
}

const fn title(grant: bool) -> &'static str {
    if grant { "Grant?" } else { "Reject?" }
}

/// The question, or the answer that another person has given.
fn question(
    visitor: &Visitor,
    request: &Request,
    grant: bool,
    typed: &Fields,
    problem: Option<&Problem>,
) -> Markup {
    let asked = &request.approval;
    let pending = asked.state() == State::Pending;
    html! {
        h2 #dialog-title {
            @if !pending { "Approval of step " (said_within(&asked.step, 60)) }
            @else if grant { "Grant step " (said_within(&asked.step, 60)) "?" }
            @else { "Reject step " (said_within(&asked.step, 60)) "?" }
        }
        @if let Some(problem) = problem { (problem.render()) }
        @if pending {
            (form(visitor, request, grant, typed))
        } @else {
            (answered(asked, back(typed)))
        }
    }
}

/// How the request ended; there is nothing left to decide.
fn answered(approval: &Approval, back: &str) -> Markup {
    html! {
        p {
            "This approval is not pending any more: "
            (given::decision(approval.state(), approval.decision.as_ref(), Now::page()))
        }
        div.buttons { a.button href=(back) data-close { "Back" } }
    }
}

fn form(visitor: &Visitor, request: &Request, grant: bool, typed: &Fields) -> Markup {
    let asked = &request.approval;
    html! {
        p {
            @if grant { "The execution " (given::execution(&asked.execution)) " continues." }
            @else { "The execution " (given::execution(&asked.execution)) " does not run this step." }
            " The decision is recorded under the name "
            b { @if visitor.acting.actor.is_empty() { "anonymous" } @else { (said_within(&visitor.acting.actor, 60)) } }
            " and cannot be taken back."
        }
        (approval::context(request, Now::page()))
        form method="post" action="/inbox/decide" {
            (hidden(visitor))
            input type="hidden" name="name" value=(asked.name);
            input type="hidden" name="etag" value=(asked.etag);
            input type="hidden" name="answer" value=(if grant { "grant" } else { "reject" });
            input type="hidden" name="back" value=(back(typed));
            label { "Comment (recorded)"
                textarea.short name="comment" maxlength=(LONGEST_COMMENT) autofocus { (typed.get("comment")) }
            }
            div.buttons {
                @if grant { button.primary { "Grant" } } @else { button.primary.danger { "Reject" } }
                a.button href=(back(typed)) data-close { "Not now" }
            }
        }
    }
}
