//! The question before an escalation is resolved, and the answer.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use stateway_proto::v1::resolution::Action;
use stateway_proto::v1::{Escalation, ListEscalationsRequest, ResolveEscalationRequest};

use super::decide::unnamed;
use super::given;
use crate::Site;
use crate::fields::Fields;
use crate::flash::Flash;
use crate::form::{Submitted, hidden};
use crate::layout::Section;
use crate::page::dialog;
use crate::problem::Problem;
use crate::text::{said, said_within};
use crate::visitor::Visitor;

/// Pages of escalations that are looked through for one of them.
const MOST_PAGES: usize = 20;

pub(super) async fn ask(
    State(site): State<Site>,
    visitor: Visitor,
    fields: Fields,
) -> Result<Response, Problem> {
    let action = wants(&fields)?;
    let found = find(&site, &visitor, fields.get("name")).await?;
    let found = found.ok_or_else(gone)?;
    let content = question(&visitor, &found, action, &Fields::default(), None);
    Ok(dialog(&visitor, Section::Inbox, verb(action), &content))
}

pub(super) async fn send(
    State(site): State<Site>,
    submitted: Submitted,
) -> Result<Response, Problem> {
    let (visitor, fields) = (&submitted.visitor, &submitted.fields);
    let action = wants(fields)?;
    let resolved = match visitor.acting.actor.is_empty() {
        true => Err(unnamed()),
        false => resolve(&site, &submitted, action).await,
    };
    let problem = match resolved {
        Ok(done) => return Ok(submitted.redirect("/inbox", &done)),
        Err(problem) => problem,
    };
    let Some(found) = find(&site, visitor, fields.get("name")).await? else {
        // Somebody else was faster: there is nothing left to ask about.
        return Err(problem);
    };
    let content = question(visitor, &found, action, fields, Some(&problem));
    let page = dialog(visitor, Section::Inbox, verb(action), &content);
    Ok((problem.status, page).into_response())
}

async fn resolve(site: &Site, submitted: &Submitted, action: Action) -> Result<Flash, Problem> {
    let fields = &submitted.fields;
    let request = ResolveEscalationRequest {
        name: fields.get("name").to_owned(),
        action: action.into(),
        role: match action {
            Action::Reassign => fields.get("role").to_owned(),
            _ => String::new(),
        },
        comment: fields.get("comment").to_owned(),
        request_id: submitted.request_id(),
        etag: fields.get("etag").to_owned(),
    };
    let mut api = site.api.approvals();
    let request = submitted.visitor.request(request);
    let resolved = api.resolve_escalation(request).await?.into_inner();
    let done = match action {
        Action::Cancel => "Cancelled",
        Action::Reassign => "Given to another role",
        _ => "Resumed",
    };
    let definition = given::definition(&resolved.definition);
    Ok(Flash::done(format!(
        "{done}: step {} of {definition}.",
        resolved.step
    )))
}

/// The escalation of this name, if it is still one. The API has no way to get a single one.
async fn find(site: &Site, visitor: &Visitor, name: &str) -> Result<Option<Escalation>, Problem> {
    let parent = name.split("/executions/").next().unwrap_or_default();
    let mut token = String::new();
    for _ in 0..MOST_PAGES {
        let request = ListEscalationsRequest {
            parent: parent.to_owned(),
            page_size: 1_000,
            page_token: token,
        };
        let mut api = site.api.approvals();
        let page = api.list_escalations(visitor.request(request)).await?;
        let page = page.into_inner();
        let found = page.escalations.into_iter().find(|one| one.name == name);
        if found.is_some() || page.next_page_token.is_empty() {
            return Ok(found);
        }
        token = page.next_page_token;
    }
    Ok(None)
}

fn gone() -> Problem {
    Problem::not_found(
        "Nothing is escalated under this name any more.",
        "Somebody else may have decided. The inbox shows what is left.",
    )
}

fn wants(fields: &Fields) -> Result<Action, Problem> {
    match fields.get("action") {
        "resume" => Ok(Action::Resume),
        "reassign" => Ok(Action::Reassign),
        "cancel" => Ok(Action::Cancel),
        _ => Err(Problem::invalid(
            "A step is resumed, reassigned or its execution cancelled.",
            "Open it from the inbox.",
        )),
    }
}

const fn verb(action: Action) -> &'static str {
    match action {
        Action::Cancel => "Cancel the execution",
        Action::Reassign => "Reassign",
        _ => "Resume",
    }
}

const fn word(action: Action) -> &'static str {
    match action {
        Action::Cancel => "cancel",
        Action::Reassign => "reassign",
        _ => "resume",
    }
}

const fn what_happens(action: Action) -> &'static str {
    match action {
        Action::Cancel => "The execution ends here and is shown as failed, cancelled.",
        Action::Reassign => "The step is tried again, by a worker of another role.",
        _ => "The step is tried again as it is, by a worker of the same role.",
    }
}

fn question(
    visitor: &Visitor,
    found: &Escalation,
    action: Action,
    typed: &Fields,
    problem: Option<&Problem>,
) -> Markup {
    let danger = action == Action::Cancel;
    html! {
        h2 #dialog-title { (verb(action)) ": step " (said_within(&found.step, 60)) "?" }
        @if let Some(problem) = problem { (problem.render()) }
        p { (what_happens(action)) " It is recorded under the name "
            b { @if visitor.acting.actor.is_empty() { "nobody" } @else { (said_within(&visitor.acting.actor, 60)) } }
            "."
        }
        p.muted { "Execution " (given::execution(&found.execution)) ", attempt " (found.attempts) ": " (said(&found.cause)) }
        form method="post" action="/inbox/resolve" {
            (hidden(visitor))
            input type="hidden" name="name" value=(found.name);
            input type="hidden" name="etag" value=(found.etag);
            input type="hidden" name="action" value=(word(action));
            @if action == Action::Reassign {
                label { "Role that shall do it"
                    input name="role" value=(typed.get("role")) required maxlength="64" autocomplete="off" autofocus;
                }
            }
            label { "Comment, for the record"
                textarea.short name="comment" maxlength="2000" { (typed.get("comment")) }
            }
            div.buttons {
                @if danger { button.primary.danger { (verb(action)) } }
                @else { button.primary { (verb(action)) } }
                a.button href="/inbox" data-close { "Not now" }
            }
        }
    }
}
