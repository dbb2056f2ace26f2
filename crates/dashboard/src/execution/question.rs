//! The question before an action: what will happen, and what is needed for it.

use axum::extract::{Path, State};
use axum::response::Response;
use maud::{Markup, html};
use stateway_proto::v1::wait::Kind;
use stateway_proto::v1::{Execution, SubState};

use super::action::{Action, unknown};
use super::facts::{definition, execution, provider};
use crate::Site;
use crate::compensation;
use crate::executions::{ExecutionPath, shown};
use crate::fields::Fields;
use crate::form::{asks_name, hidden, name_field};
use crate::layout::Section;
use crate::page::dialog;
use crate::problem::Problem;
use crate::sub_state::{badge, finished};
use crate::text::said_within;
use crate::visitor::Visitor;

pub(super) async fn ask(
    State(site): State<Site>,
    visitor: Visitor,
    path: ExecutionPath,
    Path((_, _, action)): Path<(String, String, String)>,
    fields: Fields,
) -> Result<Response, Problem> {
    let action = Action::parse(&action).ok_or_else(unknown)?;
    question(&site, &visitor, &path, action, &fields, None).await
}

/// The question with what was typed, and what is wrong with it where something is.
pub(super) async fn question(
    site: &Site,
    visitor: &Visitor,
    path: &ExecutionPath,
    action: Action,
    fields: &Fields,
    problem: Option<&Problem>,
) -> Result<Response, Problem> {
    let (execution, _) = execution(site, visitor, path).await?;
    let known = definition(site, visitor, &execution).await;
    let compensable = known.iter().flat_map(|definition| &definition.steps);
    let compensable: Vec<_> = compensable
        .filter(|step| step.compensated)
        .map(|step| step.name.as_str())
        .collect();
    let provider = provider(site, visitor, &path.provider).await;
    let can = provider.as_ref().and_then(|provider| provider.capabilities);
    let chooses = can.is_some_and(|can| can.cancel_compensation);
    let asked = Question {
        action,
        path,
        step: fields.raw("step"),
        typed: fields,
        problem,
        engine: provider.map_or_else(|| path.provider.clone(), |provider| provider.title),
        compensable,
        chooses,
        execution: &execution,
    };
    let content = asked.render(visitor);
    Ok(dialog(
        visitor,
        Section::Executions,
        action.title(),
        &content,
    ))
}

struct Question<'a> {
    action: Action,
    path: &'a ExecutionPath,
    step: &'a str,
    /// What was typed before.
    typed: &'a Fields,
    problem: Option<&'a Problem>,
    /// The engine's name for people.
    engine: String,
    /// The steps that have a compensation.
    compensable: Vec<&'a str>,
    /// Whether the engine takes a choice about compensation.
    chooses: bool,
    execution: &'a Execution,
}

impl Question<'_> {
    fn render(&self, visitor: &Visitor) -> Markup {
        let (_, id) = shown(&self.execution.name);
        let address = format!("{}/do/{}", self.path.path(), self.action.word());
        let danger = self.action.is_dangerous();
        let inputs = html! { (self.inputs()) (name_field(visitor)) };
        // In a form without fields, Enter must not start an irreversible action.
        let back_first = danger && !self.has_inputs() && !asks_name(visitor);
        html! {
            h2 #dialog-title { (self.action.deed()) @if !self.step.is_empty() { ": " (said_within(self.step, 60)) } }
            p { (said_within(&id, 80)) " " (badge(self.execution.sub_state())) }
            div.will { @for line in self.consequences() { p { (line) } } }
            @if let Some(problem) = self.problem { (problem.render()) }
            form method="post" action=(address) {
                (hidden(visitor))
                input type="hidden" name="etag" value=(self.execution.etag);
                input type="hidden" name="step" value=(self.step);
                (inputs)
                div.buttons {
                    button.primary.(if danger { "danger" } else { "" }) { (self.action.deed()) }
                    a.button href=(self.path.path()) data-close autofocus[back_first] { "Back" }
                }
            }
        }
    }

    /// What will happen.
    fn consequences(&self) -> Vec<Markup> {
        let engine = said_within(&self.engine, 60);
        match self.action {
            Action::RetryNow => vec![match self.step {
                "" => {
                    html! { "Every step that backs off starts its next attempt immediately. The limit of attempts does not change." }
                }
                step => {
                    html! { "The next attempt of " b { (said_within(step, 60)) } " starts immediately. The limit of attempts does not change." }
                }
            }],
            Action::Resume => {
                vec![html! { (engine) " continues the paused or stuck execution." }]
            }
            Action::RetryFrom => vec![
                match self.step {
                    "" => {
                        html! { (engine) " runs the execution again from the step that failed." }
                    }
                    step => {
                        html! { (engine) " runs the execution again from " b { (said_within(step, 60)) } "." }
                    }
                },
                html! { "Side effects of the steps that run again happen again. The earlier run stays readable." },
                if self.execution.sub_state() == SubState::Succeeded {
                    html! { "A succeeded execution never changes: the built-in engine forks a new execution." }
                } else {
                    html! { "Engines that can reopen an execution keep its name; other engines start a new execution." }
                },
            ],
            Action::Signal => vec![
                html! { "The signal goes to the step that waits for it. If no step waits, the engine keeps or refuses the signal." },
            ],
            Action::Pause => vec![
                html! { (engine) " pauses the execution: running work may finish, and no step starts until a person resumes the execution." },
            ],
            Action::Cancel => {
                let mut lines = vec![
                    html! { (engine) " cancels the execution. The execution waits for running work, and may compensate completed steps before it ends." },
                ];
                lines.extend(self.compensable());
                lines
            }
            Action::Kill => vec![
                html! { (engine) " ends the execution immediately." },
                html! { "Nothing is cleaned up and nothing is compensated" @if !self.compensable.is_empty() { ", although " b { (said_within(&self.compensable.join(", "), 200)) } " could be" } "." },
            ],
            Action::Purge => vec![
                html! { "The record of this execution is removed from " (engine) " permanently, with input, output and history." },
            ],
        }
    }

    fn compensable(&self) -> Option<Markup> {
        let done: Vec<_> = self
            .execution
            .steps
            .iter()
            .filter(|step| {
                finished(step.sub_state()) && self.compensable.contains(&step.name.as_str())
            })
            .map(|step| step.name.as_str())
            .collect();
        (!done.is_empty()).then(|| {
            html! { "These completed steps have a compensation: " b { (said_within(&done.join(", "), 200)) } "." }
        })
    }

    /// Whether [`inputs`](Self::inputs) has something to type.
    const fn has_inputs(&self) -> bool {
        !matches!(
            self.action,
            Action::RetryNow | Action::Resume | Action::Purge
        )
    }

    fn inputs(&self) -> Markup {
        let awaited: Vec<_> = self
            .execution
            .waits
            .iter()
            .chain(self.execution.steps.iter().flat_map(|step| &step.waits))
            .filter(|wait| matches!(wait.kind(), Kind::Signal | Kind::Callback))
            .map(|wait| wait.name.as_str())
            .filter(|name| !name.is_empty())
            .collect();
        let typed = |name: &str| self.typed.get(name).to_owned();
        let signal = match self.typed.get("signal") {
            "" => awaited.first().copied().unwrap_or_default(),
            typed => typed,
        };
        match self.action {
            Action::Signal => html! {
                label { "Signal"
                    input name="signal" required maxlength="256" list="awaited" autocomplete="off"
                        value=(signal);
                }
                datalist #awaited { @for name in &awaited { option value=(name) {} } }
                label { "Payload as JSON (optional)"
                    textarea name="payload" spellcheck="false" placeholder=r#"{"approved": true}"# { (typed("payload")) }
                }
            },
            Action::RetryFrom => html! {
                @if !self.step.is_empty() {
                    label { "New input for the step as JSON (optional; default: the input stays)"
                        textarea name="input" spellcheck="false" { (typed("input")) }
                    }
                    label { "Message for the worker that runs the step (optional)"
                        input name="feedback" maxlength="1000" autocomplete="off" value=(typed("feedback"));
                    }
                } @else {
                    label.check {
                        input type="checkbox" name="from_start" value="1";
                        "Run every step again, from the first one"
                    }
                }
            },
            Action::Cancel | Action::Kill | Action::Pause => html! {
                @if self.action == Action::Cancel && self.chooses { (compensation::field(self.typed.get("compensation"))) }
                label { "Reason (optional, recorded)" input name="comment" maxlength="500" autocomplete="off"; }
            },
            Action::RetryNow | Action::Resume | Action::Purge => html! {},
        }
    }
}
