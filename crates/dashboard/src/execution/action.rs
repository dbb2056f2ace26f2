//! What can be done about an execution: who allows it, and how it is carried out.

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use stateway_identity::PageObject;
use stateway_proto::v1;
use stateway_proto::v1::cancel_execution_request::Mode;
use stateway_proto::v1::definition_step::Kind;
use stateway_proto::v1::retry_from_request::Origin;
use stateway_proto::v1::{Capabilities, Compensation, Execution, Payload, Reason, SubState};
use tonic::Status;

use super::facts::Facts;
use super::question::question;
use crate::Site;
use crate::compensation;
use crate::executions::{ExecutionPath, address, path_of};
use crate::fields::{Fields, link};
use crate::flash::Flash;
use crate::form::Submitted;
use crate::permission::{provider_of, refused};
use crate::problem::Problem;
use crate::sub_state::{finished, word};
use crate::visitor::Visitor;

/// The actions of an execution, as addresses name them.
pub fn execution_actions() -> Vec<&'static str> {
    Action::ALL.map(Action::word).to_vec()
}

/// One of the API's verbs on an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    RetryNow,
    Resume,
    RetryFrom,
    Signal,
    Pause,
    Cancel,
    Kill,
    Purge,
}

impl Action {
    /// In the order of the buttons.
    pub(crate) const ALL: [Self; 8] = [
        Self::RetryNow,
        Self::Resume,
        Self::RetryFrom,
        Self::Signal,
        Self::Pause,
        Self::Cancel,
        Self::Kill,
        Self::Purge,
    ];

    /// In addresses.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::RetryNow => "retry-now",
            Self::Resume => "resume",
            Self::RetryFrom => "retry-from",
            Self::Signal => "signal",
            Self::Pause => "pause",
            Self::Cancel => "cancel",
            Self::Kill => "kill",
            Self::Purge => "purge",
        }
    }

    /// On buttons.
    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::RetryNow => "Retry now",
            Self::Resume => "Resume",
            Self::RetryFrom => "Retry from failure",
            Self::Signal => "Send a signal",
            Self::Pause => "Pause",
            Self::Cancel => "Cancel",
            Self::Kill => "Kill",
            Self::Purge => "Purge",
        }
    }

    /// On the button that does it, where one word could be read as "never mind".
    pub(super) const fn deed(self) -> &'static str {
        match self {
            Self::Cancel => "Cancel the execution",
            Self::Kill => "Kill the execution",
            Self::Pause => "Pause the execution",
            Self::Resume => "Resume the execution",
            other => other.title(),
        }
    }

    /// Whether the action can be applied to several executions. Records are removed one at a time.
    pub(crate) const fn is_for_many(self) -> bool {
        !matches!(self, Self::Purge)
    }

    /// The effect on each of several executions.
    pub(crate) const fn effect_on_many(self) -> &'static str {
        match self {
            Self::RetryNow => "Every step that backs off starts its next attempt immediately.",
            Self::Resume => "Each execution continues.",
            Self::RetryFrom => {
                "Each execution runs again from the step that failed. Side effects of the steps that \
                 run again happen again."
            }
            Self::Signal => "The same signal goes to each execution.",
            Self::Pause => "No step starts in any of them until a person resumes the execution.",
            Self::Cancel => {
                "Each execution is cancelled. It waits for running work, and may compensate completed \
                 steps before it ends."
            }
            Self::Kill => {
                "Each execution ends immediately. Nothing is cleaned up and nothing is compensated."
            }
            Self::Purge => "The record of each execution is removed permanently.",
        }
    }

    /// Checks what was typed, before anything is done.
    pub(crate) fn check(fields: &Fields) -> Result<(), Problem> {
        json(fields.get("input"), "input")?;
        json(fields.get("payload"), "payload")?;
        compensation::choice(fields.get("compensation"))?;
        Ok(())
    }

    /// It ends or removes something.
    pub(crate) const fn is_dangerous(self) -> bool {
        matches!(self, Self::Cancel | Self::Kill | Self::Purge)
    }

    pub(crate) fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.word() == word)
    }

    /// The permission that the verb needs.
    const fn permission(self) -> &'static str {
        match self {
            Self::RetryNow | Self::Resume | Self::RetryFrom | Self::Pause => "steer",
            Self::Signal => "signal",
            Self::Cancel | Self::Kill => "stop",
            Self::Purge => "operate",
        }
    }

    /// Whether a provider with these capabilities can do it.
    pub(crate) const fn offered(self, by: &Capabilities) -> bool {
        match self {
            Self::RetryNow => by.retry_now,
            Self::Resume => by.resume,
            Self::RetryFrom => by.retry_from,
            Self::Signal => by.signal,
            Self::Pause => by.pause,
            Self::Cancel => by.cancel,
            Self::Kill => by.kill,
            Self::Purge => by.purge,
        }
    }

    /// Whether it makes sense where the execution is.
    pub(crate) fn fits(self, execution: &Execution) -> bool {
        let sub_state = execution.sub_state();
        let open = !finished(sub_state);
        let held = execution.reason() == Reason::Paused;
        let stuck = sub_state == SubState::Error;
        let resting = execution
            .steps
            .iter()
            .any(|step| step.sub_state() == SubState::BackingOff);
        match self {
            Self::RetryNow => open && (sub_state == SubState::BackingOff || resting),
            // An escalated execution is resumed by a decision about the escalation.
            Self::Resume => open && (held || stuck) && execution.reason() != Reason::Escalated,
            Self::RetryFrom => !open || stuck,
            Self::Pause => open && !held,
            Self::Signal | Self::Cancel | Self::Kill => open,
            Self::Purge => !open,
        }
    }
}

/// Whether the provider can do it and the execution is where it makes sense.
pub(super) fn allowed(action: Action, facts: &Facts) -> bool {
    let possible = action.offered(&facts.capabilities()) && action.fits(&facts.execution);
    possible && (action != Action::Signal || takes_signals(facts))
}

/// Whether a step is left that takes a signal; true where the steps are not known.
fn takes_signals(facts: &Facts) -> bool {
    let Some(definition) = &facts.definition else {
        return true;
    };
    let is_open = |name: &str| {
        let mut steps = facts.execution.steps.iter();
        let found = steps.find(|step| step.name == name);
        found.is_none_or(|step| !finished(step.sub_state()))
    };
    let mut steps = definition.steps.iter();
    steps.any(|step| step.kind() == Kind::Signal && is_open(&step.name))
}

/// Whether the access rules let the visitor do it.
pub(super) fn permitted(action: Action, facts: &Facts, visitor: &Visitor) -> bool {
    visitor.may(action.permission(), &object_of(&facts.execution))
}

/// What access rules can depend on.
fn object_of(execution: &Execution) -> PageObject<'_> {
    PageObject {
        provider: provider_of(&execution.name),
        definition: Some(&execution.definition),
        labels: Some(&execution.labels),
    }
}

/// Whether there is a failure to begin with; a step can be named in any case.
fn has_failed(execution: &Execution) -> bool {
    matches!(execution.sub_state(), SubState::Failed | SubState::Error)
}

/// The buttons: links to a question each. A button that the access rules refuse is disabled and shows the reason.
pub(super) fn buttons(path: &ExecutionPath, facts: &Facts, visitor: &Visitor) -> Markup {
    let actions: Vec<_> = Action::ALL
        .into_iter()
        .filter(|action| allowed(*action, facts))
        .filter(|action| *action != Action::RetryFrom || has_failed(&facts.execution))
        .collect();
    let may_start = visitor.may("start", &object_of(&facts.execution));
    let again = start_link(facts).filter(|_| may_start);
    html! {
        @if !actions.is_empty() || again.is_some() {
            nav.actions aria-label="Actions" {
                @if let Some(href) = again { a.button href=(href) { "Start another with this input" } }
                @for action in actions {
                    @if permitted(action, facts, visitor) {
                        a.button.(if action.is_dangerous() { "danger" } else { "" })
                            href=(format!("{}/do/{}", path.path(), action.word())) data-dialog {
                            (action.title())
                        }
                    } @else { (refused(action.title(), action.permission())) }
                }
            }
        }
    }
}

/// The form that starts an execution with the same definition, input and labels.
fn start_link(facts: &Facts) -> Option<String> {
    let execution = &facts.execution;
    if execution.definition.is_empty() || !facts.capabilities().start {
        return None;
    }
    let form = format!("/{}", execution.definition);
    let form = link(&form, &[("like", &address(&execution.name))]);
    Some(format!("{form}#start-form"))
}

/// The page that carries a question out.
pub(super) async fn carry_out(
    State(site): State<Site>,
    path: ExecutionPath,
    Path((_, _, action)): Path<(String, String, String)>,
    submitted: Submitted,
) -> Result<Response, Problem> {
    let action = Action::parse(&action).ok_or_else(unknown)?;
    let (visitor, id) = (&submitted.visitor, submitted.request_id());
    let done = match perform(&site, &path, action, visitor, &submitted.fields, id).await {
        Ok(done) => done,
        Err(problem) => {
            let (visitor, fields) = (&submitted.visitor, &submitted.fields);
            let again = question(&site, visitor, &path, action, fields, Some(&problem)).await?;
            return Ok(submitted.remember((problem.status, again).into_response()));
        }
    };
    let (to, flash) = match done {
        Ok(answer) => (answer.to(&path), answer.told(action, &path)),
        Err(status) => (path.path(), Problem::from(status).flash()),
    };
    Ok(submitted.redirect(&to, &flash))
}

pub(super) fn unknown() -> Problem {
    Problem::not_found("There is no such action.", "Go back to the execution.")
}

/// The result.
pub(crate) enum Answer {
    Shown(Box<Execution>),
    Gone,
}

impl Answer {
    /// The next page: an engine may answer with another execution.
    fn to(&self, path: &ExecutionPath) -> String {
        match self {
            Self::Shown(execution) if !execution.name.is_empty() => path_of(&execution.name),
            Self::Shown(_) => path.path(),
            Self::Gone => "/executions".to_owned(),
        }
    }

    fn told(&self, action: Action, path: &ExecutionPath) -> Flash {
        let done = match action {
            Action::RetryNow => "The next attempt is made now.",
            Action::Resume => "The execution continues.",
            Action::RetryFrom => "The steps run again.",
            Action::Signal => "The signal was sent.",
            Action::Pause => "The execution is paused.",
            Action::Cancel => "The execution is being cancelled.",
            Action::Kill => "The execution was killed.",
            Action::Purge => "The record was removed.",
        };
        Flash::done(match self {
            Self::Gone => done.to_owned(),
            Self::Shown(execution) if self.to(path) != path.path() => {
                let forked = match execution.forked_from.as_str() {
                    "" => "The engine created another execution",
                    _ => "The succeeded execution is unchanged; it was forked as",
                };
                format!("{done} {forked}: {}.", execution.name)
            }
            Self::Shown(execution) => {
                format!("{done} Its state is {} now.", word(execution.sub_state()))
            }
        })
    }
}

/// Does it, with what was typed. An error of the outer result is about what was typed.
pub(crate) async fn perform(
    site: &Site,
    path: &ExecutionPath,
    action: Action,
    ask: &Visitor,
    fields: &Fields,
    request_id: String,
) -> Result<Result<Answer, Status>, Problem> {
    let mut api = site.api.executions();
    let name = path.name();
    let field = |name: &str| fields.get(name).to_owned();
    let answer = match action {
        Action::RetryNow => {
            let (step, etag) = (fields.raw("step").to_owned(), String::new());
            let request = v1::RetryNowRequest {
                name,
                step,
                request_id,
                etag,
            };
            api.retry_now(ask.request(request)).await
        }
        Action::Resume => {
            let request = v1::ResumeExecutionRequest {
                name,
                request_id,
                etag: field("etag"),
            };
            api.resume_execution(ask.request(request)).await
        }
        Action::RetryFrom => {
            let step = fields.raw("step");
            let origin = if fields.has("from_start") {
                Some(Origin::Start(()))
            } else {
                (!step.is_empty()).then(|| Origin::Step(step.to_owned()))
            };
            let request = v1::RetryFromRequest {
                name,
                origin,
                input: json(&field("input"), "input")?,
                feedback: field("feedback"),
                execution_id: String::new(),
                request_id,
                etag: field("etag"),
            };
            api.retry_from(ask.request(request)).await
        }
        Action::Signal => {
            let request = v1::SignalExecutionRequest {
                name,
                signal: field("signal"),
                payload: json(&field("payload"), "payload")?,
                request_id,
                etag: String::new(),
            };
            api.signal_execution(ask.request(request)).await
        }
        Action::Pause => {
            let request = v1::PauseExecutionRequest {
                name,
                comment: field("comment"),
                request_id,
                etag: String::new(),
            };
            api.pause_execution(ask.request(request)).await
        }
        Action::Cancel | Action::Kill => {
            let (mode, compensation) = match action {
                Action::Kill => (Mode::Kill, Compensation::Unspecified),
                _ => (
                    Mode::Graceful,
                    compensation::choice(&field("compensation"))?,
                ),
            };
            let request = v1::CancelExecutionRequest {
                name,
                mode: mode.into(),
                comment: field("comment"),
                request_id,
                etag: String::new(),
                compensation: compensation.into(),
            };
            api.cancel_execution(ask.request(request)).await
        }
        Action::Purge => {
            let request = v1::PurgeExecutionRequest {
                name,
                request_id,
                etag: field("etag"),
            };
            let gone = api.purge_execution(ask.request(request)).await;
            return Ok(gone.map(|_| Answer::Gone));
        }
    };
    Ok(answer.map(|answer| Answer::Shown(Box::new(answer.into_inner()))))
}

/// What was typed as JSON; none when nothing was.
fn json(text: &str, what: &str) -> Result<Option<Payload>, Problem> {
    if text.is_empty() {
        return Ok(None);
    }
    match serde_json::from_str::<serde_json::Value>(text) {
        Ok(_) => Ok(Some(Payload {
            data: text.to_owned().into(),
            content_type: String::new(),
        })),
        Err(error) => Err(Problem::invalid(
            &format!("The {what} is not JSON: {error}."),
            "A text needs double quotes around it.",
        )),
    }
}
