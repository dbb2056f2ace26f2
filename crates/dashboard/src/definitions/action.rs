//! What can be done about a portable definition: disable and enable its trigger, delete it.

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use maud::{Markup, html};
use stateway_identity::PageObject;
use stateway_proto::v1::{
    Definition, DeleteDefinitionRequest, DisableTriggerRequest, EnableTriggerRequest, Payload,
    StartExecutionRequest,
};

use super::name::DefinitionPath;
use super::one;
use crate::Site;
use crate::executions::path_of;
use crate::fields::Fields;
use crate::flash::Flash;
use crate::form::{Submitted, hidden, name_field};
use crate::layout::Section;
use crate::page::dialog;
use crate::permission::{provider_of, refused};
use crate::problem::Problem;
use crate::text::said_within;
use crate::visitor::Visitor;

/// The actions of a definition, as addresses name them.
pub fn definition_actions() -> Vec<&'static str> {
    Action::ALL.map(Action::word).to_vec()
}

/// One of the API's verbs on a definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    RunNow,
    DisableTrigger,
    EnableTrigger,
    Delete,
}

impl Action {
    const ALL: [Self; 4] = [
        Self::RunNow,
        Self::DisableTrigger,
        Self::EnableTrigger,
        Self::Delete,
    ];

    /// In addresses.
    const fn word(self) -> &'static str {
        match self {
            Self::RunNow => "run-now",
            Self::DisableTrigger => "disable-trigger",
            Self::EnableTrigger => "enable-trigger",
            Self::Delete => "delete",
        }
    }

    /// On buttons.
    const fn title(self) -> &'static str {
        match self {
            Self::RunNow => "Run now",
            Self::DisableTrigger => "Disable the trigger",
            Self::EnableTrigger => "Enable the trigger",
            Self::Delete => "Delete",
        }
    }

    const fn effect(self) -> &'static str {
        match self {
            Self::RunNow => {
                "An execution starts now, with the input that the schedule gives: `scheduledTime`. The \
                 next start by the schedule stays as it is."
            }
            Self::DisableTrigger => {
                "Neither events nor the schedule start executions until the trigger is enabled. \
                 Executions can still be started manually."
            }
            Self::EnableTrigger => {
                "Events and the schedule start executions again. Scheduled times that passed \
                 meanwhile start no executions."
            }
            Self::Delete => {
                "Nothing starts the definition any more and its schedule stops. Stored executions \
                 stay readable. Applying a definition of the same name restores it."
            }
        }
    }

    /// The permission that the verb needs.
    const fn permission(self) -> &'static str {
        match self {
            Self::DisableTrigger | Self::EnableTrigger => "steer",
            Self::RunNow => "start",
            Self::Delete => "define",
        }
    }

    fn fits(self, found: &Definition) -> bool {
        let trigger = found.trigger.as_ref();
        let disabled = trigger.is_some_and(|trigger| trigger.disabled.is_some());
        match self {
            Self::RunNow => {
                let scheduled = trigger.is_some_and(|trigger| !trigger.schedule.is_empty());
                scheduled && !found.deleted
            }
            Self::DisableTrigger => trigger.is_some() && !disabled,
            Self::EnableTrigger => disabled,
            Self::Delete => !found.deleted,
        }
    }

    fn parse(word: &str) -> Result<Self, Problem> {
        let found = Self::ALL.into_iter().find(|action| action.word() == word);
        found.ok_or_else(|| {
            Problem::not_found("There is no such action.", "Go back to the definition.")
        })
    }
}

/// The buttons of a portable definition: links to a question each. What the access rules refuse cannot be pressed.
pub(super) fn buttons(path: &DefinitionPath, found: &Definition, visitor: &Visitor) -> Markup {
    let portable = path.provider().is_none();
    let actions = Action::ALL.into_iter().filter(|action| action.fits(found));
    let actions: Vec<_> = actions.filter(|_| portable).collect();
    html! {
        @if !actions.is_empty() {
            nav.actions aria-label="Actions" {
                @for action in actions {
                    @if visitor.may(action.permission(), &object_of(found)) {
                        a.button.(if action == Action::Delete { "danger" } else { "" })
                            href=(format!("{}/do/{}", path.path(), action.word())) data-dialog {
                            (action.title())
                        }
                    } @else { (refused(action.title(), action.permission())) }
                }
            }
        }
    }
}

/// What access rules can depend on.
pub(super) fn object_of(found: &Definition) -> PageObject<'_> {
    PageObject {
        provider: provider_of(&found.name),
        definition: Some(&found.name),
        labels: None,
    }
}

/// The page with the question.
pub(super) async fn ask(
    State(site): State<Site>,
    path: DefinitionPath,
    Path((_, action)): Path<(String, String)>,
    visitor: Visitor,
) -> Result<Response, Problem> {
    let action = Action::parse(&action)?;
    // A definition that does not exist has no question.
    one::get(&site, &visitor, &path.name).await?;
    let content = question(&visitor, &path, action, &Fields::default(), None);
    Ok(dialog(
        &visitor,
        Section::Definitions,
        action.title(),
        &content,
    ))
}

/// The page that carries the answer out.
pub(super) async fn send(
    State(site): State<Site>,
    path: DefinitionPath,
    Path((_, action)): Path<(String, String)>,
    submitted: Submitted,
) -> Result<Response, Problem> {
    let action = Action::parse(&action)?;
    let problem = match perform(&site, &path, action, &submitted).await {
        Ok(done) => return Ok(submitted.redirect(&done.to, &Flash::done(done.message))),
        Err(problem) => problem,
    };
    let (visitor, fields) = (&submitted.visitor, &submitted.fields);
    let content = question(visitor, &path, action, fields, Some(&problem));
    let page = dialog(visitor, Section::Definitions, action.title(), &content);
    Ok(submitted.remember((problem.status, page).into_response()))
}

/// What was done, and where to go.
struct ActionResult {
    to: String,
    message: String,
}

async fn perform(
    site: &Site,
    path: &DefinitionPath,
    action: Action,
    submitted: &Submitted,
) -> Result<ActionResult, Problem> {
    let (visitor, fields) = (&submitted.visitor, &submitted.fields);
    if visitor.acting.actor.is_empty() {
        return Err(Problem::forbidden(
            "A change of a definition needs your name.",
            "Enter your name in the form. Behind a proxy, the proxy has to send it.",
        ));
    }
    let (name, request_id) = (path.name.clone(), submitted.request_id());
    let done = |message: String| ActionResult {
        to: path.path(),
        message,
    };
    match action {
        Action::RunNow => {
            let time = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
            let input = serde_json::json!({ "scheduledTime": time });
            let request = StartExecutionRequest {
                definition: name,
                input: Some(Payload {
                    data: input.to_string().into(),
                    content_type: "application/json".to_owned(),
                }),
                request_id,
                ..StartExecutionRequest::default()
            };
            let mut api = site.api.executions();
            let started = api.start_execution(visitor.request(request)).await?;
            Ok(ActionResult {
                to: path_of(&started.into_inner().name),
                message: format!("{} runs now.", path.shown()),
            })
        }
        Action::DisableTrigger => {
            let request = DisableTriggerRequest {
                name: format!("{name}/trigger"),
                request_id,
                comment: fields.get("comment").to_owned(),
            };
            let mut api = site.api.triggers();
            api.disable_trigger(visitor.request(request)).await?;
            Ok(done("The trigger is disabled.".to_owned()))
        }
        Action::EnableTrigger => {
            let request = EnableTriggerRequest {
                name: format!("{name}/trigger"),
                request_id,
            };
            let mut api = site.api.triggers();
            api.enable_trigger(visitor.request(request)).await?;
            Ok(done("The trigger is enabled.".to_owned()))
        }
        Action::Delete => {
            let request = DeleteDefinitionRequest {
                name,
                request_id,
                keep_running: fields.has("keep_running"),
            };
            let mut api = site.api.definitions();
            let answer = api.delete_definition(visitor.request(request)).await?;
            let message = match answer.into_inner().open_execution_count {
                0 => format!("{} is deleted.", path.shown()),
                open => format!(
                    "{} is deleted. Open executions finish under their revision: {open}.",
                    path.shown()
                ),
            };
            Ok(ActionResult {
                to: "/definitions".to_owned(),
                message,
            })
        }
    }
}

fn question(
    visitor: &Visitor,
    path: &DefinitionPath,
    action: Action,
    typed: &Fields,
    problem: Option<&Problem>,
) -> Markup {
    html! {
        h2 #dialog-title { (action.title()) ": " (said_within(&path.shown(), 60)) "?" }
        @if let Some(problem) = problem { (problem.render()) }
        p { (action.effect()) }
        form method="post" action=(format!("{}/do/{}", path.path(), action.word())) {
            (hidden(visitor))
            @if action == Action::DisableTrigger {
                label { "Reason (recorded)"
                    textarea.short name="comment" maxlength="2000" { (typed.get("comment")) }
                }
            }
            @if action == Action::Delete {
                label.check {
                    input type="checkbox" name="keep_running" value="1"
                        checked[typed.has("keep_running")];
                    "Delete although executions are open; they finish under their revision"
                }
            }
            (name_field(visitor))
            div.buttons {
                @if action == Action::Delete { button.primary.danger { "Delete the definition" } }
                @else { button.primary { (action.title()) } }
                a.button href=(path.path()) data-close { "Not now" }
            }
        }
    }
}
