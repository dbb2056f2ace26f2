//! The question before an approval is granted or denied, and the answer.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use maud::{Markup, html};
use stateway_proto::v1::DecideApprovalRequest;

use super::desk::{Request, read_approval};
use super::{approval, given};
use crate::Site;
use crate::fields::Fields;
use crate::flash::Flash;
use crate::form::{Submitted, hidden};
use crate::layout::Section;
use crate::page::dialog;
use crate::problem::Problem;
use crate::text::said_within;
use crate::visitor::Visitor;

/// The longest comment; the API takes more, a line for the record does not need it.
const LONGEST_COMMENT: usize = 2_000;

pub(super) async fn ask(
    State(site): State<Site>,
    visitor: Visitor,
    fields: Fields,
) -> Result<Response, Problem> {
    let request = read_approval(&site, &visitor, fields.get("name")).await?;
    let grant = wants(&fields)?;
    let content = question(&visitor, &request, grant, "", None);
    Ok(dialog(&visitor, Section::Inbox, title(grant), &content))
}

pub(super) async fn send(
    State(site): State<Site>,
    submitted: Submitted,
) -> Result<Response, Problem> {
    let (visitor, fields) = (&submitted.visitor, &submitted.fields);
    let grant = wants(fields)?;
    let decided = match visitor.acting.actor.is_empty() {
        true => Err(unnamed()),
        false => decide(&site, &submitted, grant).await,
    };
    let problem = match decided {
        Ok(done) => return Ok(submitted.redirect("/inbox", &done)),
        Err(problem) => problem,
    };
    let status = problem.status;
    // The question again, as it stands now, with the reason beside it.
    let request = read_approval(&site, visitor, fields.get("name")).await?;
    let comment = fields.get("comment");
    let content = question(visitor, &request, grant, comment, Some(&problem));
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
        grant,
        comment: fields.get("comment").to_owned(),
        request_id: submitted.request_id(),
        etag: fields.get("etag").to_owned(),
    };
    let mut api = site.api.approvals();
    let decided = api
        .decide_approval(submitted.visitor.request(request))
        .await?;
    let decided = decided.into_inner();
    let what = if grant { "Granted" } else { "Denied" };
    let definition = given::definition(&decided.definition);
    Ok(Flash::done(format!(
        "{what}: step {} of {definition}.",
        decided.step
    )))
}

fn wants(fields: &Fields) -> Result<bool, Problem> {
    match fields.get("answer") {
        "grant" => Ok(true),
        "deny" => Ok(false),
        _ => Err(Problem::invalid(
            "An approval is granted or denied.",
            "Open it from the inbox.",
        )),
    }
}

pub(super) fn unnamed() -> Problem {
    Problem::forbidden(
        "Nobody is named, and a decision is made in someone's name.",
        "Say who you are with the button at the top, then decide.",
    )
}

const fn title(grant: bool) -> &'static str {
    if grant { "Grant?" } else { "Deny?" }
}

fn question(
    visitor: &Visitor,
    request: &Request,
    grant: bool,
    comment: &str,
    problem: Option<&Problem>,
) -> Markup {
    let asked = &request.approval;
    html! {
        h2 #dialog-title {
            @if grant { "Grant" } @else { "Deny" }
            " step " (said_within(&asked.step, 60)) "?"
        }
        @if let Some(problem) = problem { (problem.render()) }
        p {
            @if grant { "The execution " (given::execution(&asked.execution)) " goes on." }
            @else { "The execution " (given::execution(&asked.execution)) " does not do this step." }
            " It is recorded under the name "
            b { @if visitor.acting.actor.is_empty() { "nobody" } @else { (said_within(&visitor.acting.actor, 60)) } }
            " and cannot be taken back."
        }
        (approval::context(request, Timestamp::now()))
        form method="post" action="/inbox/decide" {
            (hidden(visitor))
            input type="hidden" name="name" value=(asked.name);
            input type="hidden" name="etag" value=(asked.etag);
            input type="hidden" name="answer" value=(if grant { "grant" } else { "deny" });
            label { "Comment, for the record"
                textarea.short name="comment" maxlength=(LONGEST_COMMENT) autofocus { (comment) }
            }
            div.buttons {
                @if grant { button.primary { "Grant" } } @else { button.primary.danger { "Deny" } }
                a.button href="/inbox" data-close { "Not now" }
            }
        }
    }
}
