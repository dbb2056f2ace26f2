//! The question before an escalation is resolved, and the answer.

use axum::extract::State as Extract;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use stateway_proto::v1::escalation::State;
use stateway_proto::v1::resolution::Action;
use stateway_proto::v1::{Escalation, ResolveEscalationRequest};

use super::decide::{back, unnamed};
use super::given;
use super::reader::read_escalation;
use crate::Site;
use crate::compensation;
use crate::fields::Fields;
use crate::flash::Flash;
use crate::form::{Submitted, hidden};
use crate::layout::Section;
use crate::page::dialog;
use crate::problem::Problem;
use crate::text::{said, said_within};
use crate::time::Now;
use crate::visitor::Visitor;

pub(super) async fn ask(
    Extract(site): Extract<Site>,
    visitor: Visitor,
    fields: Fields,
) -> Result<Response, Problem> {
    let action = wants(&fields)?;
    let found = read_escalation(&site, &visitor, fields.get("name")).await?;
    let content = question(&visitor, &found, action, &fields, None);
    Ok(dialog(&visitor, Section::Inbox, verb(action), &content))
}

pub(super) async fn send(
    Extract(site): Extract<Site>,
    submitted: Submitted,
) -> Result<Response, Problem> {
    let (visitor, fields) = (&submitted.visitor, &submitted.fields);
    let action = wants(fields)?;
    let resolved = if visitor.acting.actor.is_empty() {
        Err(unnamed())
    } else {
        resolve(&site, &submitted, action).await
    };
    let problem = match resolved {
        Ok(done) => return Ok(submitted.redirect(back(fields), &done)),
        Err(problem) => problem,
    };
    let found = read_escalation(&site, visitor, fields.get("name")).await?;
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
        compensation: match action {
            Action::Cancel => compensation::choice(fields.get("compensation"))?.into(),
            _ => 0,
        },
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

fn wants(fields: &Fields) -> Result<Action, Problem> {
    match fields.get("action") {
        "resume" => Ok(Action::Resume),
        "reassign" => Ok(Action::Reassign),
        "cancel" => Ok(Action::Cancel),
        _ => Err(Problem::invalid(
            "Choose one of resume, reassign and cancel.",
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
        Action::Cancel => "The execution is cancelled.",
        Action::Reassign => {
            "The step runs again, by a worker of another role. If the approval of a policy rule \
             expired, the other role is asked for the approval instead."
        }
        _ => "The step runs again unchanged, by a worker of the same role.",
    }
}

/// The question, or the answer that another person has given.
fn question(
    visitor: &Visitor,
    found: &Escalation,
    action: Action,
    typed: &Fields,
    problem: Option<&Problem>,
) -> Markup {
    let pending = found.state() == State::Pending;
    html! {
        h2 #dialog-title {
            @if pending { (verb(action)) ": step " (said_within(&found.step, 60)) "?" }
            @else { "Escalation of step " (said_within(&found.step, 60)) }
        }
        @if let Some(problem) = problem { (problem.render()) }
        @if pending {
            (form(visitor, found, action, typed))
        } @else {
            (answered(found, back(typed)))
        }
    }
}

/// How the escalation ended; there is nothing left to decide.
fn answered(escalation: &Escalation, back: &str) -> Markup {
    html! {
        p {
            "This escalation is not pending any more: "
            (given::resolution(escalation, Now::page()))
        }
        div.buttons { a.button href=(back) data-close { "Back" } }
    }
}

fn form(visitor: &Visitor, found: &Escalation, action: Action, typed: &Fields) -> Markup {
    let danger = action == Action::Cancel;
    html! {
        p { (what_happens(action)) " The decision is recorded under the name "
            b { @if visitor.acting.actor.is_empty() { "anonymous" } @else { (said_within(&visitor.acting.actor, 60)) } }
            "."
        }
        p.muted { "Execution " (given::execution(&found.execution)) ", attempt " (found.attempt) ": " (said(&found.cause)) }
        form method="post" action="/inbox/resolve" {
            (hidden(visitor))
            input type="hidden" name="name" value=(found.name);
            input type="hidden" name="etag" value=(found.etag);
            input type="hidden" name="action" value=(word(action));
            input type="hidden" name="back" value=(back(typed));
            @if action == Action::Reassign {
                label { "Role that runs or approves the step"
                    input name="role" value=(typed.get("role")) required maxlength="64" autocomplete="off" autofocus;
                }
            }
            @if action == Action::Cancel { (compensation::field(typed.get("compensation"))) }
            label { "Comment (recorded)"
                textarea.short name="comment" maxlength="2000" { (typed.get("comment")) }
            }
            div.buttons {
                @if danger { button.primary.danger { (verb(action)) } }
                @else { button.primary { (verb(action)) } }
                a.button href=(back(typed)) data-close { "Not now" }
            }
        }
    }
}
